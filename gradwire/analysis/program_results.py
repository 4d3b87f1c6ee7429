"""Figures from the output of programs, the results of a scenario of programs, and its tables.

One table has a row per point, the other a row per row of figures. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from gradwire.analysis.parameters import parameter_number
from gradwire.analysis.verdict.verdict import Verdict
from gradwire.faults import InputFault
from gradwire.strict_json import parse_json
from gradwire.typed_json import decoded

Value = float | int | str | bool
Row = dict[str, Value]
LONGEST_SHOWN = 60
"""Characters of a wrong line that are shown."""
MOST_NAMES, LONGEST_NAME = 1_000, 200
"""Figures of a program, and characters of a figure's name: each becomes a column of tables, and may be an axis of a chart."""
PROGRAM, HOST, VERDICT = "program", "host", "verdict"
OWN_COLUMNS = (PROGRAM, HOST, VERDICT)
"""Columns that say where a row of figures comes from, and whether it is a result."""


def read_lines(text: str) -> list[Row]:
    """Rows from lines of JSON, each an object whose values are numbers, texts or truth values. Blank lines are
    skipped.

    Raises InputFault, with the line's number, for a line that is none; as whoever wrote a last line may have been
    ended in the middle of it, that one too.
    """
    rows = []
    known: set[str] = set()
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            rows.append(_row_of(line, number))
            known.update(rows[-1])
            _refuse_names(known, rows[-1], number)
    return rows


def _refuse_names(known: Collection[str], new: Collection[str], number: int) -> None:
    """Raises InputFault for names of figures that are too many or too long for a table. number: of the line with the new ones."""
    if len(known) > MOST_NAMES:
        raise InputFault(f"line {number}: with it, there are more than {MOST_NAMES:,} names of figures")
    longest = max(map(len, new), default=0)
    if longest > LONGEST_NAME:
        raise InputFault(
            f"line {number}: a name of a figure has {longest:,} characters; must be at most {LONGEST_NAME}"
        )


def _row_of(line: str, number: int) -> Row:
    example = 'such as {"size_bytes": 64, "time_s": 0.012}'
    try:
        row = parse_json(line)
    except ValueError as error:
        raise InputFault(f"line {number}: no JSON object, {example}: {_cut(line)} ({error})") from error
    if not isinstance(row, dict):
        raise InputFault(f"line {number}: no JSON object, {example}: {_cut(line)}")
    wrong = [name for name, value in row.items() if not isinstance(value, Value)]
    if wrong:
        raise InputFault(f"line {number}: {wrong[0]}: must be a number, a text or a truth value, {example}")
    return row


def _cut(line: str) -> str:
    return line if len(line) <= LONGEST_SHOWN else f"{line[:LONGEST_SHOWN]}..."


class _IperfSum(msgspec.Struct):
    """A sum over all streams of a test; what a test does not have is left out."""

    seconds: float
    bytes: int
    bits_per_second: float
    retransmits: int | None = None
    lost_percent: float | None = None
    jitter_ms: float | None = None


class _IperfEnd(msgspec.Struct):
    sum_sent: _IperfSum | None = None
    sum_received: _IperfSum | None = None
    sum_received_bidir_reverse: _IperfSum | None = None


class _IperfReport(msgspec.Struct):
    """The parts of a report of iperf3 --json that are read (docs: `man iperf3`, src/iperf_api.c)."""

    end: _IperfEnd = msgspec.field(default_factory=_IperfEnd)
    error: str = ""


def read_iperf3(text: str) -> list[Row]:
    """A row per direction from the report of `iperf3 --json`: goodput_bps and bytes at the receiver, duration_s,
    retransmits at the sender.

    Of a test over UDP, lost_percent and jitter_ms too. Raises InputFault for another text, and with the reason for a
    test that failed.
    """
    try:
        # Not strictly: iperf3 itself says `sock_bufsize` twice.
        report = decoded(text, _IperfReport)
    except msgspec.DecodeError as error:
        raise InputFault(f"no report of `iperf3 --json`: {error}") from error
    if report.error:
        raise InputFault(f"iperf3 failed: {report.error}")
    end = report.end
    directions = [("forward", end.sum_received), ("reverse", end.sum_received_bidir_reverse)]
    rows = [_iperf_row(direction, received, end.sum_sent) for direction, received in directions if received is not None]
    if not rows:
        raise InputFault("a report of `iperf3 --json` without what was received")
    return rows


def _iperf_row(direction: str, received: _IperfSum, sent: _IperfSum | None) -> Row:
    row: Row = {
        "direction": direction,
        "goodput_bps": received.bits_per_second,
        "received_bytes": received.bytes,
        "duration_s": received.seconds,
    }
    if direction == "forward" and sent is not None and sent.retransmits is not None:
        row["retransmits"] = sent.retransmits
    if received.lost_percent is not None:
        row["lost_percent"] = received.lost_percent
    if received.jitter_ms is not None:
        row["jitter_ms"] = received.jitter_ms
    return row


def read_osu(text: str) -> list[Row]:
    """A row per line of numbers that an OSU micro-benchmark prints, named after the columns of the comment above:
    size_bytes, latency_us.

    Raises InputFault for lines without a comment that names their columns, and for an output without any.
    """
    names: list[str] = []
    rows: list[Row] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if line.startswith("# Size"):
            names = [_column(part) for part in re.split(r"\s{2,}|\t", line.removeprefix("#").strip())]
            _refuse_names(names, names, number)
            continue
        values = line.split()
        if not values or line.startswith("#") or not re.fullmatch(r"[0-9.]+", values[0]):
            continue
        if len(values) != len(names):
            raise InputFault(f"line {number}: {len(values)} numbers below {len(names)} columns: {_cut(line)}")
        try:
            rows.append({name: _number(value) for name, value in zip(names, values, strict=True)})
        except ValueError as error:
            raise InputFault(f"line {number}: not all numbers: {_cut(line)}") from error
    if not rows:
        raise InputFault("no table of an OSU micro-benchmark, which begins with `# Size`")
    return rows


def _column(header: str) -> str:
    """A column's name: "size_bytes" for "Size", "avg_latency_us" for "Avg
    Latency(us)", "bandwidth_mb_per_s" for "Bandwidth (MB/s)"."""
    name = re.sub(r"[^a-z0-9]+", "_", header.lower().replace("/", " per ")).strip("_")
    return "size_bytes" if name == "size" else name


def _number(text: str) -> Value:
    return int(text) if text.isdigit() else float(text)


READERS: Mapping[str, Callable[[str], list[Row]]] = {"lines": read_lines, "iperf3": read_iperf3, "osu": read_osu}
"""Functions that read figures, by their names in scenarios (scenario/program_scenarios.py)."""


@dataclass(frozen=True)
class FigureRow:
    """A row of figures, and where it comes from."""

    program: str
    host: str
    figures: Row


@dataclass(frozen=True)
class ProgramResult:
    """The results of one point. The figures of an invalid point are kept but are not results."""

    #: Every swept parameter and its value, as text.
    parameters: dict[str, str]
    #: Virtual time from the start of the first program to the end of the last; None if the run did not come to its
    #: end.
    duration_s: float | None
    figures: tuple[FigureRow, ...]
    #: Largest memory of the kernel; 0 if the run did not come to its end.
    memory_bytes: int
    wall_s: float
    verdict: Verdict
    #: Effects of flow control, line by line; empty without it.
    pauses: tuple[str, ...] = ()
    #: The lines of the network that were used most, by name, each with its mean use of its rate.
    line_uses: tuple[tuple[str, float], ...] = ()

    @property
    def valid(self) -> bool:
        """Whether the figures are results."""
        return self.verdict.valid

    @property
    def summary(self) -> str:
        """The result in a few words."""
        rows = f"{len(self.figures)} {'row' if len(self.figures) == 1 else 'rows'} of figures"
        return f"{self.duration_s or 0.0:.6f} s of virtual time, {rows}"

    @property
    def state(self) -> str:
        """The word that the verdict begins with: "valid", "failed" if a
        program failed by itself, and otherwise "invalid"."""
        return self.verdict.summary.partition(":")[0]


def varied_parameters(results: Sequence[ProgramResult]) -> list[str]:
    """The parameters that not all points share."""
    keys = dict.fromkeys(key for result in results for key in result.parameters)
    return [key for key in keys if len({result.parameters.get(key, "") for result in results}) > 1]


def is_number(texts: Sequence[str]) -> bool:
    """Returns whether all values of a parameter are numbers or rates."""
    return all(parameter_number(text) is not None for text in texts)


def words(parameters: Mapping[str, str], keys: Sequence[str]) -> str:
    """A point by these of its parameters."""
    return ", ".join(f"{key} = {parameters[key]}" for key in keys if parameters.get(key))
