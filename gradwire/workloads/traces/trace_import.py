"""Reads traces of any known format, and makes a workload of them with a verdict on how they were read.

Which rank a file is of, how many ranks there are, and what those without a file do, is decided here; assembly.py puts
together what the ranks' files say.

A workload's summary says what it consists of: calls and bytes by kind and group, computation, and exposed
communication as recorded.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from gradwire.faults import InputFault
from gradwire.files import replacing
from gradwire.reading_budget import reading_budget
from gradwire.workloads.traces.assembly import Assembly
from gradwire.workloads.traces.filling import fill_missing
from gradwire.workloads.traces.formats import (
    chakra,
    chakra_json,
    deepspeed_log,
    execution_trace,
    goal,
    goal_binary,
    kineto_profile,
    msccl,
    nccl_inspector,
    nccl_log,
    rccl_replay_binary,
    rccl_replay_text,
    recording,
    simai,
)
from gradwire.workloads.traces.formats.json_items import beginning
from gradwire.workloads.traces.group_files import is_group_file, read_groups, split_names
from gradwire.workloads.traces.memberships import settle_memberships
from gradwire.workloads.traces.missing_groups import groups_shown
from gradwire.workloads.traces.record import (
    MOST_RANKS,
    Findings,
    ImportFinding,
    RankRecord,
    Reading,
    Watch,
    cut_short,
)
from gradwire.workloads.traces.workload import FILE_NAME, Kind, Workload

SHOWN_RANKS = 4


@dataclass(frozen=True)
class CallRow:
    """Calls of one kind in one group, or messages."""

    kind: str
    #: The group's number in the workload; None for messages.
    number: int | None
    #: The group's ranks, in short.
    group: str
    #: Collectives, or messages, each once.
    calls: int
    #: Sum of their sizes, each once (see Kind); where ranks put in different sizes, the mean of theirs.
    size_bytes: int
    #: Sum of how long they took at the first rank that has them, as recorded; None if that is not known.
    recorded_s: float | None


@dataclass(frozen=True)
class WorkloadSummary:
    """A workload in numbers."""

    ranks: int
    rows: tuple[CallRow, ...]
    #: Least and most that a rank computes; None where the traces have no times.
    compute_s: tuple[float, float] | None
    #: By file: seconds of communication during which nothing was computed, as recorded.
    exposed_s: dict[str, float]


def summary_of(workload: Workload, records: Sequence[RankRecord]) -> WorkloadSummary:
    """The summary of a workload that these records were made into."""
    timed = all(record.timed for record in records)
    exposed = {record.file: record.exposed_s for record in records if record.exposed_s is not None}
    per_rank = workload.compute_s
    compute_s = (float(per_rank.min()), float(per_rank.max())) if timed and len(per_rank) else None
    return WorkloadSummary(workload.ranks, tuple(_rows(workload)), compute_s, exposed)


def _rows(workload: Workload) -> list[CallRow]:
    tasks = workload.tasks
    calls, first = np.unique(tasks.call, return_index=True)
    once = first[calls >= 0]
    has_call = tasks.call >= 0
    size_bytes = np.bincount(tasks.call[has_call], tasks.size_bytes[has_call]) / np.maximum(
        np.bincount(tasks.call[has_call]), 1
    )
    kind = np.where(tasks.kind[once] == Kind.RECV, Kind.SEND, tasks.kind[once])
    pairs = np.unique(np.stack([tasks.group[once], kind], axis=1), axis=0)
    rows = []
    for group, of_kind in pairs.tolist():
        chosen = once[(tasks.group[once] == group) & (kind == of_kind)]
        durations = tasks.duration_ns[chosen]
        recorded_s = float(durations.sum()) / 1e9 if (durations >= 0).all() else None
        ranks = _words(workload.groups[group]) if group >= 0 else "pairs"
        rows.append(
            CallRow(
                Kind(of_kind).words,
                group if group >= 0 else None,
                ranks,
                len(chosen),
                round(float(size_bytes[tasks.call[chosen]].sum())),
                recorded_s,
            )
        )
    return rows


def _words(ranks: Sequence[int]) -> str:
    shown = ", ".join(map(str, ranks[:SHOWN_RANKS]))
    return f"{len(ranks)}: {shown}{', ...' if len(ranks) > SHOWN_RANKS else ''}"


VERDICT_FILE, VERDICT_VERSION = "verdict.json", 1
TAR_MAGIC_AT, TAR_MAGIC = 257, b"ustar"
"""Offset and text of a tar archive's mark (POSIX.1-1988)."""
BEGINNING_BYTES = 16 << 20
"""The most bytes before a profile's events: device properties, and the ranks of all process groups, which are megabytes
for thousands of ranks."""


OF_NAME = re.compile(r"(?:^|[._-])(?:rank|npu|gpu|host|device|r)?[._-]?(\d{1,9})$")
"""A rank at the end of a name: `job.3`, `job_rank3`, `npu.3`; not the number of `resnet50`."""


@dataclass(frozen=True)
class Format:
    """A format of traces: how a file's beginning shows that it is one, and what reads a file."""

    name: str
    recognises: Callable[[bytes], bool]
    #: It may also read the file of several ranks, or of all.
    read: Callable[[Path, Reading, Watch], RankRecord | list[RankRecord]]


MODULES = (
    *(recording, goal, goal_binary, msccl, simai, nccl_inspector, rccl_replay_text, rccl_replay_binary),
    *(execution_trace, kineto_profile, chakra_json, deepspeed_log, nccl_log, chakra),
)
"""In the order in which they are asked."""
FORMATS = tuple(Format(module.NAME, module.recognises, module.read) for module in MODULES)


@dataclass(frozen=True)
class TraceFile:
    """A file that was read."""

    file: str
    format: str
    #: The rank that the file names; None if it names none, or several.
    rank: int | None
    calls: int


@dataclass(frozen=True)
class Imported:
    """The outcome of an import."""

    sources: tuple[TraceFile, ...]
    findings: tuple[ImportFinding, ...]
    #: None if it would be a guess: the findings say why.
    workload: Workload | None
    summary: WorkloadSummary | None

    @property
    def refusals(self) -> tuple[ImportFinding, ...]:
        """Returns the findings for which there is no workload."""
        return tuple(finding for finding in self.findings if finding.refused)

    def write(self, folder: Path) -> None:
        """Writes the workload, if there is one, and the verdict to a folder."""
        folder.mkdir(parents=True, exist_ok=True)
        if self.workload is None:
            (folder / FILE_NAME).unlink(missing_ok=True)  # an earlier import's would be taken for this one's
        else:
            self.workload.save(folder / FILE_NAME)
        document = {
            "format": "gradwire import verdict",
            "version": VERDICT_VERSION,
            "sources": [asdict(source) for source in self.sources],
            "refused": [asdict(finding) for finding in self.refusals],
            "rests_on": [asdict(finding) for finding in self.findings if not finding.refused],
            "summary": asdict(self.summary) if self.summary else None,
        }
        with replacing(folder / VERDICT_FILE) as partial:
            partial.write_text(json.dumps(document, indent=1) + "\n")


def import_traces(paths: Sequence[Path], name: str, reading: Reading, watch: Watch) -> Imported:
    """Reads the traces of a job's ranks.

    Raises InputFault for a file that cannot be read, with its name and the place.
    """
    with reading_budget(f"the {len(paths)} traces" if len(paths) > 1 else paths[0], 0):
        findings = Findings()
        formats = [(path, _format_of(path)) for path in paths]
        reading = _with_group_files([path for path, known in formats if known is None], reading, findings)
        records = []
        for path, known in formats:
            records += [] if known is None else _records_of(path, known, reading, watch)
        if not records:
            raise InputFault(f"{paths[0]}: has the ranks of process groups: give the traces as well")
        if any(record.unknown_groups for record in records):
            known_formats = {path: known for path, known in formats if known is not None}
            records = _with_groups_shown(records, known_formats, reading, watch, findings)
        settle_memberships(records, reading.ranks)
        workload = assemble(name, records, reading, findings)
        return Imported(
            _sources(records), findings.all, workload, None if workload is None else summary_of(workload, records)
        )


def _sources(records: Sequence[RankRecord]) -> tuple[TraceFile, ...]:
    """The files that were read; one that has several ranks is of none of them."""
    sources: list[TraceFile] = []
    for _, of_file in itertools.groupby(records, key=lambda record: record.path):
        first, *others = of_file
        calls = sum(len(record.calls) for record in (first, *others))
        sources.append(TraceFile(first.file, first.format_name, None if others else first.rank, calls))
    return tuple(sources)


def _records_of(path: Path, known: Format, reading: Reading, watch: Watch) -> list[RankRecord]:
    """The records of a file. Raises InputFault."""
    try:
        with reading_budget(path):
            read = known.read(path, reading, watch)
    except InputFault as fault:
        raise InputFault(cut_short(str(fault))) from fault
    watch(path, 1, 1)
    return [read] if isinstance(read, RankRecord) else read


def _with_group_files(paths: Sequence[Path], reading: Reading, findings: Findings) -> Reading:
    """The reading with the process groups of files that came with the traces; --groups goes before them.

    Raises InputFault for more than one such file.
    """
    if not paths:
        return reading
    if len(paths) > 1:
        raise InputFault(f"{paths[1]}: has the ranks of process groups, as {paths[0]} has: give one of them")
    groups = read_groups(paths[0], str(paths[0]))
    given = {*reading.groups, *reading.several_groups}
    one, several = split_names({name: lists for name, lists in groups.items() if name not in given})
    findings.note(str(paths[0]), "", "came with the traces: the ranks of process groups are taken from it", len(groups))
    return replace(reading, groups={**one, **reading.groups}, several_groups={**several, **reading.several_groups})


def _with_groups_shown(
    records: Sequence[RankRecord],
    known: Mapping[Path, Format],
    reading: Reading,
    watch: Watch,
    findings: Findings,
) -> list[RankRecord]:
    """The records, those of files anew that do not say the ranks of a group which all files together show."""
    by_rank = _records_by_rank(records, Findings())
    shown = {by_rank[rank].path: groups for rank, groups in groups_shown(by_rank, reading.ranks).items()}
    whole = []
    for record in records:
        groups = shown.get(record.path)
        if groups is not None:
            what = "ranks of process groups that the file does not say: taken from what all files together show"
            findings.note(record.file, "", what, len(groups))
            again = replace(reading, groups={**groups, **reading.groups})
            whole += _records_of(record.path, known[record.path], again, watch)
        else:
            whole.append(record)
    return whole


def assemble(name: str, records: Sequence[RankRecord], reading: Reading, findings: Findings) -> Workload | None:
    """The workload of all ranks; None, with the reasons in `findings`, where it would be a guess."""
    for record in records:
        findings.add_all(record.findings.all)
    if not any(record.calls for record in records) and not findings.refused:
        findings.refuse(records[0].file, "", "no communication is recorded")
    if findings.refused:
        return None
    by_rank = _records_by_rank(records, findings)
    for rank, record in by_rank.items():
        record.settle(rank, reading)
    world = None if findings.refused else _world(by_rank, reading, findings)
    if findings.refused or world is None:
        return None
    whole = fill_missing(by_rank, world, findings)
    if findings.refused:
        return None
    return Assembly(name, whole, world, findings).workload()


def _records_by_rank(records: Sequence[RankRecord], findings: Findings) -> dict[int, RankRecord]:
    """The records by rank: as a file says, or else the number that its name ends in, or 0 for a single file."""
    by_rank: dict[int, RankRecord] = {}
    for record in records:
        rank = record.rank
        if rank is None:
            number = OF_NAME.search(re.sub(r"\.(json|et|eg|gz)\b.*", "", record.path.name))
            if number is None and len(records) > 1:
                findings.refuse(
                    record.file,
                    "",
                    "which rank is it of? The file does not say, and its name ends in no number: call it NAME.RANK.et",
                )
                continue
            rank = int(number[1]) if number else 0
            how = "from the number that its name ends in" if number else "as rank 0"
            findings.note(record.file, "", f"does not say which rank it is of: taken {how}")
        if rank in by_rank:
            findings.refuse(record.file, "", f"is of rank {rank}, as is {by_rank[rank].file}")
        by_rank[rank] = record
    return dict(sorted(by_rank.items()))


def _world(by_rank: dict[int, RankRecord], reading: Reading, findings: Findings) -> int | None:
    """Number of ranks: as the user says, as the files say, or as many as there are files from rank 0 on."""
    said = {record.world: record.file for record in by_rank.values() if record.world is not None}
    if len(said) > 1:
        (one, file), (other, second) = list(said.items())[:2]
        findings.refuse(second, "", f"is of a job of {other} ranks, and {file} of one of {one}")
        return None
    for stated_ranks, file in said.items():
        if reading.ranks not in (None, stated_ranks):
            findings.refuse(file, "", f"is of a job of {stated_ranks} ranks, and --ranks says {reading.ranks}")
            return None
    in_groups = 1 + max(
        (max(ranks) for record in by_rank.values() for ranks in record.groups.values() if ranks), default=-1
    )
    world = reading.ranks or next(iter(said), None) or (in_groups or None)
    if world is None and len(by_rank) > 1 and list(by_rank) == list(range(len(by_rank))):
        world = len(by_rank)
        findings.note(
            "", "", f"the files do not say how many ranks there are: taken as the {world} that there are files of"
        )
    if world is None:
        file = next(iter(by_rank.values())).file
        findings.refuse(file, "", "does not say how many ranks there are: give their number with --ranks")
        return None
    largest = max(in_groups, 1 + max(by_rank))
    if not largest <= world <= MOST_RANKS:
        record = by_rank[max(by_rank)]
        what = f"{world:,} ranks are more than the {MOST_RANKS:,} that are read"
        if world < largest:
            what = f"speaks of rank {largest - 1}, and there are {world} ranks"
        findings.refuse(record.file, "", what)
    return world


def _format_of(path: Path) -> Format | None:
    """The format of a file; None for one of process groups. Raises InputFault for a file of none of the formats."""
    start = beginning(path, BEGINNING_BYTES)
    if not start:
        raise InputFault(f"{path}: is empty")
    for known in FORMATS:
        if known.recognises(start):
            return known
    if is_group_file(start):
        return None
    if _is_archive(start):
        raise InputFault(f"{path}: is an archive of files: unpack it, and give the traces in it")
    raise InputFault(f"{path}: is none of: {', '.join(known.name for known in FORMATS)}")


def _is_archive(start: bytes) -> bool:
    """Returns whether a file begins as a tar archive, packed or not, or a zip file does."""
    return start.startswith(b"PK\x03\x04") or start[TAR_MAGIC_AT:].startswith(TAR_MAGIC)
