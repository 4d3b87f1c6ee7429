"""Estimates of jobs by classes of ranks: one rank of each class is compiled and replayed, and stands for all.

The division into classes is tried from the fewest on, and checked against the ways of all ranks on the fabric
(analysis/by_class/symmetry.py), until one is found that is exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from gradwire.analysis.bounds import Bounds
from gradwire.analysis.by_class.bounds import class_bounds, ring_bounds
from gradwire.analysis.by_class.checking import check_classes
from gradwire.analysis.by_class.ring_times import RingLines, ring_lines, ring_times
from gradwire.analysis.by_class.symmetry import ClassLines, class_lines
from gradwire.analysis.fluid.delays import own_delays
from gradwire.analysis.fluid.estimate import FluidTimes, SendEnds, estimate
from gradwire.datatypes.class_plans import ClassPlan, Folding, NotByClass, RingSequence
from gradwire.datatypes.plan import Plan
from gradwire.faults import InputFault
from gradwire.network.fabric import Fabric
from gradwire.runs.compiling.ideal_times import short_window_bytes
from gradwire.runs.stored.spines import Spines
from gradwire.scenario.resolution.compilation import ResolvedPoint
from gradwire.scenario.resolution.transport_fit import buffer_bytes
from gradwire.workloads.fields import MOST_WORKERS
from gradwire.workloads.job import Cluster
from gradwire.workloads.plan_size import TooManyOps

LEAST_WORKERS = 64
"""Jobs of so many workers or more are estimated by class where they have classes, and all on machines of several NICs, where each
collective is as many rings. Other whole plans take milliseconds below that."""
MOST_NEIGHBOURS = 1024
"""Classes that are tried of a ring's neighbours, at most."""


@dataclass(frozen=True)
class ByClass:
    """A job whose classes of ranks fare alike on its fabric."""

    label: str
    job: ClassPlan | RingSequence
    #: The lines on which its ranks send.
    lines: ClassLines | RingLines
    fabric: Fabric
    folding: Folding

    @property
    def classes(self) -> int:
        """Ranks that were looked at: one of each class, or all where each is followed."""
        return len(self.job.members) if isinstance(self.job, ClassPlan) else self.job.ranks

    @property
    def work(self) -> Plan | RingSequence:
        """The plan that has the samples and the computing time of an iteration."""
        return self.job.plan if isinstance(self.job, ClassPlan) else self.job

    @property
    def left_out(self) -> str:
        """Effects that all ranks have and the estimate lacks, as a sentence without its full stop; "" if there are
        none."""
        return self.job.left_out if isinstance(self.job, ClassPlan) else ""

    def times(self, send_ends: SendEnds, window_bytes: float = math.inf) -> FluidTimes:
        """Iteration times on an ideal network. window_bytes: payload that a connection keeps under way."""
        if isinstance(self.job, ClassPlan):
            assert isinstance(self.lines, ClassLines)
            delays = replace(self.lines.delays, window_bytes=window_bytes)
            return estimate(self.job.plan, self.fabric, send_ends=send_ends, delays=delays, paths=self.lines.paths)
        assert isinstance(self.lines, RingLines)
        return ring_times(self.job, self.lines, send_ends)

    def bounds(self) -> Bounds:
        """Lower bounds of an iteration."""
        spine_of = Spines(self.fabric).spine_of
        if isinstance(self.job, ClassPlan):
            return class_bounds(self.job, self.fabric, spine_of)
        assert isinstance(self.lines, RingLines)
        return ring_bounds(self.job, self.lines, self.fabric, spine_of)


def by_class(point: ResolvedPoint, least_workers: int | None = None) -> ByClass | None:
    """A point's job by classes; None for a job that is estimated with all of its ranks, such as one of fewer workers
    than `least_workers` (None: LEAST_WORKERS).

    Raises InputFault for a job of more workers than a plan with all ranks can have, if it has no classes or cannot be
    compiled.
    """
    found = _classes_if_any(point, LEAST_WORKERS if least_workers is None else least_workers)
    return found if isinstance(found, ByClass) else None


def _classes_if_any(point: ResolvedPoint, least_workers: int) -> ByClass | NotByClass | None:
    """Like `by_class`, and why a job has none where that was asked."""
    workers = point.job.cluster.workers
    if workers < least_workers and point.job.cluster.nics_per_host == 1:
        return None
    try:
        return classes_of(point)
    except InputFault:
        # Of a plan with all ranks, it is said when that is compiled.
        if workers <= MOST_WORKERS:
            return None
        raise
    except NotByClass as reason:
        if workers <= MOST_WORKERS:
            return reason
        raise InputFault(
            f"cluster.workers = {workers}: more than {MOST_WORKERS:,} are estimated by classes of ranks, and this job has none, because "
            f"{reason}: change that, or let fewer workers stand for all (cluster.stands_for)"
        ) from reason


def classes_or_plans(
    point: ResolvedPoint, plans_of: Callable[[], Mapping[str, Plan]]
) -> tuple[ByClass | None, Mapping[str, Plan]]:
    """A point's job by classes, or else the plans with all of its ranks. Raises InputFault as `by_class` and `plans_of` do,
    and of a plan that is too large why it has no classes."""
    found = _classes_if_any(point, LEAST_WORKERS)
    if isinstance(found, ByClass):
        return found, {}
    try:
        return None, plans_of()
    except TooManyOps as fault:
        if found is None:
            raise
        raise InputFault(
            f"{fault}. Classes of ranks would have fewer, but this job has none, because {found}"
        ) from fault


def with_fabric(found: ByClass, fabric: Fabric) -> ByClass:
    """Returns the same job on a fabric of the same shape and other rates. Raises NotByClass if ranks of a class are not
    served alike there."""
    return found if fabric == found.fabric else replace(found, lines=_lines(found.job, fabric), fabric=fabric)


def classes_of(point: ResolvedPoint) -> ByClass:
    """The division into the fewest classes whose ranks are served alike. Raises NotByClass, with the reason why the
    smallest division of all is not exact."""
    compile_classes, job, fabric = point.strategy.by_class, point.job, point.fabric
    if compile_classes is None or job.trace is not None:
        raise NotByClass(f"strategy '{point.strategy.name}' has none")
    if point.section.transport.connections > 1:
        raise NotByClass("messages are divided over several connections (transport.connections)")
    if job.costs.speed_while_communicating != 1.0:
        raise NotByClass("computation is slower during communication (costs.compute_while_communicating)")
    undelayed = not own_delays(fabric).are_there
    windows = short_window_bytes(fabric, buffer_bytes(point.section, fabric))
    first: NotByClass | None = None
    for neighbours in _neighbours(job.cluster):
        try:
            folding = Folding(neighbours, undelayed)
            compiled = compile_classes(job, point.options, folding)
            if isinstance(compiled, RingSequence) and not undelayed and windows < math.inf:
                raise NotByClass("sockets' buffers do not fill links with delays (transport.buffer)")
            found = ByClass(point.strategy.name, compiled, _lines(compiled, fabric), fabric, folding)
        except NotByClass as reason:
            first = first or reason
            continue
        if isinstance(compiled, ClassPlan):
            check_classes(compiled)
        return found
    raise first or NotByClass("its workers do not divide among machines")


def _lines(compiled: ClassPlan | RingSequence, fabric: Fabric) -> ClassLines | RingLines:
    spine_of = Spines(fabric).spine_of
    if isinstance(compiled, ClassPlan):
        return class_lines(compiled, fabric, spine_of)
    return ring_lines(compiled, fabric, spine_of)


def _neighbours(cluster: Cluster) -> Iterator[int]:
    """Numbers of neighbours that may be classes, ascending: whole machines, whose number divides that of all."""
    machines = cluster.worker_hosts
    for count in range(1, machines):
        if machines % count == 0 and count * cluster.workers_per_host <= MOST_NEIGHBOURS:
            yield count * cluster.workers_per_host
