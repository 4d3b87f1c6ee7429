"""What DeepSpeed's `comms_logger` prints: a line for each call with `verbose`, and tables of `log_summary`.

`CommsLogger` of deepspeed/utils/comms_logging.py (deepspeedai/DeepSpeed 0.6.6 to 0.19) prints on rank 0

    [2022-06-26 01:39:55,722] [INFO] [logging.py:69:log_dist] [Rank 0] comm op: all_reduce | time (ms): 9.46
        | msg size: 678.86 MB | algbw (Gbps): 1204.52 | busbw (Gbps): 1129.23

(one line), and in a table the calls of all that were made so far, by operation and size:

    Comm. Op            Message Size        Count               Total Latency(ms)   ...
    all_reduce
                        678.86 MB           2                   18.92               ...

A call ends before its line is printed, and the next begins behind it, for calls are synchronised to be timed. Sizes are
of the tensor that a rank puts in (`get_msg_size_from_args` of deepspeed/comm/utils.py), of a scatter of what it gets.
The two bandwidths differ by (n - 1) / n in a job of n ranks (`calc_bw_log`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from gradwire.faults import InputFault
from gradwire.workloads.traces.formats.logged_calls import LoggedCall, fill
from gradwire.workloads.traces.formats.text_lines import lines_of
from gradwire.workloads.traces.record import MOST_FILLED_TASKS, MOST_RANKS, Call, Findings, RankRecord, Reading, Watch
from gradwire.workloads.traces.workload import UNKNOWN, Kind

NAME = "DeepSpeed communication log"
OPERATION, TIME = "comm op: ", " | time (ms): "
HEADER = "Comm. Op            Message Size        Count "
STRAGGLERS = "Breakdown with straggler effect"
DECIMAL = r"[0-9]{1,15}(?:\.[0-9]{1,6})?"
SIZE = rf"(?P<size>{DECIMAL}) ?(?P<unit>[KMGTP]?B)"
CALL = re.compile(
    rf"comm op: (?P<op>\w{{1,80}})(?: \| \[Caller Func: [^\]|]{{0,200}}\])? \| time \(ms\): (?P<ms>{DECIMAL}) "
    rf"\| msg size: {SIZE} \| algbw \(Gbps\): (?P<alg>{DECIMAL}) +\| busbw \(Gbps\): (?P<bus>{DECIMAL})"
)
AT = re.compile(r"\[([0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2},[0-9]{3})\]")
RANK = re.compile(r"\[Rank ([0-9]{1,6})\]")
ROW = re.compile(rf"\s+{SIZE}\s+(?P<count>[0-9]{{1,12}})\s+(?P<ms>{DECIMAL})(?:\s+{DECIMAL}){{3}}\s*")
TITLE = re.compile(r"(\w{1,80})(?: \| \[Caller Func: [^\]|]{0,200}\])?\s*")
UNITS = {unit: 1024.0**power for power, unit in enumerate(("B", "KB", "MB", "GB", "TB", "PB"))}
KINDS = {
    "all_reduce": Kind.ALL_REDUCE, "inference_all_reduce": Kind.ALL_REDUCE, "all_reduce_coalesced": Kind.ALL_REDUCE,
    "all_gather": Kind.ALL_GATHER, "all_gather_into_tensor": Kind.ALL_GATHER, "all_gather_base": Kind.ALL_GATHER,
    "all_gather_coalesced": Kind.ALL_GATHER, "allgather_fn": Kind.ALL_GATHER,
    "reduce_scatter": Kind.REDUCE_SCATTER, "reduce_scatter_tensor": Kind.REDUCE_SCATTER,
    "reduce_scatter_base": Kind.REDUCE_SCATTER, "reduce_scatter_fn": Kind.REDUCE_SCATTER,
    "all_to_all": Kind.ALL_TO_ALL, "all_to_all_single": Kind.ALL_TO_ALL, "broadcast": Kind.BROADCAST,
    "broadcast_object_list": Kind.BROADCAST, "reduce": Kind.REDUCE, "gather": Kind.GATHER, "scatter": Kind.SCATTER,
    "barrier": Kind.BARRIER, "monitored_barrier": Kind.BARRIER, "all_gather_object": Kind.ALL_GATHER,
}  # fmt: skip
MESSAGES = ("send", "recv", "isend", "irecv", "batch_isend_irecv")
TELLING = (Kind.ALL_REDUCE, Kind.ALL_GATHER, Kind.REDUCE_SCATTER, Kind.ALL_TO_ALL)
"""Kinds whose bandwidths differ by the number of ranks in all versions."""
DIVIDED = (Kind.REDUCE_SCATTER, Kind.ALL_TO_ALL)
HALF = 0.005
"""Bandwidths have two decimals."""
MOST_BYTES = 2.0**50
MOST_OF_TABLE = 200_000
"""A few lines may say any number of calls, of which these take 2 s."""


@dataclass(frozen=True)
class _Said:
    """Calls of one operation and size that a line of the log or of a table says."""

    kind: Kind
    place: str
    size_bytes: int
    duration_ns: int
    count: int = 1
    ended_ns: int = UNKNOWN


def recognises(beginning: bytes) -> bool:
    """Returns whether a file that begins so may be output of a job with DeepSpeed's comms_logger."""
    return HEADER.encode() in beginning or (OPERATION.encode() in beginning and TIME.encode() in beginning)


def read(path: Path, reading: Reading, watch: Watch) -> RankRecord:
    """Reads the output of a job, whose other lines do not matter. Raises InputFault for calls that cannot be."""
    if reading.step is not None:
        raise InputFault(
            f"{path}: --step {reading.step}: DeepSpeed's log does not tell steps apart; Kineto profiles do"
        )
    record = RankRecord(path, NAME, Findings())
    record.rank = 0
    log = _CommsLog(record)
    for number, line in lines_of(path, watch):
        log.take(f"line {number}", line)
    record.world = log.world(reading.ranks)
    fill(record, list(log.calls(record.world or reading.ranks)))
    return record


class _CommsLog:
    """What a log has said so far."""

    def __init__(self, record: RankRecord) -> None:
        self._record = record
        self._calls: list[_Said] = []
        self._table: list[_Said] = []
        self._tables = 0
        self._title: str | None = None
        self._in_table = False
        #: Largest algbw of a call that tells the number of ranks, with its busbw and where it is.
        self._telling = (0.0, 0.0, "")

    def take(self, place: str, line: str) -> None:
        """Takes a line. Raises InputFault for a call that cannot be."""
        if (said := CALL.search(line)) is not None:
            self._take_call(place, line, said)
        elif OPERATION in line and TIME in line:
            what = f"comm op: a call whose line is cut off, or not as DeepSpeed writes it: '{line.strip()[-80:]}'"
            raise InputFault(f"{self._record.file}: {place}: {what}")
        elif line.startswith(HEADER):
            self._table, self._title, self._in_table = [], None, True
            self._tables += "straggler" not in line
            self._in_table = "straggler" not in line
        elif self._in_table:
            self._take_row(place, line)

    def _take_call(self, place: str, line: str, said: re.Match[str]) -> None:
        rank = RANK.search(line)
        if rank is not None and int(rank[1]):
            raise InputFault(f"{self._record.file}: {place}: [Rank {rank[1]}]: DeepSpeed logs calls on rank 0")
        kind = self._kind(place, said["op"])
        if kind is None:
            return
        at = AT.search(line)
        ended_ns = UNKNOWN if at is None else self._time_ns(place, at[1])
        self._keep(self._calls, _Said(kind, place, self._bytes(place, said), _duration_ns(said["ms"]), 1, ended_ns))
        alg, bus = float(said["alg"]), float(said["bus"])
        if kind in TELLING and alg > self._telling[0]:
            self._telling = alg, bus, place

    def _time_ns(self, place: str, text: str) -> int:
        try:
            at = datetime.strptime(text, "%Y-%m-%d %H:%M:%S,%f").replace(tzinfo=UTC)
        except ValueError as error:
            raise InputFault(f"{self._record.file}: {place}: [{text}]: is no time") from error
        return max(round(at.timestamp() * 1000), 0) * 10**6

    def _take_row(self, place: str, line: str) -> None:
        if (row := ROW.fullmatch(line)) is not None and self._title is not None:
            kind = self._kind(place, self._title)
            count = int(row["count"])
            if kind is not None and count:
                total_ns = _duration_ns(row["ms"])
                self._keep(self._table, _Said(kind, place, self._bytes(place, row), total_ns // count, count))
            return
        title = TITLE.fullmatch(line)
        self._title = title[1] if title is not None else None
        self._in_table = title is not None

    def _kind(self, place: str, name: str) -> Kind | None:
        """The kind of an operation; None if it is refused."""
        kind = KINDS.get(name)
        if kind is None:
            what = "a message, whose other end DeepSpeed does not log: a Kineto profile has it"
            if name not in MESSAGES:
                what = "is no operation of DeepSpeed's that is known"
            self._record.findings.refuse(self._record.file, place, f"comm op: {name}: {what}")
        return kind

    def _bytes(self, place: str, said: re.Match[str]) -> int:
        size_bytes: float = float(said["size"]) * UNITS[said["unit"]]
        if size_bytes > MOST_BYTES:
            raise InputFault(
                f"{self._record.file}: {place}: msg size: {said['size']} {said['unit']}: must be at most 2^50 bytes"
            )
        return round(size_bytes)

    def _keep(self, calls: list[_Said], said: _Said) -> None:
        if said.kind is not Kind.BARRIER and not said.size_bytes:
            what = f"{said.kind.with_article} of 0 bytes, which moves nothing: left out"
            self._record.findings.note(self._record.file, said.place, what, said.count)
        elif len(calls) < MOST_FILLED_TASKS:
            calls.append(said)
        else:
            raise InputFault(f"{self._record.file}: {said.place}: more than {MOST_FILLED_TASKS:,} calls are not read")

    def world(self, given: int | None) -> int | None:
        """The number of ranks that the bandwidths say; None if they do not. Refuses another than is given."""
        alg, bus, place = self._telling
        if alg <= HALF or not 0 <= bus < alg:
            return None
        least, most = (max(1 - (bus + sign * HALF) / (alg - sign * HALF), 1e-9) for sign in (-1, 1))
        counts = range(math.ceil(1 / least - 1e-6), min(math.floor(1 / most + 1e-6), MOST_RANKS) + 1)
        if given is not None and given not in counts and counts:
            what = f"busbw (Gbps): {bus} of algbw {alg} is that of {counts[0]} ranks, and --ranks says {given}"
            self._record.findings.refuse(self._record.file, place, what)
        if given is not None or len(counts) != 1:
            return None
        self._record.findings.note(self._record.file, place, "the number of ranks is what algbw and busbw say")
        return counts[0]

    def calls(self, ranks: int | None) -> Iterator[LoggedCall]:
        """The calls, of a table if there are no others. Raises InputFault where there are none, or too many."""
        note, file = self._record.findings.note, self._record.file
        said = self._calls or self._table
        if not said and not self._record.findings.refused:
            raise InputFault(f"{file}: has no call: set comms_logger's verbose, or print log_summary()")
        if not self._calls and sum(one.count for one in said) > MOST_OF_TABLE:
            what = f"{sum(one.count for one in said):,} calls are more than the {MOST_OF_TABLE:,} that are read of a table: "
            raise InputFault(f"{file}: {what}print log_summary() after fewer steps")
        note(file, "", "groups are not logged: all calls are taken to be among all ranks")
        note(file, "", "sizes are in units of 1024 with two decimals, and so right to half a percent")
        if self._calls and self._tables:
            note(file, "", "tables of log_summary: left out, for each of their calls has its line")
        elif self._tables:
            what = "from a table (log_summary): how often each call was made; their order is not logged, and is that of the table"
            note(file, "", what + ("; of several tables, the last has all" if self._tables > 1 else ""))
        timed = all(one.ended_ns != UNKNOWN for one in said)
        before_ns = 0
        for one in said:
            begun_ns = ended_ns = UNKNOWN
            if timed:  # in whole milliseconds, so that a call may seem to begin before the last had ended
                begun_ns = max(one.ended_ns - one.duration_ns, before_ns)
                before_ns = ended_ns = max(one.ended_ns, begun_ns)
            size_bytes = one.size_bytes
            if ranks and one.kind in DIVIDED:
                size_bytes = max(round(size_bytes / ranks), 1) * ranks
            call = Call(one.kind, one.place, size_bytes, duration_ns=one.duration_ns)
            for _ in range(one.count):
                yield LoggedCall(call, "", begun_ns, ended_ns)


def _duration_ns(milliseconds: str) -> int:
    return round(float(milliseconds) * 1e6)
