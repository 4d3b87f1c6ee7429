"""`gradwire ccl --log FILE`: a log of nccl-tests beside what the model expects of the same machines, row by row, and the
one change of them that explains what is off.

A log says most of the machines itself: hosts, GPUs and their names (the lines "# Rank"), the version of NCCL, the NICs
that it uses (NCCL_DEBUG=INFO), and by the ratio of busbw to algbw which collective of how many GPUs it is
(doc/PERFORMANCE.md of nccl-tests). What it does not say is as the command's options have it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import exp, log
from pathlib import Path
from statistics import median
from typing import Any

from gradwire.faults import InputFault
from gradwire.reading_budget import reading_budget
from gradwire.regular_files import read_text
from gradwire.runs.ccl import MOST_REPLAYED_OPS, Row, bus_factor, kind_of
from gradwire.runs.ccl_calls import call_machines
from gradwire.runs.ccl_machines import MI300X, TYPES, CclOptions, TestedCall
from gradwire.workloads.engines.nccl.chooser import KINDS
from gradwire.workloads.engines.nccl.devices import GpuName
from gradwire.workloads.engines.nccl.tables import TABLES, name_of

MOST_BYTES = 64 << 20
"""Logs with NCCL_DEBUG=INFO of a thousand ranks have some ten megabytes."""
MOST_ROWS = 1000
LARGE_BYTES = 1 << 20
TOLERANCES = {False: 0.20, True: 0.10}
"""How far a row may be off, below `LARGE_BYTES` and from there on: what docs/ccl.md aims at for the model."""
MOST_WEIGHED_OPS = 10_000
"""Plans that are replayed for a change that may explain a log: small calls, where latencies decide."""
EXPLAINED = 0.10
"""A change explains rows that are this close to it in the median."""
_ROW = re.compile(
    r"(?:^|[\s>:])(?P<size>\d{1,14})\s+(?P<count>\d{1,14})\s+(?P<type>float|double|half|bfloat16|int32|int8)\s+"
    r"(?:(?P<redop>sum|prod|max|min|avg|none|mulsum)\s+(?:(?P<root>-?\d{1,6})\s+)?|-1\s+)?"
    r"(?P<time>\d{1,12}(?:\.\d{1,6})?)\s+(?P<algbw>\d{1,9}(?:\.\d{1,6})?)\s+(?P<busbw>\d{1,9}(?:\.\d{1,6})?)(?:\s|$)"
)
_RANK = re.compile(
    r"#\s+Rank\s+(?P<rank>\d{1,7})\s+(?:Group\s+\d{1,7}\s+)?Pid\s+\d{1,10}\s+on\s+(?P<host>\S{1,255})\s+device\s+\d{1,4}\s+"
    r"\[[^\]]{1,32}\]\s+(?P<gpu>.{1,80})"
)
_VERSION = re.compile(r"NCCL version[:\s]+(?P<version>\d{1,3}\.\d{1,3})\.")
_NICS = re.compile(r"NET/IB : Using (?P<nics>(?:\[\d{1,3}\]\S{1,64}\s+){1,64})")
_PROGRAM = re.compile(
    r"\b(?P<kind>all_reduce|all_gather|reduce_scatter|broadcast|reduce|alltoall|sendrecv|gather|scatter|hypercube)_perf(?:_mpi)?\b"
)


@dataclass(frozen=True)
class LogRow:
    """A row of a log, out of place."""

    size_bytes: int
    type_name: str
    time_s: float
    #: Ratio of busbw to algbw; None where algbw is printed as less than 1 GB/s, with too few digits.
    factor: float | None


@dataclass
class NcclLog:
    """All that a log says. None: it does not say it."""

    rows: list[LogRow] = field(default_factory=list)
    kind: TestedCall | None = None
    machines: int | None = None
    gpus: int | None = None
    gpu: str | None = None
    #: The name of its GPUs as the log has it.
    gpu_text: str = ""
    version: str | None = None
    nics: int | None = None
    transport: str | None = None

    def options(self, given: CclOptions, written: frozenset[str]) -> CclOptions:
        """The options with what the log says of the machines, but for those that are `written` on the command line. Raises
        InputFault for GPUs that the model does not know."""
        if self.gpu_text and self.gpu is None and "gpu" not in written:
            raise InputFault(f"--log: its GPUs are {self.gpu_text!r}, which the model does not know: give --gpu")
        is_rccl = (self.gpu if "gpu" not in written else given.gpu) == MI300X
        names = ("machines", "gpus", "gpu", *(() if is_rccl else ("version",)), "nics", "transport")
        said: dict[str, Any] = {name: getattr(self, name) for name in names if name not in written}
        return replace(given, **{name: value for name, value in said.items() if value is not None})


def read_log(path: Path) -> NcclLog:
    """Reads a log of nccl-tests. Raises InputFault if it cannot be read or has no rows."""
    try:
        with reading_budget(path):
            text = read_text(path, MOST_BYTES, errors="replace", follow=True)
            return parse_log(text, str(path))
    except OSError as error:
        raise InputFault(f"--log {path}: {error.strerror}") from None


def parse_log(text: str, name: str) -> NcclLog:
    """Parses the text of a log; `name` is for messages. Raises InputFault if it has no rows, or several tables."""
    found = NcclLog()
    hosts: dict[str, int] = {}
    for line in text.splitlines():
        if row := _ROW.search(line):
            found.rows.append(_row(row))
        elif rank := _RANK.search(line):
            hosts[rank["host"]] = hosts.get(rank["host"], 0) + 1
            found.gpu_text = rank["gpu"].strip()
            found.gpu = _gpu_of(found.gpu_text)
        else:
            _take_debug_line(line, found)
    if not found.rows:
        raise InputFault(
            f"--log {name}: has no rows of nccl-tests (size, count, type, redop, root, time, algbw, busbw): give the "
            "output of all_reduce_perf or another of its programs"
        )
    sizes = [row.size_bytes for row in found.rows]
    if len(sizes) > MOST_ROWS or len(set(sizes)) < len(sizes):
        raise InputFault(f"--log {name}: has several tables, or more than {MOST_ROWS} rows: give one run alone")
    if hosts:
        if len(set(hosts.values())) > 1:
            raise InputFault(f"--log {name}: its machines have different numbers of GPUs, which this model has not")
        found.machines, found.gpus = len(hosts), next(iter(hosts.values()))
    return found


def _row(match: re.Match[str]) -> LogRow:
    algorithm, bus = float(match["algbw"]), float(match["busbw"])
    return LogRow(
        int(match["size"]), match["type"], float(match["time"]) / 1e6, bus / algorithm if algorithm >= 1 else None
    )


def _gpu_of(text: str) -> str | None:
    """The GPU that a product's name means; of those that contain each other, the longest."""
    squeezed = text.lower().replace(" ", "").replace("-", "")
    return max((name for name in (*GpuName, MI300X) if name in squeezed), key=len, default=None)


def _take_debug_line(line: str, found: NcclLog) -> None:
    if version := _VERSION.search(line):
        found.version = version["version"]
    elif nics := _NICS.search(line):
        found.nics, found.transport = len(nics["nics"].split()), "rdma"
    elif "NET/OFI" in line and "efa" in line.lower():
        found.transport, found.nics = "efa", None
    elif "NET/Socket : Using" in line and found.transport is None:
        found.transport = "tcp"
    elif program := _PROGRAM.search(line):
        found.kind = kind_of(program["kind"])


def kind_of_log(found: NcclLog, ranks: int, given: TestedCall, *, is_given: bool) -> TestedCall:
    """The collective of a log of so many GPUs: as its program says, or else as the command and the ratio of busbw to
    algbw say. Raises InputFault if the ratio is of another number of GPUs, or of another collective."""
    factors = [row.factor for row in found.rows if row.factor is not None]
    kind = given if is_given or found.kind is None else found.kind
    if not factors:
        return kind
    factor = median(factors)
    if abs(factor / bus_factor(kind, ranks) - 1) < 0.02:
        return kind
    if found.kind is None and not is_given:
        for other in KINDS:
            if abs(factor / bus_factor(other, ranks) - 1) < 0.02:
                return other
    raise InputFault(
        f"busbw is {factor:.3f} times algbw in the log, and {bus_factor(kind, ranks):.3f} times for {kind.value} among {ranks} "
        "GPUs: give the collective, and --machines and --gpus as they were"
    )


@dataclass(frozen=True)
class Compared:
    """A row of a log beside the model's."""

    measured_s: float
    expected: Row

    @property
    def ratio(self) -> float:
        """Measured over expected time: above 1, the measured call is slower."""
        return self.measured_s / self.expected.time_s

    @property
    def is_expected(self) -> bool:
        """Whether the row is as near as the model promises."""
        return abs(log(self.ratio)) <= log(1 + TOLERANCES[self.expected.size_bytes >= LARGE_BYTES])


def compare(
    rows: Sequence[LogRow], given: CclOptions, kind: TestedCall, most_ops: int = MOST_REPLAYED_OPS
) -> list[Compared]:
    """Compares rows with the model's of these machines, whose trees of up to `most_ops` ops are replayed. Rows of less
    than an element for each GPU are left out. Raises InputFault for machines that cannot be."""
    machines = call_machines(given, kind)
    return [
        Compared(row.time_s, machines.row(row.size_bytes, TYPES[row.type_name], most_ops))
        for row in rows
        if row.time_s > 0 and machines.is_whole(row.size_bytes, TYPES[row.type_name])
    ]


@dataclass(frozen=True)
class WhatIf:
    """A change of the machines that would explain a log."""

    #: The change, as a limit in words.
    words: str
    #: As the command has it.
    option: str
    given: CclOptions
    #: Median distance of the rows that are off, as a share.
    off: float = 0.0


def what_ifs(given: CclOptions) -> Iterator[WhatIf]:
    """Yields the usual causes of slow calls, each as other machines; none for RCCL."""
    if given.gpu == MI300X:
        return
    if given.machines > 1:
        for nics in dict.fromkeys((given.nics // 2, given.nics // 4, 1)):
            if 1 <= nics < given.nics:
                words = f"only {nics} of {given.nics} NICs carried the traffic, or each {nics}/{given.nics} of its rate"
                yield WhatIf(words, f"--nics {nics}", replace(given, nics=nics))
        if given.transport != "tcp":
            words = "NCCL used sockets, and not the NICs' RDMA"
            yield WhatIf(words, "--transport tcp", replace(given, transport="tcp", plugin=None, latency=None))
        for latency_us in (10, 20, 40, 80):
            words = f"a message between machines took {latency_us} us on top of NCCL's table"
            yield WhatIf(words, f"--latency {latency_us}us", replace(given, latency=f"{latency_us}us"))
    if given.nvswitch:
        words = "there were no NVLS (NCCL_NVLS_ENABLE=0, or NVSwitch's multicast is not set up)"
        yield WhatIf(words, "--no-nvswitch", replace(given, nvswitch=False))
    if given.links != 0 and given.gpus > 1:
        words = "GPUs of a machine exchanged over PCI Express, and not NVLink"
        yield WhatIf(words, "--nvlink 0", replace(given, links=0))


def explain(rows: Sequence[LogRow], given: CclOptions, kind: TestedCall, compared: Sequence[Compared]) -> WhatIf | None:
    """The change that comes closest to the rows that are off and leaves the others as they are; None where none of them
    does."""
    off = {one.expected.size_bytes for one in compared if not one.is_expected}
    best: WhatIf | None = None
    for one in what_ifs(given):
        changed = compare(rows, one.given, kind, MOST_WEIGHED_OPS)
        distances = [abs(log(each.ratio)) for each in changed if each.expected.size_bytes in off]
        kept = sum(each.is_expected for each in changed if each.expected.size_bytes not in off)
        if not distances or kept < (len(compared) - len(off)) / 2:
            continue
        distance = exp(median(distances)) - 1
        if distance <= EXPLAINED and (best is None or distance < best.off):
            best = replace(one, off=distance)
    return best


def facts_of(found: NcclLog, written: frozenset[str]) -> Mapping[str, str]:
    """Who says each fact of the machines: the log, the command, or the command's default."""
    return {
        name: "command" if name in written else "log" if getattr(found, name) is not None else "default"
        for name in ("machines", "gpus", "gpu", "version", "nics", "transport")
    } | {"nic": "command" if "nic" in written else "default"}


def known_version(found: NcclLog) -> str | None:
    """The log's version if the model knows it, else the nearest that it knows; None where the log does not say it."""
    if found.version is None:
        return None
    major, minor = (int(part) for part in found.version.split("."))
    nearest = min(TABLES, key=lambda one: abs((one[0] - major) * 100 + one[1] - minor))
    return name_of(nearest)
