"""Process groups whose ranks a file does not say, and all files together show.

The ranks of a group follow from the files in one of these ways, and are otherwise refused, as --groups is there for:

- Other files say the ranks of the group of this name, and this rank is in one such group only.
- The group is as large as the job: all ranks are in it.
- There is a file of every rank. Each is for one such group, whose size no file says otherwise, and in it has the place
  of its own number: all ranks are in it. A group's name may be a pointer of the process, as torch recorded it
  before 2.1, and differ from file to file.
- There is a file of every rank, and as many call for the name as the group is large. If they say their places, these
  go up with the ranks.
"""

from __future__ import annotations

from collections.abc import Mapping

from gradwire.workloads.traces.record import MOST_RANKS, RankRecord, UnknownGroup

Groups = dict[str, tuple[int, ...]]


def groups_shown(by_rank: Mapping[int, RankRecord], ranks: int | None) -> dict[int, Groups]:
    """Returns, by rank, the groups that its file does not know and all files together show.

    ranks: number of ranks, if it is given.
    """
    said = {record.world for record in by_rank.values() if record.world is not None}
    everyone = tuple(range(ranks or max(said, default=len(by_rank))))
    if len(everyone) > MOST_RANKS:
        return {}
    whole = set(by_rank) == set(everyone)
    alone = whole and all(
        len(record.unknown_groups) == 1 and _may_be(record, everyone, rank) for rank, record in by_rank.items()
    )
    shown: dict[int, Groups] = {}
    for rank, record in by_rank.items():
        for name, group in record.unknown_groups.items():
            found = _said_elsewhere(name, rank, by_rank)
            if found is None and rank in everyone and (alone or group.sizes == {len(everyone)}):
                found = everyone if group.places <= {rank} else None
            if found is None and whole:
                found = _callers(name, by_rank)
            if found is not None:
                shown.setdefault(rank, {})[name] = found
    return shown


def _may_be(record: RankRecord, everyone: tuple[int, ...], rank: int) -> bool:
    """Returns whether the one unknown group of a file may be that of all ranks, in which it has the place of its
    number."""
    (group,) = record.unknown_groups.values()
    return group.sizes <= {len(everyone)} and group.places == {rank}


def _said_elsewhere(name: str, rank: int, by_rank: Mapping[int, RankRecord]) -> tuple[int, ...] | None:
    said = {record.groups[name] for record in by_rank.values() if name in record.groups}
    with_rank = [ranks for ranks in said if rank in ranks]
    return with_rank[0] if len(with_rank) == 1 else None


def _callers(name: str, by_rank: Mapping[int, RankRecord]) -> tuple[int, ...] | None:
    """The ranks whose files call for a group, if they are as many as are in it."""
    callers: dict[int, UnknownGroup] = {
        rank: record.unknown_groups[name] for rank, record in by_rank.items() if name in record.unknown_groups
    }
    sizes = {size for group in callers.values() for size in group.sizes}
    placed = all(group.places == {place} for place, group in enumerate(callers.values()))
    unplaced = not any(group.places for group in callers.values())
    if (sizes == {len(callers)} and (placed or unplaced)) or (not sizes and placed):
        return tuple(callers)
    return None
