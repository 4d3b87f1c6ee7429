"""The events of a Kineto profile that matter here, sorted by what they are, in columns.

Kineto writes Chrome's Trace Event Format: https://github.com/pytorch/kineto, libkineto/src/output_json.cpp.
"""

from __future__ import annotations

import math
import re
from array import array
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np

from gradwire.faults import InputFault
from gradwire.workloads.traces.formats.json_items import JsonItems
from gradwire.workloads.traces.formats.kineto_kernels import NCCL, library_of
from gradwire.workloads.traces.formats.kineto_launches import Launches, Mask, launched
from gradwire.workloads.traces.formats.pytorch_calls import CallArguments
from gradwire.workloads.traces.record import Watch
from gradwire.workloads.traces.workload import Int64

GPU_WORK = frozenset({"kernel", "gpu_memcpy", "gpu_memset"})
LAUNCHES = frozenset({"cuda_runtime", "cuda_driver", "hip_runtime"})
STREAM_WAITS = frozenset({"cudaStreamWaitEvent", "hipStreamWaitEvent"})
PARAM_COMMS = "record_param_comms"
STEP = "ProfilerStep#"
IN_NAME = re.compile(r"[0-9]{1,18}")
"""A step's number, which fits into 64 bits."""
LATEST_US = 9e15
"""The latest time, in microseconds: in nanoseconds it still fits in 64 bits."""

Number = int | float
Arguments = TypeVar("Arguments", bound=msgspec.Struct)


class LaunchArguments(msgspec.Struct):
    """The arguments of a call of the runtime."""

    correlation: int | None = None


class WorkArguments(LaunchArguments):
    """The arguments of a kernel or a copy."""

    #: A number, or the text of a pointer as profiles of ROCm have it for calls of its runtime.
    stream: int | str | None = None


class Event(msgspec.Struct):
    """An event, with its arguments not yet read."""

    ph: str = ""
    cat: str | None = None
    name: str | int = ""
    tid: int | str = 0
    ts: Number | str = 0
    dur: Number | str = 0
    args: msgspec.Raw = msgspec.Raw(b"{}")


class KinetoHead(msgspec.Struct):
    """The fields of a profile besides its events."""

    distributedInfo: dict[str, Any] | None = None  # noqa: N815 (the format's name)
    traceName: str = ""  # noqa: N815
    #: The run of gradwire that the profile is of; "" for profiles of other programs.
    gradwire: str = ""


@dataclass
class HostCall:
    """A `record_param_comms` event."""

    number: int
    tid: int | str
    begin_ns: int
    end_ns: int
    arguments: CallArguments

    @property
    def place(self) -> str:
        """The event's place in the file, for messages."""
        return f"traceEvents[{self.number}]"


def _numbers() -> array[int]:
    return array("q")


@dataclass
class _GrowingRows:
    """Rows of times in nanoseconds, and what else is known of each, while they are read."""

    begin_ns: array[int] = field(default_factory=_numbers)
    end_ns: array[int] = field(default_factory=_numbers)
    correlation: array[int] = field(default_factory=_numbers)
    stream: array[int] = field(default_factory=_numbers)
    library: array[int] = field(default_factory=_numbers)

    def add(self, begin_ns: int, end_ns: int, correlation: int, stream: int, library: int = -1) -> None:
        """Adds a row."""
        self.begin_ns.append(begin_ns)
        self.end_ns.append(end_ns)
        self.correlation.append(correlation)
        self.stream.append(stream)
        self.library.append(library)

    def frozen(self) -> TimedRows:
        """Returns these rows as arrays."""
        columns = (self.begin_ns, self.end_ns, self.correlation, self.stream, self.library)
        return TimedRows(*(np.array(column, np.int64) for column in columns))


@dataclass
class TimedRows:
    """Rows of times in nanoseconds, and what else is known of each."""

    begin_ns: Int64
    end_ns: Int64
    correlation: Int64
    stream: Int64
    #: Number of the library that communicates (kineto_kernels.py), or -1.
    library: Int64
    #: When the host launched each, once that is known.
    launched_ns: Int64 = field(default_factory=lambda: np.zeros(0, np.int64))

    def chosen(self, rows: Mask | Int64) -> TimedRows:
        """Returns some of these rows; rows: a mask, or their numbers."""
        columns = (self.begin_ns, self.end_ns, self.correlation, self.stream, self.library, self.launched_ns)
        return TimedRows(*(column[rows] for column in columns))

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.begin_ns)


@dataclass
class KinetoEvents:
    """A profile's events."""

    #: In the order of their beginning.
    calls: list[HostCall]
    #: Kernels, copies and fills of the GPU that the host launched in the profile and that are not of NCCL.
    work: TimedRows
    #: Kernels of NCCL (or RCCL) that it launched in the profile.
    nccl: TimedRows
    #: What it had launched before the profile began.
    before: TimedRows
    #: Rows of `work` and `nccl` whose launch is not recorded.
    unrecorded: int
    #: Whether any launch is recorded of what the GPU did.
    launches_known: bool
    #: Name of the first kernel of each library, by its number.
    names: dict[int, str]
    #: Beginnings of cudaStreamWaitEvent calls, with the thread of each.
    stream_waits: list[tuple[int, int | str]]
    #: Begin and end of each profiled step by its number.
    steps: dict[int, tuple[int, int]]
    #: Steps that are in the file twice, at different times.
    doubled_steps: set[int]
    head: KinetoHead

    @property
    def nccl_name(self) -> str:
        """The name of the first kernel of NCCL."""
        return self.names.get(NCCL, "")


class _Sorter:
    """Sorts events as they come."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._call_arguments = msgspec.json.Decoder(CallArguments)
        self._work_arguments = msgspec.json.Decoder(WorkArguments)
        self._launch_arguments = msgspec.json.Decoder(LaunchArguments)
        self._stream_numbers: dict[str, int] = {}
        self.calls: list[HostCall] = []
        self.gpu, self.launches = _GrowingRows(), _GrowingRows()
        self.names: dict[int, str] = {}
        self.stream_waits: list[tuple[int, int | str]] = []
        self.steps: dict[int, tuple[int, int]] = {}
        self.doubled_steps: set[int] = set()

    def take(self, number: int, event: Event) -> None:
        """Takes an event in, if it matters."""
        category, name = event.cat, event.name
        if event.ph != "X" or category is None or not isinstance(name, str):
            return
        if category in GPU_WORK:
            begin_ns, end_ns = self._times_ns(number, event)
            arguments = self._arguments(number, event, self._work_arguments)
            library = library_of(name)
            if library >= 0:
                self.names.setdefault(library, name)
            stream = self._stream_number(arguments.stream)
            self.gpu.add(begin_ns, end_ns, _or_none(arguments.correlation), stream, library)
        elif category in LAUNCHES:
            begin_ns, end_ns = self._times_ns(number, event)
            launch = self._arguments(number, event, self._launch_arguments)
            if launch.correlation is not None:
                self.launches.add(begin_ns, end_ns, launch.correlation, 0)
            if name in STREAM_WAITS:
                self.stream_waits.append((begin_ns, event.tid))
        elif name == PARAM_COMMS:
            begin_ns, end_ns = self._times_ns(number, event)
            read = self._arguments(number, event, self._call_arguments)
            self.calls.append(HostCall(number, event.tid, begin_ns, end_ns, read))
        elif category == "user_annotation" and name.startswith(STEP) and IN_NAME.fullmatch(name, len(STEP)):
            step, times_ns = int(name[len(STEP) :]), self._times_ns(number, event)
            if self.steps.setdefault(step, times_ns) != times_ns:
                self.doubled_steps.add(step)

    def _stream_number(self, stream: int | str | None) -> int:
        """The number of a stream; those that have a text for a name get numbers below -1."""
        if isinstance(stream, str):
            return self._stream_numbers.setdefault(stream, -2 - len(self._stream_numbers))
        return _or_none(stream)

    def _times_ns(self, number: int, event: Event) -> tuple[int, int]:
        """Begin and end. Raises InputFault for times that cannot be."""
        try:
            begin_us, duration_us = float(event.ts), float(event.dur)
        except ValueError as error:
            raise InputFault(f"{self._path}: traceEvents[{number}] ({event.name}): {error}") from error
        if not math.isfinite(begin_us + duration_us) or duration_us < 0 or abs(begin_us) + duration_us > LATEST_US:
            raise InputFault(
                f"{self._path}: traceEvents[{number}] ({event.name}): begins at {begin_us:g} us and lasts "
                f"{duration_us:g} us, "
                "which cannot be"
            )
        return round(begin_us * 1e3), round((begin_us + duration_us) * 1e3)

    def _arguments(self, number: int, event: Event, decoder: msgspec.json.Decoder[Arguments]) -> Arguments:
        try:
            return decoder.decode(event.args)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            raise InputFault(f"{self._path}: traceEvents[{number}] ({event.name}): its args: {error}") from error


def _or_none(value: int | None) -> int:
    return -1 if value is None else value


def read_events(path: Path, watch: Watch) -> KinetoEvents:
    """Reads a profile. Raises InputFault."""
    items = JsonItems(path, "traceEvents", Event, KinetoHead, watch)
    sorter = _Sorter(path)
    try:
        for number, event in enumerate(items):
            sorter.take(number, event)
    except OverflowError as error:
        raise InputFault(f"{path}: a number of an event does not fit in 64 bits") from error
    calls = sorter.launches.frozen()
    by_id = np.lexsort((calls.begin_ns, calls.correlation))
    gpu = sorter.gpu.frozen()
    found = launched(gpu, Launches(calls.correlation[by_id], calls.begin_ns[by_id]))
    gpu.launched_ns = found.at_ns
    of_nccl = gpu.library == NCCL
    return KinetoEvents(
        calls=sorted(sorter.calls, key=lambda call: (call.begin_ns, -call.end_ns)),
        work=gpu.chosen(~found.before & ~of_nccl),
        nccl=gpu.chosen(~found.before & of_nccl),
        before=gpu.chosen(found.before),
        unrecorded=int(found.unrecorded.sum()),
        launches_known=found.known,
        names=sorter.names,
        stream_waits=sorted(sorter.stream_waits, key=lambda wait: wait[0]),
        steps=sorter.steps,
        doubled_steps=sorter.doubled_steps,
        head=items.head(),
    )
