"""How busy lines are: the bytes of messages in bins of time, and what a plan puts on each line.

No line carries more than its rate: if messages need more, the one that ended first goes first and the others catch up
later. So bins are estimates, and sums are exact.

Before a run, the plan tells which lines between switches an iteration loads most, and how many flows meet there. A flow
is a connection, or what a queue sends to a multicast group. A line is one direction of a link. How long a line is busy
is what its bytes take at its rate, with the overhead of full frames; no iteration is shorter than the longest of these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gradwire.analysis.fluid.paths import Paths, paths_of
from gradwire.analysis.iterations import Float64
from gradwire.datatypes.plan import Plan
from gradwire.datatypes.records import Int64
from gradwire.network.fabric import CONTROL_BAND, Fabric
from gradwire.network.routes import SummitOf, line_titles

NAMED = 3
"""Lines that are named, those that are busy longest first."""


@dataclass(frozen=True)
class LinkLoad:
    """Load of one direction of a link."""

    #: "h3 out", or "leaf1-spine2 to spine2".
    name: str
    #: Line rate.
    rate_bps: float
    #: Share of the line rate in each bin, shape (bins,).
    share: Float64


def binned_bytes(edges_ns: Int64, begun: Float64, ended: Float64, size: Float64, bytes_per_ns: float) -> Float64:
    """Bytes that passed in each bin, shape (bins,), for messages that began and ended at these times."""
    ended = np.maximum(ended, begun + 1.0)
    left = size * np.clip((ended - edges_ns[0]) / (ended - begun), 0.0, 1.0)
    order = np.argsort(begun, kind="stable")
    moved = np.zeros(len(edges_ns) - 1)
    active, taken_in = np.zeros(0, np.int64), 0
    for number, (since, until) in enumerate(zip(edges_ns[:-1].tolist(), edges_ns[1:].tolist(), strict=True)):
        begun_by_now = int(np.searchsorted(begun[order], until))
        active = np.concatenate([active, order[taken_in:begun_by_now]])
        taken_in = begun_by_now
        active = active[left[active] > 0]
        active = active[np.argsort(ended[active], kind="stable")]
        start = np.maximum(begun[active], since)
        wanted = left[active] * np.clip((until - start) / np.maximum(ended[active] - start, 1e-9), 0.0, 1.0)
        # A message that has ended wants all its remaining bytes.
        wanted[ended[active] <= until] = left[active][ended[active] <= until]
        room = np.maximum(bytes_per_ns * (until - since) - np.concatenate([[0.0], np.cumsum(wanted)[:-1]]), 0.0)
        passed = np.minimum(wanted, room)
        left[active] -= passed
        moved[number] = passed.sum()
    return moved


@dataclass(frozen=True)
class LoadedLine:
    """One direction of a link between switches."""

    #: "leaf1-spine2 to spine2".
    name: str
    #: Time that an iteration's bytes take on it.
    busy_s: float
    #: Flows of data that pass it.
    flows: int


def has_choices(fabric: Fabric) -> bool:
    """Returns whether it is known which of several ways between switches are taken, and there may be several."""
    return fabric.routing.policy.foresees_loads and (not fabric.is_tiered or len(fabric.spine_names()) > 1)


def loaded_lines(plan: Plan, fabric: Fabric, spine_of: SummitOf | None = None) -> list[LoadedLine]:
    """The lines between switches that the data of a plan pass, those that are busy longest first.

    fabric: with the multicast groups of its plan. Raises InternalFault as `paths_of` does.
    """
    paths = paths_of(plan, fabric, spine_of)
    flow, port, share = _data_passing(paths)
    sends = np.flatnonzero(paths.flow_of_send >= 0)
    of_flow = np.bincount(paths.flow_of_send[sends], paths.line_bytes[sends], len(paths.flow_band))
    ports = len(paths.port_bytes_per_ns)
    busy_s = np.bincount(port, of_flow[flow] * share, ports) / paths.port_bytes_per_ns / 1e9
    flows = np.bincount(port, minlength=ports)
    titles = line_titles(fabric)
    between = [line for line in range(2 * fabric.hosts, ports) if flows[line]]
    found = [LoadedLine(titles[line], float(busy_s[line]), int(flows[line])) for line in between]
    return sorted(found, key=lambda line: (-line.busy_s, -line.flows))


def _data_passing(paths: Paths) -> tuple[Int64, Int64, Float64]:
    """Each flow of data with each port that it passes, and the share of the flow that passes it."""
    flow = np.repeat(np.arange(len(paths.flow_band)), np.diff(paths.route_start))
    data = paths.flow_band[flow] != CONTROL_BAND
    return flow[data], paths.route_port[data], paths.route_share[data]


def lines_in_words(lines: Sequence[LoadedLine]) -> str:
    """The most loaded lines: "leaf1-spine2 to spine2 is busy for 0.2061 s of each
    iteration with 2 flows, ..."; "" if there are none."""
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
