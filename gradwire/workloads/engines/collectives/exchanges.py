"""Collectives in which every member has another part: allgathers, reduce-scatters, all-to-alls, gathers and
scatters; and barriers.

Part i is what member i puts in, or gets; of an all-to-all, part i * N + j is what goes from i to j. Sources: Thakur,
Rabenseifner and Gropp, Optimization of Collective Communication Operations in MPICH, 2005 (rings, recursive doubling
and halving, pairwise exchange); Hensgen, Finkel and Manber, Two algorithms for barrier synchronization, 1988
(dissemination); NCCL's PXN (version 2.12), by which what is for another machine goes first to the GPU on the
receiver's rail.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gradwire.datatypes.plan import Combine
from gradwire.workloads.engines.collectives.allreduces import around
from gradwire.workloads.engines.collectives.schedule import Row, Schedule, refuse_rows, schedule_of


def ring_turn(members: int, combine: Combine) -> Schedule:
    """An allgather (COPY) or a reduce-scatter (ADD) around a ring: N - 1 steps of one part each."""
    order = range(members)
    return schedule_of(members, members, around(order, _own(order), combine, 0))


def _own(members: Sequence[int]) -> list[list[int]]:
    """Blocks such that `around` begins with, or ends at, each member's own part."""
    return [[members[index - 1]] for index in range(len(members))]


def to_all(members: int, combine: Combine) -> Schedule:
    """An allgather (COPY) or a reduce-scatter (ADD) in one step: everybody to everybody, and nobody first where
    another is first."""
    pairs = _shifted_pairs(members)
    is_copied = combine == Combine.COPY
    return schedule_of(
        members, members, ((src, dst, src if is_copied else dst, 0, combine, 0, 1) for src, dst, _ in pairs)
    )


def direct_all_reduce(members: int) -> Schedule:
    """Returns an all-reduce of two steps: members send each part to the one that adds it up, which sends the sum to all
    others."""
    scatter = to_all(members, Combine.ADD).rows.tolist()
    gather = to_all(members, Combine.COPY).rows.tolist()
    rows = [(*row[:3], step, *row[4:]) for step, half in enumerate((scatter, gather)) for row in half]
    return schedule_of(members, members, rows)


def recursive(members: int, combine: Combine) -> Schedule:
    """An allgather by recursive doubling (COPY), or a reduce-scatter by recursive halving (ADD): log2(N) steps, for
    powers of two.

    A step is one message, and ends before the next starts.
    """
    refuse_rows(members * (members - 1))

    def rows() -> Iterator[Row]:
        for step in range(members.bit_length() - 1):
            distance = 1 << step if combine == Combine.COPY else members >> (step + 1)
            for member in range(members):
                partner = member ^ distance
                start = (member if combine == Combine.COPY else partner) // distance * distance
                for part in range(start, start + distance):
                    yield member, partner, part, step, combine, step, int(part == start)

    return schedule_of(members, members, rows())


def two_level(machines: Sequence[Sequence[int]], combine: Combine) -> Schedule:
    """An allgather (COPY) or a reduce-scatter (ADD) in two rings: among members in the same place of all machines, and
    inside each machine.

    machines: members of each, equally many. What crosses the network crosses it once for each other machine, on every
    rail as much.
    """
    members, size = sum(map(len, machines)), len(machines[0])
    refuse_rows(members * (members - 1))
    rails = [[machine[index] for machine in machines] for index in range(size)]
    # Inside a machine, a member's block is all that belongs to its rail.
    blocks = [rails[index - 1] for index in range(size)]

    def rows() -> Iterator[Row]:
        inside_step, across_step = (len(machines) - 1, 0) if combine == Combine.COPY else (0, size - 1)
        for machine in machines:
            yield from around(machine, blocks, combine, inside_step, int(combine == Combine.COPY))
        for rail in rails:
            yield from around(rail, _own(rail), combine, across_step, int(combine == Combine.ADD))

    return schedule_of(members, members, rows())


def pairwise_reduce_scatter(members: int) -> Schedule:
    """Each member sends one receiver after the other its own share of the receiver's part: N - 1 steps, each over
    before the next."""
    pairs = _shifted_pairs(members)
    rows = ((src, dst, dst, offset - 1, Combine.ADD, offset - 1, 1) for src, dst, offset in pairs)
    return schedule_of(members, members, rows)


def all_to_all(members: int, *, pairwise: bool) -> Schedule:
    """Each part straight to its receiver: all at once or, pairwise, to one receiver after the other, in step with the
    sender before it."""
    pairs = _shifted_pairs(members)
    return schedule_of(
        members,
        members**2,
        (
            (
                src,
                dst,
                src * members + dst,
                offset - 1 if pairwise else 0,
                Combine.COPY,
                offset - 1 if pairwise else 0,
                1,
            )
            for src, dst, offset in pairs
        ),
    )


def two_level_all_to_all(machines: Sequence[Sequence[int]]) -> Schedule:
    """Returns an all-to-all in two levels: data for another machine go first to the member in the receiver's place, who
    sends all that it has for that receiver as one message.

    machines: members of each, equally many.
    """
    members = sum(map(len, machines))
    place_of = {
        member: (number, index) for number, machine in enumerate(machines) for index, member in enumerate(machine)
    }

    def rows() -> Iterator[Row]:
        for src, dst, _ in _shifted_pairs(members):
            part, (home, index), (there, at) = src * members + dst, place_of[src], place_of[dst]
            relay = machines[home][at]
            if home == there or index == at:
                yield src, dst, part, 0 if home == there else 1, Combine.COPY, 0, 1
            else:
                yield src, relay, part, 0, Combine.COPY, 0, int(there == (home + 1) % len(machines))
                yield relay, dst, part, 1, Combine.COPY, 0, 0

    return schedule_of(members, members**2, rows())


def gather_or_scatter(members: int, root: int, *, gather: bool) -> Schedule:
    """A gather to one member, or a scatter from it: each part straight."""
    others = [(root + offset) % members for offset in range(1, members)]
    pairs = [(other, root) if gather else (root, other) for other in others]
    rows = ((src, dst, src if gather else dst, 0, Combine.COPY, 0, 1) for src, dst in pairs)
    return schedule_of(members, members, rows)


def dissemination(members: int) -> Schedule:
    """A barrier: in step k everybody sends a token to the member 2^k further on."""
    rows = (
        (src, (src + (1 << step)) % members, 0, step, Combine.CONTROL, 0, 1)
        for step in range((members - 1).bit_length())
        for src in range(members)
    )
    return schedule_of(members, 1, rows)


def _shifted_pairs(members: int) -> list[tuple[int, int, int]]:
    """All pairs and their distance, such that in each portion of one distance everybody sends once and receives
    once."""
    refuse_rows(members * (members - 1))
    return [(src, (src + offset) % members, offset) for offset in range(1, members) for src in range(members)]
