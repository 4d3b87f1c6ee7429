"""Allreduces that are rings, exchanges of pairs, or both in two levels.

Sources: ring and hierarchical ring: GradientFlow, section 2.4 and Fig. 7. Ring over whole parameters ("without messaging") and
butterfly: NetOps, sections 3.3.2, 8.2.1, 8.2.2. Halving-doubling: Rabenseifner's algorithm, which NetOps names in section 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gradwire.datatypes.plan import Combine
from gradwire.faults import InputFault
from gradwire.workloads.engines.collectives.schedule import Row, Schedule, schedule_of


def around(
    members: Sequence[int], blocks: Sequence[Sequence[int]], combine: Combine, step: int, phase: int = 0
) -> Iterator[Row]:
    """One turn of a ring, len(members) - 1 steps: reduce-scatter (ADD) or allgather (COPY) of one block of parts per member.

    After the reduce-scatter, member i holds block i + 1, which the allgather starts from.
    """
    count, shift = len(members), int(combine == Combine.COPY)
    for hop in range(count - 1):
        for i, member in enumerate(members):
            for k, part in enumerate(blocks[(i + shift - hop) % count]):
                yield member, members[(i + 1) % count], part, step + hop, combine, phase, int(k == 0)


def ring_rows(members: Sequence[int], blocks: Sequence[Sequence[int]], step: int, phase: int) -> Iterator[Row]:
    """Both turns of a ring, `around` for ADD and for COPY."""
    yield from around(members, blocks, Combine.ADD, step, phase)
    yield from around(members, blocks, Combine.COPY, step + len(members) - 1, phase)


def ring(ranks: int) -> Schedule:
    """Reduce-scatter and allgather around a ring: 2 (N - 1) steps of 1/N of the bucket each."""
    return ring_among(range(ranks), ranks)


def ring_among(members: Sequence[int], ranks: int) -> Schedule:
    """The same around some of the ranks, in as many parts."""
    return schedule_of(ranks, len(members), ring_rows(members, [[part] for part in range(len(members))], 0, 0))


def whole_ring(ranks: int, first: int) -> Schedule:
    """Ring without messaging: the whole bucket goes from rank `first` twice around, sum first: 2 (N - 1) steps one after the other."""

    def rows() -> Iterator[Row]:
        for step in range(2 * (ranks - 1)):
            src = (first + step) % ranks
            yield src, (src + 1) % ranks, 0, step, Combine.ADD if step < ranks - 1 else Combine.COPY, 0, 1

    return schedule_of(ranks, 1, rows())


def butterfly(ranks: int) -> Schedule:
    """Recursive doubling: log2(N) steps, in each of which a rank exchanges the whole bucket with another. Raises InputFault."""
    _expect_power_of_two(ranks, "butterfly")

    def rows() -> Iterator[Row]:
        for step in range(ranks.bit_length() - 1):
            for rank in range(ranks):
                yield rank, rank ^ (1 << step), 0, step, Combine.ADD, 0, 1

    return schedule_of(ranks, 1, rows())


def halving_doubling(ranks: int) -> Schedule:
    """Rabenseifner: recursive halving (reduce-scatter), then recursive doubling (allgather). Raises InputFault.

    2 log2(N) steps; as many bytes as a ring. A step is one message and ends before the next starts, as MPI's send-receive does.
    """
    _expect_power_of_two(ranks, "halving-doubling")
    levels = ranks.bit_length() - 1

    def rows() -> Iterator[Row]:
        for step in range(levels):
            distance = ranks >> (step + 1)
            for rank in range(ranks):
                partner = rank ^ distance
                start = partner // distance * distance
                for part in range(start, start + distance):
                    yield rank, partner, part, step, Combine.ADD, step, int(part == start)
        for step in range(levels, 2 * levels):
            distance = 1 << (step - levels)
            for rank in range(ranks):
                start = rank // distance * distance
                for part in range(start, start + distance):
                    yield rank, rank ^ distance, part, step, Combine.COPY, step, int(part == start)

    return schedule_of(ranks, ranks, rows())


def hierarchical_ring(ranks: int, group: int, *, scatter: bool = False) -> Schedule:
    """Groups of `group` neighbouring ranks reduce among themselves, rings join the groups, and the groups spread the result.

    As GradientFlow defines it (`scatter` False): a chain in each group sums the whole bucket up at its master, the masters
    form one ring, and a chain in each group hands the result down. With `scatter`, a group reduce-scatters, every rank
    forms a ring with its counterparts in the other groups for its share, and the group allgathers: optimal inside as well.
    The three are calls one after the other, as NCCL-H makes them. Raises InputFault if groups do not come out even.
    """
    if group < 1 or ranks % group:
        raise InputFault(f"strategy.options.group = {group}: must divide cluster.workers = {ranks}")
    if scatter:
        return two_level([range(first, first + group) for first in range(0, ranks, group)])
    return schedule_of(ranks, ranks // group, _master_rows(ranks // group, group))


def _master_rows(groups: int, size: int) -> Iterator[Row]:
    parts = range(groups)
    for hop in range(size - 1):
        for first in range(0, groups * size, size):
            for part in parts:
                src = first + size - 1 - hop
                yield src, src - 1, part, hop, Combine.ADD, 0, int(part == 0)
    masters = range(0, groups * size, size)
    yield from ring_rows(masters, [[part] for part in parts], size - 1, 1)
    last = size - 1 + 2 * (groups - 1)
    for hop in range(size - 1):
        for first in masters:
            for part in parts:
                yield first + hop, first + hop + 1, part, last + hop, Combine.COPY, 2, int(part == 0)


def two_level(machines: Sequence[Sequence[int]]) -> Schedule:
    """A reduce-scatter inside each machine, a ring among members in the same place of all machines (their rail), an allgather inside.

    machines: members of each, equally many. Every member has its share on a rail of its own.
    """
    size, groups = len(machines[0]), len(machines)
    blocks = [range(i * groups, (i + 1) * groups) for i in range(size)]

    def rows() -> Iterator[Row]:
        for own in machines:
            yield from around(own, blocks, Combine.ADD, 0, 0)
        for i in range(size):
            rail = [own[i] for own in machines]
            yield from ring_rows(rail, [[part] for part in blocks[(i + 1) % size]], size - 1, 1)
        for own in machines:
            yield from around(own, blocks, Combine.COPY, size - 1 + 2 * (groups - 1), 2)

    return schedule_of(size * groups, size * groups, rows())


def _expect_power_of_two(ranks: int, name: str) -> None:
    if ranks & (ranks - 1):
        raise InputFault(
            f"cluster.workers = {ranks}: {name} pairs workers and needs a power of two, "
            f"like {1 << (ranks.bit_length() - 1)} or {1 << ranks.bit_length()}; ring takes any number"
        )
