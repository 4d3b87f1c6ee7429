"""Examines one stored run beside the fluid engine. Imported when something is to be examined: the engine takes half a second to load."""

from __future__ import annotations

import numpy as np

from gradwire.agents.records import OpLog, PointRecord
from gradwire.analysis.agreement.causes import Agreement, Cause, Deviation, first_cause
from gradwire.analysis.agreement.held import held
from gradwire.analysis.agreement.ideal import LARGEST_PLAN_OPS, IdealRun
from gradwire.analysis.agreement.trials import Seen, trials
from gradwire.analysis.agreement.wording import explained, unexplained
from gradwire.analysis.fluid.estimate import Buffered, Departure
from gradwire.analysis.iterations import iteration_times_s
from gradwire.analysis.logged import LoggedOps
from gradwire.analysis.path.critical_path import critical_path
from gradwire.analysis.path.walk import Kind
from gradwire.analysis.verdict.verdict import VIRTUAL_CLOCK
from gradwire.faults import InternalFault
from gradwire.runner.protocol import built_fabric
from gradwire.runner.stored.spines import Spines
from gradwire.runner.stored.stored_run import StoredRun
from gradwire.topo.fabric import Fabric
from gradwire.topo.tc import QUANTUM_BYTES


def examine(stored: StoredRun) -> Agreement:
    """Compares a run with its estimate, and looks for the cause where they differ. Raises InputFault if it did not come to its end.

    On one core, once the engine's machine code is loaded, 10 ms to a second; up to a minute for a plan of LARGEST_PLAN_OPS that is off.
    """
    plan, task, log, record = stored.plan(), stored.task(), stored.log(), stored.record()
    if len(plan.ops) > LARGEST_PLAN_OPS:
        reason = f"no estimate, because the plan has {len(plan.ops):,} ops and the limit is {LARGEST_PLAN_OPS:,} (LARGEST_PLAN_OPS)"
        return Agreement(cause=Cause.NO_ESTIMATE, sentence=reason)
    fabric, unsent_bytes = built_fabric(task.fabric, [plan]), task.sockets.unsent_bytes
    run = IdealRun(
        plan,
        fabric,
        Spines(fabric).spine_of,
        record.iterations,
        record.warmup,
        Departure() if unsent_bytes is None else Buffered(unsent_bytes),
    )
    try:
        return _compared(run, log, record)
    except InternalFault as fault:
        return Agreement(cause=Cause.NO_ESTIMATE, sentence=f"no estimate, because {fault}")


def _compared(run: IdealRun, log: OpLog, record: PointRecord) -> Agreement:
    times_s = iteration_times_s(run.plan, log, record.iterations)[record.warmup :]
    measured_s, ideal_s = float(times_s.mean()), run.time_s()
    deviation = Deviation(measured_s, ideal_s)
    if not deviation.matters:
        return Agreement(ideal_s)
    if reason := _not_ideal(run.fabric):
        return Agreement(ideal_s, Cause.NOT_EXAMINED, f"no cause was looked for, because {reason}")
    typical = record.warmup + int(np.abs(times_s - measured_s).argmin())
    deviation = Deviation(measured_s, ideal_s, _late_s(run, log, typical))
    fabric, logged = run.fabric, LoggedOps.of(run.plan, log)
    tokens_bytes = fabric.burst_bytes(fabric.rate_bps, exact_timers=record.clock == VIRTUAL_CLOCK)
    seen = Seen(tuple(times_s.tolist()), held(logged, record.warmup), tokens_bytes + fabric.gso_bytes, QUANTUM_BYTES)
    found = first_cause(deviation, trials(run, deviation, seen))
    if found is None:
        return Agreement(ideal_s, Cause.UNEXPLAINED, unexplained(deviation))
    return Agreement(ideal_s, found.cause, explained(deviation, found))


def _not_ideal(fabric: Fabric) -> str:
    """What the point itself asks for that no ideal network has; "" for nothing."""
    if fabric.loss:
        return f"the point loses packets on purpose (fabric.loss = {fabric.loss:g})"
    return "" if fabric.fair_queues else "its flows do not share ports evenly (fabric.fair_queues = false)"


def _late_s(run: IdealRun, log: OpLog, iteration: int) -> float:
    """How late agents were on the critical path of an iteration."""
    return critical_path(run.plan, log, iteration, run.fabric).kinds_ns[Kind.LATENESS] / 1e9
