"""Which lines between switches an iteration of a plan loads most, and how many flows meet there. Pure.

A flow is a connection, or what a queue sends to a multicast group. A line is one direction of a link. How long a line
is busy is what its bytes take at its rate, with the overhead of full frames; no iteration is shorter than the longest
of these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gradwire.analysis.fluid.paths import Paths, SpineOf, paths_of
from gradwire.datatypes.fabric import CONTROL_BAND, Fabric
from gradwire.datatypes.plan import Plan
from gradwire.datatypes.routes import line_ends

NAMED = 3
"""Lines that are named, those that are busy longest first."""


@dataclass(frozen=True)
class LoadedLine:
    """One direction of a link between switches."""

    #: "s1 to s5".
    name: str
    #: How long an iteration's bytes take on it.
    busy_s: float
    #: Flows of data that pass it.
    flows: int


def has_choices(fabric: Fabric) -> bool:
    """Whether there is more than one way between any two switches, or may be. Where bursts take all of them
    in turn, no line is loaded more than others are."""
    if fabric.routing.is_by_burst:
        return False
    return fabric.graph is not None or len(fabric.spine_names()) > 1


def loaded_lines(plan: Plan, fabric: Fabric, spine_of: SpineOf | None = None) -> list[LoadedLine]:
    """The lines between switches that the data of a plan pass, those that are busy longest first.

    fabric: with the multicast groups of its plan. Raises InternalFault as `paths_of` does.
    """
    paths = paths_of(plan, fabric, spine_of)
    flow, port = _passing(paths)
    sends = np.flatnonzero(paths.flow_of_send >= 0)
    of_flow = np.bincount(paths.flow_of_send[sends], paths.line_bytes[sends], len(paths.flow_band))
    ports = len(paths.port_bytes_per_ns)
    busy_s = np.bincount(port, of_flow[flow], ports) / paths.port_bytes_per_ns / 1e9
    flows = np.bincount(port, minlength=ports)
    ends = line_ends(fabric)
    between = [line for line in range(2 * fabric.hosts, ports) if flows[line]]
    found = [LoadedLine(" to ".join(ends[line]), float(busy_s[line]), int(flows[line])) for line in between]
    return sorted(found, key=lambda line: (-line.busy_s, -line.flows))


def _passing(paths: Paths) -> tuple[np.typing.NDArray[np.int64], np.typing.NDArray[np.int64]]:
    """Each flow of data with each port that it passes."""
    flow = np.repeat(np.arange(len(paths.flow_band)), np.diff(paths.route_start))
    data = paths.flow_band[flow] != CONTROL_BAND
    return flow[data], paths.route_port[data]


def lines_in_words(lines: Sequence[LoadedLine]) -> str:
    """The most loaded lines: "s1 to s5 busy for 0.2061 s of each iteration with 2 flows, ..."; "" if there are none."""
    if not lines:
        return ""
    first, *others = lines[:NAMED]
    said = [f"{first.name} is busy for {first.busy_s:.4g} s of each iteration with {flows_in_words(first.flows)}"]
    said += [f"{line.name} for {line.busy_s:.4g} s with {line.flows}" for line in others]
    if len(lines) > NAMED:
        mean_s = sum(line.busy_s for line in lines) / len(lines)
        said.append(f"the mean of {len(lines)} is {mean_s:.4g} s")
    return ", ".join(said)


def flows_in_words(flows: int) -> str:
    """ "1 flow" or "2 flows"."""
    return "1 flow" if flows == 1 else f"{flows} flows"
