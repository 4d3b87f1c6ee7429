"""An imported trace as frozen data: a task graph per rank in columns, and the file that keeps it. docs/traces.md
describes the file.

A task is a computation of known duration, one rank's part in a collective, or one end of a message. Tasks that belong
together on several ranks have the same `call`. What a size counts depends on the kind (`Kind`).
"""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gradwire.array_files import NOT_SUCH_AN_ARCHIVE, ArrayColumn, read_arrays
from gradwire.documents import Document
from gradwire.faults import InputFault
from gradwire.files import replacing
from gradwire.reading_budget import reading_budget
from gradwire.regular_files import IrregularFileError
from gradwire.strict_json import parse_json

FORMAT = "gradwire trace workload"
VERSION = 1
"""Version of the file's format."""
FILE_NAME = "workload.npz"

Int64 = npt.NDArray[np.int64]


class Kind(IntEnum):
    """The kinds of tasks. For communication, the text says which bytes of a rank its size counts."""

    COMPUTE = 1
    """Computes for a time; has no size."""
    SEND = 2
    """Sends a message: its bytes."""
    RECV = 3
    """Receives one: its bytes."""
    ALL_REDUCE = 4
    """The buffer that is reduced."""
    REDUCE = 5
    """The buffer that is reduced."""
    BROADCAST = 6
    """The buffer that is sent to all."""
    ALL_GATHER = 7
    """The bytes that the rank puts in; it gets that times the group's size."""
    REDUCE_SCATTER = 8
    """The bytes that the rank puts in; it gets that over the group's size."""
    ALL_TO_ALL = 9
    """The bytes that the rank puts in, its own share included."""
    GATHER = 10
    """The bytes that the rank puts in."""
    SCATTER = 11
    """The bytes that the rank gets."""
    BARRIER = 12
    """A barrier has no size."""

    @property
    def words(self) -> str:
        """Its name in tables and messages."""
        return self.name.lower().replace("_", "-")

    @property
    def with_article(self) -> str:
        """Its name with "a" or "an" before it."""
        return f"{'an' if self.name.startswith('A') else 'a'} {self.words}"


MOST_STREAMS = 64
LARGEST = 2**60
POINT_TO_POINT = (Kind.SEND, Kind.RECV)
SELDOM_RECORDED = ("priority", "split")
"""Columns of tasks that have no length where no task has a value."""
ROOTED = (Kind.BROADCAST, Kind.REDUCE, Kind.GATHER, Kind.SCATTER)
"""Kinds in which one rank of the group differs from the others."""
UNKNOWN = -1


@dataclass(frozen=True)
class Tasks:
    """Columns of all tasks, one row per task. UNKNOWN stands for what is not recorded or does not apply."""

    #: Rank that carries the task out.
    rank: Int64
    #: A Kind.
    kind: Int64
    #: A computation's duration; of communication, how long it took when it was recorded.
    duration_ns: Int64
    #: See Kind.
    size_bytes: Int64
    #: Bytes of one element.
    element_bytes: Int64
    #: Index of the group of a collective.
    group: Int64
    #: The other rank of a message; of a collective with a root, the root's rank.
    peer: Int64
    #: Number that all ranks' tasks of a collective share, or both ends of a message.
    call: Int64
    #: The rank's serial stream of a computation.
    stream: Int64
    #: How urgent a communication was when it was recorded, the larger the more; of no length where none has a priority.
    priority: Int64 = field(default_factory=lambda: np.zeros(0, np.int64))
    #: For an all-to-all whose parts differ, where the rank's parts begin in `Workload.splits`; of no length if no call
    #: has such parts.
    split: Int64 = field(default_factory=lambda: np.zeros(0, np.int64))

    def __len__(self) -> int:
        """Number of tasks."""
        return len(self.kind)


@dataclass(frozen=True, repr=False, eq=False)
class Workload:
    """The computations and communications of all ranks in the recorded time."""

    name: str
    ranks: int
    #: Ranks of each group, in the group's own order.
    groups: tuple[tuple[int, ...], ...]
    tasks: Tasks
    #: Task i waits for dep_task[dep_start[i]:dep_start[i + 1]], all of the same rank.
    dep_start: Int64
    dep_task: Int64
    #: Bytes that a rank puts in for each member of its group, of all ranks' parts in all-to-alls whose parts differ.
    splits: Int64 = field(default_factory=lambda: np.zeros(0, np.int64))
    #: Notes on changes since the recording, for readers of the plan; not part of the file.
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """Tells workloads apart, which their columns in short would not."""
        return f"Workload({self.name!r}, {self.digest()})"

    def digest(self) -> str:
        """Hash of everything in the workload."""
        sha = hashlib.sha256(json.dumps(self._header(), sort_keys=True).encode())
        for key, column in sorted(self._columns().items()):
            sha.update(key.encode() + np.ascontiguousarray(column).tobytes())
        return sha.hexdigest()[:16]

    @property
    def compute_s(self) -> npt.NDArray[np.float64]:
        """Seconds that each rank computes, all its streams together."""
        tasks = self.tasks
        computes = tasks.kind == Kind.COMPUTE
        total: npt.NDArray[np.float64] = (
            np.bincount(tasks.rank[computes], tasks.duration_ns[computes], self.ranks) / 1e9
        )
        return total

    def _columns(self) -> dict[str, Int64]:
        columns = {f"tasks.{f.name}": getattr(self.tasks, f.name) for f in fields(Tasks)}
        return {**columns, "dep_start": self.dep_start, "dep_task": self.dep_task, "splits": self.splits}

    def _header(self) -> Document:
        return {
            "format": FORMAT,
            "version": VERSION,
            "name": self.name,
            "ranks": self.ranks,
            "groups": [list(group) for group in self.groups],
        }

    def save(self, path: Path) -> None:
        """Writes the workload to an .npz file: its columns, and a header as JSON."""
        header = np.frombuffer(json.dumps(self._header()).encode(), np.uint8)
        with (
            replacing(path) as partial,
            zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        ):
            for name, column in {"header": header, **self._columns()}.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                    np.lib.format.write_array(file, np.ascontiguousarray(column), allow_pickle=False)

    @staticmethod
    def load(path: Path) -> Workload:
        """Reads what `save` wrote, from the file or from the folder that it is in. Raises InputFault."""
        file = path / FILE_NAME if path.is_dir() else path
        with reading_budget(file):
            return Workload._load(file)

    @staticmethod
    def _load(file: Path) -> Workload:
        try:
            columns = read_arrays(file, FILE_COLUMNS, compressed=True, follow=True)
            header = parse_json(columns.pop("header").tobytes().decode())
        except FileNotFoundError as error:
            raise InputFault(f"{file}: there is no such file; `gradwire import` makes one of traces") from error
        except IrregularFileError as error:
            raise InputFault(f"{file}: cannot be read as a workload: {error.strerror}") from error
        except NOT_SUCH_AN_ARCHIVE as error:
            raise InputFault(
                f"{file}: is not a workload that `gradwire import` wrote ({error}); import it again"
            ) from error
        return _checked_workload(file, header, columns)


FILE_COLUMNS: dict[str, ArrayColumn] = {
    "header": ArrayColumn("u1"),
    **{f"tasks.{f.name}": ArrayColumn("i8") for f in fields(Tasks)},
    **{name: ArrayColumn("i8") for name in ("dep_start", "dep_task", "splits")},
}
"""The columns of a workload's file; the rest of it is JSON."""


def _checked_workload(file: Path, header: Any, columns: Mapping[str, npt.NDArray[Any]]) -> Workload:
    """The workload of a file whose content may be anything."""
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise InputFault(f"{file}: is not a workload that `gradwire import` wrote")
    version = header.get("version")
    if version != VERSION:
        raise InputFault(
            f"{file}: has version {version} of its format, and this gradwire reads {VERSION}; import the traces again"
        )
    tasks = {f.name: columns[f"tasks.{f.name}"] for f in fields(Tasks)}
    count = len(tasks["kind"])
    if any(len(tasks[name]) not in ((count, 0) if name in SELDOM_RECORDED else (count,)) for name in tasks):
        raise InputFault(f"{file}: its columns differ in length; import the traces again")
    try:
        workload = Workload(
            name=str(header["name"]),
            ranks=int(header["ranks"]),
            groups=tuple(tuple(int(rank) for rank in group) for group in header["groups"]),
            tasks=Tasks(**tasks),
            dep_start=columns["dep_start"],
            dep_task=columns["dep_task"],
            splits=columns["splits"],
        )
    except (KeyError, TypeError, ValueError) as error:
        raise InputFault(
            f"{file}: its header is not that of a workload ({error!r}); import the traces again"
        ) from error
    if defect := _defect(workload) or _defect_of_calls(workload):
        raise InputFault(f"{file}: {defect}; import the traces again")
    return workload


def _defect(workload: Workload) -> str:
    """Names the first reference of the workload to something that does not exist; "" if there is none."""
    tasks, count = workload.tasks, len(workload.tasks)
    ranges = (
        ("a rank", tasks.rank, 0, workload.ranks),
        ("a kind", tasks.kind, 1, max(Kind) + 1),
        ("a group", tasks.group, UNKNOWN, len(workload.groups)),
        ("a peer", tasks.peer, UNKNOWN, workload.ranks),
        ("a dependency", workload.dep_task, 0, count),
        ("a stream", tasks.stream, UNKNOWN, MOST_STREAMS),
        ("a size", tasks.size_bytes, 0, LARGEST),
        ("an element's size", tasks.element_bytes, 1, LARGEST),
        ("a duration", tasks.duration_ns, UNKNOWN, LARGEST),
        ("a priority", tasks.priority, UNKNOWN, LARGEST),
        ("a part", tasks.split, UNKNOWN, len(workload.splits)),
        ("a part's size", workload.splits, 0, LARGEST),
        (
            "a group's rank",
            np.array([rank for group in workload.groups for rank in group], np.int64),
            0,
            workload.ranks,
        ),
    )
    for what, values, lowest, end in ranges:
        if len(values) and (values.min() < lowest or values.max() >= end):
            return f"{what} does not exist: {values.min()} or {values.max()} of {end}"
    starts = workload.dep_start
    if (
        len(starts) != count + 1
        or starts[0] != 0
        or starts[-1] != len(workload.dep_task)
        or (np.diff(starts) < 0).any()
    ):
        return "its dependencies do not fit its tasks"
    return ""


def _defect_of_calls(workload: Workload) -> str:
    """Names the first defect of the calls, or "": a collective has every member of its group once, and a message a
    sender and a receiver."""
    tasks = workload.tasks
    communicates = tasks.kind != Kind.COMPUTE
    if (tasks.duration_ns[~communicates] < 0).any():
        return "a computation has no duration"
    p2p = np.isin(tasks.kind, POINT_TO_POINT)
    if (tasks.call[communicates] < 0).any() or (tasks.group[communicates & ~p2p] < 0).any():
        return "a communication belongs to no call, or to no group"
    order = np.flatnonzero(communicates)
    order = order[np.argsort(tasks.call[order], kind="stable")]
    _, starts = np.unique(tasks.call[order], return_index=True)
    for together in np.split(order, starts[1:]) if len(order) else []:
        first, ranks = together[0], tasks.rank[together].tolist()
        if p2p[first]:
            sound = sorted(tasks.kind[together].tolist()) == sorted(POINT_TO_POINT) and len(set(ranks)) == len(ranks)
        else:
            sound = sorted(ranks) == sorted(workload.groups[int(tasks.group[first])])
        alike = ("group", "size_bytes") if p2p[first] else ("group", "size_bytes", "kind")
        if len(tasks.split) and (tasks.split[together] >= 0).any():
            sound, alike = sound and not p2p[first] and _fit_parts(workload, together), ("group", "kind")
        if not sound or any(len(set(getattr(tasks, name)[together].tolist())) > 1 for name in alike):
            return f"call {tasks.call[first]} is not one collective or message"
    return ""


def _fit_parts(workload: Workload, together: Int64) -> bool:
    """Returns whether the tasks of a call are an all-to-all, each with a part for every one of them, and the parts add
    up to the task's size."""
    tasks, first = workload.tasks, workload.tasks.split[together]
    if (first < 0).any() or (first + len(together) > len(workload.splits)).any():
        return False
    parts = workload.splits[first[:, None] + np.arange(len(together))]
    whole = parts.sum(axis=1) == tasks.size_bytes[together]
    return bool(whole.all() and (tasks.kind[together] == Kind.ALL_TO_ALL).all())
