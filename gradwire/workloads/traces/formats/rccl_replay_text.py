"""RCCL's replay logs in the two forms that are JSON, or look like it.

With `.json` in RCCL_REPLAY_FILE, the formats of src/misc/recorder.cc (ROCm/rccl; version 1, and 0 before it) write

    {
      version : 1,
      CommInitDev : [comm : 0x7f01, size : 2, uniqueID : 171, rank : 0, dev : 0, context : [time : 1745623615676.1, ...]],
      {
        AllReduce : [opCount : 0, sendbuff : [addr : 0x7f02, ...], ..., count : 1024, datatype : 7, op : 0, root : 0,
          comm : 0x7f01, nranks : 2, stream : 0x5590, task : 0, globalrank : 0, context : [time : 1745623615700.2, ...]]
      }
    }

(a call is one line), with braces for groups. What `CommSplit` calls color there is not the color, which is behind `key`: its
format has a field less than it is given. tools/RcclReplayer/replay_log_converter.py writes the same from a binary log, with
`pid` in the context and the color in its place; and, with --standardize, JSON with a list of `calls`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import msgspec

from gradwire.faults import InputFault
from gradwire.workloads.traces.formats.json_items import JsonItems
from gradwire.workloads.traces.formats.rccl_replay import GROUP_ENDS, GROUP_START, MADE, SPLIT, ReplayCall, ReplayLog
from gradwire.workloads.traces.formats.text_lines import lines_of
from gradwire.workloads.traces.record import RankRecord, Reading, Watch, listed_numbers
from gradwire.workloads.traces.workload import UNKNOWN

NAME = "RCCL replay log"
BEGINNING = re.compile(rb"\s*\{\s*(hostname : [^\n,]{1,256}, )?version : [01],")
STANDARD = re.compile(rb'\s*\{\s*"version"\s*:\s*[0-9]+\s*,\s*"calls"\s*:\s*\[')
LINE = re.compile(r"\s*([A-Za-z]\w{0,60}) : \[.*\],?\s*")
FIELD = re.compile(r"[\[,] ?([A-Za-z]\w{0,40}) : ([^,\[\]]{1,60})")
LIST = re.compile(r", (sendcounts|recvcounts) : \[([0-9, ]*)\]")
BRACES = {"{": GROUP_START, "}": GROUP_ENDS[0], "},": GROUP_ENDS[0]}
GROUPED = "GroupedCalls"
MOST_COUNT = 2**62


class StandardHead(msgspec.Struct):
    """The fields of a log besides its calls."""

    version: int


Whole = Annotated[int, msgspec.Meta(ge=-1, le=MOST_COUNT)]


class StandardContext(msgspec.Struct):
    """When a call was made, and for which GPU."""

    time: float = 0.0
    device: Whole = 0
    captured: Whole = 0


class StandardCall(msgspec.Struct):
    """A call, or the calls of a group."""

    type: str
    context: StandardContext = msgspec.field(default_factory=StandardContext)
    comm: str = ""
    uniqueID: int = 0  # noqa: N815 (the key of the format)
    size: Whole = UNKNOWN
    nranks: Whole = UNKNOWN
    rank: Whole = UNKNOWN
    globalrank: Whole = UNKNOWN
    dev: Whole = 0
    color: int = UNKNOWN
    count: Whole = 0
    datatype: Whole = UNKNOWN
    root: Whole = UNKNOWN
    stream: str = ""
    sendcounts: list[Whole] = []
    recvcounts: list[Whole] = []
    calls: list[dict[str, Any]] = []


def recognises(beginning: bytes) -> bool:
    """Returns whether a file that begins so may be a replay log in text or in JSON."""
    return BEGINNING.match(beginning) is not None or STANDARD.match(beginning) is not None


def read(path: Path, reading: Reading, watch: Watch) -> list[RankRecord]:
    """Reads a log: a record for each GPU of the process. Raises InputFault for what is not one."""
    log = ReplayLog(path, NAME, reading)
    if _is_standard(path, watch):
        _take_standard(path, watch, log)
    else:
        _take_lines(path, watch, log)
    return log.records()


def _is_standard(path: Path, watch: Watch) -> bool:
    """Whether a log is JSON: its first key is in quotes."""
    for _, line in lines_of(path, watch):
        if text := line.strip().removeprefix("{").strip():
            return text.startswith('"')
    return False


def _take_lines(path: Path, watch: Watch, log: ReplayLog) -> None:
    opened = False
    for number, line in lines_of(path, watch):
        place, text = f"line {number}", line.strip()
        if not opened:
            opened = "version : " in text
            continue
        if not text or text == "]":
            continue
        if text in BRACES:
            log.take(ReplayCall(BRACES[text], place))
        elif (said := LINE.fullmatch(line)) is not None:
            log.take(_of_line(path, place, said[1], line))
        elif not line.endswith("\n"):
            log.cut_off(place)
        else:
            raise InputFault(f"{path}: {place}: is no call of RCCL: '{text[:60]}'")


def _of_line(path: Path, place: str, name: str, line: str) -> ReplayCall:
    """The call of a line. Raises InputFault for a field that is not of its kind."""
    fields: dict[str, str] = {}
    for said in FIELD.finditer(line):
        fields.setdefault(said[1], said[2].strip())
    lists = {said[1]: listed_numbers(said[2]) for said in LIST.finditer(line)}

    def whole(key: str, otherwise: int = UNKNOWN) -> int:
        text = fields.get(key)
        if text is None:
            return otherwise
        if re.fullmatch("-?[0-9]{1,18}", text) is None:
            raise InputFault(f"{path}: {place}: {key} : '{text}': must be a whole number")
        return int(text)

    try:
        time_ms = float(fields.get("time", "0"))
    except ValueError as error:
        raise InputFault(f"{path}: {place}: time : '{fields['time']}': must be milliseconds") from error
    size, rank = ("size", "rank") if name == MADE else ("nranks", "globalrank")
    return ReplayCall(
        name, place, time_ms, whole("captured", 0), whole("dev" if name == MADE else "device", 0), fields.get("comm", ""),
        fields.get("uniqueID", ""), whole(size), whole(rank), _color(name, fields, whole), whole("count", 0),
        whole("datatype"), whole("root"), fields.get("stream", ""), lists.get("sendcounts", ()),
        lists.get("recvcounts", ()),
    )  # fmt: skip


def _color(name: str, fields: dict[str, str], whole: Callable[[str], int]) -> int:
    """The color of a split, which the recorder writes behind `key` and the converter, whose context has a pid, in its place."""
    if name != SPLIT:
        return UNKNOWN
    return whole("color" if "pid" in fields else "key")


def _take_standard(path: Path, watch: Watch, log: ReplayLog) -> None:
    items = JsonItems(path, "calls", StandardCall, StandardHead, watch)
    for number, call in enumerate(items):
        place = f"calls[{number}]"
        if call.type != GROUPED:
            log.take(_of_standard(place, call))
            continue
        log.take(ReplayCall(GROUP_START, place))
        for inner, said in enumerate(call.calls):
            at = f"{place}: calls[{inner}]"
            try:
                log.take(_of_standard(at, msgspec.convert(said, StandardCall)))
            except msgspec.ValidationError as error:
                raise InputFault(f"{path}: {at}: {error}") from error
        log.take(ReplayCall(GROUP_ENDS[0], place))
    items.head()


def _of_standard(place: str, call: StandardCall) -> ReplayCall:
    made = call.type == MADE
    context = call.context
    return ReplayCall(
        call.type, place, context.time, context.captured, call.dev if made else context.device, call.comm, str(call.uniqueID),
        call.size if made else call.nranks, call.rank if made else call.globalrank, call.color, call.count, call.datatype,
        call.root, call.stream, tuple(call.sendcounts), tuple(call.recvcounts),
    )  # fmt: skip
