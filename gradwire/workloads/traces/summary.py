"""What an imported workload consists of: calls and bytes by kind and group, computation, and exposed communication as
recorded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gradwire.workloads.traces.record import RankRecord
from gradwire.workloads.traces.workload import Kind, Workload

SHOWN_RANKS = 4


@dataclass(frozen=True)
class Row:
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
class Summary:
    """A workload in numbers."""

    ranks: int
    rows: tuple[Row, ...]
    #: Least and most that a rank computes; None where the traces have no times.
    compute_s: tuple[float, float] | None
    #: By file: seconds of communication during which nothing was computed, as recorded.
    exposed_s: dict[str, float]


def summary_of(workload: Workload, records: Sequence[RankRecord]) -> Summary:
    """The summary of a workload that these records were made into."""
    timed = all(record.timed for record in records)
    exposed = {record.file: record.exposed_s for record in records if record.exposed_s is not None}
    per_rank = workload.compute_s
    compute_s = (float(per_rank.min()), float(per_rank.max())) if timed and len(per_rank) else None
    return Summary(workload.ranks, tuple(_rows(workload)), compute_s, exposed)


def _rows(workload: Workload) -> list[Row]:
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
            Row(
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
