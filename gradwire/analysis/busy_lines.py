"""The lines of a network by what its counters say that they carried: which was used most, and whether there was room beside it. For
programs, which have no plan: counters say how much was carried, and not what was waited for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gradwire.analysis.port_traffic import PortTraffic
from gradwire.analysis.quantities import quantity
from gradwire.network.fabric import Fabric
from gradwire.network.routes import line_ends, line_interfaces, line_titles

OFTEN_FULL = 0.5
"""A line that is used for this share of a whole run, starts and pauses included, was full for a part of it, unless its traffic came quite
evenly. A judgement, as docs/reading-a-run.md says."""
IDLE_SHARE = 0.5
"""A line beside it that carried less than this share of what it did had room for a part of that. A judgement too."""

MOST_USES = 6
"""Lines of a network that reports show."""
OTHER_ROUTING = {
    "ecmp": "--set 'fabric.routing=\"balanced\"', which spreads pairs of hosts evenly; or several connections for each pair",
    "balanced": "--set 'fabric.routing=\"ecmp\"', which spreads connections and not pairs of hosts, if programs have many of them",
}
"""What may use ways that are free, by what is set: programs can have these two ways of routing."""
MOST_BESIDE = 3
"""Lines beside it that are named."""


@dataclass(frozen=True)
class CarriedLine:
    """What a line carried in a whole run."""

    #: "leaf1-spine2 to spine2".
    name: str
    #: The port that sends on it.
    interface: str
    rate_bps: float
    #: Share of what it could have carried.
    busy: float
    #: Whether it is between switches.
    is_trunk: bool
    #: The lines between switches that begin, or end, at the same switch as this one and lead to other switches of the same kind, by name
    #: and use: packets may have had a choice.
    beside: tuple[tuple[str, float], ...] = ()

    @property
    def is_often_full(self) -> bool:
        """Whether it was probably full for a part of the time."""
        return self.busy >= OFTEN_FULL

    @property
    def is_free(self) -> bool:
        """Whether a line beside it had room."""
        return bool(self.beside) and min(busy for _, busy in self.beside) < IDLE_SHARE * self.busy


def busiest_line(fabric: Fabric, ports: Sequence[PortTraffic], duration_s: float) -> CarriedLine | None:
    """The line that was used most for its rate; None where nothing was counted."""
    use = {port.interface: port.line_use(duration_s) for port in ports}
    titles, interfaces = line_titles(fabric), line_interfaces(fabric)
    counted = [line for line, interface in enumerate(interfaces) if interface in use]
    if not counted or duration_s <= 0:
        return None
    line = max(counted, key=lambda each: use[interfaces[each]])
    beside = [(titles[other], use[interfaces[other]]) for other in _beside(line, fabric) if other in counted]
    rate_bps = next(port.rate_bps for port in ports if port.interface == interfaces[line])
    is_trunk = line >= 2 * fabric.hosts
    return CarriedLine(titles[line], interfaces[line], rate_bps, use[interfaces[line]], is_trunk, tuple(beside))


def line_uses(
    fabric: Fabric, ports: Sequence[PortTraffic], duration_s: float, most: int = MOST_USES
) -> list[tuple[str, float]]:
    """The lines that were used most in so much time, by name, each with the share of what it could carry; those that carried nothing are
    left out."""
    use = {port.interface: port.line_use(duration_s) for port in ports}
    named = zip(line_titles(fabric), line_interfaces(fabric), strict=True)
    uses = sorted(((title, use.get(interface, 0.0)) for title, interface in named), key=lambda each: -each[1])
    return [each for each in uses[:most] if each[1] > 0]


def _beside(line: int, fabric: Fabric) -> list[int]:
    """In tiers: of a line that leads up, the others up from the same switch; of one that leads down, the others down to it."""
    first_up, first_down = 2 * fabric.hosts, 2 * fabric.hosts + len(fabric.trunk_links())
    if not fabric.is_tiered or line < first_up:
        return []
    ends, is_up = line_ends(fabric), line < first_down
    half = range(first_up, first_down) if is_up else range(first_down, len(ends))
    lower = 0 if is_up else 1
    return [other for other in half if other != line and ends[other][lower] == ends[line][lower]]


def line_in_words(carried: CarriedLine, retransmits: int, drops: int, routing: str) -> list[str]:
    """What the line that was used most says of what programs waited for, what would be tried, and what is not known; a sentence each.

    routing: that of the network.
    """
    rate = quantity(carried.rate_bps, "bit/s")
    text = f"{carried.name} ({rate}) carried most for its rate: {carried.busy:.0%} of what it could over the whole time"
    if carried.beside:
        text += "; beside it, " + " and ".join(
            f"{name} carried {busy:.0%}" for name, busy in carried.beside[:MOST_BESIDE]
        )
    sentences = [f"{text}."]
    if retransmits or drops:
        sentences.append(f"{drops:,} frames were dropped and {retransmits:,} TCP segments sent again.")
    if carried.is_often_full and carried.is_free and routing in OTHER_ROUTING:
        sentences.append(f"To try: {OTHER_ROUTING[routing]}.")
    elif carried.is_often_full and carried.is_trunk:
        sentences.append("To try: faster links between switches (fabric.oversubscription, or fabric.link).")
    elif carried.is_often_full:
        sentences.append("To try: faster links of hosts (fabric.rate, or fabric.link).")
    else:
        sentences.append(
            "No line was busy for most of the time: programs computed, waited for one another, or for single bursts."
        )
    sentences.append(
        "Programs have no plan: what they waited for, when, and what a change would bring, is not known, and nothing of it was estimated. "
        "With --capture, or run.capture, `gradwire trace` shows packets over time."
    )
    return sentences
