"""A point's run as it lies in its folder, each part read when it is asked for.

Nothing is compiled, so an old run stays readable after strategies have changed, whatever version of gradwire made it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic

import msgspec
from typing_extensions import TypeVar

from gradwire.analysis.agreement.short_windows import ShortWindow, short_windows
from gradwire.analysis.packets.capture_files import Capture
from gradwire.analysis.packets.captures import CACHED_CAPTURES, read_captures
from gradwire.analysis.verdict.verdict import Verdict
from gradwire.datatypes.pauses import PauseEvents
from gradwire.datatypes.plan import Plan
from gradwire.datatypes.records import OpLog, PointRecord, QueueLengths
from gradwire.faults import InputFault
from gradwire.files import replacing
from gradwire.inside.point_protocol import PAUSES_FILE, QUEUES_FILE, TASK_FILE, PointTask, built_fabric, write_json
from gradwire.network.fabric import Fabric
from gradwire.regular_files import RECORD_BYTES
from gradwire.runs.stored.network_soundness import refuse_unsound_pauses, refuse_unsound_queues
from gradwire.runs.stored.run_files import fitting, note_made_here, read_message, reading, refuse_changed, seal
from gradwire.runs.stored.soundness import (
    LARGEST_SCALE,
    refuse_long_log,
    refuse_unsound_log,
    refuse_unsound_plan,
    refuse_unsound_record,
    refuse_unsound_task,
    sound_fabric,
)
from gradwire.runs.stored.spines import Spines
from gradwire.runs.stored.value_limits import refuse_outside
from gradwire.scenario.loading import Point, ScenarioPoint
from gradwire.vm.kernel import cache_folder
from gradwire.workloads.fields import LONGEST_S

COMPLETION_FILE = "completed.json"
RECORD_FILE = "record.json"
LOG_FILE = "ops.npz"
VERDICT_FILE = "verdict.json"
ITERATIONS_FILE = "iterations.csv"
REQUESTS_FILE = "requests.csv"
NEEDED_FILES = (TASK_FILE, COMPLETION_FILE, RECORD_FILE, LOG_FILE)
"""Files that a run that came to its end cannot lack."""


@dataclass(frozen=True)
class RunSpeed:
    """Speed of a run in wall time."""

    #: Time from the start of the machine to the first byte.
    first_byte_s: float
    replay_s: float
    #: Payload that crossed the network during the replay.
    payload_bytes: int
    total_s: float

    @property
    def payload_bytes_per_s(self) -> float:
        """Emulated payload per second of one core."""
        return self.payload_bytes / self.replay_s if self.replay_s else 0.0


class Completion(msgspec.Struct, frozen=True):
    """The end of a run that was carried out completely: the content of completed.json."""

    #: Hash of everything that decided the result (`PlannedPoint.key`).
    key: str
    #: Label of the plan that was replayed; "" for a point of programs, which notes no speed nor division either.
    plan: str = ""
    speed: RunSpeed = RunSpeed(0.0, 0.0, 0, 0.0)
    #: Number that bytes and rates were divided by on the virtual clock, and the largest effect of that on the iteration
    #: time, as a share of it.
    divided_by: int = 1
    division_error: float = 0.0
    #: Worker of a cluster that ran it; "" for the machine that the command was given on.
    worker: str = ""
    #: Number of times that the point began anew because a signal had stopped its machine.
    stopped: int = 0
    #: Warm-up and measured iterations of each try before, whose iterations were not steady.
    unsteady: tuple[tuple[int, int], ...] = ()


P_co = TypeVar("P_co", bound=ScenarioPoint, default=Point, covariant=True)
Part = TypeVar("Part")
_large_parts = threading.local()
"""The large parts of the run that was read last."""


@dataclass(frozen=True)
class StoredRun(Generic[P_co]):
    """The files that a point's run left in its folder, which may not exist. All methods that read raise
    InputFault.

    Each part is read, and its file hashed, when it is first asked for. Small parts are kept as long as this object,
    and plans, logs and captures until another run is read in the same thread, so that a report of many points holds
    those of one.
    """

    folder: Path
    #: The point that ran; None for a folder that the scenario of its run folder does not have.
    point: P_co | None = None
    #: The small parts that were read.
    _small: dict[str, Any] = field(default_factory=dict, init=False, compare=False, repr=False)

    def __getstate__(self) -> dict[str, object]:
        """State for other processes, without the parts that were read: they read for themselves."""
        return {**vars(self), "_small": {}}

    def _once(self, part: str, read: Callable[[], Part]) -> Part:
        """A small part, read if it has not been."""
        if part not in self._small:
            self._small[part] = read()
        found: Part = self._small[part]
        return found

    def _large_once(self, part: str, read: Callable[[], Part]) -> Part:
        """A large part, read if it has not been since another run was."""
        kept = _large_parts.__dict__
        if kept.get("run") is not self:
            kept.update(run=self, parts={})
        parts: dict[str, Any] = kept["parts"]
        if part not in parts:
            parts[part] = read()
        found: Part = parts[part]
        return found

    @property
    def parameters(self) -> Mapping[str, str]:
        """Parameters of the point, as in points.csv; empty for a folder without a point."""
        return self.point.parameters if self.point else {}

    @property
    def label(self) -> str:
        """The point in a few words."""
        return in_words(self.parameters) or self.folder.name

    @property
    def absence(self) -> str:
        """Message for a folder that does not exist."""
        return f"{self.folder}: this point has not run; `gradwire run` completes the folder"

    def completion(self) -> Completion | None:
        """Completion of the run; None if it did not come to its end."""
        path = self.folder / COMPLETION_FILE
        if not path.exists() and not path.is_symlink():
            return None
        return self._once(COMPLETION_FILE, lambda: self._read_completion(path))

    def _read_completion(self, path: Path) -> Completion:
        with reading(path):
            completion = read_message(path, Completion)
        with self._unchanged(path):
            _refuse_unsound(completion)
        return completion

    def is_of(self, key: str) -> bool:
        """Returns whether a run with this key came to its end here."""
        completion = self.completion()
        return completion is not None and completion.key == key

    def task(self) -> PointTask:
        """The task of the machine."""
        return self._once(TASK_FILE, self._read_task)

    def _read_task(self) -> PointTask:
        path = self.folder / TASK_FILE
        with reading(path):
            task = read_message(path, PointTask)
        with self._unchanged(path):
            refuse_unsound_task(task)
        return task

    def fabric(self) -> Fabric:
        """The fabric, without its multicast groups."""
        return self._once("fabric", self._read_fabric)

    def _read_fabric(self) -> Fabric:
        """With the ways that a user's controller was found to say, if the run came so far."""
        task = self.task()
        with reading(self.folder / TASK_FILE):
            fabric = sound_fabric(task.fabric_json)
        if not fabric.controller or self.completion() is None:
            return fabric
        return replace(fabric, ways=self._record_of(fabric).ways)

    def built_fabric(self) -> Fabric:
        """The fabric as the machine built it: with the multicast groups of all plans."""
        return self._once("built fabric", self._read_built_fabric)

    def _read_built_fabric(self) -> Fabric:
        fabric, plans = self.fabric(), [self.plan_labelled(plan.label) for plan in self.task().plans]
        with fitting(self.folder):
            return built_fabric(fabric, plans)

    def plan(self) -> Plan:
        """The plan that was replayed. Raises InputFault also if the run did not come to its end."""
        return self.plan_labelled(self._completed().plan)

    def plan_labelled(self, label: str) -> Plan:
        """The candidate plan of this label."""
        return self._large_once(f"plan {label}", lambda: self._read_plan(label))

    def _read_plan(self, label: str) -> Plan:
        task, fabric = self.task(), self.fabric()
        with reading(self.folder / TASK_FILE):
            path = self.folder / task.plan_file(label)
        with reading(path):
            plan = Plan.load(path)
        with self._unchanged(path):
            refuse_unsound_plan(plan, fabric)
        return plan

    def log(self) -> OpLog:
        """The log of all ops."""
        return self._large_once(LOG_FILE, self._read_log)

    def _read_log(self) -> OpLog:
        task, completion = self.task(), self._completed()
        with reading(self.folder / TASK_FILE):
            plan = self.folder / task.plan_file(completion.plan)
        with reading(plan):
            ops = Plan.ops_in(plan)
        path = self.folder / LOG_FILE
        with reading(path):
            refuse_long_log(OpLog.rows_in(path), task, ops)
            log = OpLog.load(path)
        with self._unchanged(path):
            refuse_unsound_log(log, task, ops)
        return log

    def record(self) -> PointRecord:
        """The record of the run."""
        return self._once(RECORD_FILE, self._read_record)

    def _read_record(self) -> PointRecord:
        return self._record_of(self.fabric())

    def _record_of(self, fabric: Fabric) -> PointRecord:
        task = self.task()
        path = self.folder / RECORD_FILE
        with reading(path):
            record = read_message(path, PointRecord, RECORD_BYTES)
        with self._unchanged(path):
            refuse_unsound_record(record, task, fabric)
        return record

    def short_windows(self) -> tuple[ShortWindow, ...]:
        """The connections whose windows held less than their paths; none where no link has a delay."""
        built = self.built_fabric()
        return short_windows(built, self.record(), Spines(built).spine_of)

    def queues(self) -> QueueLengths | None:
        """Lengths of the queues of switches' ports; None if they were not read."""
        return self._large_once(QUEUES_FILE, self._read_queues)

    def _read_queues(self) -> QueueLengths | None:
        if not self.task().queue_period_ns:
            return None
        fabric, path = self.fabric(), self.folder / QUEUES_FILE
        with reading(path):
            queues = QueueLengths.load(path)
            refuse_unsound_queues(queues, fabric)
        return queues

    def pauses(self) -> PauseEvents | None:
        """Times at which ports paused their far ends and let them continue; None without flow control."""
        return self._large_once(PAUSES_FILE, self._read_pauses)

    def _read_pauses(self) -> PauseEvents | None:
        fabric, path = self.fabric(), self.folder / PAUSES_FILE
        if fabric.lossless is None:
            return None
        with reading(path):
            events = PauseEvents.load(path)
            refuse_unsound_pauses(events, fabric)
        return events

    def captures(self, fabric: Fabric, record: PointRecord) -> list[Capture]:
        """The captured packets, in the record's order."""

        def read() -> list[Capture]:
            with reading(self.folder / "capture"):
                return read_captures(self.folder, fabric, record, cache_folder() / CACHED_CAPTURES)

        return self._large_once("captures", read)

    def _completed(self) -> Completion:
        completion = self.completion()
        if completion is None:
            raise InputFault(f"{self.folder}: this point has not come to its end; `gradwire run` completes the folder")
        return completion

    @contextmanager
    def _unchanged(self, path: Path) -> Iterator[None]:
        """Context manager around the examination of a file. Raises InputFault for a file that is not as the run left
        it, and for defects."""
        refuse_changed(path)
        with reading(path):
            yield

    def last_verdict(self) -> Verdict:
        """The verdict that was last written."""
        path = self.folder / VERDICT_FILE
        with reading(path):
            verdict = read_message(path, Verdict)
            if verdict.checks and verdict.valid != all(check.ok for check in verdict.checks):
                raise ValueError("it contradicts its own checks")
            return verdict


def _refuse_unsound(completion: Completion) -> None:
    """Raises ValueError for values that no run notes at its end."""
    speed = completion.speed
    for name in ("first_byte_s", "replay_s", "total_s"):
        refuse_outside(name, getattr(speed, name), 0, LONGEST_S)
    refuse_outside("payload_bytes", speed.payload_bytes, 0)
    refuse_outside("divided_by", completion.divided_by, 1, LARGEST_SCALE)
    refuse_outside("division_error", completion.division_error, 0)


def write_completion(
    folder: Path, completion: Completion, left: Sequence[str] = (TASK_FILE, RECORD_FILE, LOG_FILE)
) -> None:
    """Writes completed.json, at once and whole, since a run that is killed in between must be able to continue. Before
    that, writes the hashes of the run's other files.

    left: names of these files, besides plans, whose hashes are kept.
    """
    note_made_here(folder)
    with replacing(folder / COMPLETION_FILE) as partial:
        write_json(partial, completion, indent=1)
        plans = [path.name for path in folder.glob("plan-*.npz")]
        there = [name for name in (*left, *plans) if (folder / name).exists()]
        seal(folder, {COMPLETION_FILE: partial.read_bytes()}, there)


def in_words(parameters: Mapping[str, str]) -> str:
    """Values of a point's parameters in words; numbers and sizes, which say nothing alone, follow the names of their
    parameters."""
    return " ".join(_word(key, value) for key, value in parameters.items() if value)


def _word(key: str, value: str) -> str:
    speaks_for_itself = not value[0].isdigit() or value.endswith("bit")
    return value if speaks_for_itself else f"{key.rpartition('.')[2].replace('_', ' ')} {value}"
