"""What a point's packets, its op log and its critical path show, for claims and for explanations.

Utilisation comes from captured packets, never from the agents' logs. A capture file is read as a stream, once, and
kept as columns in the cache (gradwire/analysis/packets/captures.py). Only points whose verdict is valid are read: it
has compared the packets with the port's counters and the plan's messages, and the times of iterations by packets alone
with those of the logs (gradwire/analysis/verdict/packet_checks.py). What a rank received and computed over time is in
the op log. The critical path explains claims that no function of their paper does.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gradwire.analysis.iterations import iteration_ends_ns, iteration_times_s
from gradwire.analysis.packets.capture_files import Bool, Capture
from gradwire.analysis.packets.captures import CACHED_CAPTURES, read_captures
from gradwire.analysis.packets.line_use import Utilisation, utilisation
from gradwire.analysis.parameters import describe
from gradwire.analysis.timeline.critical_path import CriticalPath, critical_path
from gradwire.datatypes.plan import Combine, OpKind, Plan
from gradwire.datatypes.records import Int64, OpLog
from gradwire.vm.kernel import cache_folder
from reproduction.scoring.evidence import NoEvidence, PointEvidence, Points
from reproduction.scoring.explanations import Explanation
from reproduction.scoring.reference import Claim

FROM_PACKETS = "from captured packets"
"""A claim's detail says so where its value comes from here."""
CAUSE = "Where the time goes, by the critical path"


def capture_of(point: PointEvidence, host: str = "h1") -> Capture:
    """What was captured at a host's port. Raises NoEvidence where nothing
    was, and where the point's verdict is not valid."""
    name = describe(dict(point.parameters))
    if point.result is None or point.folder is None:
        raise NoEvidence(f"{name}: was only compiled, so it has no packets")
    if not point.result.valid:
        raise NoEvidence(f"{name}: {point.result.verdict}")
    record = point.record()
    ports = [about.port for about in record.captures]
    (wanted,) = (port.interface for port in point.fabric.ports_named((host,)))
    if wanted not in ports:
        raise NoEvidence(f"{name}: port {wanted} was not captured (run.capture of its scenario)")
    return read_captures(point.folder, point.fabric, record, cache_folder() / CACHED_CAPTURES)[ports.index(wanted)]


def use_of_port(point: PointEvidence, bin_s: float, host: str = "h1") -> Utilisation:
    """Both directions of a host's port, in bins over all measured
    iterations. Raises NoEvidence as `capture_of` does."""
    capture, record = capture_of(point, host), point.record()
    edges_ns = iteration_ends_ns(point.plan(), point.log(), record.iterations)[record.warmup :]
    return utilisation(capture.packets, point.fabric.rate_bps, edges_ns[0] / 1e9, edges_ns[-1] / 1e9, bin_s)


def carries_data(plan: Plan, capture: Capture) -> Bool:
    """Which of the captured messages carry parameters or gradients: requests and tokens do not."""
    data: Bool = plan.ops.chunk[capture.messages.message] >= 0
    return data


@dataclass(frozen=True)
class Spans:
    """Times during which something happened, in nanoseconds of the run's clock, and
    how much of it: bytes, or nanoseconds of computation."""

    start_ns: Int64
    end_ns: Int64
    amount: Int64

    def within_ns(self, start_ns: int, end_ns: int) -> int:
        """How long, between two moments, at least one of the spans was on."""
        by_start = np.argsort(self.start_ns, kind="stable")
        starts = np.clip(self.start_ns[by_start], start_ns, end_ns)
        ends = np.clip(self.end_ns[by_start], start_ns, end_ns)
        covered = np.maximum.accumulate(np.concatenate([[start_ns], ends]))
        return int(np.maximum(ends - np.maximum(starts, covered[:-1]), 0).sum())


def received_spans(plan: Plan, log: OpLog, rank: int, iteration: int, combine: Combine | None = None) -> Spans:
    """Data messages (no control) that reached a rank in an iteration; `combine` picks pulls (COPY) or pushes (ADD)."""
    ops = plan.ops
    chosen = (ops.kind == OpKind.RECV) & (ops.rank == rank) & (ops.chunk >= 0)
    if combine is not None:
        chosen &= ops.combine == combine
    return _spans(plan, log, chosen, iteration)


def computed_spans(plan: Plan, log: OpLog, rank: int, iteration: int) -> Spans:
    """Computation on a rank in an iteration."""
    ops = plan.ops
    chosen = (ops.kind == OpKind.COMPUTE) & (ops.rank == rank) & (ops.duration_ns > 0)
    return _spans(plan, log, chosen, iteration)


def _spans(plan: Plan, log: OpLog, chosen: npt.NDArray[np.bool_], iteration: int) -> Spans:
    rows = np.flatnonzero((log.iteration == iteration) & chosen[log.op])
    amount = np.where(plan.ops.kind[log.op[rows]] == OpKind.RECV, plan.ops.size_bytes[log.op[rows]], 0)
    busy_ns = np.where(amount > 0, amount, log.end_ns[rows] - log.start_ns[rows]).astype(np.int64)
    return Spans(log.start_ns[rows], log.end_ns[rows], busy_ns)


def begin_ns(plan: Plan, log: OpLog, rank: int, iteration: int) -> int:
    """When a worker began an iteration."""
    op = plan.begin_op[int(np.flatnonzero(plan.workers == rank)[0])]
    return int(log.start_ns[(log.iteration == iteration) & (log.op == op)][0])


def forward_wait_s(plan: Plan, log: OpLog, rank: int, iteration: int, forward_s: float) -> float:
    """How long a worker waits before and within its forward pass: for
    parameters, as nothing else stands in its way."""
    busy = computed_spans(plan, log, rank, iteration)
    by_start = np.argsort(busy.start_ns, kind="stable")
    done_s = np.cumsum(busy.amount[by_start]) / 1e9
    last = int(np.searchsorted(done_s, forward_s * (1 - 1e-6)))
    return (int(busy.end_ns[by_start][last]) - begin_ns(plan, log, rank, iteration)) / 1e9 - forward_s


def from_critical_path(points: Points, claim: Claim) -> Explanation:
    """The critical path of the claim's point, and of the one that a speed-up is relative to, each in a sentence.

    Raises NoEvidence for a claim that speaks of no single point.
    """
    places = [claim.where] + ([{**claim.where, **claim.baseline}] if claim.baseline else [])
    seen = " ".join(
        f"{_name(point, points)}: {sentence(point)}" for point in (_single(points, where) for where in places)
    )
    return Explanation(CAUSE, "The critical path of the slowest measured iteration of each point.", seen)


def _single(points: Points, where: dict[str, str | int | float]) -> PointEvidence:
    matching = points.stored(**where) if where else []
    rest = {tuple((k, v) for k, v in p.parameters.items() if k != "seed") for p in matching}
    if len(rest) != 1:
        raise NoEvidence("it speaks of several points")
    return points.point(**where)


def _name(point: PointEvidence, points: Points) -> str:
    """The parameters that tell a point from the others."""
    all_points = points.stored()
    varied = [k for k in point.parameters if len({other.parameters.get(k) for other in all_points}) > 1 and k != "seed"]
    return " ".join(point.parameters[key] for key in varied if point.parameters[key]) or "the point"


def sentence(point: PointEvidence) -> str:
    """How the slowest measured iteration's time divides, and the largest cause besides computation."""
    return path_of_slowest(point).sentence()


def path_of_slowest(point: PointEvidence) -> CriticalPath:
    """The critical path of the slowest measured iteration."""
    plan, log, record = point.plan(), point.log(), point.record()
    times_s = iteration_times_s(plan, log, record.iterations)
    slowest = record.warmup + int(times_s[record.warmup :].argmax())
    return critical_path(plan, log, slowest, point.fabric)
