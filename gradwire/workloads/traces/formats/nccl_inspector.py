"""Logs of NCCL's Inspector, the profiler plugin in NVIDIA/nccl (ext-profiler/inspector from 2.28 on, plugins/profiler/inspector
from 2.30 on): one file per process, with a JSON object for each call that ended.

`inspectorCommInfoHeader`, `inspectorCompletedColl` and `inspectorCompletedP2p` of inspector_json.cc write

    {"header":{"id":"0x7f8c496ae9f661","rank":2,"n_ranks":8,"nnodes":1},
     "metadata":{"inspector_output_format_version":"v4.0","hostname":"node","pid":1639453,...},
     "coll_perf":{"coll":"AllReduce","coll_sn":1407,"coll_msg_size_bytes":17179869184,"coll_exec_time_us":61974,...}}

The id is the communicator's hash, which is the same on all its ranks, and a rank is the place in it. A size is a count
times the bytes of its type (`inspectorPluginCollInfoInit`), as NCCL's functions take it: of an all-gather, what a rank puts
in, of a reduce-scatter, what it gets, and of an all-to-all, what goes to one rank. `coll_sn` counts the calls of a kind in a
communicator (`seqNumber` of src/plugin/profiler.cc). Only with NCCL_INSPECTOR_DUMP_VERBOSE=1 does it say when kernels began
and ended, in microseconds of the host's clock.

From v4.1 on, each dump of a communicator begins with an object that has `dump_stats` in place of a call; from v4.3 on, only
that one has `header` and `metadata`, for all objects up to the next one. `proxy_trace` objects are of NCCL's own messages.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec

from gradwire.documents import Document, DocumentTable, DocumentValue
from gradwire.faults import InputFault
from gradwire.workloads.traces.formats.json_objects import json_objects
from gradwire.workloads.traces.formats.logged_calls import LoggedCall, fill
from gradwire.workloads.traces.record import (
    LONGEST_NS,
    MOST_RANKS,
    Call,
    Findings,
    Membership,
    RankRecord,
    Reading,
    Watch,
)
from gradwire.workloads.traces.workload import POINT_TO_POINT, UNKNOWN, Kind

NAME = "NCCL Inspector log"
VERSION = "v4."
"""The beginning of the versions that are read; NCCL 2.28 to 2.30 write v4.0."""
MARK = b'"inspector_output_format_version"'
KINDS = {
    "AllReduce": Kind.ALL_REDUCE, "AllGather": Kind.ALL_GATHER, "ReduceScatter": Kind.REDUCE_SCATTER,
    "Broadcast": Kind.BROADCAST, "Reduce": Kind.REDUCE, "All2All": Kind.ALL_TO_ALL,
    "Send": Kind.SEND, "Recv": Kind.RECV,
}  # fmt: skip
PER_MEMBER = (Kind.REDUCE_SCATTER, Kind.ALL_TO_ALL)
"""Kinds whose recorded size is that of one part, of which a rank puts in one for each member."""
MOST_TIME_US = 2**62 // 1000
VERBOSE = "NCCL_INSPECTOR_DUMP_VERBOSE=1"
SMALLEST = "calls of less than NCCL_INSPECTOR_DUMP_MIN_SIZE_BYTES (8192 unless set) are not in it"
LOST = "small, lost from the ring (NCCL_INSPECTOR_DUMP_COLL_RING_SIZE), or, before NCCL 2.30, not the last of a dump's interval"
DUMP, PROXY, CALLS = "dump_stats", "proxy_trace", ("coll_perf", "p2p_perf")

Whole = Annotated[int, msgspec.Meta(ge=-1, le=2**63 - 1)]
Microseconds = Annotated[float, msgspec.Meta(ge=0, le=MOST_TIME_US)]
"""Whole in NCCL's own files; others have written fractions."""


class DumpHeader(msgspec.Struct):
    """The communicator of a call, and who made it."""

    id: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
    rank: Annotated[int, msgspec.Meta(ge=0, lt=MOST_RANKS)]
    n_ranks: Annotated[int, msgspec.Meta(ge=1, le=MOST_RANKS)]


class Metadata(msgspec.Struct):
    """The process that wrote a call."""

    inspector_output_format_version: str
    hostname: str = ""
    pid: Whole = 0


class KernelTimes(msgspec.Struct):
    """When the kernel of a channel began and ended."""

    kernel_start_ts: Microseconds
    kernel_stop_ts: Microseconds


class CallTimes(msgspec.Struct):
    """When the kernels of a call began and ended."""

    kernel_events: list[KernelTimes] = []


class CollectivePerformance(msgspec.Struct, rename=lambda name: name if name == "event_trace_ts" else f"coll_{name}"):
    """A collective that ended."""

    sn: Whole
    msg_size_bytes: Whole
    exec_time_us: Microseconds
    event_trace_ts: CallTimes | None = None


class MessagePerformance(msgspec.Struct, rename=lambda name: name if name == "event_trace_ts" else f"p2p_{name}"):
    """A message that was sent or received."""

    peer: Whole
    sn: Whole
    msg_size_bytes: Whole
    exec_time_us: Microseconds
    event_trace_ts: CallTimes | None = None


Performance = CollectivePerformance | MessagePerformance
Shape = TypeVar("Shape", bound=msgspec.Struct)


@dataclass
class _InspectorProcess:
    """The calls of one rank of a process, and the rank's places in communicators."""

    calls: list[LoggedCall] = field(default_factory=list)
    memberships: dict[str, Membership] = field(default_factory=dict)
    #: The numbers of calls by communicator and kind.
    serials: dict[tuple[str, Kind], list[int]] = field(default_factory=dict)


def recognises(beginning: bytes) -> bool:
    """Returns whether a file that begins so may be a log of the Inspector."""
    return MARK in beginning and beginning.lstrip()[:1] == b"{"


def read(path: Path, reading: Reading, watch: Watch) -> list[RankRecord]:
    """Reads a log: a record for each rank of the process. Raises InputFault for what is not one."""
    if reading.step is not None:
        raise InputFault(f"{path}: --step {reading.step}: the Inspector does not tell steps apart; Kineto profiles do")
    findings = Findings()
    by_place: dict[int, _InspectorProcess] = {}
    ids: dict[int, dict[str, int]] = {}
    heads = _Heads(path)
    for place, said in _objects(path, watch, findings):
        header = heads.of(place, said)
        ids.setdefault(header.rank, {})[header.id] = header.n_ranks
        call = _parsed(path, place, said, findings)
        if call is not None:
            _take(path, place, by_place.setdefault(header.rank, _InspectorProcess()), header, call)
    return _records(path, by_place, ids, reading, findings)


class _Heads:
    """The communicator and the process of each object, of which a dump may say them once for all."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._last: DumpHeader | None = None
        self._process = ""

    def of(self, place: str, said: DocumentTable) -> DumpHeader:
        """Returns the communicator of an object. Raises InputFault for another process, or another version."""
        if "header" not in said and "metadata" not in said and self._last is not None:
            return self._last
        if not {"header", "metadata"} <= set(said):
            raise InputFault(f"{self._path}: {place}: has no 'header' or no 'metadata', and no {DUMP} is before it")
        header = _convert(self._path, f"{place}: header", said["header"], DumpHeader)
        metadata = _convert(self._path, f"{place}: metadata", said["metadata"], Metadata)
        version = metadata.inspector_output_format_version
        if not version.startswith(VERSION):
            what = f"inspector_output_format_version: '{version[:40]}': {VERSION}0 to {VERSION}3 are read"
            raise InputFault(f"{self._path}: {place}: {what}")
        writer = f"{metadata.hostname[:60]}:{metadata.pid}"
        self._process = self._process or writer
        if writer != self._process:
            what = f"metadata: is of {writer}, and what is before it of {self._process}: give a file per process"
            raise InputFault(f"{self._path}: {place}: {what}")
        self._last = header if DUMP in said else None
        return header


def _objects(path: Path, watch: Watch, findings: Findings) -> Iterator[tuple[str, Document]]:
    """Yields the objects of a file, each with its place. Raises InputFault."""

    def cut_off(number: int) -> None:
        findings.note(str(path), f"object {number}", "the file ends in the middle of it: left out")

    for number, said in enumerate(json_objects(path, watch, cut_off)):
        place = f"object {number}"
        if not isinstance(said, dict):
            raise InputFault(f"{path}: {place}: must be an object with 'header', 'metadata' and a call")
        yield place, said


def _parsed(path: Path, place: str, said: DocumentTable, findings: Findings) -> tuple[Kind, Performance] | None:
    """The call of an object; None if it has another use, or is of a kind that is refused. Raises InputFault."""
    shapes: tuple[type[Performance], ...] = (CollectivePerformance, MessagePerformance)
    for key, named, shape in zip(CALLS, ("coll", "p2p"), shapes, strict=True):
        performance = said.get(key)
        if isinstance(performance, dict):
            name = performance.get(named)
            kind = KINDS.get(name) if isinstance(name, str) else None
            if kind is None or (kind in POINT_TO_POINT) != (named == "p2p"):
                what = f"{named}: '{str(name)[:60]}' is a call whose bytes for each rank the Inspector does not say"
                findings.refuse(str(path), place, f"{what}; a Kineto profile of the job does")
                return None
            return kind, _convert(path, f"{place}: {key}", performance, shape)
    if PROXY in said:
        findings.note(str(path), place, f"{PROXY}: what NCCL's proxies sent for calls: left out")
    elif DUMP not in said:
        raise InputFault(f"{path}: {place}: has none of {', '.join((*CALLS, DUMP, PROXY))}")
    return None


def _convert(path: Path, place: str, said: DocumentValue, shape: type[Shape]) -> Shape:
    try:
        return msgspec.convert(said, shape)
    except ValueError as error:
        raise InputFault(f"{path}: {place}: {str(error)[:200]}") from error


def _take(
    path: Path, place: str, process: _InspectorProcess, header: DumpHeader, said: tuple[Kind, Performance]
) -> None:
    """Adds a call. Raises InputFault for one whose communicator was another before, or whose times cannot be."""
    kind, call = said
    membership = Membership(header.rank, header.n_ranks)
    if process.memberships.setdefault(header.id, membership) != membership:
        raise InputFault(
            f"{path}: {place}: header: n_ranks: {header.n_ranks}: other calls of '{header.id}' have another"
        )
    members = header.n_ranks if kind in PER_MEMBER else 1
    peer = call.peer if isinstance(call, MessagePerformance) else UNKNOWN
    begun_ns = ended_ns = UNKNOWN
    if call.event_trace_ts is not None and call.event_trace_ts.kernel_events:
        kernels = call.event_trace_ts.kernel_events
        begun_ns = _nanoseconds(min(kernel.kernel_start_ts for kernel in kernels))
        ended_ns = max(begun_ns, _nanoseconds(max(kernel.kernel_stop_ts for kernel in kernels)))
        if not begun_ns or ended_ns - begun_ns > LONGEST_NS:
            what = "kernel_events: a kernel must begin and end, within 10^6 s"
            raise InputFault(f"{path}: {place}: event_trace_ts: {what}")
    logged = Call(
        kind, place, call.msg_size_bytes * members, group=header.id, peer=peer, tag=_tag(header.id),
        duration_ns=_nanoseconds(call.exec_time_us),
    )  # fmt: skip
    stream = header.id if peer == UNKNOWN else None
    serial = call.sn * (max(Kind) + 1) + kind
    process.serials.setdefault((header.id, kind), []).append(call.sn)
    process.calls.append(LoggedCall(logged, stream, begun_ns, ended_ns, serial=serial))


def _nanoseconds(microseconds: float) -> int:
    """Nanoseconds, as exact as the number is: a product of floats would be 256 ns coarse."""
    return int(microseconds) * 1000 + round(microseconds % 1 * 1000)


def _tag(name: str) -> int:
    """A number by which messages of different communicators are told apart."""
    return int.from_bytes(name.encode()[-7:])


def _records(
    path: Path,
    by_place: dict[int, _InspectorProcess],
    ids: dict[int, dict[str, int]],
    reading: Reading,
    findings: Findings,
) -> list[RankRecord]:
    """A record for each rank of the process. Raises InputFault where its GPUs cannot be told apart."""
    if len(by_place) > 1 and not _is_one_gpu(by_place) and len({frozenset(names) for names in ids.values()}) > 1:
        what = f"header: rank: a process with ranks {sorted(by_place)[:8]}, whose communicators are not the same: which are of "
        raise InputFault(f"{path}: {what}one GPU is not logged; give the log of a job with a process per GPU")
    processes = list(by_place.values())
    if _is_one_gpu(by_place):
        processes = [_merged(processes)]
    records: list[RankRecord] = []
    for process in processes:
        record = RankRecord(path, NAME, findings if not records else Findings())
        record.learn_given(reading)
        record.memberships = process.memberships
        _note_missing(record, process)
        _refuse_untimed_messages(record, process)
        fill(record, process.calls)
        records.append(record)
    return records


def _is_one_gpu(by_place: dict[int, _InspectorProcess]) -> bool:
    """Returns whether no two ranks of a process are in one communicator."""
    names = [name for process in by_place.values() for name in process.memberships]
    return len(names) == len(set(names))


def _merged(processes: list[_InspectorProcess]) -> _InspectorProcess:
    """The calls of all communicators of one GPU, in the order of the file."""
    whole = _InspectorProcess()
    for process in processes:
        whole.memberships |= process.memberships
        whole.serials |= process.serials
        whole.calls += process.calls
    whole.calls.sort(key=lambda logged: int(logged.call.place.split()[1]))
    return whole


def _note_missing(record: RankRecord, process: _InspectorProcess) -> None:
    """Notes calls that the numbers of others show to have been there."""
    note = record.findings.note
    for (_, kind), numbers in process.serials.items():
        if len(set(numbers)) != len(numbers):
            what = f"{kind.with_article} whose number (coll_sn, p2p_sn) is there twice in its communicator: give the log once"
            record.findings.refuse(record.file, "", what, len(numbers) - len(set(numbers)))
        if kind not in POINT_TO_POINT and (missing := max(numbers) - min(numbers) + 1 - len(set(numbers))) > 0:
            note(
                record.file,
                "",
                f"{kind.words}: calls whose numbers are missing are left out: they were {LOST}",
                missing,
            )
    note(record.file, "", SMALLEST)


def _refuse_untimed_messages(record: RankRecord, process: _InspectorProcess) -> None:
    """Refuses messages in a log whose calls have no times: which of them begin together is not logged."""
    untimed = [logged.call for logged in process.calls if logged.begun_ns == UNKNOWN]
    messages = [logged.call for logged in process.calls if logged.call.kind in POINT_TO_POINT]
    if untimed and messages:
        what = f"a message in a log without times: which of them go together is not said; write it with {VERBOSE}"
        record.findings.refuse(record.file, messages[0].place, what, len(messages))
    elif 0 < len(untimed) < len(process.calls):
        what = (
            f"calls without times (event_trace_ts) among calls with times: none is used; write the log with {VERBOSE}"
        )
        record.findings.note(record.file, untimed[0].place, what, len(untimed))
