"""Ranks and process groups of logs that say only a rank's place in each communicator, as NCCL and RCCL know no others.

- The ranks of files are their places in the first communicator that is as large as the job and that all of them are in.
- The ranks of any other communicator are those of the files that have its places, if there is a file of each; one that is
  as large as the job has all ranks in their order, if no file says otherwise. Else --groups is there for it.
- A call that is not in the logs of all ranks of its communicator is left out: a log ends where its process was ended, and
  the Inspector of NCCL drops what it could not time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from gradwire.workloads.traces.record import RankRecord
from gradwire.workloads.traces.workload import POINT_TO_POINT, UNKNOWN

MOST_NAMED = 60
"""Characters of a communicator's name in messages."""


def settle_memberships(records: Sequence[RankRecord], ranks: int | None) -> None:
    """Gives records that have places in communicators their ranks and groups. What would be a guess is refused in their
    findings.

    ranks: number of ranks, if it is given.
    """
    placed = [record for record in records if record.memberships]
    if placed and not any(record.findings.refused for record in placed):
        _Settlement(placed, ranks).settle()


class _Settlement:
    """The communicators of all files, and who is in them."""

    def __init__(self, records: Sequence[RankRecord], ranks: int | None) -> None:
        self._records = records
        self._ranks = ranks or len(records)
        self._members: dict[str, dict[int, RankRecord]] = {}
        self._sizes: dict[str, int] = {}

    def settle(self) -> None:
        """Settles ranks, then groups, then the ends of messages and the roots of collectives."""
        if self._collect() and self._settle_ranks():
            for name in self._members:
                self._settle_group(name)
            for record in self._records:
                _settle_ends(record)

    def _collect(self) -> bool:
        """Takes in who is where. Returns whether files agree."""
        for record in self._records:
            for name, membership in record.memberships.items():
                size = self._sizes.setdefault(name, membership.size)
                other = self._members.setdefault(name, {}).setdefault(membership.place, record)
                if size != membership.size or other is not record or not 0 <= membership.place < size:
                    what = f"is rank {membership.place} of {membership.size} of the communicator '{name[:MOST_NAMED]}'"
                    first = next(iter(self._members[name].values()))
                    what += f", of which {first.file} has {size} ranks" if size != membership.size else ""
                    what += f", as {other.file} is: give each log once" if other is not record else ""
                    record.findings.refuse(record.file, "", what)
                    return False
        return True

    def _settle_ranks(self) -> bool:
        """Gives records their ranks. Returns whether a communicator says them."""
        if all(record.rank is not None for record in self._records):
            return True
        whole = next((name for name in self._members if self._has_everyone(name)), None)
        first = self._records[0]
        if whole is None:
            largest = max(self._sizes.values())
            what = (
                f"which ranks the {len(self._records)} logs are of is not known: none of their communicators, of up to "
            )
            what += f"{largest} ranks, has {self._ranks} ranks and all of them: give the logs of all ranks, or their number "
            first.findings.refuse(first.file, "", what + "with --ranks")
            return False
        for record in self._records:
            record.rank, record.world = record.memberships[whole].place, self._sizes[whole]
        what = f"ranks are the places in the communicator '{whole[:MOST_NAMED]}', in which all are"
        first.findings.note(first.file, "", what)
        return True

    def _has_everyone(self, name: str) -> bool:
        return self._sizes[name] == self._ranks and all(name in record.memberships for record in self._records)

    def _settle_group(self, name: str) -> None:
        """Gives the members of a communicator its ranks, and leaves out the calls that not all of them have."""
        members, size = self._members[name], self._sizes[name]
        waiting = [record for record in members.values() if name not in record.groups]
        known = {place: record.rank for place, record in members.items() if record.rank is not None}
        if waiting and len(known) == size:
            _learn(waiting, name, tuple(known[place] for place in range(size)))
        elif waiting and size == self._ranks and all(place == rank for place, rank in known.items()):
            _learn(waiting, name, tuple(range(size)))
        elif waiting:
            what = f"the communicator '{name[:MOST_NAMED]}' has {size} ranks, and logs of {len(members)} of them are there: "
            what += "give the others, or its ranks with --groups"
            waiting[0].findings.refuse(waiting[0].file, "", what)
        _leave_out_partial(name, members.values())


def _learn(records: Iterable[RankRecord], name: str, ranks: tuple[int, ...]) -> None:
    for record in records:
        record.learn_groups({name: ranks})


def _leave_out_partial(name: str, members: Iterable[RankRecord]) -> None:
    """Leaves out the calls of a communicator that only some of the logs have."""
    of_record = [(record, _numbered(record, name)) for record in members]
    everywhere = set.intersection(*(set(tasks) for _, tasks in of_record))
    for record, tasks in of_record:
        partial = [task for number, task in tasks.items() if number not in everywhere]
        if partial and not everywhere:
            what = f"no call of the communicator '{name[:MOST_NAMED]}' is in the logs of all its ranks"
            record.findings.refuse(record.file, record.places[partial[0]], what, len(partial))
            continue
        if partial:
            what = "a call that is not in the logs of all ranks of its communicator: left out"
            record.findings.note(record.file, record.places[partial[0]], what, len(partial))
        for task in partial:
            record.leave_out(task)


def _numbered(record: RankRecord, name: str) -> dict[int, int]:
    """The collectives of a communicator by their numbers."""
    return {
        number: task
        for task, number in record.serials.items()
        if (call := record.calls.get(task)) is not None and call.group == name and call.kind not in POINT_TO_POINT
    }


def _settle_ends(record: RankRecord) -> None:
    """Makes ranks of the places that messages go to and collectives have as their root."""
    for task, call in record.calls.items():
        ranks = record.groups.get(call.group)
        if call.group not in record.memberships or call.peer == UNKNOWN or ranks is None:
            continue
        if not 0 <= call.peer < len(ranks):
            what = f"{call.kind.with_article} with rank {call.peer} of a communicator of {len(ranks)}"
            record.findings.refuse(record.file, call.place, what)
            return
        record.calls[task] = replace(call, peer=ranks[call.peer])
