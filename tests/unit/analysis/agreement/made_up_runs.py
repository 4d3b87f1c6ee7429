"""Logs that a run would leave on a fluid network, ideal or with an effect, so that what is found in them is known."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradwire.analysis.fluid.estimate import Departure, SendEnds, estimate
from gradwire.analysis.fluid.ideal import IdealRun
from gradwire.analysis.fluid.steady import MeasuredIterations
from gradwire.datatypes.plan import OpKind, Plan
from gradwire.datatypes.records import OpLog
from gradwire.network.fabric import Fabric
from tests.shared.small_allreduces import one_tensor, plan_of

RATE_BPS = 1e10


def halving_doubling(workers: int, size_bytes: int = 10_000_000) -> Plan:
    """An allreduce of one tensor, which computing takes next to nothing beside."""
    return plan_of(one_tensor(size_bytes // 4, workers), "halving-doubling", {})


def ideal_run(plan: Plan, send_ends: SendEnds | None = None, iterations: int = 6, warmup: int = 0) -> IdealRun:
    return IdealRun(
        plan,
        Fabric(plan.hosts, RATE_BPS, classes=4),
        None,
        MeasuredIterations(warmup, iterations - warmup),
        send_ends or Departure(),
    )


def logged(run: IdealRun, **effects: Any) -> OpLog:
    """What agents would log of a run with these effects; the keywords are those of `estimate`."""
    times = estimate(
        run.plan,
        run.fabric,
        run.spine_of,
        **{"send_ends": run.send_ends, **effects},
        most_iterations=run.window.end,
        with_ops=True,
    )
    assert times.op_start_s is not None
    assert times.op_end_s is not None
    start_ns, end_ns = (
        _unrolled(table, times.period, run.window.end, times.iterations_s)
        for table in (times.op_start_s, times.op_end_s)
    )
    ops = run.plan.ops
    recvs = np.flatnonzero(ops.kind == OpKind.RECV)
    # The header is read when the first byte has come.
    start_ns[:, recvs] = start_ns[:, ops.message[recvs]]
    count = len(ops)
    # Agents log ops in the order in which they end.
    order = np.lexsort((start_ns.ravel(), end_ns.ravel()))
    iteration, op = np.divmod(order, count)
    start_ns, end_ns = start_ns.ravel()[order], end_ns.ravel()[order]
    return OpLog(iteration, op, start_ns, start_ns, end_ns)


def _unrolled(table_s: Any, period: int, iterations: int, times_s: Any) -> Any:
    """The table with rows for iterations that repeat earlier ones."""
    rows = [row for row in table_s if not np.isnan(row).all()]
    while len(rows) < iterations:
        rows.append(rows[len(rows) - period] + float(times_s[-period:].sum()))
    return np.round(np.array(rows) * 1e9).astype(np.int64)
