"""A part of a job of thousands of workers that has a few copies of each class of ranks (part.copies).

The whole is estimated by classes (runs/compiling/by_class.py). The part's plan has rings step by step, whose messages the
estimate takes together.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gradwire.analysis.by_class.checking import check_classes
from gradwire.analysis.by_class.symmetry import flows_of
from gradwire.datatypes.class_plans import ClassPlan, NotByClass
from gradwire.datatypes.plan import OpKind
from gradwire.faults import InputFault
from gradwire.network.fabric import Fabric
from gradwire.runs.compiling.by_class import ByClass, classes_of
from gradwire.runs.compiling.ideal_times import rule_of
from gradwire.runs.compiling.ways_to_cut import CutPart, PlanCuts
from gradwire.scenario.resolution.compilation import ResolvedPoint
from gradwire.workloads.fields import MOST_WORKERS
from gradwire.workloads.parts.copies import PartByCopies, fewest_copies, part_by_copies


def copies_of_job(point: ResolvedPoint) -> PlanCuts:
    """The one way to run so many copies of each class. Raises InputFault for a job without classes, and for numbers that
    cannot stand for all."""
    part = point.section.part
    assert part is not None
    assert part.copies is not None
    found, classes = _in_steps(point)
    cluster = point.job.cluster
    own_ports = cluster.nics_per_host == cluster.workers_per_host
    copies = part_by_copies(classes, part.copies, keep_shares=not own_ports)
    way = _placed(classes, copies, point.fabric, cluster.workers)
    return PlanCuts(found.label, [way], found.times(rule_of(point.unsent_bytes)).iteration_s)


def fewest_copies_of(point: ResolvedPoint) -> int:
    """The smallest number that part.copies can have. Raises InputFault as `copies_of_job`."""
    _, classes = _in_steps(point)
    number = next(fewest_copies(classes), None)
    if number is None:
        raise InputFault(
            "part.copies: no smaller number of copies of each class does what all do; name hosts instead (part.hosts)"
        )
    return number


def _in_steps(point: ResolvedPoint) -> tuple[ByClass, ClassPlan]:
    """The classes of a job, and their plan with rings step by step, where these have steps."""
    try:
        found = classes_of(point)
    except NotByClass as reason:
        many = point.job.cluster.workers > MOST_WORKERS
        fewer = f", of a job of at most {MOST_WORKERS:,} workers" if many else ""
        raise InputFault(
            f"part.copies: is for jobs that are estimated by classes of ranks, and this one has none, because {reason}; name "
            f"hosts instead (part.hosts){fewer}"
        ) from reason
    if not isinstance(found.job, ClassPlan):
        raise InputFault(
            f"part.copies: ranks of '{point.strategy.name}' are not copies of one another; name hosts instead (part.hosts)"
        )
    compile_classes = point.strategy.by_class
    assert compile_classes is not None
    try:
        classes = compile_classes(point.job, point.options, replace(found.folding, undelayed=False))
    except NotByClass:
        # Several rings at once have no steps by class: what a rank sends in all steps of a ring is one message.
        return found, found.job
    assert isinstance(classes, ClassPlan)
    check_classes(classes)
    return found, classes


def _placed(classes: ClassPlan, part: PartByCopies, fabric: Fabric, workers: int) -> CutPart:
    """The part on a switch with its machines, each with the NICs that the part uses. Raises InputFault if messages
    would stay on a machine that leave it in the whole."""
    hosts, of_rank = np.unique(classes.host_of_rank[part.ranks], return_inverse=True)
    machines, of_host = np.unique(hosts // classes.plan.nics_per_host, return_inverse=True)
    first = np.searchsorted(of_host, np.arange(len(machines)))
    nics = int(np.bincount(of_host).max())
    place = of_host * nics + np.arange(len(hosts)) - first[of_host]
    plan = replace(part.plan, rank_host=place[of_rank.reshape(-1)].astype(np.int32), nics_per_host=nics)
    remote = int(plan.is_remote().sum())
    leaves = flows_of(classes).kind_of_send >= 0
    messages = np.array([peers.messages for peers in classes.peers])[classes.peers_of]
    if remote != int(messages[leaves].sum()) * (len(part.ranks) // len(classes.members)):
        raise InputFault(
            f"part.copies = {part.copies}: some messages that leave their machine would stay on it; take a multiple of this"
        )
    own = replace(fabric, hosts=len(machines) * nics, nics_per_host=nics)
    return CutPart(plan, own, _in_words(classes, part, workers))


def _in_words(classes: ClassPlan, part: PartByCopies, workers: int) -> str:
    """Description of the part for listings and reports."""
    shares = "" if part.shares == 1 else f", and of {part.shares} shares of each product one"
    count = len(classes.members)
    alike = f"{count} classes of ranks that do the same" if count > 1 else "one class of ranks, which all do the same"
    sends = int((part.plan.ops.kind == OpKind.SEND).sum())
    return (
        f"{len(part.ranks)} of {workers:,} workers run by packets: of {alike}, {part.copies} of "
        f"{part.whole_copies:,} copies{' each' * (count > 1)}{shares}. They exchange with one another what all copies do "
        f"({sends:,} messages)"
    )
