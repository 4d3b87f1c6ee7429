"""Trees and chains: allreduces by two binary trees, and broadcasts and reductions from and to one rank.

Sources: two trees: Sanders, Speck and Träff, Two-tree algorithms for full bandwidth broadcast, reduction and scan, Parallel Computing 35,
2009, with the trees that NCCL has built since version 2.4 (`ncclGetDtree`, src/graph/trees.cc, where ranks of one machine form a chain).
Binomial trees, and a scatter followed by an allgather: Thakur, Rabenseifner and Gropp, Optimization of Collective Communication Operations
in MPICH, International Journal of High Performance Computing Applications 19, 2005.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from gradwire.datatypes.plan import Combine
from gradwire.workloads.engines.collectives.allreduces import around
from gradwire.workloads.engines.collectives.schedule import Row, Schedule, schedule_of

NONE = -1


def parents(count: int) -> list[int]:
    """The parent of each place in a binary tree of so many places, whose root is place 0 and has one child; NONE for the root.

    Places are in inorder from 1 on, so that odd ones are leaves: what a place is numbered is in the middle of what is below it. Where its
    parent would be beyond the last place, the parent's parent takes its place.
    """
    found = [NONE]
    for place in range(1, count):
        lowest = place & -place
        above = (place ^ lowest) | (lowest << 1)
        found.append(above if above < count else place ^ lowest)
    return found


def second_parents(count: int) -> list[int]:
    """The second tree, in which what is a leaf in the first is not: its mirror image or, for odd numbers, the same shifted by one.

    Only the first tree's root may have something below it in both.
    """
    first = parents(count)
    if count % 2:
        return [
            NONE if above == NONE else (above + 1) % count for above in (first[place - 1] for place in range(count))
        ]
    return [NONE if above == NONE else count - 1 - above for above in reversed(first)]


def double_tree(machines: Sequence[Sequence[int]]) -> Schedule:
    """Half of the data goes up and down each of two binary trees of machines, inside which members form a chain.

    machines: members of each, numbered from 0 on over all of them. In the second tree a machine's chain runs the other way, so that another
    member is the one that talks to other machines. Each pair of ranks has a connection of its own. `segmented` pipelines.
    """
    members = sum(len(own) for own in machines)
    if members == 1:
        return schedule_of(1, 2, ())
    chains = [list(own) for own in machines]
    first = _parents_of_members(chains, parents(len(machines)))
    second = _parents_of_members([own[::-1] for own in chains], second_parents(len(machines)))
    rows = [row for part, above in enumerate((first, second)) for row in (*_up(above, part), *_down(above, part))]
    return schedule_of(members, 2, rows).connected()


def _parents_of_members(chains: Sequence[Sequence[int]], above: Sequence[int]) -> list[int]:
    found = [NONE] * sum(len(own) for own in chains)
    for own, parent in zip(chains, above, strict=True):
        found[own[0]] = NONE if parent == NONE else chains[parent][0]
        for before, member in pairwise(own):
            found[member] = before
    return found


def _depths(above: Sequence[int]) -> list[int]:
    def depth(member: int) -> int:
        far = 0
        while above[member] != NONE:
            member, far = above[member], far + 1
        return far

    return [depth(member) for member in range(len(above))]


def _up(above: Sequence[int], part: int) -> Iterator[Row]:
    """From the deepest members to the root, as sums."""
    depths = _depths(above)
    deepest = max(depths)
    for member in sorted(range(len(above)), key=lambda member: -depths[member]):
        if above[member] != NONE:
            yield member, above[member], part, deepest - depths[member], Combine.ADD, 0, 1


def _down(above: Sequence[int], part: int) -> Iterator[Row]:
    """From the root to all, when `_up` is over."""
    depths = _depths(above)
    deepest = max(depths)
    for member in sorted(range(len(above)), key=lambda member: depths[member]):
        if above[member] != NONE:
            yield above[member], member, part, deepest + depths[member] - 1, Combine.COPY, 0, 1


def chain(members: int, root: int, combine: Combine) -> Schedule:
    """A broadcast (COPY) or a reduction (ADD) along a ring that is open at the root, as NCCL's; `segmented` pipelines it."""
    from_root = [(root + place) % members for place in range(members)]
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
    """A broadcast (COPY) as a scatter along a binomial tree and an allgather around a ring; a reduction (ADD) is the same backwards.

    About twice the buffer from or to each member, however many there are. Part p is what the p-th member from the root on gets of it.
    """
    order = [(root + place) % members for place in range(members)]
    blocks = [[(place - 1) % members] for place in range(members)]
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
    """Who hands which part to whom in a binomial scatter, in which step, and whether the part is the message's first."""
    count = len(order)
    for step, distance in enumerate(1 << bit for bit in reversed(range((count - 1).bit_length()))):
        for near in range(0, count, 2 * distance):
            far = near + distance
            for part in range(far, min(far + distance, count)):
                yield order[near], order[far], part, step, int(part == far)
