"""The algorithms of each kind of collective, and the choice among them that `auto` makes.

What `auto` takes is TABLE's first row that fits. Its sizes are MPICH's: Thakur, Rabenseifner and Gropp, Optimization
of Collective Communication Operations in MPICH, International Journal of High Performance Computing Applications 19,
2005. Assumed, where MPICH has an algorithm that is not here: double-tree for short all-reduces, and rings for short
all-gathers, among members whose number is not a power of two; and direct for the shortest all-to-alls. Assumed as
well: where machines have several members each, what is larger goes in two levels, because a network's port is slower
than a machine's own link.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from gradwire.datatypes.plan import Combine
from gradwire.faults import InputFault
from gradwire.workloads.engines.collectives import allreduces, exchanges, in_network
from gradwire.workloads.engines.collectives.allreduces import (
    butterfly,
    channelled_ring,
    halving_doubling,
    ring,
    two_level,
)
from gradwire.workloads.engines.collectives.in_network import Switches, Tree
from gradwire.workloads.engines.collectives.schedule import Collective, Schedule

AUTO = "auto"
IN_NETWORK = "in-network"
PIECE_BYTES = 512 << 10
"""Size of the pieces that trees and chains pass on: NCCL's default buffer of 4 MiB (NCCL_BUFFSIZE) has 8 slots
(NCCL_STEPS)."""


@dataclass(frozen=True)
class Layout:
    """Members, in order, of whom only the machines matter, and how data are cut for them."""

    #: Machine of each member, numbered in the order in which they are first met.
    machines: tuple[int, ...]
    #: The member that a broadcast, reduction, gather or scatter is from or to.
    root: int = 0
    #: Pieces that trees and chains cut each of their parts into.
    pieces: int = 1
    #: Rings at once.
    channels: int = 1
    #: Leaf of each member's port, and the network's leaves and spines; empty: all members are at one switch, the only
    #: one.
    leaf_of: tuple[int, ...] = ()
    leaves: int = 1
    spines: int = 0

    @property
    def members(self) -> int:
        """Number of members."""
        return len(self.machines)

    @property
    def by_machine(self) -> list[list[int]]:
        """Members of each machine."""
        count = max(self.machines) + 1
        return [
            [member for member, machine in enumerate(self.machines) if machine == number] for number in range(count)
        ]

    @property
    def tree(self) -> Tree:
        """The switches above the members."""
        return Tree(self.by_machine, self.leaf_of or (0,) * self.members, self.leaves, self.spines)

    @property
    def is_power_of_two(self) -> bool:
        """Returns whether the number of members is a power of two, so that they can be paired again and again."""
        return not self.members & (self.members - 1)

    @property
    def is_even(self) -> bool:
        """Returns whether all machines have equally many members."""
        return len(set(Counter(self.machines).values())) == 1

    @property
    def has_rails(self) -> bool:
        """Returns whether there are several machines, with equally many members, and more than one each."""
        return self.is_even and 1 < max(self.machines) + 1 < self.members


@dataclass(frozen=True)
class Algorithm:
    """An algorithm for a kind of collective."""

    build: Callable[[Layout], Schedule]
    #: Whether the algorithm fits a layout, and the members that it needs, in words.
    fits: Callable[[Layout], bool] = lambda _: True
    needs: Callable[[Layout], str] = lambda _: ""
    #: Parts that are cut into pieces, before that; 0: parts are not cut.
    pipelined_parts: Callable[[Layout], int] = lambda _: 0


def _power_of_two(layout: Layout) -> str:
    low = 1 << (layout.members.bit_length() - 1)
    return f"a power of two, like {low} or {2 * low}"


def _evenly(layout: Layout) -> str:
    counts = ", ".join(map(str, Counter(layout.machines).values()))
    return f"as many on every machine, and they are {counts}"


def _of_pairs(build: Callable[[int], Schedule]) -> Algorithm:
    return Algorithm(lambda layout: build(layout.members), lambda layout: layout.is_power_of_two, _power_of_two)


def _levels(build: Callable[[list[list[int]]], Schedule]) -> Algorithm:
    return Algorithm(lambda layout: build(layout.by_machine), lambda layout: layout.is_even, _evenly)


def _any(build: Callable[[int], Schedule]) -> Algorithm:
    return Algorithm(lambda layout: build(layout.members))


def _ring(kind: Collective, plain: Callable[[int], Schedule]) -> Algorithm:
    def build(layout: Layout) -> Schedule:
        if layout.channels == 1:
            return plain(layout.members)
        return channelled_ring(kind, layout.machines, layout.channels)

    return Algorithm(build)


def _with_root(build: Callable[[int, int, Combine], Schedule], combine: Combine, pipelined_parts: int = 0) -> Algorithm:
    def built(layout: Layout) -> Schedule:
        return build(layout.members, layout.root, combine).segmented(layout.pieces)

    return Algorithm(built, pipelined_parts=lambda _: pipelined_parts)


def _by_switches(build: Callable[[Layout], Schedule], parts: Callable[[Tree], int]) -> Algorithm:
    """An algorithm by switches that add. parts: how many it has before they are cut."""
    return Algorithm(
        lambda layout: build(layout).segmented(layout.pieces), pipelined_parts=lambda layout: parts(layout.tree)
    )


def _one_to_all(combine: Combine) -> dict[str, Algorithm]:
    return {
        "tree": _with_root(allreduces.binomial, combine),
        "direct": _with_root(allreduces.direct, combine),
        "ring": _with_root(allreduces.chain, combine, pipelined_parts=1),
        "scatter-gather": _with_root(allreduces.scatter_gather, combine),
        IN_NETWORK: Algorithm(lambda layout: in_network.broadcast(layout.by_machine, layout.root))
        if combine == Combine.COPY
        else _by_switches(lambda layout: in_network.reduction(layout.tree, layout.root), lambda tree: tree.trees),
    }


ALGORITHMS: Mapping[Collective, Mapping[str, Algorithm]] = {
    Collective.ALL_REDUCE: {
        "ring": _ring(Collective.ALL_REDUCE, ring),
        "double-tree": Algorithm(
            lambda layout: allreduces.double_tree(layout.by_machine).segmented(layout.pieces),
            pipelined_parts=lambda _: 2,
        ),
        "halving-doubling": _of_pairs(halving_doubling),
        "butterfly": _of_pairs(butterfly),
        "two-level": _levels(two_level),
        "direct": _any(exchanges.direct_all_reduce),
        IN_NETWORK: _by_switches(
            lambda layout: in_network.all_reduce(layout.tree), lambda tree: tree.places * tree.trees
        ),
    },
    Collective.ALL_GATHER: {
        "ring": _ring(Collective.ALL_GATHER, lambda members: exchanges.ring_turn(members, Combine.COPY)),
        "recursive-doubling": _of_pairs(lambda members: exchanges.recursive(members, Combine.COPY)),
        "two-level": _levels(lambda machines: exchanges.two_level(machines, Combine.COPY)),
        "direct": _any(lambda members: exchanges.to_all(members, Combine.COPY)),
        IN_NETWORK: Algorithm(lambda layout: in_network.all_gather(layout.by_machine)),
    },
    Collective.REDUCE_SCATTER: {
        "ring": _ring(Collective.REDUCE_SCATTER, lambda members: exchanges.ring_turn(members, Combine.ADD)),
        "recursive-halving": _of_pairs(lambda members: exchanges.recursive(members, Combine.ADD)),
        "pairwise": _any(exchanges.pairwise_reduce_scatter),
        "two-level": _levels(lambda machines: exchanges.two_level(machines, Combine.ADD)),
        "direct": _any(lambda members: exchanges.to_all(members, Combine.ADD)),
        IN_NETWORK: _by_switches(lambda layout: in_network.reduce_scatter(layout.tree), lambda tree: tree.members),
    },
    Collective.ALL_TO_ALL: {
        "direct": _any(lambda members: exchanges.all_to_all(members, pairwise=False)),
        "pairwise": _any(lambda members: exchanges.all_to_all(members, pairwise=True)),
        "two-level": _levels(exchanges.two_level_all_to_all),
    },
    Collective.BROADCAST: _one_to_all(Combine.COPY),
    Collective.REDUCE: _one_to_all(Combine.ADD),
    Collective.GATHER: {
        "direct": Algorithm(lambda layout: exchanges.gather_or_scatter(layout.members, layout.root, gather=True))
    },
    Collective.SCATTER: {
        "direct": Algorithm(lambda layout: exchanges.gather_or_scatter(layout.members, layout.root, gather=False))
    },
    Collective.BARRIER: {"dissemination": _any(exchanges.dissemination)},
}
"""Algorithms by kind and name. All of a kind have the same result; they differ in how many steps and bytes it takes."""


@dataclass(frozen=True)
class TableRow:
    """A row of the table: an algorithm, and for what `auto` takes it."""

    kind: Collective
    algorithm: str
    source: str
    #: Largest size; None: any. What is compared: `compared_bytes`.
    most_bytes: int | None = None
    most_members: int | None = None
    power_of_two: bool = False
    #: Only where several machines have several members each, and equally many.
    rails: bool = False

    def fits(self, layout: Layout, compared: float) -> bool:
        """Returns whether the row is for these members and this size."""
        return (
            (self.most_bytes is None or compared <= self.most_bytes)
            and (self.most_members is None or layout.members <= self.most_members)
            and (layout.is_power_of_two or not self.power_of_two)
            and (layout.has_rails or not self.rails)
        )


SHORT_REDUCTION_BYTES = 2 << 10
SHORT_BROADCAST_BYTES = (12 << 10) - 1
FEW_MEMBERS = 7
LONG_BYTES = 512 << 10
MEDIUM_PART_BYTES = 32 << 10
ASSUMED, THAKUR = "assumed", "Thakur et al."

TABLE: tuple[TableRow, ...] = (
    TableRow(Collective.ALL_REDUCE, "butterfly", THAKUR, SHORT_REDUCTION_BYTES, power_of_two=True),
    TableRow(Collective.ALL_REDUCE, "double-tree", ASSUMED, SHORT_REDUCTION_BYTES),
    TableRow(Collective.ALL_REDUCE, "two-level", ASSUMED, rails=True),
    TableRow(Collective.ALL_REDUCE, "halving-doubling", THAKUR, power_of_two=True),
    TableRow(Collective.ALL_REDUCE, "ring", ASSUMED),
    TableRow(Collective.ALL_GATHER, "recursive-doubling", THAKUR, LONG_BYTES - 1, power_of_two=True),
    TableRow(Collective.ALL_GATHER, "two-level", ASSUMED, rails=True),
    TableRow(Collective.ALL_GATHER, "ring", THAKUR),
    TableRow(Collective.REDUCE_SCATTER, "recursive-halving", THAKUR, LONG_BYTES - 1, power_of_two=True),
    TableRow(Collective.REDUCE_SCATTER, "two-level", ASSUMED, rails=True),
    TableRow(Collective.REDUCE_SCATTER, "pairwise", THAKUR),
    TableRow(Collective.ALL_TO_ALL, "two-level", ASSUMED, MEDIUM_PART_BYTES, rails=True),
    TableRow(Collective.ALL_TO_ALL, "direct", THAKUR, MEDIUM_PART_BYTES),
    TableRow(Collective.ALL_TO_ALL, "pairwise", THAKUR),
    TableRow(Collective.BROADCAST, "tree", THAKUR, SHORT_BROADCAST_BYTES),
    TableRow(Collective.BROADCAST, "tree", THAKUR, most_members=FEW_MEMBERS),
    TableRow(Collective.BROADCAST, "scatter-gather", THAKUR),
    TableRow(Collective.REDUCE, "tree", THAKUR, SHORT_REDUCTION_BYTES),
    TableRow(Collective.REDUCE, "scatter-gather", THAKUR),
    TableRow(Collective.GATHER, "direct", "the only one"),
    TableRow(Collective.SCATTER, "direct", "the only one"),
    TableRow(Collective.BARRIER, "dissemination", "the only one"),
)
"""The choice of an algorithm: the first row of a kind that fits is taken."""


def compared_bytes(kind: Collective, members: int, size_bytes: int) -> float:
    """Returns the size that rows of the table are compared with, as in MPICH: all bytes that a member gets of an
    allgather, the part for one receiver of an all-to-all, and otherwise the size as the kind counts it."""
    if kind is Collective.ALL_GATHER:
        return size_bytes * members
    return size_bytes / members if kind is Collective.ALL_TO_ALL else size_bytes


def layout_of(members: Sequence[int], machine_of: Sequence[int], switches: Switches | None = None) -> Layout:
    """The layout of members, given the machine of each rank, and the switches above them where they take part."""
    numbers: dict[int, int] = {}
    alone = Layout(tuple(numbers.setdefault(machine_of[member], len(numbers)) for member in members))
    if switches is None:
        return alone
    leaf_of = tuple(switches.leaf_of[member] for member in members)
    return replace(alone, leaf_of=leaf_of, leaves=switches.leaves, spines=switches.spines)


def adds_in_network(kind: Collective, algorithms: Iterable[str]) -> bool:
    """Returns whether switches have to add for collectives of a kind by any of these algorithms."""
    return IN_NETWORK in algorithms and kind in (Collective.ALL_REDUCE, Collective.REDUCE, Collective.REDUCE_SCATTER)


def pick(kind: Collective, layout: Layout, size_bytes: int) -> str:
    """The algorithm that `auto` takes."""
    compared = compared_bytes(kind, layout.members, size_bytes)
    return next(row.algorithm for row in TABLE if row.kind is kind and row.fits(layout, compared))


def schedule_for(
    kind: Collective,
    algorithm: str,
    members: Sequence[int],
    machine_of: Sequence[int],
    size_bytes: int,
    *,
    root: int | None = None,
    piece_bytes: int = PIECE_BYTES,
    channels: int = 1,
    key: str = "algorithm",
    switches: Switches | None = None,
) -> Schedule:
    """The schedule of a collective among ranks, by an algorithm of ALGORITHMS or by "auto". Rows name ranks, parts are
    those of `promise`.

    members: ranks in the order of the group. machine_of: the machine of every rank. size_bytes: as the kind counts it
    (`Collective`). root: of the members, the rank that the collective is from or to. piece_bytes: what trees and
    chains pass on at a time. channels: rings at once. switches: those of the network, which "in-network" gives ranks
    behind those of all workers; None: it has one switch. Members of a group in the same places of other machines have
    the same schedule with other names (`Schedule.among`).

    Raises InputFault, which begins with `key`, for an algorithm that does not exist or does not suit the members.
    """
    root_index = 0 if root is None else list(members).index(root)
    layout = layout_of(members, machine_of, switches)
    schedule = member_schedule(
        kind, algorithm, replace(layout, root=root_index), size_bytes, piece_bytes, channels, key
    )
    return in_network.with_plan_ranks(schedule, members, max(members) + 1 if switches is None else switches.first_rank)


def member_schedule(
    kind: Collective,
    algorithm: str,
    layout: Layout,
    size_bytes: int,
    piece_bytes: int,
    channels: int,
    key: str,
) -> Schedule:
    """Returns the schedule of a collective in which ranks are places of members: one object for all collectives that
    have the same schedule. The root is that of the layout. Raises InputFault for an algorithm that is unknown or does
    not fit."""
    name = pick(kind, layout, size_bytes) if algorithm == AUTO else algorithm
    there = ALGORITHMS[kind]
    if name not in there:
        raise InputFault(f"{key} = '{name}': {_a(kind)} has no such algorithm; there are {', '.join(there)} and {AUTO}")
    if not there[name].fits(layout):
        raise InputFault(
            f"{key} = '{name}': {_a(kind)} among {layout.members} by '{name}' needs {there[name].needs(layout)}; "
            f"{_of_any_number(there)} takes any number"
        )
    parts = there[name].pipelined_parts(layout)
    pieces = max(1, -(-size_bytes // (parts * piece_bytes))) if parts else 1
    cut = replace(layout, pieces=pieces, channels=channels if name == "ring" else 1)
    # What does not ask switches is the same at all of them.
    return _build(kind, name, cut if name == IN_NETWORK else replace(cut, leaf_of=(), leaves=1, spines=0))


def _a(kind: Collective) -> str:
    return f"{'an' if kind.startswith('a') else 'a'} {kind}"


def _of_any_number(there: Mapping[str, Algorithm]) -> str:
    return "ring" if "ring" in there else "direct"


@cache
def _build(kind: Collective, name: str, layout: Layout) -> Schedule:
    if layout.members == 1:
        return Schedule(1, 1, ring(1).rows)
    return ALGORITHMS[kind][name].build(layout)
