"""What a plan's file may say, so that whatever reads the plan finds what its numbers refer to.

That a plan delivers every contribution is not looked for again: that takes minutes for a large one, and whoever compiled it did.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from gradwire.datatypes.fabric import MAX_BANDS, MAX_GROUPS, Fabric
from gradwire.datatypes.plan import CONTROL_CLASS, Combine, Discipline, OpKind, Plan, Role
from gradwire.runs.stored.soundness.ranges import (
    LARGEST,
    refuse_large_sum,
    refuse_outside,
    refuse_values_outside,
)
from gradwire.scenario.schema import LARGEST_CLUSTER
from gradwire.workloads.builder import MOST_OPS
from gradwire.workloads.checker import PlanError, check_references
from gradwire.workloads.fields import LONGEST_S, MOST_SAMPLES, MOST_WORKERS
from gradwire.workloads.symbolic.precedence import has_cycle
from gradwire.workloads.symbolic.verification import MOST_OPS_IN_PYTHON

MOST_RANKS = 4 * MOST_WORKERS
"""Workers, as many servers, and aggregators on fewer switches than hosts."""


def refuse_unsound_plan(plan: Plan, fabric: Fabric) -> None:
    """Raises ValueError for a plan that no strategy has compiled, or that is not for the fabric."""
    _refuse_other_types(plan)
    _refuse_lengths(plan)
    _refuse_ranges(plan, fabric)
    try:
        check_references(plan)
    except PlanError as defect:
        raise ValueError(str(defect)) from defect
    _refuse_cycles(plan)


def _refuse_other_types(plan: Plan) -> None:
    texts = (plan.name, *plan.tensors, *plan.notes)
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("its name, tensors and notes must be texts")
    whole = (plan.samples, plan.nics_per_host)
    if not all(type(number) is int for number in whole) or type(plan.compute_s) not in (int, float):
        raise ValueError("its samples, NICs and computation must be numbers")
    refuse_outside("samples", plan.samples, 0, MOST_SAMPLES * LARGEST_CLUSTER)
    refuse_outside("nics_per_host", plan.nics_per_host, 1, MOST_WORKERS)
    if not math.isfinite(plan.compute_s):
        raise ValueError("compute_s is not a number")
    refuse_outside("compute_s", plan.compute_s, 0, LONGEST_S)


def _refuse_lengths(plan: Plan) -> None:
    """Columns that belong together have the same length, and rows of tables begin and end where there is something."""
    count = len(plan.ops)
    refuse_outside("ops", count, 1, MOST_OPS)
    if any(len(column) != count for column in vars(plan.ops).values()):
        raise ValueError("its ops' columns differ in length")
    together = (
        (plan.rank_role, plan.rank_host),
        (plan.queue_rank, plan.queue_discipline),
        (plan.chunk_bytes, plan.chunk_tensor),
        (plan.dep_op, plan.dep_lag),
    )
    if any(len(one) != len(other) for one, other in together):
        raise ValueError("its columns differ in length")
    refuse_outside("ranks", len(plan.rank_role), 1, MOST_RANKS)
    _refuse_rows("dep_start", plan.dep_start, len(plan.dep_op), count)
    for name, starts, values in (
        ("group_start", plan.group_start, plan.group_rank),
        ("set_start", plan.set_start, plan.set_rank),
    ):
        if len(starts) or len(values):
            _refuse_rows(name, starts, len(values), len(starts) - 1)
    refuse_outside("groups", len(plan.group_start), 0, MAX_GROUPS + 1)


def _refuse_rows(name: str, starts: npt.NDArray[np.int64], values: int, rows: int) -> None:
    sound = len(starts) == rows + 1 and len(starts) > 0
    if not sound or starts[0] != 0 or starts[-1] != values or (np.diff(starts) < 0).any():
        raise ValueError(f"{name} does not divide its {values:,} entries into {rows:,} rows")


def _refuse_ranges(plan: Plan, fabric: Fabric) -> None:
    ops = plan.ops
    longest_ns = int(LONGEST_S * 1e9)
    ranges: tuple[tuple[str, npt.NDArray[Any], int, int], ...] = (
        ("a rank's role", plan.rank_role, 1, max(Role)),
        ("a rank's host", plan.rank_host, 0, fabric.endpoints - 1),
        ("a queue's discipline", plan.queue_discipline, 1, max(Discipline)),
        ("a chunk's size", plan.chunk_bytes, 0, LARGEST),
        ("a chunk's tensor", plan.chunk_tensor, 0, len(plan.tensors) - 1),
        ("a group's rank", plan.group_rank, 0, len(plan.rank_role) - 1),
        ("a set's rank", plan.set_rank, 0, len(plan.rank_role) - 1),
        ("an op's kind", ops.kind, 1, max(OpKind)),
        ("an op's duration", ops.duration_ns, 0, longest_ns),
        ("an op's size", ops.size_bytes, 0, LARGEST),
        ("an op's group", ops.group, 0, 1),
        ("an op's class", ops.traffic_class, CONTROL_CLASS, min(fabric.classes, MAX_BANDS) - 1),
        ("an op's order", ops.order, -LARGEST, LARGEST),
        ("an op's combination", ops.combine, 0, max(Combine)),
        ("an op's layer", ops.layer, -1, len(ops) + MOST_RANKS),
    )
    for place, values, least, most in ranges:
        refuse_values_outside(place, values, least, most)
    for place, values in (("durations", ops.duration_ns), ("sizes", ops.size_bytes), ("chunks", plan.chunk_bytes)):
        refuse_large_sum(place, values)
    if not len(plan.workers):
        raise ValueError("it has no workers")


def _refuse_cycles(plan: Plan) -> None:
    """Ops are numbered so that most wait for earlier ones. Where all do, there is no cycle; otherwise all are put in order."""
    waiting = np.repeat(np.arange(len(plan.ops)), np.diff(plan.dep_start))
    recvs = np.flatnonzero(plan.ops.kind == OpKind.RECV)
    within = plan.dep_lag == 0
    before = np.concatenate([plan.dep_op[within], plan.ops.message[recvs]])
    after = np.concatenate([waiting[within], recvs])
    if (before < after).all():
        return
    if has_cycle(len(plan.ops), before, after, in_code=len(plan.ops) > MOST_OPS_IN_PYTHON):
        raise ValueError("ops wait for each other in a circle")
