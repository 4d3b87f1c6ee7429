"""Looks for the cause in a stored run that is off its estimate on an ideal network."""

from __future__ import annotations

import numpy as np

from gradwire.analysis.agreement.causes import Agreement, Cause, Deviation, explanation, first_cause, no_explanation
from gradwire.analysis.agreement.held_bytes import copies_apart_s, held_bytes_of
from gradwire.analysis.agreement.short_windows import all_along, short_windows
from gradwire.analysis.agreement.trials import SeenEffects, trials
from gradwire.analysis.fluid.delays import delays_of
from gradwire.analysis.fluid.ideal import LARGEST_PLAN_OPS, IdealRun
from gradwire.analysis.fluid.steady import Window
from gradwire.analysis.iterations import iteration_times_s
from gradwire.analysis.logged import LoggedOps
from gradwire.analysis.timeline.critical_path import critical_path
from gradwire.analysis.timeline.walk import TimeKind
from gradwire.analysis.verdict.checks import VIRTUAL_CLOCK
from gradwire.datatypes.fabric import Fabric
from gradwire.datatypes.path_delays import link_delays_s
from gradwire.datatypes.plan import Plan
from gradwire.datatypes.records import OpLog, PointRecord
from gradwire.runs.compiling.ideal_times import rule_of
from gradwire.runs.point_protocol import built_fabric
from gradwire.runs.stored.files import fitting
from gradwire.runs.stored.spines import Spines
from gradwire.runs.stored.stored_run import StoredRun
from gradwire.scenario.loading import Point
from gradwire.scenario.resolution.transport_fit import congestion_keys
from gradwire.scenario.schema import PointSection
from gradwire.topo.tc import QUANTUM_BYTES

FAULTY = "faults happened in the network, which the ideal network does not have"


def examine(stored: StoredRun, point: Point, ideal_s: float) -> Agreement:
    """Why a run takes another time than on an ideal network, where its measured iterations take `ideal_s`; no cause if
    it does not.

    Raises InputFault if the run did not come to its end, InternalFault for a plan that gets stuck. On one core 10 ms
    to a second; some minutes for a plan of LARGEST_PLAN_OPS, which may be estimated 36 times.
    """
    with fitting(stored.folder):
        return _examine(stored, point, ideal_s)


def _examine(stored: StoredRun, point: Point, ideal_s: float) -> Agreement:
    plan, fabric, log, record = stored.plan(), stored.fabric(), stored.log(), stored.record()
    times_s = iteration_times_s(plan, log, record.iterations)[record.warmup :]
    deviation = Deviation(float(times_s.mean()), ideal_s)
    if not deviation.matters:
        return Agreement()
    if point.section.program:
        return Agreement(Cause.NOT_EXAMINED, "programs share the network, which the ideal network does not have")
    if point.section.fault and not all_along([told.fault for told in record.faults]):
        return Agreement(Cause.NOT_EXAMINED, FAULTY)
    if reason := _not_examined(plan, fabric, point.section):
        return Agreement(Cause.NOT_EXAMINED, f"no cause was looked for, because {reason}")
    built = built_fabric(fabric, [plan])
    window, rule = Window(record.warmup, len(times_s)), rule_of(stored.task().sockets.unsent_bytes)
    run = IdealRun(plan, built, Spines(built).spine_of, window, rule)
    completion = stored.completion()
    divided_by = completion.divided_by if completion is not None else 1
    return _examined(run, log, record, times_s.tolist(), ideal_s, divided_by)


def _not_examined(plan: Plan, fabric: Fabric, section: PointSection) -> str:
    """Why no cause is looked for; "" where one is."""
    if len(plan.ops) > LARGEST_PLAN_OPS:
        return f"the plan has {len(plan.ops):,} ops and the limit is {LARGEST_PLAN_OPS:,} (LARGEST_PLAN_OPS)"
    if fabric.losses:
        key = f"fabric.loss = {fabric.loss:g}" if fabric.loss else f"fabric.link: up to {fabric.most_loss:g} at a port"
        return f"the point loses packets on purpose ({key})"
    if fabric.routing.is_by_burst:
        return "the ideal network divides messages over all ways at once (fabric.routing = 'spray')"
    if keys := congestion_keys(section):
        return f"the ideal network has neither drops, marks, pauses nor congestion control ({', '.join(keys)})"
    if fabric.host_tcp.is_stock:
        return f"the ideal network does not know how stock hosts' windows grow (fabric.hosts = '{fabric.host_tcp}')"
    return "" if fabric.fair_queues else "its flows do not share ports evenly (fabric.fair_queues = false)"


def _examined(
    run: IdealRun, log: OpLog, record: PointRecord, times_s: list[float], ideal_s: float, divided_by: int
) -> Agreement:
    measured_s, fabric = float(np.mean(times_s)), run.fabric
    typical = record.warmup + int(np.abs(np.array(times_s) - measured_s).argmin())
    deviation = Deviation(measured_s, ideal_s, _late_s(run, log, typical))
    tokens_bytes = fabric.burst_bytes(fabric.rate_bps, exact_timers=record.clock == VIRTUAL_CLOCK)
    logged = LoggedOps.of(run.plan, log)
    begun_ns = logged.start[typical][run.plan.begin_op]
    seen = SeenEffects(
        iterations_s=tuple(times_s),
        held=held_bytes_of(logged, record.warmup),
        copies_apart_s=copies_apart_s(logged, record.warmup),
        grain_bytes=tokens_bytes + fabric.gso_bytes,
        forgiven_bytes=tokens_bytes,
        turn_bytes=QUANTUM_BYTES,
        apart_s=tuple(((begun_ns - begun_ns.min()) / 1e9).tolist()),
        divided_by=divided_by,
        far=delays_of(fabric, link_delays_s(fabric, [told.fault for told in record.faults])),
        short_windows=short_windows(fabric, record, run.spine_of),
    )
    found = first_cause(deviation, trials(run, deviation, seen))
    if found is None:
        return Agreement(Cause.UNEXPLAINED, no_explanation(deviation))
    return Agreement(found.cause, explanation(deviation, found))


def _late_s(run: IdealRun, log: OpLog, iteration: int) -> float:
    """How late agents were on the critical path of an iteration."""
    return critical_path(run.plan, log, iteration, run.fabric).kinds_ns[TimeKind.LATENESS] / 1e9
