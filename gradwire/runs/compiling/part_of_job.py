"""A point of which a part runs by packets ([part]): its plan and network, from an estimate of the whole.

The whole is estimated first, on the network of the whole. Its plan is cut to the part, and the part is estimated as well:
it has to take as long as the whole, or it is refused. Ports of stand-ins have their whole rate, and they send when their
causes say so. Where the part is nearer to the whole if ports have what other messages leave of them
(workloads/parts/border_rates.py), or if stand-ins keep the estimate's pace, they do.

With part.copies, there are no stand-ins: a job whose ranks are classes has so many of each (runs/compiling/copies_of_job.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gradwire.analysis.by_class.ring_times import RingLines, border_times, ring_times
from gradwire.analysis.fluid.estimate import estimate
from gradwire.datatypes.class_plans import Float64, NotByClass, RingSequence
from gradwire.datatypes.plan import Int64, Plan
from gradwire.faults import InputFault
from gradwire.network.fabric import Fabric
from gradwire.network.links import LinkSetting
from gradwire.runs.compiling.by_class import classes_of
from gradwire.runs.compiling.copies_of_job import copies_of_job
from gradwire.runs.compiling.ideal_times import ideal_times, rule_of
from gradwire.runs.compiling.job_plans import relative_times_of
from gradwire.runs.compiling.ways_to_cut import CutPart, PlanCuts
from gradwire.runs.stored.spines import Spines
from gradwire.scenario.resolution.compilation import Compiled, ResolvedPoint, compile_resolved
from gradwire.scenario.resolution.part_place import hosts_of_part
from gradwire.workloads.fields import MOST_WORKERS
from gradwire.workloads.job import Job
from gradwire.workloads.parts.border_rates import border_shares
from gradwire.workloads.parts.causes import Times
from gradwire.workloads.parts.cutting import PartOfPlan, parts_of
from gradwire.workloads.parts.ring_part import RingBorder, ring_part

NEAR = 0.01
"""Largest difference between the part's estimate and that of the whole, as a share: half of what a part may be
off."""
EQUAL = 1e-3
"""A part that is as near leaves stand-ins' ports as they are: by how much two runs may differ."""
MOST_WHOLE_OPS = 4_000_000
"""Largest number of ops of a plan with all ranks that is compiled, estimated and checked to be cut, which takes a
minute. Above it, rings are cut as rings."""
TOO_MANY = (
    f"cluster.workers = {{}}: with more than {MOST_WORKERS:,}, part.hosts and part.leaf are for jobs that are one ring after the "
    "other (ddp, ring, layer-allreduce, lazy-allreduce), and {}; jobs with classes of ranks may have part.copies "
    "(docs/thousands.md)"
)
PART_NOTE = "in part"
"""Beginning of the note of a cut plan."""


@dataclass(frozen=True)
class CompiledPart(Compiled):
    """A part of a point, ready to run."""

    #: Plan that the part was cut from, and the relative compute times of its workers.
    whole: Plan | None
    relative_times: tuple[float, ...]


def compiled_part(
    point: ResolvedPoint, plans_of: Callable[[ResolvedPoint, Job], Mapping[str, Plan]] | None = None
) -> CompiledPart:
    """The part of a point that runs by packets, ready to run. Raises InputFault as `compile_resolved` does, and for
    jobs that cannot be cut."""
    if point.section.part is not None and point.section.part.copies is not None:
        return _compiled(point, None, copies_of_job(point))
    ring = _ring_of(point)
    if ring is not None:
        return _compiled(point, None, ring)
    compiled = compile_resolved(point, plans_of)
    if len(compiled.plans) > 1:
        raise InputFault(
            f"strategy '{compiled.strategy.name}' gives {len(compiled.plans)} plans, of which a run keeps the fastest; a "
            "part has one: set the strategy's options so that it gives one, or leave out [part]"
        )
    ((label, plan),) = compiled.plans.items()
    return _compiled(point, plan, _cut(point, label, compiled.fabric, plan))


def plans_to_check(point: ResolvedPoint, compiled: Compiled) -> list[tuple[Plan, Sequence[float]]]:
    """All plans that have to be checked, with the factors on their workers' times: those of a part, and those that it
    was cut from."""
    if not isinstance(compiled, CompiledPart):
        return [(plan, relative_times_of(point, plan)) for plan in compiled.plans.values()]
    own: list[tuple[Plan, Sequence[float]]] = [(plan, compiled.relative_times) for plan in compiled.plans.values()]
    return own if compiled.whole is None else [(compiled.whole, relative_times_of(point, compiled.whole)), *own]


def _ring_of(point: ResolvedPoint) -> PlanCuts | None:
    """The one way to cut a job that is one ring after the other, and whose plan with all ranks would be too large. None for
    other jobs.

    Raises InputFault for a job that needs classes of ranks and has none.
    """
    workers = point.job.cluster.workers
    tensors = len(point.job.profile.layers)
    if workers <= MOST_WORKERS and _ring_ops(tensors, workers) <= MOST_WHOLE_OPS:
        return None  # there are no more collectives than tensors
    try:
        found = classes_of(point)
    except (InputFault, NotByClass) as reason:
        if workers <= MOST_WORKERS:
            return None
        raise InputFault(TOO_MANY.format(workers, f"this job has no classes of ranks, because {reason}")) from reason
    sequence = found.job
    if not isinstance(sequence, RingSequence):
        if workers <= MOST_WORKERS:
            return None
        raise InputFault(TOO_MANY.format(workers, f"'{point.strategy.name}' is not"))
    if workers <= MOST_WORKERS and _ring_ops(len(sequence.calls), workers) <= MOST_WHOLE_OPS:
        return None
    assert isinstance(found.lines, RingLines)
    rule = rule_of(point.unsent_bytes)
    hosts = hosts_of_part(point.section, point.fabric)
    members = np.flatnonzero(np.isin(sequence.host_of_rank, hosts))
    if not len(members):
        raise InputFault("part: its hosts have no worker: choose others")
    first, count = int(members[0]), len(members)
    if workers - count < 2:
        raise InputFault("part: leave at least two workers to the rest of the job")
    behind = (first + count) % workers
    border = RingBorder(*border_times(sequence, found.lines, rule, (first - 1) % workers, behind))
    whole_s = ring_times(sequence, found.lines, rule).iteration_s
    part = ring_part(sequence, first, count, border)
    return PlanCuts(found.label, [_placed(point, part, np.ones(len(part.hosts) - part.whole))], whole_s)


def _ring_ops(calls: int, workers: int) -> int:
    """Ops of a plan of all ranks with so many all-reduces around one ring."""
    return 4 * calls * workers * (workers - 1)


def _cut(point: ResolvedPoint, label: str, fabric: Fabric, plan: Plan) -> PlanCuts:
    """Ways to cut a plan."""
    rule = rule_of(point.unsent_bytes)
    whole = estimate(plan, fabric, Spines(fabric).spine_of, send_ends=rule, with_ops=True)
    assert whole.op_start_s is not None
    assert whole.op_end_s is not None
    times = Times(whole.op_start_s[-2:], whole.op_end_s[-2:])
    return PlanCuts(label, _ways(point, plan, hosts_of_part(point.section, fabric), times), whole.iteration_s)


def _ways(point: ResolvedPoint, plan: Plan, hosts: Sequence[int], times: Times) -> Iterator[CutPart]:
    fabric = point.fabric
    goodput_bytes_per_s = min(fabric.host_bps) / 8 * fabric.goodput_share()
    shares: Float64 | None = None
    for part in parts_of(plan, hosts, times):
        if part.whole == len(part.hosts):
            raise InputFault("part: exchanges nothing with the rest of the job; run it as a job of so many workers")
        yield _placed(point, part, np.ones(len(part.hosts) - part.whole))
        if shares is None:
            shares = border_shares(plan, hosts, part.hosts[part.whole :], times, goodput_bytes_per_s)
        if (shares < 1.0).any():
            yield _placed(point, part, shares)


def _compiled(point: ResolvedPoint, plan: Plan | None, found: PlanCuts) -> CompiledPart:
    """The part in the first of these ways that is about as like the whole as any. Raises InputFault where none is."""
    rule = rule_of(point.unsent_bytes)
    tried: list[tuple[CutPart, float]] = []
    for way in found.ways:
        tried.append((way, ideal_times(way.plan, way.fabric, rule).iteration_s / found.whole_s - 1))
        if abs(tried[-1][1]) < EQUAL:
            break
    least = min(abs(off) for _, off in tried)
    way, off = next((way, off) for way, off in tried if abs(off) <= least + EQUAL)
    if abs(off) > NEAR:
        by_copies = point.section.part is not None and point.section.part.copies is not None
        other = "take more copies (part.copies)" if by_copies else "choose other hosts, or another strategy"
        raise InputFault(
            f"part: by estimate an iteration is {off:+.1%} off that of the whole ({found.whole_s:.4g} s), because messages "
            f"between other ranks matter to it, which it has not: {other}"
        )
    way.fabric.ports_named(point.section.run.capture)  # rejects unknown port names
    job = point.job
    note = (
        f"{PART_NOTE}: {way.words}. By estimate, an iteration of the part is {off:+.3%} off that of the whole. Not "
        "checked: what sums contain, and messages between the others"
    )
    return CompiledPart(
        point.strategy,
        way.fabric,
        replace(job, fabric=point.fabric),
        {found.label: replace(way.plan, notes=(*way.plan.notes, note))},
        point.unsent_bytes,
        plan,
        tuple(job.relative_times[worker] for worker in way.workers) if job.relative_times else (),
    )


def _placed(point: ResolvedPoint, part: PartOfPlan, shares: Float64) -> CutPart:
    """A part on its network. shares: of its port's rate, for each stand-in's host."""
    fabric, cluster = point.fabric, point.job.cluster
    hosts, count = _places(part.hosts, fabric)
    settings = tuple(
        LinkSetting(f"h{host + 1}", rate_bps=fabric.host_bps[whole] * share)
        for host, whole, share in zip(
            hosts[part.whole :].tolist(), part.hosts[part.whole :].tolist(), shares.tolist(), strict=True
        )
        if share < 1.0
    )
    changes: dict[str, int] = {"hosts": count}
    if fabric.tree.tiers:
        changes["leaves"] = count // fabric.hosts_per_leaf
    own = replace(fabric, link_settings=settings, **changes)  # type: ignore[arg-type]
    placed = replace(part.plan, rank_host=hosts[part.plan.rank_host].astype(np.int32))
    inside = set(part.hosts[: part.whole].tolist())
    workers = [worker for worker in range(cluster.workers) if cluster.worker_port(worker) in inside]
    words = _in_words(part, fabric, cluster.workers, capped=bool((shares < 1).any()))
    return CutPart(placed, own, words, tuple(workers))


def _places(hosts: Int64, fabric: Fabric) -> tuple[Int64, int]:
    """Numbers of these hosts of the whole in the part's network, and the number of its hosts: all hosts of the leaves
    that have any of them, so that leaves keep all their ports."""
    if not fabric.tree.tiers:
        return np.arange(len(hosts)), len(hosts)
    leaf_of = np.array([fabric.leaf_of(host) for host in hosts.tolist()])
    leaves = list(dict.fromkeys(leaf_of.tolist()))
    number = {leaf: place for place, leaf in enumerate(leaves)}
    places = [
        number[leaf] * fabric.hosts_per_leaf + fabric.hosts_of_leaves[leaf].index(host)
        for leaf, host in zip(leaf_of.tolist(), hosts.tolist(), strict=True)
    ]
    return np.array(places, np.int64), len(leaves) * fabric.hosts_per_leaf


def _in_words(part: PartOfPlan, fabric: Fabric, workers: int, *, capped: bool) -> str:
    """Description of the part for listings and reports."""
    hosts, count = part.hosts[: part.whole] + 1, len(part.hosts) - part.whole
    others = "one host sends and receives" if count == 1 else f"{count} hosts send and receive"
    ports = ", at the rate that others leave of their ports" if capped else ""
    return (
        f"hosts h{hosts[0]} to h{hosts[-1]} of {fabric.hosts:,} run by packets; {others} for the rest of {workers:,} "
        f"workers at the times of an estimate of the whole{ports}"
    )
