"""Lower bounds of iterations that are known by classes of ranks, as analysis/bounds.py has them of whole plans."""

from __future__ import annotations

import numpy as np

from gradwire.analysis.bounds import Bounds, Transfers, busiest_s_of, chained_s, stream_bounds_s
from gradwire.analysis.by_class.ring_times import RingLines
from gradwire.analysis.by_class.symmetry import flows_of, ways_of
from gradwire.analysis.fluid.paths import Float64, SpineOf
from gradwire.datatypes.class_plans import ClassPlan, RingSequence
from gradwire.datatypes.plan import Int64
from gradwire.network.fabric import Fabric

MOST_CHAINED = 200_000
"""Ops of a plan whose critical path is looked for: a ring's ops are as deep as many, and each depth takes 50 us."""


def class_bounds(classes: ClassPlan, fabric: Fabric, spine_of: SpineOf | None) -> Bounds:
    """The bounds of one iteration. That of the critical path is 0 for more than MOST_CHAINED ops."""
    plan = classes.plan
    compute_s, aggregation_s = stream_bounds_s(plan)
    flows = flows_of(classes)
    remote = np.flatnonzero(flows.kind_of_send >= 0)
    kind = flows.kind_of_send[remote]
    line_bytes = plan.ops.size_bytes[remote] / fabric.goodput_share()
    each: Float64 = np.bincount(kind, line_bytes, flows.kinds)[flows.kind].astype(np.float64)
    bandwidth_s = _bandwidth_s(fabric, spine_of, flows.source, flows.target, each)
    if len(plan.ops) > MOST_CHAINED:
        return Bounds(compute_s, bandwidth_s, 0.0, aggregation_s)
    rate = np.zeros(0)
    if len(remote):
        slowest = ways_of(fabric, spine_of, flows.source, flows.target).slowest_bytes_per_ns()
        # A lower bound must not assume the copy with the slowest way.
        rate = np.maximum.reduceat(slowest, flows.first[:-1])
        if fabric.flow_rate_bps:
            rate = np.minimum(rate, fabric.flow_rate_bps / 8e9)
    message_ns = np.zeros(len(plan.ops))
    message_ns[remote] = line_bytes / rate[kind]
    return Bounds(compute_s, bandwidth_s, chained_s(plan, message_ns), aggregation_s)


def ring_bounds(sequence: RingSequence, lines: RingLines, fabric: Fabric, spine_of: SpineOf | None) -> Bounds:
    """The bounds of one iteration. That of the critical path takes all parts for as small as the smallest."""
    hosts = sequence.host_of_rank
    sent = sum((_sent_bytes(call.part_bytes) for call in sequence.calls), np.zeros(sequence.ranks, np.int64))
    away = np.flatnonzero(np.isfinite(lines.bytes_per_ns))
    bandwidth_s = _bandwidth_s(
        fabric, spine_of, hosts[away], np.roll(hosts, -1)[away], sent[away] / fabric.goodput_share()
    )
    compute_s = float(sequence.computed_ns.max()) / 1e9
    return Bounds(compute_s, bandwidth_s, _chained_ns(sequence, lines) / 1e9)


def _sent_bytes(part_bytes: Int64) -> Int64:
    """Bytes that each rank sends in a call: every part twice, except that the parts that it begins and ends with are
    sent once."""
    twice: Int64 = 2 * int(part_bytes.sum()) - np.roll(part_bytes, -1) - np.roll(part_bytes, -2)
    return twice


def _bandwidth_s(fabric: Fabric, spine_of: SpineOf | None, source: Int64, target: Int64, line: Float64) -> float:
    """The longest time in seconds that the bytes of flows take at any port, or at any part's uplinks together."""
    if not len(source):
        return 0.0
    moved = Transfers(np.arange(len(source)), source, target, line.astype(np.int64), np.ones(len(source), np.bool_))
    busiest_s = busiest_s_of(fabric, moved, line, np.ones(fabric.hosts, np.bool_))
    if fabric.is_tiered:
        return busiest_s
    ways = ways_of(fabric, spine_of, source, target)
    of_port = np.bincount(ways.port, line[ways.flow], len(ways.port_bytes_per_ns))
    return max(busiest_s, float((of_port / ways.port_bytes_per_ns).max()) / 1e9)


def _chained_ns(sequence: RingSequence, lines: RingLines) -> float:
    """A chain of messages that no rank's iteration can do without."""
    done_ns = 0.0
    for call in sequence.calls:
        sizes = call.part_bytes[call.part_bytes > 0]
        if not len(sizes):
            continue
        smallest = float(sizes.min())
        hops = lines.latency_ns + smallest * lines.local_ns_per_byte + smallest / lines.bytes_per_ns
        # A part goes around all edges of the ring but one, twice if all ranks have parts.
        around = float(hops.sum() - hops.max())
        turns = 2 if len(sizes) == sequence.ranks else 1
        done_ns = max(
            max(float(call.ready_ns.min()), done_ns) + call.latency_ns + turns * around,
            max(float(call.ready_ns.max()), done_ns) + call.latency_ns + around,
        )
    return max(done_ns, float(sequence.computed_ns.max()))
