"""A drawing of a fabric: hosts, switches by tier, and the rates of their links. Of many equal parts, only the first and
the last are drawn. Where switches are in no tiers, they are on a circle, and hosts around it next to their switches."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from itertools import pairwise
from math import prod

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from gradwire.analysis.quantities import quantity
from gradwire.analysis.report.charts import PALETTE, STYLE
from gradwire.network.fabric import Fabric, Link
from gradwire.network.network_graph import NetworkGraph
from gradwire.network.shape import NetworkShape

RADIUS, HOST_RADIUS = 1.0, 1.32
MOST_NAMED = 48
"""Switches, and hosts, that have room for their names."""
INK, PAPER, FAINT = "#000000", "#ffffff", "#777777"
WIDEST, NARROWEST = 2.6, 0.7
"""Widths of the fastest link and of one at no rate, in points."""
BEND = 0.05
"""Distance between parallel links."""

Point = tuple[float, float]
MOST_SLOTS = 34
"""Hosts that fit side by side with their names."""
MOST_ABOVE = 4
"""Spines of a pod, or cores, that are drawn."""
MOST_SLOW = 4
"""Slower links that are named."""
FEWEST = 3
"""The first, the place of those left out, and the last."""
GAPS = (0.0, 0.25, 0.7, 1.6)
"""Room between NICs, machines, leaves (or blocks of rails) and pods, added to a slot of 1."""
HEIGHTS = {"host": 0.0, "leaf": 1.5, "spine": 3.2, "core": 4.9}
TIER_COLORS = {"leaf": PALETTE[0], "spine": PALETTE[1], "core": PALETTE[2]}
RAIL_COLORS = (*(color for color in PALETTE if color != INK), "#882255")
"""Colours for the eight rails of today's machines; more rails take turns."""
THIN = 0.35
"""Width of a link that is slower than others of its tier, in points."""
HALF_BOX = 0.22
"""Half the height of a box."""
WIDE_HALF_BOX = 0.48
"""Half the width of a box, without its border, in which a switch's two names have letters as large as those of hosts."""


def graph_drawing(fabric: Fabric, graph: NetworkGraph, title: Sequence[str]) -> Figure:
    """Links are as wide as their rates say; those with a delay are dashed."""
    switches, hosts = positions(graph)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(6.4, 6.8), layout="constrained")
        axes = figure.add_subplot()
        axes.set_axis_off()
        axes.set_aspect("equal")
        fastest_bps = max(link.rate_bps for link in fabric.shape_links)
        for host, link in enumerate(fabric.shape_links[: fabric.hosts]):
            ends = [hosts[host], switches[fabric.leaf_of(host)]]
            _line(axes, ends, link.rate_bps / fastest_bps, is_long=link.delay_s > 0)
        for number, link in enumerate(fabric.trunk_links()):
            trunk = graph.trunks[number]
            way = _bent(switches[trunk.a], switches[trunk.b], (link.number - 1) * BEND)
            _line(axes, way, link.rate_bps / fastest_bps, is_long=link.delay_s > 0)
        _nodes(axes, switches, _names(fabric.switch_names(), graph.switch_labels), PALETTE[0])
        _nodes(axes, hosts, _names(fabric.host_names(), graph.host_labels), FAINT)
        axes.set_title("\n".join(title), loc="left", fontsize=8, fontweight="normal")
    return figure


def positions(graph: NetworkGraph) -> tuple[list[Point], list[Point]]:
    """Places at which the switches and hosts of a graph are drawn."""
    count = graph.switches
    switches = [_on_circle(RADIUS if count > 1 else 0.0, number / count) for number in range(count)]
    hosts: list[Point] = [(0.0, 0.0)] * len(graph.host_links)
    for switch, there in enumerate(graph.hosts_of_switches):
        for place, host in enumerate(there):
            turn = (switch + 0.8 * ((place + 0.5) / len(there) - 0.5)) / count
            hosts[host] = _on_circle(HOST_RADIUS, turn)
    return switches, hosts


def _on_circle(radius: float, turn: float) -> Point:
    """The first is at the top, and the others follow clockwise."""
    return radius * math.sin(2 * math.pi * turn), radius * math.cos(2 * math.pi * turn)


def _bent(a: Point, b: Point, by: float) -> list[Point]:
    """A path from one point to another, bent through a third at the side of the middle."""
    if not by:
        return [a, b]
    across = (b[1] - a[1], a[0] - b[0])
    return [a, ((a[0] + b[0]) / 2 + by * across[0], (a[1] + b[1]) / 2 + by * across[1]), b]


def _line(axes: Axes, way: Sequence[Point], share: float, *, is_long: bool) -> None:
    width = NARROWEST + (WIDEST - NARROWEST) * share
    xs, ys = zip(*way, strict=True)
    axes.plot(xs, ys, color=FAINT, linewidth=width, linestyle="--" if is_long else "-", zorder=1)


def _names(names: Sequence[str], labels: Sequence[str]) -> Iterator[str]:
    """Yields each name with the user's name, if that is another one."""
    shown = len(names) <= MOST_NAMED
    for number, name in enumerate(names):
        label = labels[number] if labels else name
        yield "" if not shown else name if label == name else f"{name}\n{label[:12]}"


def _nodes(axes: Axes, places: Sequence[Point], names: Iterator[str], color: str) -> None:
    for (x, y), name in zip(places, names, strict=True):
        if not name:
            axes.plot([x], [y], marker="o", markersize=4, color=color, zorder=2)
            continue
        box = {"boxstyle": "round,pad=0.3", "facecolor": PAPER, "edgecolor": color, "linewidth": 1.3}
        axes.text(x, y, name, ha="center", va="center", fontsize=6.5, color=INK, bbox=box, zorder=3)


@dataclass
class _Layout:
    """Places of the drawn parts: hosts and switches by number, and the gaps for parts that are left out."""

    host_x: dict[int, float] = field(default_factory=dict)
    switch_x: dict[int, float] = field(default_factory=dict)
    #: Height, and what is written there.
    left_out: list[tuple[float, float, str]] = field(default_factory=list)
    #: The ends and the text of what brackets parts below the hosts.
    brackets: list[tuple[float, float, str]] = field(default_factory=list)
    width: float = 0.0


def network_drawing(fabric: Fabric) -> Figure:
    """The hosts in a row below, leaves above them, then spines and cores; links of rails have their rail's colour. Or
    a graph."""
    if fabric.graph:
        return graph_drawing(fabric, fabric.graph, rate_lines(fabric))
    layout = _Placement(fabric).layout()
    top = max(HEIGHTS[tier] for tier in _tiers(fabric))
    with mpl.rc_context(STYLE):
        size = (min(15.0, max(5.0, 0.36 * layout.width + 3.2)), 1.2 + 0.72 * top)
        figure = Figure(figsize=size, layout="constrained")
        axes = figure.add_subplot()
        axes.set_axis_off()
        axes.set_xlim(-1.2, max(layout.width, 3.0) + 0.6)
        axes.set_ylim(-1.0, top + 0.6)
        _draw_links(axes, fabric, layout)
        _draw_nodes(axes, fabric, layout)
        for x, height, text in layout.left_out:
            axes.text(x, height, f"···\n{text}", ha="center", va="center", fontsize=7, color=INK, linespacing=1.3)
        for first, last, text in layout.brackets:
            axes.plot([first, first, last, last], [-0.42, -0.52, -0.52, -0.42], color=FAINT, linewidth=0.8)
            axes.text((first + last) / 2, -0.6, text, ha="center", va="top", fontsize=7, color=INK)
        axes.set_title("\n".join(rate_lines(fabric)), loc="left", fontsize=8, fontweight="normal")
    return figure


def different_networks(fabrics: Iterable[Fabric]) -> list[Fabric]:
    """One fabric of each shape and rate, in their order; classes and seeds do not count."""
    first_of_kind: dict[tuple[object, ...], Fabric] = {}
    for fabric in fabrics:
        first_of_kind.setdefault(tuple(getattr(fabric, field.name) for field in fields(NetworkShape)), fabric)
    return list(first_of_kind.values())


def networks_by_rate(fabrics: Iterable[Fabric]) -> list[list[Fabric]]:
    """The different networks, with networks that differ only in their rate grouped together."""
    alike: dict[tuple[object, ...], list[Fabric]] = {}
    for fabric in different_networks(fabrics):
        shape = tuple(getattr(fabric, field.name) for field in fields(NetworkShape) if field.name != "rate_bps")
        alike.setdefault(shape, []).append(fabric)
    return list(alike.values())


def rate_lines(fabric: Fabric) -> list[str]:
    """Lines of text that describe the network, one of them for each tier's links."""
    machines, nics = fabric.hosts // fabric.nics_per_host, fabric.nics_per_host
    nics_in_words = f" with {nics} NICs each" if nics > 1 else ""
    word = f"{'machine' if nics > 1 else 'host'}{'' if machines == 1 else 's'}"  # each NIC is a host of the network
    lines = [f"{machines} {word}{nics_in_words}; links of {_gbit(fabric.rate_bps)}"]
    if fabric.graph:
        rates = {link.rate_bps for link in fabric.trunk_links()}
        spread = f"{min(rates) / 1e9:g} to " if len(rates) > 1 else ""
        told = f" at {spread}{_gbit(max(rates))}" if rates else ""
        lines.append(f"{fabric.graph.title}: {len(fabric.graph.trunks)} links between switches{told}")
    ratios = (fabric.oversubscription, fabric.core_oversubscription)
    for tier, ratio in zip(fabric.tree.tiers, ratios, strict=False):
        rate = _gbit(tier.slowest_bps)
        if tier.fastest_bps > tier.slowest_bps:
            rate = f"{tier.slowest_bps / 1e9:g} to {_gbit(tier.fastest_bps)}"
        lines.append(f"uplinks of a {tier.word}: {len(tier.uplinks[0])} x {rate}, oversubscription {ratio:g}:1")
    slow = slower_links(fabric) if fabric.is_tiered else []
    if 0 < len(slow) <= MOST_SLOW:
        lines.append(
            "slower (thin): " + ", ".join(f"{fabric.link_title(link)} at {_gbit(link.rate_bps)}" for link in slow)
        )
    return [*lines, *link_lines(fabric)]


def link_lines(fabric: Fabric) -> list[str]:
    """Lines of text on links whose delay, rate, jitter or loss is not the usual one, and on the rate of connections;
    empty if there are none."""
    delays = [link.delay_s for link in fabric.shape_links]
    lines = []
    if any(delays):
        spread = f"{quantity(min(delays), 's')} to " if min(delays) < max(delays) else ""
        lines.append(
            f"delay of a link: {spread}{quantity(max(delays), 's')} in each direction (dashed where it is above 0)"
        )
    if max(fabric.host_bps) > min(fabric.host_bps):
        lines.append(f"links of hosts: {min(fabric.host_bps) / 1e9:g} to {_gbit(max(fabric.host_bps))}")
    jitters, losses = ([getattr(link, name) for link in fabric.shape_links] for name in ("jitter_s", "loss"))
    if any(jitters):
        lines.append(f"jitter of a link: up to {quantity(max(jitters), 's')}")
    if any(losses):
        lines.append(f"loss of a link: up to {max(losses):.3g} of its packets")
    if fabric.flow_rate_bps:
        lines.append(f"each connection: up to {_gbit(fabric.flow_rate_bps)}")
    return lines


def _gbit(rate_bps: float) -> str:
    return f"{rate_bps / 1e9:g} Gbit/s"


def _tiers(fabric: Fabric) -> tuple[str, ...]:
    return tuple(HEIGHTS)[: 2 + len(fabric.tree.tiers)]


class _Placement:
    """Places the parts of a fabric: pods, blocks of leaves, machines and NICs. The parts of each are in a row.

    A block is a leaf with its hosts or, on rails, as many leaves as a machine has NICs, with the machines that are at
    all of them.
    """

    def __init__(self, fabric: Fabric) -> None:
        self._fabric, self._tree = fabric, fabric.tree
        self._railed = fabric.rails and fabric.nics_per_host > 1
        self._leaves_each = fabric.nics_per_host if self._railed else 1
        self._machines = "machines" if fabric.nics_per_host > 1 else "hosts"
        machines = fabric.hosts_per_leaf * self._leaves_each // fabric.nics_per_host
        self._counts = (self._tree.pods, self._tree.leaves // self._leaves_each, machines, fabric.nics_per_host)
        self._most = _fitting(self._counts)
        self._layout = _Layout()
        self._x = 0.0

    def layout(self) -> _Layout:
        """Places everything."""
        pods, words = [], ("pods", "leaves" if self._leaves_each == 1 else "blocks", self._machines, "NICs")
        for pod in self._shown(0, words):
            pods.append(pod)
            begin = self._x
            for block in self._shown(1, words):
                self._block(pod, block, words)
                self._x += GAPS[2]
            self._x -= GAPS[2]
            self._spread(self._spines_of(pod), begin, self._x - 1, HEIGHTS["spine"], "spines")
            if self._tree.pods > 1:
                self._layout.brackets.append((begin - 0.4, self._x - 0.6, f"pod {pod + 1}"))
            self._x += GAPS[3]
        self._layout.width = self._x - GAPS[3]
        cores = range(self._tree.leaf_count + self._tree.spine_count, self._tree.switches)
        self._spread(cores, 0.0, self._layout.width - 1, HEIGHTS["core"], "cores")
        return self._layout

    def _spines_of(self, pod: int) -> range:
        first = self._tree.leaf_count + pod * self._tree.spines
        return range(first, first + self._tree.spines)

    def _block(self, pod: int, block: int, words: Sequence[str]) -> None:
        fabric, begin = self._fabric, self._x
        number = pod * self._counts[1] + block
        first_leaf = number * self._leaves_each
        for machine in self._shown(2, words):
            first = (number * self._counts[2] + machine) * fabric.nics_per_host
            left = self._x
            for nic in self._shown(3, words):
                self._layout.host_x[first + nic] = self._x
                self._x += 1
            if fabric.nics_per_host > 1 and self._tree.pods == 1:
                name = f"machine {first // fabric.nics_per_host + 1}"
                self._layout.brackets.append((left - 0.3, self._x - 0.7, name))
            self._x += GAPS[1]
        self._x -= GAPS[1]
        self._spread(range(first_leaf, first_leaf + self._leaves_each), begin, self._x - 1, HEIGHTS["leaf"], "leaves")

    def _shown(self, level: int, words: Sequence[str]) -> Iterator[int]:
        """Yields the numbers of the parts that are drawn. Parts that are left out get one slot, before the last
        part."""
        count, most = self._counts[level], self._most[level]
        shown = range(count) if count <= most else range(most - 2)
        yield from shown
        if count > most:
            height = HEIGHTS["host"] if level > 1 else HEIGHTS["leaf"] / 2
            self._layout.left_out.append((self._x, height, f"{count} {words[level]}"))
            self._x += 1 + (GAPS[3 - level] if level < 2 else 0)
            yield count - 1

    def _spread(self, switches: range, begin: float, end: float, height: float, word: str) -> None:
        """Switches in the middles of equal parts of a stretch."""
        count = len(switches)
        most = count if word == "leaves" else MOST_ABOVE
        shown = list(switches) if count <= most else [*switches[: most - 2], None, switches[-1]]
        step = (end - begin + 1) / max(len(shown), 1)
        for place, switch in enumerate(shown):
            x = begin - 0.5 + step * (place + 0.5)
            if switch is None:
                self._layout.left_out.append((x, height, f"{count} {word}"))
            else:
                self._layout.switch_x[switch] = x


def _fitting(counts: tuple[int, ...]) -> tuple[int, ...]:
    """Number of parts of each kind to draw, so that all hosts fit into MOST_SLOTS: the most numerous are cut
    first."""
    most = list(counts)
    while prod(most) > MOST_SLOTS:
        longest = max(range(len(most)), key=lambda level: (most[level] if most[level] > FEWEST else 0, level))
        if most[longest] <= FEWEST:
            break
        most[longest] -= 1
    return tuple(most)


def _rail_color(fabric: Fabric, host: int) -> str | None:
    if not fabric.rails:
        return None
    return RAIL_COLORS[host % fabric.nics_per_host % len(RAIL_COLORS)]


def _draw_links(axes: Axes, fabric: Fabric, layout: _Layout) -> None:
    links, slow = fabric.shape_links, {link.name for link in slower_links(fabric)}

    def draw(link: Link, begin: tuple[float, float], end: tuple[float, float], color: str) -> None:
        """From the top of the box below to the bottom of the one above."""
        axes.plot(
            [begin[0], end[0]],
            [begin[1] + HALF_BOX, end[1] - HALF_BOX],
            color=color,
            linewidth=THIN if link.name in slow else 0.9,
            linestyle="--" if link.delay_s else "-",
            zorder=1,
        )

    for host, x in layout.host_x.items():
        above = layout.switch_x.get(fabric.leaf_of(host))
        if above is not None:
            ends = (x, HEIGHTS["host"]), (above, HEIGHTS["leaf"])
            draw(links[host], *ends, _rail_color(fabric, host) or FAINT)
    for trunk, link in zip(fabric.tree.trunks, fabric.trunk_links(), strict=True):
        if trunk.lower in layout.switch_x and trunk.upper in layout.switch_x:
            ends = (
                (layout.switch_x[trunk.lower], _height(fabric, trunk.lower)),
                (layout.switch_x[trunk.upper], _height(fabric, trunk.upper)),
            )
            draw(link, *ends, FAINT)


def slower_links(fabric: Fabric) -> list[Link]:
    """The links of a fabric in tiers that are slower than others of their tier."""
    tiers: dict[str, list[Link]] = {"host": list(fabric.shape_links[: fabric.hosts])}
    for trunk, link in zip(fabric.tree.trunks, fabric.trunk_links(), strict=True):
        tiers.setdefault(_tier_of(fabric, trunk.lower), []).append(link)
    fastest_bps = {tier: max(link.rate_bps for link in links) for tier, links in tiers.items()}
    return [link for tier, links in tiers.items() for link in links if link.rate_bps < fastest_bps[tier]]


def _tier_of(fabric: Fabric, switch: int) -> str:
    tree = fabric.tree
    return "leaf" if switch < tree.leaf_count else "spine" if switch < tree.leaf_count + tree.spine_count else "core"


def _height(fabric: Fabric, switch: int) -> float:
    return HEIGHTS[_tier_of(fabric, switch)]


def _draw_nodes(axes: Axes, fabric: Fabric, layout: _Layout) -> None:
    """Each with its name in scenarios, and below it that in captures and checks, where they differ."""
    for host, x in layout.host_x.items():
        _box(axes, x, HEIGHTS["host"], fabric.host_names()[host], _rail_color(fabric, host) or FAINT)
    names, has_room = fabric.switch_names(), {tier: _has_room(fabric, layout, tier) for tier in TIER_COLORS}
    for switch, x in layout.switch_x.items():
        rail = fabric.hosts_of_leaves[switch][0] if switch < fabric.tree.leaf_count else None
        # Beside rails, a tier's colour would be that of a rail.
        tier_color = FAINT if fabric.rails else TIER_COLORS[_tier_of(fabric, switch)]
        color = (None if rail is None else _rail_color(fabric, rail)) or tier_color
        _box(
            axes,
            x,
            _height(fabric, switch),
            "\n".join(dict.fromkeys((fabric.title_of(names[switch]), names[switch]))),
            color,
            is_wide=has_room[_tier_of(fabric, switch)],
        )
    words = {
        "host": "hosts" if fabric.nics_per_host == 1 else "NICs",
        "leaf": "leaves",
        "spine": "spines",
        "core": "cores",
    }
    if not fabric.tree.tiers:
        words["leaf"] = "switch"
    for tier in _tiers(fabric):
        axes.text(-1.1, HEIGHTS[tier], words[tier], ha="right", va="center", fontsize=8, color=INK)


def _has_room(fabric: Fabric, layout: _Layout, tier: str) -> bool:
    """Returns whether the drawn switches of a tier are far enough apart for wide boxes."""
    at = sorted(x for switch, x in layout.switch_x.items() if _tier_of(fabric, switch) == tier)
    return all(right - left > 2 * WIDE_HALF_BOX + 0.2 for left, right in pairwise(at))


def _box(axes: Axes, x: float, y: float, name: str, color: str, *, is_wide: bool = False) -> None:
    half = WIDE_HALF_BOX if is_wide else 0.32
    shape = FancyBboxPatch(
        (x - half, y - 0.17),
        2 * half,
        0.34,
        boxstyle="round,pad=0.05",
        facecolor=PAPER,
        edgecolor=color,
        linewidth=1.3,
        zorder=2,
    )
    axes.add_patch(shape)
    letters_pt = 6.5 if is_wide or "\n" not in name else 5.2
    axes.text(x, y, name, ha="center", va="center", fontsize=letters_pt, linespacing=0.95, color=INK, zorder=3)
