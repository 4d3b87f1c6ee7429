"""A drawing of a network whose switches are in no tiers: switches on a circle, and hosts around it next to their
switches."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gradwire.analysis.report.charts import PALETTE, STYLE
from gradwire.datatypes.fabric import Fabric

RADIUS, HOST_RADIUS = 1.0, 1.32
MOST_NAMED = 48
"""Switches, and hosts, that have room for their names."""
INK, PAPER, FAINT = "#000000", "#ffffff", "#777777"
WIDEST, NARROWEST = 2.6, 0.7
"""Widths of the fastest link and of one at no rate, in points."""
BEND = 0.05
"""How far parallel links are apart."""

Point = tuple[float, float]


def graph_drawing(fabric: Fabric, title: Sequence[str]) -> Figure:
    """Links are as wide as their rates say; those with a delay are dashed."""
    assert fabric.graph is not None
    switches, hosts = positions(fabric)
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
            trunk = fabric.graph.trunks[number]
            way = _bent(switches[trunk.a], switches[trunk.b], (link.number - 1) * BEND)
            _line(axes, way, link.rate_bps / fastest_bps, is_long=link.delay_s > 0)
        _nodes(axes, switches, _names(fabric.switch_names(), fabric.graph.switch_labels), PALETTE[0])
        _nodes(axes, hosts, _names(fabric.host_names(), fabric.graph.host_labels), FAINT)
        axes.set_title("\n".join(title), loc="left", fontsize=8, fontweight="normal")
    return figure


def positions(fabric: Fabric) -> tuple[list[Point], list[Point]]:
    """Where switches and hosts are drawn."""
    assert fabric.graph is not None
    count = fabric.graph.switches
    switches = [_on_circle(RADIUS if count > 1 else 0.0, number / count) for number in range(count)]
    hosts: list[Point] = [(0.0, 0.0)] * fabric.hosts
    for switch, there in enumerate(fabric.graph.hosts_of_switches):
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
    """Each with what the user calls it, where that is another name."""
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
