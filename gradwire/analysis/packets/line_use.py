"""The use of a port's line over time, from captured packets, and its relation to computation. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gradwire.analysis.packets.capture_files import Bool, CapturedPackets
from gradwire.datatypes.plan import LATENCY_LANE, OpKind, Plan
from gradwire.datatypes.records import Int64, OpLog
from gradwire.faults import InputFault

Float64 = npt.NDArray[np.float64]
BIN_S = 0.01
"""P3 measures with bwm-ng "at a 10 millisecond granularity" (section 5)."""
IDLE_SHARE = 0.01
"""A bin with less than this share of its line rate is idle, a judgement: the ACKs of a line that is full in the other
direction take 0.14 % at MTU 1500 with bursts of 64 KiB, 2.9 % where hosts send single frames (`Fabric.ack_share`)."""


@dataclass(frozen=True)
class Utilisation:
    """Use of both directions of a port, in bins."""

    #: Start of the first bin, on the run's clock.
    start_s: float
    #: Length of a bin.
    bin_s: float
    #: Line rate of each direction.
    rate_bps: float
    #: Rate on the inbound line, all overhead of frames included, shape (bins,).
    inbound_bps: Float64
    #: Rate on the outbound line, all overhead of frames included, shape (bins,).
    outbound_bps: Float64

    @property
    def edges_s(self) -> Float64:
        """Boundaries of the bins, shape (bins + 1,)."""
        return _edges(self.start_s, self.bin_s, len(self.inbound_bps))


@dataclass(frozen=True)
class Use:
    """Use of one direction."""

    #: Mean share of the line rate.
    mean: float
    #: Share of the bins that are idle (IDLE_SHARE).
    idle: float
    #: Share of the line rate in the busiest bin. May be a little above 1: a port may exceed its rate after a pause
    #: (HTB's burst).
    busiest: float


@dataclass(frozen=True)
class UseSummary:
    """Use of a port over a stretch of time."""

    #: Use of the inbound direction.
    inbound: Use
    #: Use of the outbound direction.
    outbound: Use
    #: Share of the bins in which neither direction is used.
    both_idle: float
    #: Share of the less used direction's traffic that the other's traffic covers bin by bin: 1 if both always go
    #: together, 0 if they take turns.
    overlap: float


def utilisation(
    packets: CapturedPackets, rate_bps: float, start_s: float, end_s: float, bin_s: float = BIN_S
) -> Utilisation:
    """The use of a port's line in whole bins between two times of the run's clock.

    A packet is a burst that occupies its line for its bytes over the rate, from the moment when it left its queue, and
    is counted in the bins that it occupies. Raises InputFault if no bin fits between the times.
    """
    bins = int((end_s - start_s) / bin_s + 1e-9)
    if bins < 1:
        raise InputFault(f"no bin of {bin_s:g} s fits into {end_s - start_s:g} s: choose a smaller one")
    edges_s = _edges(start_s, bin_s, bins)
    directions = [
        np.diff(_carried_bits(packets, direction, rate_bps, edges_s)) / bin_s
        for direction in (~packets.outbound, packets.outbound)
    ]
    return Utilisation(start_s, bin_s, rate_bps, directions[0], directions[1])


def _edges(start_s: float, bin_s: float, bins: int) -> Float64:
    edges: Float64 = start_s + bin_s * np.arange(bins + 1, dtype=np.float64)
    return edges


def _carried_bits(packets: CapturedPackets, mine: Bool, rate_bps: float, at_s: Float64) -> Float64:
    """Bits of the chosen packets that the line has carried by each time of `at_s`, in the same shape."""
    begin_s = np.sort(packets.time_ns[mine]) / 1e9
    bits = 8.0 * packets.line_bytes[mine][np.argsort(packets.time_ns[mine], kind="stable")]
    begun = np.searchsorted(begin_s, at_s, side="right")
    total = np.concatenate([[0.0], np.cumsum(bits)])
    if np.isinf(rate_bps):
        carried: Float64 = total[begun]
        return carried
    end_s = begin_s + bits / rate_bps
    order = np.argsort(end_s, kind="stable")
    ended = np.searchsorted(end_s[order], at_s, side="right")
    # All packets that have begun, less their remaining bits: the rate times their remaining time.
    begun_sum = np.concatenate([[0.0], np.cumsum(end_s)])[begun]
    ended_sum = np.concatenate([[0.0], np.cumsum(end_s[order])])[ended]
    left_s = (begun_sum - ended_sum) - (begun - ended) * at_s
    on_the_way: Float64 = total[begun] - rate_bps * left_s
    return on_the_way


def summary(used: Utilisation) -> UseSummary:
    """Summarises a stretch of time."""
    inbound, outbound = used.inbound_bps / used.rate_bps, used.outbound_bps / used.rate_bps
    less = min(inbound.sum(), outbound.sum())
    return UseSummary(
        _use(inbound),
        _use(outbound),
        float(((inbound < IDLE_SHARE) & (outbound < IDLE_SHARE)).mean()),
        float(np.minimum(inbound, outbound).sum() / less) if less > 0 else 0.0,
    )


def _use(shares: Float64) -> Use:
    return Use(float(shares.mean()), float((shares < IDLE_SHARE).mean()), float(shares.max()))


def compute_share(plan: Plan, log: OpLog, ranks: Collection[int], edges_s: Float64) -> Float64:
    """Mean share of each bin in which the ranks compute (forward and backward, but not additions); shape (bins,)."""
    ops = plan.ops
    computes = (ops.kind == OpKind.COMPUTE) & (ops.lane < LATENCY_LANE)
    computes = computes[log.op] & np.isin(ops.rank[log.op], list(ranks))
    start_s, end_s = np.sort(log.start_ns[computes]) / 1e9, np.sort(log.end_ns[computes]) / 1e9
    busy_s = _elapsed_s(start_s, edges_s) - _elapsed_s(end_s, edges_s)
    shares: Float64 = np.diff(busy_s) / np.diff(edges_s) / max(1, len(ranks))
    return shares


def _elapsed_s(since_s: Float64, at_s: Float64) -> Float64:
    """At each time of `at_s`, the sum of the durations since all earlier
    times of `since_s`; in the shape of `at_s`."""
    past = np.searchsorted(since_s, at_s, side="right")
    elapsed: Float64 = past * at_s - np.concatenate([[0.0], np.cumsum(since_s)])[past]
    return elapsed


def received_while_idle(used: Utilisation, compute: Float64) -> float:
    """Share of the inbound traffic that arrives while the GPU idles, by the
    bins' shares of computation (Geryon, Fig. 2)."""
    total = float(used.inbound_bps.sum())
    return float((used.inbound_bps * (1 - compute)).sum()) / total if total > 0 else 0.0


def by_iteration(packets: CapturedPackets, rate_bps: float, edges_ns: Int64, bin_s: float = BIN_S) -> list[UseSummary]:
    """A summary of each iteration between its boundaries
    (analysis/iterations.py), with bins that begin at its start."""
    edges_s = edges_ns / 1e9
    return [
        summary(utilisation(packets, rate_bps, start, end, bin_s))
        for start, end in itertools.pairwise(edges_s.tolist())
    ]
