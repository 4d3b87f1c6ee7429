"""Runs a point with a fault, and says what became of the fault."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from gradwire.analysis.agreement.short_windows import window_use
from gradwire.analysis.fluid.ideal import IdealRun
from gradwire.analysis.fluid.steady import MeasuredIterations
from gradwire.analysis.iterations import iteration_times_s
from gradwire.analysis.verdict.verdict import Circumstances, Verdict, failed_run, judge
from gradwire.datatypes.plan import Plan
from gradwire.datatypes.records import OpLog, PointRecord
from gradwire.faults import Fault as GradwireFault
from gradwire.inside.point_protocol import (
    TASK_FILE,
    Faulted,
    PlanFile,
    PointTask,
    built_fabric,
    heard,
    read_json,
    write_json,
)
from gradwire.network.fabric import Fabric
from gradwire.runs.compiling.ideal_times import ideal_times, rule_of
from gradwire.runs.plan_work import sockets_of
from gradwire.runs.stored.spines import Spines
from gradwire.scenario.resolution.compilation import ResolvedPoint
from gradwire.scenario.resolution.planned_faults import planned_faults
from gradwire.vm.machines import Clock, run_job
from gradwire.workloads.checker import PlanError, check
from tests.mutations import program_trial
from tests.mutations.bases import compiled, plan_of, point_of
from tests.mutations.fault import FAMILIES, NOTHING, STAR, Fault, Outcome, Place, refuse_broken, refuse_unused
from tests.mutations.inside import FAULT_FILE

HARMLESS = 0.001
"""Bytes and times that differ by less are the same: BOUND_SLACK of the verdict, and a tenth of what counts as a tie."""
TIME_LIMIT_S = 60.0
"""A fault may make a run wait for ever."""
MEMORY_MB = 1024


@dataclass(frozen=True)
class Ran:
    """What a run left; a log and a record only if it came to its end."""

    verdict: Verdict
    log: OpLog | None = None
    record: PointRecord | None = None


def run(base: str, family: str, fault: str) -> Ran:
    """Runs a base in the virtual-time kernel with a fault, and judges it."""
    point, plan = point_of(base), plan_of(base)
    section, fabric = point.section, compiled(base).fabric
    with tempfile.TemporaryDirectory(prefix="gradwire-") as temporary:
        folder = Path(temporary)
        plan.save(folder / "plan-0.npz")
        (folder / FAULT_FILE).write_text(f"{family}\n{fault}\n")
        task = PointTask(
            fabric_json=fabric.to_json(),
            plans=(PlanFile("plan", "plan-0.npz"),),
            iterations=4,
            warmup=1,
            search_iterations=1,
            sockets=sockets_of(section, fabric, Clock(), ResolvedPoint(section).unsent_bytes),
            per_host=False,
            clock="virtual",
            switch_prefix="",
            capture=(),
            capture_snaplen=160,
            faults=planned_faults(section.fault, fabric),
        )
        write_json(folder / TASK_FILE, task)
        error = _boot(folder)
        refuse_unused(folder, fault)
        if error:
            return Ran(failed_run(error))
        return judged(base, plan, OpLog.load(folder / "ops.npz"), read_json(folder / "record.json", PointRecord))


def _boot(folder: Path) -> str:
    """Runs the machine; returns what ended it early, or nothing."""
    lines: list[str] = []
    try:
        status = run_job(
            "tests.mutations.inside",
            folder,
            Clock(),
            time_limit_s=TIME_LIMIT_S,
            on_line=lines.append,
            memory_mb=MEMORY_MB,
        )
    except GradwireFault as fault:
        return f"{type(fault).__name__}: {fault}"
    told = [event for event in map(heard, lines) if isinstance(event, Faulted)]
    if told:
        refuse_broken(told[-1].message)
        return f"{told[-1].kind}: {told[-1].message}"
    refuse_broken("\n".join(lines))
    return f"status {status}: {lines[-1:]}" if status else ""


def judged(base: str, plan: Plan, log: OpLog, record: PointRecord) -> Ran:
    """Judges what a run of a base left."""
    point, fabric = point_of(base), compiled(base).fabric
    unsent_bytes = ResolvedPoint(point.section).unsent_bytes
    rule, departs = rule_of(unsent_bytes), unsent_bytes is None
    ideal = ideal_times(plan, fabric, rule)
    built = built_fabric(fabric, [plan])
    spine_of = Spines(built).spine_of
    run_alike = IdealRun(
        plan, built, spine_of, MeasuredIterations(record.warmup, record.iterations - record.warmup), rule
    )
    found = judge(
        plan,
        fabric,
        log,
        record,
        (),
        ideal,
        circumstances=Circumstances(
            departs=departs,
            spine_of=spine_of,
            faults=planned_faults(point.section.fault, fabric),
            congestion=point.section.congestion,
            windows=window_use(run_alike, record),
        ),
    )
    return Ran(found, log, record)


@lru_cache(maxsize=8)
def sound(base: str, family: str) -> Ran:
    """The base's run without a fault, its processes started as if they had one: which modules they import decides when they are ready."""
    return run(base, family, NOTHING)


def outcome(family: str, fault: Fault) -> Outcome:
    """What becomes of a fault: it is put in, and the plan is checked, or the run is judged."""
    place = FAMILIES[family]
    if fault.base in program_trial.FAULTS_OF_BASES:
        return program_trial.outcome(family, fault)
    if place is Place.PLAN:
        return of_a_plan(fault)
    if place is Place.RECORD:
        return of_a_record(fault, sound(fault.base, family), compiled(fault.base).fabric)
    return told(family, fault, run(fault.base, family, fault.name), sound(fault.base, family))


def of_a_record(fault: Fault, left: Ran, fabric: Fabric) -> Outcome:
    """Judges what a sound run left, changed by the fault."""
    assert left.log is not None
    assert left.record is not None
    log, record = fault.inject(plan_of(fault.base), fabric, left.log, left.record)
    return told("logs", fault, judged(fault.base, plan_of(fault.base), log, record), left)


def told(family: str, fault: Fault, ran: Ran, beside: Ran) -> Outcome:
    """The outcome of a run with a fault beside the sound run."""
    failed = tuple(check.name for check in ran.verdict.checks if not check.ok)
    if failed:
        remark = ran.verdict.checks[0].value if failed == ("run",) else ""
        return Outcome(family, fault.name, failed, remark)
    time, size = (
        abs(one / other - 1) for one, other in zip(_measures(fault, ran), _measures(fault, beside), strict=True)
    )
    remark = f"times {time:.2%} apart, bytes {size:.2%}"
    same_time = is_among(_measures(fault, ran)[0], _measured_times_s(fault, beside))
    return Outcome(family, fault.name, (), remark, harmless=same_time and size <= HARMLESS)


def is_among(time_s: float, sound_times_s: npt.NDArray[np.float64]) -> bool:
    """Whether a time is one that the sound run takes as well.

    The iterations of a sound run differ by a few tenths of a percent, because of where TCP's windows stand when they
    begin, and a fault that moves the first packet by a microsecond reshuffles them. Comparing only the means would
    therefore leave the outcome to chance.
    """
    return bool(sound_times_s.min() * (1 - HARMLESS) <= time_s <= sound_times_s.max() * (1 + HARMLESS))


def _measures(fault: Fault, ran: Ran) -> tuple[float, float]:
    """Mean of the measured iterations, and bytes that left all ports."""
    assert ran.record is not None
    return float(_measured_times_s(fault, ran).mean()), float(sum(band.bytes_sent for band in ran.record.counts.bands))


def _measured_times_s(fault: Fault, ran: Ran) -> npt.NDArray[np.float64]:
    """Times of the iterations after the warm-up."""
    assert ran.log is not None
    assert ran.record is not None
    return iteration_times_s(plan_of(fault.base), ran.log, ran.record.iterations)[ran.record.warmup :]


def of_a_plan(fault: Fault) -> Outcome:
    """Checks a plan with a fault; of one that passes, the ideal network tells the times."""
    base, fabric = plan_of(fault.base), compiled(fault.base).fabric
    changed = fault.inject(base)
    try:
        check(changed, compiled(fault.base).job.relative_times)
    except PlanError as error:
        return Outcome("plans", fault.name, ("plan checker",), str(error))
    rule = rule_of(ResolvedPoint(point_of(fault.base).section).unsent_bytes)
    one, other = (ideal_times(plan, fabric, rule).iteration_s for plan in (changed, base))
    sizes = [int(plan.ops.size_bytes[plan.is_remote()].sum()) for plan in (changed, base)]
    time, size = abs(one / other - 1), abs(sizes[0] / sizes[1] - 1)
    remark = f"times {time:.2%} apart on the ideal network, bytes {size:.2%}"
    return Outcome("plans", fault.name, (), remark, harmless=max(time, size) <= HARMLESS)


__all__ = ["STAR", "Ran", "outcome", "run", "sound"]
