"""Figures from what programs write: rows of names and values. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from gradwire.faults import InputFault

Value = float | int | str | bool
Row = dict[str, Value]
LONGEST_SHOWN = 60
"""Characters of a wrong line that are shown."""


def read_lines(text: str) -> list[Row]:
    """Rows from lines of JSON, each an object whose values are numbers, texts or truth values. Blank lines are skipped.

    Raises InputFault, with the line's number, for a line that is none; as whoever wrote a last line may have been ended in the middle of
    it, that one too.
    """
    rows = []
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            rows.append(_row_of(line, number))
    return rows


def _row_of(line: str, number: int) -> Row:
    example = 'such as {"size_bytes": 64, "time_s": 0.012}'
    try:
        row = msgspec.json.decode(line, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError) as error:
        raise InputFault(f"line {number}: no JSON object, {example}: {_cut(line)}") from error
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
    """What of the report of iperf3 --json is read (docs: `man iperf3`, src/iperf_api.c)."""

    end: _IperfEnd = msgspec.field(default_factory=_IperfEnd)
    error: str = ""


def read_iperf3(text: str) -> list[Row]:
    """A row per direction from the report of `iperf3 --json`: goodput_bps and bytes at the receiver, duration_s, retransmits at the sender.

    Of a test over UDP, lost_percent and jitter_ms too. Raises InputFault for another text, and with the reason for a test that failed.
    """
    try:
        report = msgspec.json.decode(text, type=_IperfReport)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InputFault(f"no report of `iperf3 --json`: {error}") from error
    if report.error:
        raise InputFault(f"iperf3 failed: {report.error}")
    end = report.end
    found = [("forward", end.sum_received), ("reverse", end.sum_received_bidir_reverse)]
    rows = [_iperf_row(direction, each, end.sum_sent) for direction, each in found if each is not None]
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
    """A row per line of numbers that an OSU micro-benchmark prints, named after the columns of the comment above: size_bytes, latency_us.

    Raises InputFault for lines without a comment that names their columns, and for an output without any.
    """
    names: list[str] = []
    rows: list[Row] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if line.startswith("# Size"):
            names = [_column(part) for part in re.split(r"\s{2,}|\t", line.removeprefix("#").strip())]
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
    """A column's name: "size_bytes" for "Size", "avg_latency_us" for "Avg Latency(us)", "bandwidth_mb_per_s" for "Bandwidth (MB/s)"."""
    name = re.sub(r"[^a-z0-9]+", "_", header.lower().replace("/", " per ")).strip("_")
    return "size_bytes" if name == "size" else name


def _number(text: str) -> Value:
    return int(text) if text.isdigit() else float(text)


READERS: Mapping[str, Callable[[str], list[Row]]] = {"lines": read_lines, "iperf3": read_iperf3, "osu": read_osu}
"""By what a scenario calls them (scenario/program_scenarios.py)."""
