"""Ranks without a file: each does what a rank with a file does, in its own groups.

Where all communication is among all ranks, one file is enough. Otherwise the file has to list the groups of all ranks,
as recordings do, and a rank without a file takes after the recorded rank before it: with `--ranks 0,8,16`, rank 11
does what rank 8 does, 3 ranks further on. Its groups are those of the same shape that it is in: as many ranks, as far
apart. What does not fit together in the end, such as a message that nobody receives, is refused as in any trace.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import replace

from gradwire.workloads.traces.record import MOST_FILLED_TASKS, Findings, RankRecord
from gradwire.workloads.traces.workload import POINT_TO_POINT, ROOTED, UNKNOWN


def fill_missing(by_rank: Mapping[int, RankRecord], world: int, findings: Findings) -> list[RankRecord]:
    """A record for every rank; those that would be a guess are refused in `findings`."""
    missing = [rank for rank in range(world) if rank not in by_rank]
    if not missing:
        return [by_rank[rank] for rank in range(world)]
    named = "rank " if len(missing) == 1 else "ranks "
    named += ", ".join(map(str, missing[:5])) + (", ..." if len(missing) > 5 else "")
    largest = max(by_rank.values(), key=len)
    if len(largest) * len(missing) > MOST_FILLED_TASKS:
        what = f"{len(largest):,} tasks on each of {len(missing):,} ranks that have no file"
        what += f" are more than the {MOST_FILLED_TASKS:,} that are filled in"
        findings.refuse(largest.file, "", what)
        return []
    if all(record.lists_all_groups for record in by_rank.values()):
        return _fill_by_groups(by_rank, world, named, findings)
    return _fill_alike(by_rank, world, named, findings)


def _fill_alike(by_rank: Mapping[int, RankRecord], world: int, named: str, findings: Findings) -> list[RankRecord]:
    """All ranks without a file get the first one's, if all of its communication is among all ranks alike."""
    source = by_rank[min(by_rank)]
    everyone = set(range(world))
    partial = {name: len(ranks) for name, ranks in source.groups.items() if name and set(ranks) != everyone}
    for call in source.calls.values():
        if call.kind in POINT_TO_POINT or call.group in partial or call.parts is not None:
            what = f"{call.kind.with_article}"
            what += " with parts of different sizes" if call.parts is not None else ""
            what += f" in a group of {partial[call.group]}" if call.group in partial else ""
            findings.refuse(
                source.file,
                call.place,
                f"there is no file of {named}, and {what} says nothing of what they do: give the traces of all ranks",
            )
            return []
    count = world - len(by_rank)
    what = f"there is no file of {named} ({count} of {world}): taken to do what rank {min(by_rank)} does, "
    findings.note(source.file, "", f"{what}whose communication is among all ranks; differences between ranks are lost")
    return [by_rank.get(rank, source) for rank in range(world)]


def _fill_by_groups(by_rank: Mapping[int, RankRecord], world: int, named: str, findings: Findings) -> list[RankRecord]:
    """Each rank without a file gets that of the recorded rank before it, in its own groups."""
    first = by_rank[min(by_rank)]
    if min(by_rank) > 0:
        findings.refuse(first.file, "", f"no rank before rank {min(by_rank)} is recorded: record rank 0 as well")
        return []
    shapes = {rank: _Shapes(record) for rank, record in by_rank.items()}
    whole: list[RankRecord] = []
    before = 0
    for rank in range(world):
        before = rank if rank in by_rank else before
        record = by_rank[before] if rank == before else shapes[before].moved(before, rank, world, findings)
        if record is None:
            return []
        whole.append(record)
    count = world - len(by_rank)
    what = "the recorded rank before each" if len(by_rank) > 1 else f"rank {min(by_rank)}"
    findings.note(
        first.file,
        "",
        f"there is no recording of {named} ({count} of {world}): taken to do what {what} does, in groups of the same "
        "shape; what differs between ranks otherwise was not seen",
    )
    return whole


class _Shapes:
    """A recorded rank's groups, and those of the same shape of other ranks."""

    def __init__(self, record: RankRecord) -> None:
        self._record = record
        self._of_rank: dict[tuple[tuple[int, ...], int], tuple[int, ...]] = {}
        for ranks in record.groups.values():
            shape = _shape(ranks)
            for rank in ranks:
                self._of_rank.setdefault((shape, rank), ranks)
        calls = record.calls.values()
        self._used = sorted({call.group for call in calls if call.kind not in POINT_TO_POINT})
        self._place = {call.group: call.place for call in reversed(list(calls))}
        self._names_ranks = any(call.kind in POINT_TO_POINT or call.kind in ROOTED for call in calls)

    def moved(self, source: int, rank: int, world: int, findings: Findings) -> RankRecord | None:
        """Returns the record of a rank that does the same as `source`; None if its groups are not known, which the
        findings then say."""
        record = copy(self._record)
        record.groups = dict(self._record.groups)
        for name in self._used:
            if not name:
                continue
            ranks = self._record.groups[name]
            own = ranks if rank in ranks else self._of_rank.get((_shape(ranks), rank))
            if own is None:
                what = f"rank {rank} is not recorded, and no group that the script makes is for it what the group of "
                what += f"the ranks {list(ranks)[:8]} is for rank {source}: record rank {rank} as well"
                findings.refuse(self._record.file, self._place[name], what)
                return None
            record.groups[name] = own
        if self._names_ranks:
            record.calls = {
                number: replace(call, peer=self._other(call.group, call.peer, record, rank - source, world))
                if call.kind in POINT_TO_POINT or (call.kind in ROOTED and call.peer != UNKNOWN)
                else call
                for number, call in self._record.calls.items()
            }
        return record

    def _other(self, group: str, other: int, moved: RankRecord, by: int, world: int) -> int:
        """Returns the rank that the moved rank exchanges messages with, where the recorded rank does with `other`: the
        one at the same place of the group."""
        ranks = self._record.groups.get(group, ())
        if group and other in ranks:
            return moved.groups[group][ranks.index(other)]
        return (other + by) % world if not group else other


def _shape(ranks: Iterable[int]) -> tuple[int, ...]:
    """Returns the distances of a group's ranks from its first one."""
    listed = list(ranks)
    return tuple(rank - listed[0] for rank in listed)
