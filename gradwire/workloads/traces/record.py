"""The record of one rank, read from one file before ranks are put together: the common form into which every format is
read.

With it, what an import found: what its reading rests on, and what it refuses because the result would be a guess.

All-to-alls whose parts differ in size say how much a rank puts in for each member, and gets from each. PyTorch's lists
of splits count rows of the first dimension, or elements where tensors are in lists; either way a part has the same
share of the rank's bytes as its number has of the sum. What one rank says that it gets from another has to be what
that one says that it puts in.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path

import numpy as np

from gradwire.faults import InputFault
from gradwire.workloads.traces.workload import UNKNOWN, Int64, Kind

LONGEST = 600
"""Characters of what is said of a file: names that it has may be longer, and are cut short."""


def cut_short(text: str) -> str:
    """A text of at most about LONGEST characters: of a longer one, its beginning and its end."""
    return text if len(text) <= LONGEST else f"{text[: LONGEST * 2 // 3]} [...] {text[-LONGEST // 3 :]}"


@dataclass(frozen=True)
class ImportFinding:
    """Something that whoever uses the workload should know."""

    #: File that it is about.
    file: str
    #: The first node or event that it is about; "" for the whole file.
    place: str
    #: The finding in words, with the consequence for the workload.
    what: str
    #: Whether no workload is made because of it.
    refused: bool = False
    #: How many nodes or events it is about.
    count: int = 1

    @property
    def words(self) -> str:
        """Returns the finding as one line."""
        about = "".join(f"{part}: " for part in (self.file, self.place) if part)
        more = f" ({self.count:,} in all)" if self.count > 1 else ""
        return f"{about}{self.what}{more}"


class Findings:
    """Collects findings. Those that say the same of a file are one, with the place of the first."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str, bool], ImportFinding] = {}

    def note(self, file: str, item: str, what: str, count: int = 1) -> None:
        """Adds an assumption that the reading rests on."""
        self._add(ImportFinding(file, item, what, refused=False, count=count))

    def refuse(self, file: str, item: str, what: str, count: int = 1) -> None:
        """Adds a reason against making a workload."""
        self._add(ImportFinding(file, item, what, refused=True, count=count))

    def _add(self, finding: ImportFinding) -> None:
        finding = replace(finding, what=cut_short(finding.what))
        key = finding.file, finding.what, finding.refused
        earlier = self._found.get(key)
        if earlier is not None:
            finding = ImportFinding(
                earlier.file, earlier.place, earlier.what, earlier.refused, earlier.count + finding.count
            )
        self._found[key] = finding

    def add_all(self, others: Iterable[ImportFinding]) -> None:
        """Adds findings of others."""
        for finding in others:
            self._add(finding)

    @property
    def all(self) -> tuple[ImportFinding, ...]:
        """All of them, refusals first."""
        return tuple(sorted(self._found.values(), key=lambda finding: not finding.refused))

    @property
    def refused(self) -> bool:
        """Returns whether any finding makes the import refuse the traces."""
        return any(finding.refused for finding in self._found.values())


CUT_SHORT = "..."
"""PyTorch writes so behind the first 30 entries of a long list."""


@dataclass(frozen=True)
class AllToAllParts:
    """Bytes of a rank's parts in one all-to-all, by member of its group."""

    put_in: tuple[int, ...]
    got: tuple[int, ...]


LONGEST_NUMBER = 18
"""Digits of a number in a list, which fits into 64 bits."""


def listed_numbers(text: str) -> tuple[int, ...]:
    """The numbers in a recorded list, such as "[0, 1]". Raises ValueError for one that is longer than any recorder's."""
    words = re.findall(r"\d+", text)
    longest = max(map(len, words), default=0)
    if longest > LONGEST_NUMBER:
        raise ValueError(f"a number of {longest:,} digits")
    return tuple(map(int, words))


def is_whole(split: str) -> bool:
    """Returns whether a recorded list is not cut short."""
    return CUT_SHORT not in split


def is_uneven(split: str) -> bool:
    """Returns whether a recorded list has different numbers."""
    return len(set(re.findall(r"\d+", split))) > 1


def part_sizes(split: str, members: int, size_bytes: int) -> tuple[int, ...]:
    """Bytes of each part, given the recorded list, which is empty where parts are alike.

    Raises ValueError, with what is wrong.
    """
    counts = listed_numbers(split) or (1,) * members
    if CUT_SHORT in split:
        raise ValueError(f"the list of their sizes is cut short ('{CUT_SHORT}')")
    if len(counts) != members:
        raise ValueError(f"{len(counts)} sizes are listed for {members} ranks")
    total = sum(counts)
    if total == 0 and size_bytes == 0:
        return (0,) * members
    if total == 0 or size_bytes % total:
        raise ValueError(f"sizes that add up to {total:,} do not divide its {size_bytes:,} bytes")
    return tuple(count * (size_bytes // total) for count in counts)


class Disagreement(ValueError):
    """Members of a call do not agree on its parts."""

    def __init__(self, member: int, what: str) -> None:
        super().__init__(what)
        #: Place of the member in the group.
        self.member = member


def agree_on_parts(recorded: Sequence[AllToAllParts | None], sizes: Sequence[int]) -> list[AllToAllParts]:
    """The parts of all members of a call, in the order of the group, given what each has recorded and puts in.

    Those of a member that has recorded none are alike. Raises Disagreement.
    """
    parts_of = []
    for member, (parts, size_bytes) in enumerate(zip(recorded, sizes, strict=True)):
        if parts is None and size_bytes % len(sizes):
            raise Disagreement(member, f"{size_bytes:,} bytes are not alike for {len(sizes)} ranks")
        alike = (size_bytes // len(sizes),) * len(sizes)
        parts_of.append(parts or AllToAllParts(alike, alike))
    put_in, got = (np.array([getattr(part, name) for part in parts_of], np.int64) for name in ("put_in", "got"))
    for receiver in np.flatnonzero((got != put_in.T).any(axis=1)).tolist():
        sender = int((put_in[:, receiver] != got[receiver]).argmax())
        what = f"gets {got[receiver, sender]:,} bytes of a part of {put_in[sender, receiver]:,} bytes"
        raise Disagreement(receiver, f"an all-to-all in which the rank {what}")
    return parts_of


def matrix(splits: Int64, first: Int64) -> Int64:
    """Bytes that each member puts in for each, given where the parts of each one begin."""
    column: Int64 = splits[first[:, None] + np.arange(len(first))]
    return column


MOST_BYTES = 2**50
"""The most bytes of one call. More is a damaged file: it would take a day at 100 Gbit/s."""
LONGEST_NS = 10**15
"""The longest duration of one task, eleven days; a scenario's durations have a limit of the same order of magnitude."""
MOST_RANKS = 65_536
"""The most ranks of a job. A file that speaks of more is taken to be damaged, before a list of them fills the
memory."""
MOST_TASKS = 50_000_000
"""The most tasks of all ranks together: columns of 8 bytes each then take 4 GB. Ranks that are filled in count as
well."""
MOST_FILLED_TASKS = 4_000_000
"""The most tasks of ranks that are filled in, together: twice as many ops are as many as plans have, and a small file
should not take gigabytes."""
MOST_LISTED_RANKS = 64 * MOST_RANKS
"""The most ranks in all process groups of a file together, since a small file may speak of many large groups."""
COMPUTE_STREAM, HOST_STREAM, MEMORY_STREAM, POINT_STREAM = 0, 2, 3, 4
"""Serial streams of a rank; the last for points in time, which must not wait for what computes. Additions have stream
1 in plans."""

Watch = Callable[[Path, int, int], None]
"""Hears how many bytes of a file have been read, and how many there are."""


class OtherCommunication(StrEnum):
    """The treatment of kernels that communicate without NCCL, whose bytes no profile states."""

    COMPUTES = "computes"
    """They count as computation."""
    LEFT_OUT = "left-out"
    """The time in which nothing but them ran is left out."""

    @property
    def words(self) -> str:
        """Returns what becomes of them, for messages."""
        if self is OtherCommunication.LEFT_OUT:
            return "left out"
        return "they count as computation, unless with --other-communication left-out"


@dataclass(frozen=True)
class Reading:
    """Facts that a user gives for traces that do not contain them."""

    #: Number of ranks.
    ranks: int | None = None
    #: Bytes of an element where sizes are counts of elements of an unknown type.
    element_bytes: int | None = None
    #: Ranks of each process group by its name.
    groups: dict[str, tuple[int, ...]] = field(default_factory=dict)
    #: Floating-point operations per second at which nodes take their time that have operations and no duration.
    flops_per_s: float | None = None
    #: The only step of the training loop to read, where traces tell steps apart.
    step: int | None = None
    #: Ranks of each of the groups that a name stands for, if it names different groups on different ranks.
    several_groups: dict[str, tuple[tuple[int, ...], ...]] = field(default_factory=dict)
    #: What becomes of kernels that communicate without NCCL.
    other_communication: OtherCommunication = OtherCommunication.COMPUTES
    #: Bytes of the larger buffer of a collective that is an algorithm of MSCCL.
    buffer_bytes: int | None = None


@dataclass(frozen=True)
class Call:
    """One rank's part in a communication."""

    kind: Kind
    #: Node or event in the file, for messages.
    place: str
    #: See Kind.
    size_bytes: int = 0
    element_bytes: int = 1
    #: Name of the process group; "" for all ranks.
    group: str = ""
    #: The other end of a message; for a collective, its root if that is known.
    peer: int = UNKNOWN
    #: Tells messages between the same ranks apart.
    tag: int = 0
    #: The recorded duration.
    duration_ns: int = UNKNOWN
    #: The recorded priority; a larger one is more urgent.
    priority: int = UNKNOWN
    #: The parts of an all-to-all whose parts differ in size; None if they are alike.
    parts: AllToAllParts | None = None


@dataclass
class UnknownGroup:
    """A process group whose ranks a file does not say, and what its calls show of it."""

    #: How many ranks there are in it, as calls say; more than one number if they do not agree.
    sizes: set[int] = field(default_factory=set)
    #: The place of the file's rank in it, likewise.
    places: set[int] = field(default_factory=set)


@dataclass(frozen=True)
class Membership:
    """A rank's place in a communicator, of whose other ranks its log says no more than how many there are."""

    place: int
    size: int


class RankRecord:
    """Tasks of one rank in the order in which the file has them, and what waits for what. Tasks are numbered from 0."""

    def __init__(self, path: Path, format_name: str, findings: Findings) -> None:
        self.path, self.format_name, self.findings = path, format_name, findings
        #: The rank, if the file says it.
        self.rank: int | None = None
        #: Number of ranks, if the file says it.
        self.world: int | None = None
        #: Ranks of process groups by name.
        self.groups: dict[str, tuple[int, ...]] = {}
        #: Whether these are the groups of all ranks, and not only those that this rank is in.
        self.lists_all_groups = False
        self._listed = 0
        #: Groups that calls are for and whose ranks the file does not say, by name.
        self.unknown_groups: dict[str, UnknownGroup] = {}
        #: The rank's place in communicators by name. Until all files are read (memberships.py), the ends and roots of their
        #: calls are places as well.
        self.memberships: dict[str, Membership] = {}
        #: A number that the same call has in the logs of all ranks of its communicator, by task.
        self.serials: dict[int, int] = {}
        self.calls: dict[int, Call] = {}
        self.kind, self.duration_ns, self.stream = array("q"), array("q"), array("q")
        self.waiting, self.waits_for = array("q"), array("q")
        #: Node or event of each task; "" for one that is made of several.
        self.places: list[str] = []
        #: Whether the file says how long computations take.
        self.timed = True
        #: Seconds of communication during which nothing was computed, as recorded.
        self.exposed_s: float | None = None

    @property
    def room(self) -> int:
        """Ranks that process groups may still have."""
        return MOST_LISTED_RANKS - self._listed

    def learn_groups(self, ranks_of: Mapping[str, tuple[int, ...]]) -> None:
        """Takes in the ranks of process groups that are not known yet. Raises InputFault for too many."""
        for name, ranks in ranks_of.items():
            if name not in self.groups:
                self.need_room(len(ranks))
                self._listed += len(ranks)
                self.groups[name] = ranks

    def miss_group(self, name: str, item: str, what: str) -> UnknownGroup:
        """Refuses a call for a group whose ranks are not known. Returns what calls have shown of it, to add to it."""
        self.findings.refuse(self.file, item, f"{what}; give them with --groups")
        return self.unknown_groups.setdefault(name, UnknownGroup())

    def learn_given(self, reading: Reading) -> None:
        """Takes in the groups that a user gives.

        Of a name for several, the one that the rank is in; without its rank, the first, until `settle` says which.
        """
        self.learn_groups(reading.groups)
        for name, groups in reading.several_groups.items():
            with_rank = [ranks for ranks in groups if self.rank in ranks]
            self.learn_groups({name: (with_rank or groups)[0]})

    def settle(self, rank: int, reading: Reading) -> None:
        """Takes of each name for several groups the one that a rank is in, once it is known which rank the file is
        of."""
        for name, groups in reading.several_groups.items():
            if self.groups.get(name) in groups:
                self.groups[name] = next((ranks for ranks in groups if rank in ranks), self.groups[name])

    def need_room(self, ranks: int) -> None:
        """Raises InputFault where a group of so many ranks would be too much."""
        if ranks > self.room:
            raise InputFault(f"{self.file}: its process groups have more than {MOST_LISTED_RANKS:,} ranks together")

    @property
    def file(self) -> str:
        """The file's name, for messages."""
        return str(self.path)

    def __len__(self) -> int:
        """Number of tasks."""
        return len(self.kind)

    def compute(self, duration_ns: int, stream: int = COMPUTE_STREAM, after: Iterable[int] = (), item: str = "") -> int:
        """Adds a computation; returns its number. Raises InputFault for a duration that cannot be."""
        if not 0 <= duration_ns <= LONGEST_NS:
            raise InputFault(
                f"{self.file}: {item}: lasts {duration_ns / 1e9:g} s; it must be 0 or more, and at most 10^6 s"
            )
        return self._add(Kind.COMPUTE, duration_ns, stream, after, item)

    def call(self, call: Call, after: Iterable[int] = ()) -> int:
        """Adds a communication; returns its number. Raises InputFault for a size that cannot be."""
        of_parts = (*call.parts.put_in, *call.parts.got) if call.parts else ()
        for size_bytes in (call.size_bytes, *of_parts):
            if not 0 <= size_bytes <= MOST_BYTES:
                raise InputFault(
                    f"{self.file}: {call.place}: {call.kind.with_article} of {size_bytes:,} bytes; it must be 0 or "
                    "more, and at most 2^50"
                )
        if not UNKNOWN <= call.duration_ns <= LONGEST_NS:
            raise InputFault(
                f"{self.file}: {call.place}: {call.kind.with_article} that lasted {call.duration_ns / 1e9:g} s; it "
                "must be 0 or more, and "
                "at most 10^6 s"
            )
        number = self._add(call.kind, call.duration_ns, UNKNOWN, after, call.place)
        self.calls[number] = call
        return number

    def leave_out(self, task: int) -> None:
        """Makes a communication a point in time, which moves nothing."""
        del self.calls[task]
        self.kind[task], self.duration_ns[task], self.stream[task] = Kind.COMPUTE, 0, POINT_STREAM

    def depend(self, task: int, on: int) -> None:
        """Makes a task wait for another."""
        self.waiting.append(task)
        self.waits_for.append(on)

    def _add(self, kind: Kind, duration_ns: int, stream: int, after: Iterable[int], item: str) -> int:
        number = len(self.kind)
        self.places.append(item)
        self.kind.append(kind)
        self.duration_ns.append(duration_ns)
        self.stream.append(stream)
        for other in after:
            self.depend(number, other)
        return number
