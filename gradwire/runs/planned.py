"""Points made ready to run: compiled, checked, and given a key and a folder.

A run's key names everything that decides its result. A changed plan, fabric, agent or kernel needs a new run.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from typing_extensions import override

from gradwire.analysis.fluid.estimate import SendEnds
from gradwire.analysis.fluid.steady import MeasuredIterations, steady_window
from gradwire.analysis.verdict.condition_checks import Divided
from gradwire.datatypes.plan import OpKind, Plan
from gradwire.faults import InputFault
from gradwire.inside.point_protocol import Event
from gradwire.network.fabric import Fabric
from gradwire.programs.commands import named_files, refuse_wrong_commands, started_beside, told
from gradwire.reading_budget import reading_budget
from gradwire.regular_files import MESSAGE_BYTES, read_text
from gradwire.runs.compiling.checked_plans import check_once
from gradwire.runs.compiling.grain import with_fitting_bursts
from gradwire.runs.compiling.ideal_times import fluid_digest, ideal_times, rule_of
from gradwire.runs.compiling.job_plans import traces_of_jobs
from gradwire.runs.compiling.many_points import SharedPlans, sharing_key, side_by_side
from gradwire.runs.compiling.part_of_job import compiled_part, plans_to_check
from gradwire.runs.compiling.scale_division import UNDIVIDED, ScaleDivision, division_for, forced_division
from gradwire.runs.planned_point import PlannedPoint
from gradwire.runs.point_machine import MachineEnd, MachineLimits, run_machine
from gradwire.runs.stored.run_folder import folder_name
from gradwire.scenario.loading import Point, origin_named
from gradwire.scenario.resolution.compilation import Compiled, compile_resolved
from gradwire.scenario.resolution.planned_faults import planned_faults
from gradwire.scenario.resolution.transport_fit import buffer_bytes, refuse_multicast, refuse_scaled
from gradwire.scenario.schema import PointSection
from gradwire.vm.code_digest import plan_digest, run_digest, sources_digest
from gradwire.vm.kernel import cached_kernel
from gradwire.vm.machines import Clock
from gradwire.workloads.stand_in import MOST_CAPACITY_BPS, scaled_fabric, scaled_plan, virtual_scale
from gradwire.workloads.trace_replay.recorded_job import trace_of

LOGGED_BYTES = 2 * 5 * 8
"""Bytes of an op's row in the log: five columns of 64 bits (agents/op_state.py), copied once at the end."""
LOGS_SHARE = 0.5
"""Share of the machine's memory for logs; the rest is for the network and the plan."""
LONGER_MODULES = ("gradwire.runs.longer_window",)
"""Modules that decide how much longer a run is that was not steady."""
ALONE_S = 0.5
"""Compiling that takes longer continues in processes, which take 0.1 s to start and end; mostly it is done before."""


@dataclass(frozen=True)
class PlannedRun(PlannedPoint[Point]):
    """A point of a strategy, ready to run: everything that its machine needs. Plans and network are scaled as the clock
    asks."""

    #: The candidates by their labels.
    plans: Mapping[str, Plan]
    clock: Clock
    #: Division of bytes and rates on the virtual clock, for run.fidelity or because it does not carry more.
    division: ScaleDivision = UNDIVIDED
    #: Bytes of a connection that may wait unsent when a SEND ends; None: it ends when it has left the host.
    unsent_bytes: int | None = None

    def moved_to(self, out: Path) -> PlannedRun:
        """Returns this run in the run folder `out`."""
        return replace(self, folder=out / "points" / self.folder.name)

    @override
    def keyed_anew(self) -> PlannedRun:
        """Returns this run with its present key."""
        return replace(self, key=_key(self.point, self.fabric, self.plans, self.clock, self.window, self.unsent_bytes))

    @override
    def on_machine(self, cpu: int, hear: Callable[[Event], None], stop: threading.Event) -> MachineEnd:
        """Replays the plan."""
        limits = MachineLimits(self.memory_mb, self.point.time_limit_s)
        return run_machine(self.folder, self.clock, limits, cpu=cpu, hear=hear, stop=stop)

    @property
    def iteration_bytes(self) -> int:
        """Payload that crosses the network in an iteration of the largest candidate."""
        plan = max(self.plans.values(), key=lambda plan: len(plan.ops))
        return int(plan.ops.size_bytes[plan.is_remote()].sum())

    @property
    def iteration_messages(self) -> int:
        """Messages of an iteration, of the candidate with most."""
        return max(int((plan.ops.kind == OpKind.SEND).sum()) for plan in self.plans.values())

    @property
    def cost_bytes(self) -> int:
        """Bytes that the run moves, which is about proportional to its wall time."""
        per_iteration = [int(plan.ops.size_bytes[plan.is_remote()].sum()) for plan in self.plans.values()]
        searched = len(per_iteration) > 1
        return max(per_iteration) * self.iterations + searched * sum(per_iteration) * 2


def virtual_clock(points: Sequence[Point]) -> Clock:
    """The virtual clock, at the one scale at which it carries the networks of all these points exactly.

    Raises InputFault for a fabric whose keys do not fit together.
    """
    refuse_misfits(points)
    return Clock(scale=max(map(_scale, points)))


def refuse_misfits(points: Sequence[Point]) -> None:
    """Raises InputFault with every line that a point's parts give."""
    lines: dict[str, None] = {}
    for point in points:
        for line in point.resolved.misfits:
            lines[f"{point.origin}: {line}" if point.origin else line] = None
    if lines:
        raise InputFault("\n".join(lines))


def _scale(point: Point) -> int:
    if point.section.part:
        return 1  # how many hosts a part has is known once it is cut
    with origin_named(point):
        return virtual_scale(point.resolved.fabric)


def scale_warning(points: Sequence[Point], clock: Clock) -> str:
    """Warning about a scale above 1."""
    largest = max((point.resolved.fabric for point in points), key=lambda fabric: fabric.hosts * fabric.rate_bps)
    return (
        f"{largest.hosts} hosts at {largest.rate_bps / 1e9:g} Gbit/s send more together than the virtual clock carries "
        f"exactly: bytes and rates of all points are divided by {clock.scale}, which leaves their times as they are, but "
        "for bursts, which last longer; by half as much where these would matter. The report says what that may do"
    )


def plan_runs(points: Sequence[Point], out: Path, clock: Clock, jobs: int = 1) -> list[PlannedRun]:
    """Compiles every point for the run folder `out`, in up to `jobs` processes, and writes nothing there.

    Raises InputFault with all misfits, or Fault for the first point that does not compile.
    """
    return list(planning(points, out, clock, jobs))


def planning(points: Sequence[Point], out: Path, clock: Clock, jobs: int = 1) -> Iterator[PlannedRun]:
    """Like `plan_runs`: each point as soon as it and all before it are compiled."""
    refuse_misfits(points)
    alike: dict[str, list[int]] = {}
    for index, point in enumerate(points):
        alike.setdefault(sharing_key(point), []).append(index)
    planned: dict[int, PlannedRun] = {}
    upcoming = 0
    for indices, runs in zip(
        alike.values(),
        _compiled(points, list(alike.values()), partial(_plan_all, clock=clock, out=out), jobs),
        strict=True,
    ):
        planned |= zip(indices, runs, strict=True)
        while upcoming in planned:
            yield planned.pop(upcoming)
            upcoming += 1


def _compiled(
    points: Sequence[Point],
    alike: Sequence[Sequence[int]],
    plan_all: Callable[[Sequence[Point]], list[PlannedRun]],
    jobs: int,
) -> Iterator[list[PlannedRun]]:
    """Compiles points that are alike together: here as long as that is quick, then in processes."""
    parts = [[points[index] for index in indices] for indices in alike]
    begun_s = time.monotonic()
    for number, part in enumerate(parts):
        if time.monotonic() > begun_s + ALONE_S:
            yield from side_by_side(plan_all, parts[number:], jobs)
            return
        yield plan_all(part)


def _plan_all(points: Sequence[Point], clock: Clock, out: Path) -> list[PlannedRun]:
    """Compiles points that may share their plans."""
    shared = SharedPlans()
    return [plan_run(point, clock, partial(_in_run_folder, out, point), shared) for point in points]


def _in_run_folder(out: Path, point: Point, _: str) -> Path:
    return out / "points" / folder_name(point)


def plan_run(
    point: Point, clock: Clock, folder_of: Callable[[str], Path], shared: SharedPlans | None = None
) -> PlannedRun:
    """Compiles a point; checks its plans unless they came to their end before. Raises Fault.

    folder_of: gives the folder of a key. shared: has the plans of points before.
    """
    with origin_named(point):
        compile_it = compiled_part if point.section.part else compile_resolved
        compiled = compile_it(point.resolved, (shared or SharedPlans()).of)
    rule = rule_of(compiled.unsent_bytes)
    division = _wanted_division(point, compiled, clock, rule)
    scale = max(clock.scale, division.number)
    if point.section.part and clock.name == "virtual":
        scale = max(scale, virtual_scale(compiled.fabric))
    if clock.name == "virtual" and scale > division.number:
        # No more than needed is asked of the clock, unless bursts would otherwise do more harm.
        least = max(division.number, virtual_scale(compiled.fabric, MOST_CAPACITY_BPS))
        fidelity = point.section.run.fidelity
        division = forced_division(compiled.plans, compiled.fabric, rule, scale, least, fidelity)
        scale = division.number
    fabric = scaled_fabric(compiled.fabric, scale, keep_burst=clock.name == "virtual")
    if clock.name == "virtual" and scale == 1 and point.section.fabric.gso is None:
        fabric = with_fitting_bursts(compiled.plans, fabric, rule)
    plans = {label: scaled_plan(plan, scale) for label, plan in compiled.plans.items()}
    window = _window(point.section, fabric, plans, rule)
    with origin_named(point):
        _refuse_large_logs(point, plans, clock, window)
        refuse_scaled(point.section, scale)
        refuse_multicast(point.section, list(plans.values()))
    if point.section.program:
        _refuse_programs(point, clock)
    if point.section.fault:
        _refuse_faults(point, clock)
    key = _key(point, fabric, plans, clock, window, compiled.unsent_bytes)
    planned = PlannedRun(
        point, fabric, folder_of(key), key, plans, clock, division, compiled.unsent_bytes, window=window
    )
    if not planned.stored.is_of(key):
        for plan, relative_times in plans_to_check(point.resolved, compiled):
            check_once(plan, relative_times)
    return planned


def _wanted_division(point: Point, compiled: Compiled, clock: Clock, rule: SendEnds) -> ScaleDivision:
    """Division of bytes and rates for run.fidelity. Raises InputFault on the wall clock, which has its own scale."""
    fidelity = point.section.run.fidelity
    if fidelity is None:
        return UNDIVIDED
    with origin_named(point):
        if clock.name != "virtual":
            raise InputFault(
                "run.fidelity: is for the virtual clock; on the wall clock, --scale divides bytes and rates"
            )
        if point.section.program:
            raise InputFault(
                "run.fidelity: divides a strategy's bytes, and those of programs cannot be: leave out one of them"
            )
        if point.section.fault:
            raise InputFault(
                "run.fidelity: TCP would recover from faults in other steps than undivided: leave out one of them"
            )
    return division_for(compiled.plans, compiled.fabric, rule, fidelity)


def _window(section: PointSection, fabric: Fabric, plans: Mapping[str, Plan], rule: SendEnds) -> MeasuredIterations:
    """The iterations to measure: of several candidates, those of the one that takes longest to become steady.

    A plan that does not become steady on the ideal network either is measured after one iteration, and again after
    more if they were not steady (runs/plan_work.py).
    """
    run = section.run
    if isinstance(run.warmup, int):
        return MeasuredIterations(run.warmup, run.iterations)
    windows = [steady_window(ideal_times(plan, fabric, rule), run.iterations) for plan in plans.values()]
    first = MeasuredIterations(1, run.iterations)
    found = max((window for window in windows if window), key=lambda window: window.end, default=first)
    # What jobs drift apart by is not measured.
    return replace(found, iterations=found.iterations + any(plan.jobs for plan in plans.values()))


def _refuse_large_logs(point: Point, plans: Mapping[str, Plan], clock: Clock, window: MeasuredIterations) -> None:
    """Raises InputFault if the agents' logs of all iterations would not fit in the machine's memory."""
    run, most = point.section.run, most_iterations(point, plans, clock)
    if window.end <= most:
        return
    ops, memory_bytes = _largest_ops(plans), _memory_bytes(point, clock)
    more = " or more memory (run.memory_mb)" if clock.name == "virtual" else ""
    raise InputFault(
        f"run.iterations = {run.iterations}: each iteration logs the {ops:,} ops of the plan, and the log of "
        f"{window.end:,} would not fit in half of the memory of {memory_bytes >> 20:,} MiB; take at most "
        f"{max(0, most - window.warmup):,} iterations{more}"
    )


def too_coarse(planned: PlannedRun) -> str:
    """Why a point is known to be invalid before it runs: its division moves it by too much. "" if it does not."""
    division = planned.division
    divided = Divided(division.number, division.error, planned.point.section.run.fidelity)
    if not divided.is_too_coarse:
        return ""
    fabric = planned.fabric
    return (
        f"{fabric.hosts} hosts at {fabric.rate_bps * division.number / 1e9:g} Gbit/s send more together than the virtual "
        f"clock carries. Bytes and rates would be divided by {division.number}, and bursts, which are not, could move an "
        f"iteration by {division.error:.1%}, where {divided.limit:.1%} are allowed: use fewer hosts, a lower rate or "
        "larger messages. run.fidelity allows up to 10%, and `gradwire estimate` divides nothing"
    )


def refuse_coarse(planned: PlannedRun) -> None:
    """Raises InputFault for a point that is `too_coarse`."""
    if words := too_coarse(planned):
        with origin_named(planned.point):
            raise InputFault(f"{planned.label}: {words}")


def most_iterations(point: Point, plans: Mapping[str, Plan], clock: Clock) -> int:
    """Number of iterations whose logs fit in their share of the memory of the point's machine."""
    return int(_memory_bytes(point, clock) * LOGS_SHARE) // (_largest_ops(plans) * LOGGED_BYTES)


def _largest_ops(plans: Mapping[str, Plan]) -> int:
    return max(len(plan.ops) for plan in plans.values())


def _memory_bytes(point: Point, clock: Clock) -> int:
    if clock.name == "virtual":
        return point.section.run.memory_mb << 20
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _refuse_programs(point: Point, clock: Clock) -> None:
    """Raises InputFault for programs that cannot run."""
    with origin_named(point):
        if clock.name != "virtual":
            raise InputFault("program: programs run on the virtual clock only; leave out --clock wall, or the programs")
        if clock.scale != 1:
            raise InputFault(
                "program: the network is larger than the virtual clock carries exactly, so the strategy's bytes would "
                "be divided. Those of programs cannot be: use fewer workers or a lower rate"
            )
        refuse_wrong_commands(point.section.program)


def _refuse_faults(point: Point, clock: Clock) -> None:
    """Raises InputFault where faults cannot be carried out."""
    with origin_named(point):
        if clock.name != "virtual":
            raise InputFault("fault: faults happen on the virtual clock only; leave out --clock wall, or the faults")
        if clock.scale != 1:
            raise InputFault(
                "fault: the network is larger than the virtual clock carries exactly, so bytes and rates would be "
                "divided, and TCP would recover in other steps: use fewer workers or a lower rate"
            )


def _key(
    point: Point,
    fabric: Fabric,
    plans: Mapping[str, Plan],
    clock: Clock,
    window: MeasuredIterations,
    unsent_bytes: int | None,
) -> str:
    decisive: dict[str, object] = {
        "run": {**point.section.run.model_dump(exclude={"time_limit", "memory_mb", "fidelity"}), **asdict(window)},
        # Senders as they are, and not who says so: the scenario, or the strategy for its system.
        "transport": {
            **point.section.transport.model_dump(exclude={"send_ends"}),
            "unsent": unsent_bytes,
            "buffer": buffer_bytes(point.section, fabric),
        },
        "fabric": fabric.to_json(),
        "plans": {label: plan.digest() for label, plan in plans.items()},
        "clock": asdict(clock),
        "kernel": _kernel_name(clock),
        "code": run_digest(),
    }
    if point.section.run.warmup != 0:
        decisive |= {"longer windows": sources_digest(LONGER_MODULES)}
    if faults := planned_faults(point.section.fault, fabric, point.resolved.workers_of_jobs):
        decisive |= {"faults": [asdict(fault) for fault in faults]}
    if programs := point.section.program:
        decisive |= {"programs": told(started_beside(programs, fabric), fabric), "files": named_files(programs)}
    return _hash(json.dumps(decisive, sort_keys=True))


def source_key(point: Point, clock: Clock) -> str:
    """Hash of the point and of all code that decides its plans and result: stands for the key, without compiling."""
    decisive = {
        "section": point.section.model_dump_json(),
        "clock": asdict(clock),
        "kernel": _kernel_name(clock),
        "code": [run_digest(), plan_digest(), *([] if isinstance(point.section.run.warmup, int) else [fluid_digest()])],
        "strategies": {name: _strategy_text(Path(path)) for name, path in point.section.defined.strategies.items()},
        "trace": trace_of(point.section.model.trace).digest() if point.section.model.trace else None,
        **({"traces": traces_of_jobs(point.section)} if point.section.job else {}),
        "versions": [platform.python_version(), np.__version__],
    }
    return _hash(json.dumps(decisive, sort_keys=True))


def _strategy_text(path: Path) -> str:
    with reading_budget(path):
        return read_text(path, MESSAGE_BYTES, follow=True)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _kernel_name(clock: Clock) -> str:
    kernel = cached_kernel() if clock.name == "virtual" else None
    return kernel.name if kernel else ""
