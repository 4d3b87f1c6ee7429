"""What one file says of one rank, before ranks are put together: the common form into which every format is read."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gradwire.faults import InputFault
from gradwire.workloads.traces.findings import Findings
from gradwire.workloads.traces.splits import Parts
from gradwire.workloads.traces.workload import UNKNOWN, Kind

MOST_BYTES = 2**50
"""Of one call. More is a damaged file: it would take a day at 100 Gbit/s."""
LONGEST_NS = 10**15
"""Of one task, eleven days; a scenario's durations have the same order of magnitude as their limit."""
MOST_RANKS = 65_536
"""Of a job. A file that speaks of more is taken to be damaged, before a list of them fills the memory."""
MOST_TASKS = 50_000_000
"""Of all ranks together: columns of 8 bytes each then take 4 GB. Ranks that are filled in count as well."""
MOST_FILLED_TASKS = 4_000_000
"""Of ranks that are filled in, together: twice as many ops are as many as plans have, and a small file should not take
gigabytes."""
MOST_LISTED_RANKS = 64 * MOST_RANKS
"""Of all process groups of a file together, where a small file may speak of many large groups."""
COMPUTE_STREAM, HOST_STREAM, MEMORY_STREAM, POINT_STREAM = 0, 2, 3, 4
"""Serial streams of a rank; the last for points in time, which must not wait for what computes. Additions have stream
1 in plans."""

Watch = Callable[[Path, int, int], None]
"""Hears how many bytes of a file have been read, and how many there are."""


@dataclass(frozen=True)
class Reading:
    """What a user says of traces that do not say it themselves."""

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
    #: Of a name that stands for another group on other ranks: the ranks of each of these groups.
    several_groups: dict[str, tuple[tuple[int, ...], ...]] = field(default_factory=dict)


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
    #: The other end of a message; of a collective, its root where that is known.
    peer: int = UNKNOWN
    #: Tells messages between the same ranks apart.
    tag: int = 0
    #: As recorded.
    duration_ns: int = UNKNOWN
    #: As recorded, the larger the more urgent.
    priority: int = UNKNOWN
    #: Of an all-to-all whose parts differ in size; None: they are alike.
    parts: Parts | None = None


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
        self._listed = 0
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

    def learn_groups(self, found: Mapping[str, tuple[int, ...]]) -> None:
        """Takes in the ranks of process groups that are not known yet. Raises InputFault for too many."""
        for name, ranks in found.items():
            if name not in self.groups:
                self.need_room(len(ranks))
                self._listed += len(ranks)
                self.groups[name] = ranks

    def learn_given(self, reading: Reading) -> None:
        """Takes in the groups that a user gives. Of a name for several, the one that the rank is in; without its rank,
        the first, until `settle` says which."""
        self.learn_groups(reading.groups)
        for name, groups in reading.several_groups.items():
            own = [ranks for ranks in groups if self.rank in ranks]
            self.learn_groups({name: (own or groups)[0]})

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

    def compute(
        self, duration_ns: int, stream: int = COMPUTE_STREAM, after: Iterable[int] = (), place: str = ""
    ) -> int:
        """Adds a computation; returns its number. Raises InputFault for a duration that cannot be."""
        if not 0 <= duration_ns <= LONGEST_NS:
            raise InputFault(
                f"{self.file}: {place}: lasts {duration_ns / 1e9:g} s; it must be 0 or more, and at most 10^6 s"
            )
        return self._add(Kind.COMPUTE, duration_ns, stream, after, place)

    def call(self, call: Call, after: Iterable[int] = ()) -> int:
        """Adds a communication; returns its number. Raises InputFault for a size that cannot be."""
        if not 0 <= call.size_bytes <= MOST_BYTES:
            raise InputFault(
                f"{self.file}: {call.place}: {call.kind.with_article} of {call.size_bytes:,} bytes; it must be 0 or more, and at most 2^50"
            )
        if not UNKNOWN <= call.duration_ns <= LONGEST_NS:
            raise InputFault(
                f"{self.file}: {call.place}: {call.kind.with_article} that lasted {call.duration_ns / 1e9:g} s; it must be 0 or more, and "
                "at most 10^6 s"
            )
        number = self._add(call.kind, call.duration_ns, UNKNOWN, after, call.place)
        self.calls[number] = call
        return number

    def depend(self, task: int, on: int) -> None:
        """Makes a task wait for another."""
        self.waiting.append(task)
        self.waits_for.append(on)

    def _add(self, kind: Kind, duration_ns: int, stream: int, after: Iterable[int], place: str) -> int:
        number = len(self.kind)
        self.places.append(place)
        self.kind.append(kind)
        self.duration_ns.append(duration_ns)
        self.stream.append(stream)
        for other in after:
            self.depend(number, other)
        return number
