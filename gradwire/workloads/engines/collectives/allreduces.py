"""Allreduces by rings, by exchanges of pairs, in two levels or by trees, and broadcasts and reductions from and to one
rank.

Sources: ring and hierarchical ring: GradientFlow, section 2.4 and Fig. 7. Ring over whole parameters ("without
messaging") and butterfly: NetOps, sections 3.3.2, 8.2.1, 8.2.2. Halving-doubling: Rabenseifner's algorithm, which
NetOps names in section 1. Two trees: Sanders, Speck and Träff, Two-tree algorithms for full bandwidth broadcast,
reduction and scan, Parallel Computing 35, 2009, with the trees that NCCL has built since version 2.4 (`ncclGetDtree`,
src/graph/trees.cc, where ranks of one machine form a chain). Binomial trees, and a scatter followed by an allgather:
Thakur, Rabenseifner and Gropp, Optimization of Collective Communication Operations in MPICH, International Journal of
High Performance Computing Applications 19, 2005. Several rings at once are NCCL's channels: each takes its share of
the data around, in its own order and over its own connections.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from gradwire.datatypes.plan import Combine, Int64
from gradwire.faults import InputFault
from gradwire.workloads.engines.collectives.schedule import Collective, Row, Schedule, refuse_rows, schedule_of


def around(
    members: Sequence[int], blocks: Sequence[Sequence[int]], combine: Combine, step: int, phase: int = 0
) -> Iterator[Row]:
    """One turn of a ring, len(members) - 1 steps: reduce-scatter (ADD) or allgather (COPY) of one block of parts per
    member.

    After the reduce-scatter, member i holds block i + 1, which the allgather starts from.
    """
    count, shift = len(members), int(combine == Combine.COPY)
    refuse_rows((count - 1) * sum(map(len, blocks)))
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
    """Reduce-scatter and allgather around a ring of some of the ranks, in as many parts as there are members."""
    names = np.array(members, np.int64)
    count = len(names)
    refuse_rows(2 * (count - 1) * count)
    hop, place = (each.ravel() for each in np.indices((2 * (count - 1), count)))
    copying = hop >= count - 1
    part = (place + copying - hop % max(count - 1, 1)) % count
    combine = np.where(copying, int(Combine.COPY), int(Combine.ADD))
    columns = (names[place], names[(place + 1) % count], part, hop, combine, np.zeros_like(hop), np.ones_like(hop))
    return Schedule(ranks, count, np.stack(columns, axis=1))


def whole_ring(ranks: int, first: int) -> Schedule:
    """Ring without messaging: the whole bucket goes from rank `first` twice around, sum first: 2 (N - 1) steps one
    after the other."""

    def rows() -> Iterator[Row]:
        for step in range(2 * (ranks - 1)):
            src = (first + step) % ranks
            yield src, (src + 1) % ranks, 0, step, Combine.ADD if step < ranks - 1 else Combine.COPY, 0, 1

    return schedule_of(ranks, 1, rows())


def butterfly(ranks: int) -> Schedule:
    """Recursive doubling: log2(N) steps, in each of which a rank exchanges the whole bucket with another.

    Raises InputFault.
    """
    _expect_power_of_two(ranks, "butterfly")

    def rows() -> Iterator[Row]:
        for step in range(ranks.bit_length() - 1):
            for rank in range(ranks):
                yield rank, rank ^ (1 << step), 0, step, Combine.ADD, 0, 1

    return schedule_of(ranks, 1, rows())


def halving_doubling(ranks: int) -> Schedule:
    """Rabenseifner: recursive halving (reduce-scatter), then recursive doubling (allgather). Raises InputFault.

    2 log2(N) steps; as many bytes as a ring. A step is one message and ends before the next starts, as MPI's
    send-receive does.
    """
    _expect_power_of_two(ranks, "halving-doubling")
    levels = ranks.bit_length() - 1
    refuse_rows(2 * ranks * (ranks - 1))
    every = np.arange(ranks)

    def rows(step: int, distance: int, combine: Combine) -> Int64:
        """Each rank sends its partner the half of what it has that is the partner's, or all of its own."""
        owner = every ^ distance if combine == Combine.ADD else every
        part = (owner // distance * distance)[:, None] + np.arange(distance)
        columns = (every[:, None], (every ^ distance)[:, None], part, step, combine, step, np.arange(distance) == 0)
        return np.stack([np.broadcast_to(column, part.shape) for column in columns], axis=2).reshape(-1, 7)

    halving = [rows(step, ranks >> (step + 1), Combine.ADD) for step in range(levels)]
    doubling = [rows(levels + step, 1 << step, Combine.COPY) for step in range(levels)]
    return Schedule(ranks, ranks, np.concatenate([*halving, *doubling, np.zeros((0, 7), np.int64)]).astype(np.int64))


def hierarchical_ring(ranks: int, group: int, *, scatter: bool = False) -> Schedule:
    """Groups of `group` neighbouring ranks reduce among themselves, rings join the groups, and the groups spread the
    result.

    As GradientFlow defines it (`scatter` False): a chain in each group sums the whole bucket up at its master, the
    masters form one ring, and a chain in each group hands the result down. With `scatter`, a group reduce-scatters,
    every rank forms a ring with its counterparts in the other groups for its share, and the group allgathers: optimal
    inside as well. The three are calls one after the other, as NCCL-H makes them. Raises InputFault if groups do not
    come out even.
    """
    if group < 1 or ranks % group:
        raise InputFault(f"strategy.options.group = {group}: must divide cluster.workers = {ranks}")
    if scatter:
        return two_level([range(first, first + group) for first in range(0, ranks, group)])
    return Schedule(ranks, ranks // group, _master_rows(ranks // group, group))


def _master_rows(groups: int, size: int) -> Int64:
    parts, masters = range(groups), range(0, groups * size, size)
    refuse_rows(2 * groups * (groups * size - 1))
    among_masters = ring_among(masters, groups * size).rows
    last = size - 1 + 2 * (groups - 1)

    def chains(first_step: int, combine: Combine, phase: int) -> Int64:
        """Up to all masters, or down from them."""
        rows = [
            (first + place, first + place + toward, part, first_step + hop, combine, phase, int(part == 0))
            for hop in range(size - 1)
            for place, toward in [(size - 1 - hop, -1) if combine is Combine.ADD else (hop, 1)]
            for first in masters
            for part in parts
        ]
        return np.array(rows, np.int64).reshape(-1, 7)

    ring_behind = among_masters + np.array([0, 0, 0, size - 1, 0, 1, 0])
    return np.concatenate([chains(0, Combine.ADD, 0), ring_behind, chains(last, Combine.COPY, 2)])


def two_level(machines: Sequence[Sequence[int]]) -> Schedule:
    """A reduce-scatter inside each machine, a ring among members in the same place of all machines (their rail), an
    allgather inside.

    machines: members of each, equally many. Every member has its share on another rail.
    """
    size, groups = len(machines[0]), len(machines)
    refuse_rows(2 * size * groups * (size * groups - 1))
    blocks = [range(i * groups, (i + 1) * groups) for i in range(size)]

    def rows() -> Iterator[Row]:
        for machine in machines:
            yield from around(machine, blocks, Combine.ADD, 0, 0)
        for i in range(size):
            rail = [machine[i] for machine in machines]
            yield from ring_rows(rail, [[part] for part in blocks[(i + 1) % size]], size - 1, 1)
        for machine in machines:
            yield from around(machine, blocks, Combine.COPY, size - 1 + 2 * (groups - 1), 2)

    return schedule_of(size * groups, size * groups, rows())


def _expect_power_of_two(ranks: int, name: str) -> None:
    if ranks & (ranks - 1):
        raise InputFault(
            f"cluster.workers = {ranks}: {name} pairs workers and needs a power of two, "
            f"like {1 << (ranks.bit_length() - 1)} or {1 << ranks.bit_length()}; ring takes any number"
        )


NONE = -1


def parents(count: int) -> list[int]:
    """The parent of each place in a binary tree of so many places, whose root is place 0 and has one child; NONE for
    the root.

    Places are in inorder from 1 on, so that odd ones are leaves: what a place is numbered is in the middle of what is
    below it. Where its parent would be beyond the last place, the parent's parent takes its place.
    """
    parent_of = [NONE]
    for node in range(1, count):
        lowest = node & -node
        above = (node ^ lowest) | (lowest << 1)
        parent_of.append(above if above < count else node ^ lowest)
    return parent_of


def second_parents(count: int) -> list[int]:
    """The second tree, in which what is a leaf in the first is not: its mirror image or, for odd numbers, the same
    shifted by one.

    Only the first tree's root may have something below it in both.
    """
    first = parents(count)
    if count % 2:
        return [NONE if above == NONE else (above + 1) % count for above in (first[node - 1] for node in range(count))]
    return [NONE if above == NONE else count - 1 - above for above in reversed(first)]


def double_tree(machines: Sequence[Sequence[int]]) -> Schedule:
    """All-reduce by two binary trees of machines, each of which carries half of the data up and down; members of a
    machine form a chain.

    machines: members of each, numbered from 0 on over all of them. In the second tree a machine's chain runs the other
    way, so that another member is the one that talks to other machines. Each pair of ranks has a separate
    connection. `segmented` pipelines.
    """
    members = sum(len(machine) for machine in machines)
    if members == 1:
        return schedule_of(1, 2, ())
    chains = [list(machine) for machine in machines]
    first = parents_of_members(chains, parents(len(machines)))
    second = parents_of_members([machine[::-1] for machine in chains], second_parents(len(machines)))
    rows = [row for part, above in enumerate((first, second)) for row in (*climb(above, part), *descend(above, part))]
    return schedule_of(members, 2, rows).connected()


def parents_of_members(chains: Sequence[Sequence[int]], above: Sequence[int]) -> list[int]:
    """The parent of each member where machines form a tree, and the members of each a chain from its first one on."""
    parent_of = [NONE] * sum(len(chain) for chain in chains)
    for chain, parent in zip(chains, above, strict=True):
        parent_of[chain[0]] = NONE if parent == NONE else chains[parent][0]
        for before, member in pairwise(chain):
            parent_of[member] = before
    return parent_of


def _depths(above: Sequence[int]) -> list[int]:
    def depth(member: int) -> int:
        far = 0
        while above[member] != NONE:
            member, far = above[member], far + 1
        return far

    return [depth(member) for member in range(len(above))]


def climb(above: Sequence[int], part: int) -> Iterator[Row]:
    """The rows of a tree from the deepest members to the root, as sums."""
    depths = _depths(above)
    deepest = max(depths)
    for member in sorted(range(len(above)), key=lambda member: -depths[member]):
        if above[member] != NONE:
            yield member, above[member], part, deepest - depths[member], Combine.ADD, 0, 1


def descend(above: Sequence[int], part: int) -> Iterator[Row]:
    """The rows of a tree from the root to all, when `climb` is over."""
    depths = _depths(above)
    deepest = max(depths)
    for member in sorted(range(len(above)), key=lambda member: depths[member]):
        if above[member] != NONE:
            yield above[member], member, part, deepest + depths[member] - 1, Combine.COPY, 0, 1


def chain(members: int, root: int, combine: Combine) -> Schedule:
    """A broadcast (COPY) or a reduction (ADD) along a ring that is open at the root, as NCCL's; `segmented` pipelines
    it."""
    from_root = [(root + offset) % members for offset in range(members)]
    hops = list(pairwise(from_root))
    if combine == Combine.ADD:
        hops = [(far, near) for near, far in reversed(hops)]
    return schedule_of(members, 1, ((src, dst, 0, step, combine, 0, 1) for step, (src, dst) in enumerate(hops)))


def binomial(members: int, root: int, combine: Combine) -> Schedule:
    """A broadcast (COPY) or a reduction (ADD) along a binomial tree: log2(N) steps, each of the whole buffer."""
    steps = (members - 1).bit_length()
    rows: list[Row] = []
    for step in range(steps):
        for near in range(min(1 << step, members - (1 << step))):
            src, dst = (root + near) % members, (root + near + (1 << step)) % members
            if combine == Combine.COPY:
                rows.append((src, dst, 0, step, combine, 0, 1))
            else:
                rows.append((dst, src, 0, steps - 1 - step, combine, 0, 1))
    return schedule_of(members, 1, rows)


def direct(members: int, root: int, combine: Combine) -> Schedule:
    """The root to everybody (COPY), or everybody to the root (ADD), at once."""
    others = [(root + offset) % members for offset in range(1, members)]
    pairs = [(root, other) if combine == Combine.COPY else (other, root) for other in others]
    return schedule_of(members, 1, ((src, dst, 0, 0, combine, 0, 1) for src, dst in pairs))


def scatter_gather(members: int, root: int, combine: Combine) -> Schedule:
    """A broadcast (COPY) as a scatter along a binomial tree and an allgather around a ring; a reduction (ADD) is the
    same backwards.

    About twice the buffer from or to each member, however many there are. Part p is what the p-th member from the root
    on gets of it.
    """
    order = [(root + offset) % members for offset in range(members)]
    blocks = [[(offset - 1) % members] for offset in range(members)]
    tree = list(_halves(order))
    steps = (members - 1).bit_length()
    if combine == Combine.COPY:
        scatter = ((near, far, part, step, Combine.COPY, 0, opens) for near, far, part, step, opens in tree)
        return schedule_of(members, members, (*scatter, *around(order, blocks, Combine.COPY, steps)))
    gather = (
        (far, near, part, members - 1 + steps - 1 - step, Combine.COPY, 0, opens)
        for near, far, part, step, opens in reversed(tree)
    )
    return schedule_of(members, members, (*around(order, blocks, Combine.ADD, 0), *gather))


def _halves(order: Sequence[int]) -> Iterator[tuple[int, int, int, int, int]]:
    """Yields the transfers of a binomial scatter: who hands which part to whom, in which step, and 1 for a message's
    first part."""
    count = len(order)
    for step, distance in enumerate(1 << bit for bit in reversed(range((count - 1).bit_length()))):
        for near in range(0, count, 2 * distance):
            far = near + distance
            for part in range(far, min(far + distance, count)):
                yield order[near], order[far], part, step, int(part == far)


def channelled_ring(kind: Collective, machines: Sequence[int], channels: int) -> Schedule:
    """An all-reduce, all-gather or reduce-scatter around `channels` rings. Part c * N + i is member i's in channel c.

    machines: the machine of each member, in the order of the ring. Each channel leaves machines at another member, so
    that all NICs carry as much. Channels share the links inside a machine.
    """
    count = len(machines)
    refuse_rows(channels * count * (count - 1))
    rows: list[Row] = []
    number: list[int] = []
    for channel in range(channels):
        order = order_of_channel(machines, channel, channels)
        blocks = [[channel * count + order[index - 1]] for index in range(count)]
        of_channel: list[Row] = []
        if kind is not Collective.ALL_GATHER:
            of_channel += around(order, blocks, Combine.ADD, 0)
        if kind is not Collective.REDUCE_SCATTER:
            of_channel += around(order, blocks, Combine.COPY, count - 1 if of_channel else 0)
        rows += of_channel
        number += [channel] * len(of_channel)
    whole = schedule_of(count, count * channels, rows)
    return Schedule(count, count * channels, whole.rows, np.array(number, np.int64), rings=channels)


def order_of_channel(machines: Sequence[int], channel: int, channels: int | None = None) -> list[int]:
    """Members in the order of the ring of one of so many channels; None: of as many as a machine has members.

    A machine's members take turns as the one at which a ring leaves it. Where machines have as many members each, and an
    even number, rings enter a machine where they left the one before, which is on the same rail: as NCCL exchanges every
    two rings on every second machine ("Alternate rings to avoid crossing rails", src/graph/connect.cc).
    """
    on_machine: dict[int, list[int]] = {}
    for member, machine in enumerate(machines):
        on_machine.setdefault(machine, []).append(member)
    counts = {len(members) for members in on_machine.values()}
    if len(counts) > 1:
        position = {member: at for members in on_machine.values() for at, member in enumerate(members)}
        return [
            neighbours[(position[member] + channel) % len(neighbours)]
            for member, neighbours in ((member, on_machine[machine]) for member, machine in enumerate(machines))
        ]
    count = min(counts)
    place = _exit_place(channel, channels or count, count)
    order: list[int] = []
    for number, members in enumerate(on_machine.values()):
        last, first = place, _beside(place, count)
        if count % 2 == 0 and number % 2:
            last, first = first, last
        between = ((first + 1 + at) % count for at in range(count))
        places = (first, *(at for at in between if at not in (first, last)), last) if count > 1 else (0,)
        order += [members[at] for at in places]
    return order


def ends_on_machine(channel: int, channels: int, members: int) -> tuple[int, int]:
    """Returns the place among a machine's members at which a channel's ring leaves it, and that at which it enters the
    next machine. On every second machine of an even number of members, another channel's ring does."""
    place = _exit_place(channel, channels, members)
    return place, place if members % 2 == 0 else _beside(place, members)


def _exit_place(channel: int, channels: int, members: int) -> int:
    return channel * members // channels if channels < members else channel % members


def _beside(place: int, members: int) -> int:
    """The place at which a ring enters a machine that it leaves at `place`."""
    return place ^ 1 if members % 2 == 0 else (place + 1) % members
