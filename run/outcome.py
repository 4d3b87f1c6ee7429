"""Points made ready to run, and what became of them: kept in the point's folder, and judged anew whenever it is read.

So a changed check or statistic needs no new run; a changed plan, fabric, agent or kernel does.
"""

from __future__ import annotations

import csv
import hashlib
import json
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from gradwire.agents.records import OpLog, PointRecord
from gradwire.analysis.iterations import iteration_times_s
from gradwire.analysis.packets.captures import write_dissector
from gradwire.analysis.points import PointResult, failed_point, point_result
from gradwire.analysis.verdict.verdict import Verdict, failed_run, judge
from gradwire.run.code_digest import plan_digest, run_digest
from gradwire.run.stored.files import load_captures, load_log, load_record, reading
from gradwire.run.stored.point_folders import folder_name, in_words, older_folders
from gradwire.topo.fabric import Fabric
from gradwire.vm.kernel import cached_kernel
from gradwire.vm.machines import Clock
from gradwire.workloads.checker import check
from gradwire.workloads.compilation import Compiled, compile_point
from gradwire.workloads.models.devices import ComputeTime
from gradwire.workloads.plan import Plan
from gradwire.workloads.scaling import scaled_fabric, scaled_plan
from gradwire.workloads.scenario.loading import Point, origin_named


@dataclass(frozen=True)
class Prepared:
    """A compiled point and its folder. key: hash of everything that decides its result."""

    point: Point
    compiled: Compiled
    fabric: Fabric
    plans: Mapping[str, Plan]
    folder: Path
    clock: Clock
    key: str

    @property
    def iterations(self) -> int:
        """All iterations, warm-up included."""
        return self.point.section.run.warmup + self.point.section.run.iterations

    @property
    def label(self) -> str:
        """The point in a few words."""
        return in_words(self.point.parameters)

    @property
    def cost_bytes(self) -> int:
        """Bytes that it moves: about how long it takes."""
        per_iteration = [int(plan.ops.size_bytes[plan.is_remote()].sum()) for plan in self.plans.values()]
        searched = len(per_iteration) > 1
        return max(per_iteration) * self.iterations + searched * sum(per_iteration) * 2


@dataclass(frozen=True)
class Speed:
    """How fast the run itself was, in wall time: from its start to the first byte, and payload a second of replay."""

    first_byte_s: float
    replay_s: float
    payload_bytes: int
    total_s: float

    @property
    def payload_bytes_per_s(self) -> float:
        """Emulated payload a second of one core."""
        return self.payload_bytes / self.replay_s if self.replay_s else 0.0


@dataclass(frozen=True)
class Computation:
    """What one worker computes in an iteration, alone, and where that is from."""

    iteration_s: float
    source: str

    @staticmethod
    def of(compute: ComputeTime) -> Computation:
        """Of a job's compute time, with the printed cell that it was fitted on."""
        fitted = f"; fitted on {compute.fitted_on}" if compute.fitted_on else ""
        return Computation(compute.iteration_s, compute.source + fitted)


@dataclass(frozen=True)
class Outcome:
    """What became of a point. speed is None where it never ran to its end; reused: it was there already."""

    prepared: Prepared
    result: PointResult
    verdict: Verdict
    speed: Speed | None
    reused: bool = False

    @property
    def point(self) -> Point:
        """The point."""
        return self.prepared.point

    @property
    def computation(self) -> Computation:
        """What its workers compute."""
        return Computation.of(self.prepared.compiled.job.compute)


def prepare(points: Sequence[Point], out: Path, clock: Clock) -> list[Prepared]:
    """Compiles every point, and checks each plan that did not run before. Raises Fault before anything boots."""
    return [prepare_point(point, clock, partial(_in_run_folder, out, point)) for point in points]


def _in_run_folder(out: Path, point: Point, _: str) -> Path:
    return out / "points" / folder_name(point)


def adopt(prepared: Prepared, out: Path) -> None:
    """Gives a point that came to its end in the run folder `out` under another version's name the folder that it has now."""
    if prepared.folder.exists():
        return
    for path in older_folders(out, prepared.point):
        if completed(path, prepared.key):
            path.rename(prepared.folder)
            return


def prepare_point(point: Point, clock: Clock, folder_of: Callable[[str], Path]) -> Prepared:
    """Compiles a point, and checks its plans if they did not run before; `folder_of` gives the folder of its key. Raises Fault."""
    with origin_named(point):
        compiled = compile_point(point.section)
    fabric = scaled_fabric(compiled.fabric, clock.scale, keep_burst=clock.name == "virtual")
    plans = {label: scaled_plan(plan, clock.scale) for label, plan in compiled.plans.items()}
    key = _key(point, fabric, plans, clock)
    ready = Prepared(point, compiled, fabric, plans, folder_of(key), clock, key)
    if _completed(ready) is None:
        for plan in compiled.plans.values():
            check(plan, compiled.job.relative_times)
    return ready


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _key(point: Point, fabric: Fabric, plans: Mapping[str, Plan], clock: Clock) -> str:
    decisive = {
        "run": point.section.run.model_dump(exclude={"time_limit", "memory_mb"}),
        "transport": point.section.transport.model_dump(),
        "fabric": fabric.to_json(),
        "plans": {label: plan.digest() for label, plan in plans.items()},
        "clock": asdict(clock),
        "kernel": _kernel_name(clock),
        "code": run_digest(),
    }
    return _hash(json.dumps(decisive, sort_keys=True))


def source_key(point: Point, clock: Clock) -> str:
    """Hash of the point and of all code that its plans and its result come from: equal ones have equal keys, without compiling."""
    decisive = {
        "section": point.section.model_dump_json(),
        "clock": asdict(clock),
        "kernel": _kernel_name(clock),
        "code": [run_digest(), plan_digest()],
        "versions": [platform.python_version(), np.__version__],
    }
    return _hash(json.dumps(decisive, sort_keys=True))


def _kernel_name(clock: Clock) -> str:
    kernel = cached_kernel() if clock.name == "virtual" else None
    return kernel.name if kernel else ""


def keep(prepared: Prepared, plan: str, speed: Speed) -> None:
    """Notes in the point's folder that its machine came to its end with the plan labelled `plan`.

    Under its name only once it is whole: a run that is killed in between must be able to go on.
    """
    stored = {"key": prepared.key, "plan": plan, "speed": asdict(speed)}
    (prepared.folder / "completed.tmp").write_text(json.dumps(stored, indent=1) + "\n")
    (prepared.folder / "completed.tmp").replace(prepared.folder / "completed.json")


def _completed(prepared: Prepared) -> tuple[str, Speed] | None:
    """What `keep` noted about this very point, or None."""
    return completed(prepared.folder, prepared.key)


def completed(folder: Path, key: str) -> tuple[str, Speed] | None:
    """Label of the plan that was replayed in `folder` for the point with this key, and how fast; None if it did not come to its end.

    Raises InputFault if that cannot be read.
    """
    path = folder / "completed.json"
    if not path.exists():
        return None
    with reading(path):
        same = json.loads(path.read_text())["key"] == key
    return ended(folder) if same else None


def ended(folder: Path) -> tuple[str, Speed] | None:
    """What `completed` gives, whatever point and version of gradwire the run was of. Raises InputFault if it cannot be read."""
    path = folder / "completed.json"
    if not path.exists():
        return None
    with reading(path):
        stored = json.loads(path.read_text())
        return stored["plan"], Speed(**stored["speed"])


def kept_outcome(prepared: Prepared) -> Outcome | None:
    """The outcome of a run that came to its end, judged from its logs; writes verdict.json and iterations.csv. None: there is none."""
    found = _completed(prepared)
    if found is None:
        return None
    label, speed = found
    row, verdict = judged(prepared.folder, prepared.plans[label], prepared.fabric, speed, prepared.point.parameters)
    return Outcome(prepared, row, verdict, speed)


def judged(
    folder: Path, plan: Plan, fabric: Fabric, speed: Speed, parameters: dict[str, str]
) -> tuple[PointResult, Verdict]:
    """Row and verdict of the run that came to its end in `folder`; writes verdict.json and iterations.csv."""
    log, record = load_log(folder), load_record(folder)
    record = replace(record, first_byte_wall_s=speed.first_byte_s, replay_wall_s=speed.replay_s)
    verdict = judge(plan, fabric, log, record, load_captures(folder, fabric, record))
    if record.captures:
        write_dissector(folder, plan, fabric, record)
    verdict.save(folder / "verdict.json")
    _write_iterations(folder / "iterations.csv", plan, log, record)
    return point_result(parameters, plan, fabric, log, record, verdict, speed.total_s), verdict


def failed_outcome(prepared: Prepared, reason: str, total_s: float) -> Outcome:
    """The outcome of a run that did not come to its end; writes verdict.json."""
    verdict = failed_run(reason)
    verdict.save(prepared.folder / "verdict.json")
    plan = next(iter(prepared.plans.values()))
    row = failed_point(prepared.point.parameters, plan, prepared.fabric, verdict, total_s)
    return Outcome(prepared, row, verdict, None)


def _write_iterations(path: Path, plan: Plan, log: OpLog, record: PointRecord) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["iteration", "warmup", "iteration_time_s"])
        for number, seconds in enumerate(iteration_times_s(plan, log, record.iterations)):
            writer.writerow([number, int(number < record.warmup), f"{seconds:.9f}"])
