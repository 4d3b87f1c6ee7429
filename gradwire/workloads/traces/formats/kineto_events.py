"""The events of a Kineto profile that matter here, sorted by what they are, in columns.

Kineto writes Chrome's Trace Event Format: https://github.com/pytorch/kineto, libkineto/src/output_json.cpp.
"""

from __future__ import annotations

import math
from array import array
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from gradwire.faults import InputFault
from gradwire.workloads.traces.formats.json_items import JsonItems
from gradwire.workloads.traces.formats.pytorch_calls import CallArguments
from gradwire.workloads.traces.record import Watch
from gradwire.workloads.traces.workload import Int64

GPU_WORK = frozenset({"kernel", "gpu_memcpy", "gpu_memset"})
LAUNCHES = frozenset({"cuda_runtime", "cuda_driver", "hip_runtime"})
STREAM_WAITS = frozenset({"cudaStreamWaitEvent", "hipStreamWaitEvent"})
PARAM_COMMS = "record_param_comms"
STEP = "ProfilerStep#"
LATEST_US = 9e15
"""The latest time, in microseconds: in nanoseconds it still fits in 64 bits."""

Number = int | float


class WorkArguments(msgspec.Struct):
    """The arguments of a kernel, a copy, or a call of the runtime."""

    stream: int | None = None
    correlation: int | None = None


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


@dataclass
class TimedRows:
    """Rows of times in nanoseconds, and what else is known of each."""

    begin_ns: Any = field(default_factory=lambda: array("q"))
    end_ns: Any = field(default_factory=lambda: array("q"))
    correlation: Any = field(default_factory=lambda: array("q"))
    stream: Any = field(default_factory=lambda: array("q"))

    def add(self, begin_ns: int, end_ns: int, correlation: int, stream: int) -> None:
        """Adds a row."""
        self.begin_ns.append(begin_ns)
        self.end_ns.append(end_ns)
        self.correlation.append(correlation)
        self.stream.append(stream)

    def frozen(self) -> TimedRows:
        """Returns these rows as arrays."""
        return TimedRows(
            *(np.array(column, np.int64) for column in (self.begin_ns, self.end_ns, self.correlation, self.stream))
        )

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.begin_ns)


@dataclass
class KinetoEvents:
    """A profile's events."""

    #: In the order of their beginning.
    calls: list[HostCall]
    #: Kernels, copies and fills of the GPU that compute; `correlation` names the call of the runtime that launched
    #: each.
    work: TimedRows
    #: Kernels of NCCL (or RCCL).
    nccl: TimedRows
    #: Name of the first of those.
    nccl_name: str
    #: When the runtime was called, sorted by `launch_id`.
    launch_id: Int64
    launch_ns: Int64
    #: Beginnings of cudaStreamWaitEvent calls, with the thread of each.
    stream_waits: list[tuple[int, int | str]]
    #: Begin and end of each profiled step by its number.
    steps: dict[int, tuple[int, int]]
    head: KinetoHead


class _Sorter:
    """Sorts events as they come."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._call_arguments = msgspec.json.Decoder(CallArguments)
        self._work_arguments = msgspec.json.Decoder(WorkArguments)
        self.calls: list[HostCall] = []
        self.work, self.nccl, self.launches = TimedRows(), TimedRows(), TimedRows()
        self.nccl_name = ""
        self.stream_waits: list[tuple[int, int | str]] = []
        self.steps: dict[int, tuple[int, int]] = {}

    def take(self, number: int, event: Event) -> None:
        """Takes an event in, if it matters."""
        category, name = event.cat, event.name
        if event.ph != "X" or category is None or not isinstance(name, str):
            return
        if category in GPU_WORK:
            begin_ns, end_ns = self._times_ns(number, event)
            arguments = self._arguments(number, event, self._work_arguments)
            is_nccl = "nccl" in name[:64].lower() or "rccl" in name[:64].lower()
            if is_nccl and not self.nccl_name:
                self.nccl_name = name
            columns = self.nccl if is_nccl else self.work
            columns.add(begin_ns, end_ns, _or_none(arguments.correlation), _or_none(arguments.stream))
        elif category in LAUNCHES:
            begin_ns, end_ns = self._times_ns(number, event)
            arguments = self._arguments(number, event, self._work_arguments)
            if arguments.correlation is not None:
                self.launches.add(begin_ns, end_ns, arguments.correlation, 0)
            if name in STREAM_WAITS:
                self.stream_waits.append((begin_ns, event.tid))
        elif name == PARAM_COMMS:
            begin_ns, end_ns = self._times_ns(number, event)
            read = self._arguments(number, event, self._call_arguments)
            self.calls.append(HostCall(number, event.tid, begin_ns, end_ns, read))
        elif category == "user_annotation" and name.startswith(STEP) and name[len(STEP) :].isdecimal():
            self.steps[int(name[len(STEP) :])] = self._times_ns(number, event)

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

    def _arguments(self, number: int, event: Event, decoder: msgspec.json.Decoder[Any]) -> Any:
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
    launches = sorter.launches.frozen()
    by_id = np.argsort(launches.correlation, kind="stable")
    return KinetoEvents(
        calls=sorted(sorter.calls, key=lambda call: (call.begin_ns, -call.end_ns)),
        work=sorter.work.frozen(),
        nccl=sorter.nccl.frozen(),
        nccl_name=sorter.nccl_name,
        launch_id=launches.correlation[by_id],
        launch_ns=launches.begin_ns[by_id],
        stream_waits=sorted(sorter.stream_waits, key=lambda wait: wait[0]),
        steps=sorter.steps,
        head=items.head(),
    )
