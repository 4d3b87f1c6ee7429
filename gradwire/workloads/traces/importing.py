"""Reads traces of any known format, and makes a workload of them with a verdict on how they were read."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from gradwire.faults import InputFault
from gradwire.files import replacing
from gradwire.workloads.traces.assembly import assembled
from gradwire.workloads.traces.findings import Finding, Findings, cut_short
from gradwire.workloads.traces.formats import chakra, chakra_json, execution_trace, kineto
from gradwire.workloads.traces.formats.json_items import beginning
from gradwire.workloads.traces.record import RankRecord, Reading, Watch
from gradwire.workloads.traces.summary import Summary, summary_of
from gradwire.workloads.traces.workload import FILE_NAME, Workload

VERDICT_FILE, VERDICT_VERSION = "verdict.json", 1
TAR_MAGIC_AT, TAR_MAGIC = 257, b"ustar"
"""Where a tar archive has its mark (POSIX.1-1988)."""
BEGINNING_BYTES = 16 << 20
"""What precedes a profile's events: device properties, and the ranks of all process groups, which are megabytes for
thousands of ranks."""


@dataclass(frozen=True)
class Format:
    """A format of traces: how a file of it is told from its beginning, and what reads one rank's."""

    name: str
    recognises: Callable[[bytes], bool]
    read: Callable[[Path, Reading, Watch], RankRecord]


MODULES = (execution_trace, kineto, chakra_json, chakra)
FORMATS = tuple(Format(module.NAME, module.recognises, module.read) for module in MODULES)


@dataclass(frozen=True)
class Source:
    """A file that was read."""

    file: str
    format: str
    #: As the file says; None if it does not.
    rank: int | None
    calls: int


@dataclass(frozen=True)
class Imported:
    """The outcome of an import."""

    sources: tuple[Source, ...]
    findings: tuple[Finding, ...]
    #: None if it would be a guess: the findings say why.
    workload: Workload | None
    summary: Summary | None

    @property
    def refusals(self) -> tuple[Finding, ...]:
        """Why there is no workload."""
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
    """Reads the traces of a job's ranks. Raises InputFault for a file that cannot be read, with its name and the
    place."""
    records = []
    for path in paths:
        try:
            records.append(_format_of(path).read(path, reading, watch))
        except InputFault as fault:
            raise InputFault(cut_short(str(fault))) from fault
        watch(path, 1, 1)
    findings = Findings()
    workload = assembled(name, records, reading, findings)
    sources = tuple(Source(record.file, record.format_name, record.rank, len(record.calls)) for record in records)
    return Imported(sources, findings.all, workload, None if workload is None else summary_of(workload, records))


def _format_of(path: Path) -> Format:
    """Raises InputFault for a file of none of the formats."""
    start = beginning(path, BEGINNING_BYTES)
    if not start:
        raise InputFault(f"{path}: is empty")
    for known in FORMATS:
        if known.recognises(start):
            return known
    if _is_archive(start):
        raise InputFault(f"{path}: is an archive of files: unpack it, and give the traces in it")
    raise InputFault(f"{path}: is none of: {', '.join(known.name for known in FORMATS)}")


def _is_archive(start: bytes) -> bool:
    """Whether a file begins as a tar archive, packed or not, or a zip file does."""
    return start.startswith(b"PK\x03\x04") or start[TAR_MAGIC_AT:].startswith(TAR_MAGIC)
