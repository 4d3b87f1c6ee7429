"""Collectives in which switches take part: they add what members send up, and copy what one member sends to many.

All-reduces, reduce-scatters and reductions: each switch has a member of the schedule that adds (Role.AGGREGATOR). What
members at a leaf send is added there; where members are at several leaves, a spine adds what the leaves pass on. An
all-reduce's sum comes back the same way, down the tree, and that of a reduce-scatter's part goes to its receiver
alone, who adds its own. So every line carries a part once in each direction. Source: Graham et al., Scalable
Hierarchical Aggregation Protocol (SHArP): A Hardware Architecture for Efficient Data Reduction, COMHPC 2016.
All-gathers and broadcasts: a member multicasts what it has to all on other machines, so that every line carries it
once.

Members of one machine share its ports. They divide an all-reduce among themselves: each adds its part for all of them,
sends that up, and passes the sum on inside. Assumed, as in workloads/engines/aggregation.py: switches add at line
rate, have memory for all that is under way, and send without software latency.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gradwire.datatypes.plan import Combine
from gradwire.network.fabric import Fabric
from gradwire.workloads.engines.collectives.schedule import Row, Schedule, schedule_of
from gradwire.workloads.job import Job

ADDED_INSIDE, TO_LEAF, TO_SPINE, FROM_SPINE, FROM_LEAF, PASSED_ON = range(6)
"""Steps."""


@dataclass(frozen=True)
class Switches:
    """The switches of a network, as members of collectives: each has a rank behind those of the workers, leaves first.

    A rank holds one sum of a chunk. Where groups sum the same chunk apart, each has a set of such ranks, one set
    behind the other.
    """

    #: Leaf of each worker's port.
    leaf_of: tuple[int, ...]
    leaves: int
    spines: int
    #: Endpoint of each one's aggregator.
    endpoints: tuple[int, ...]
    #: Which set of ranks.
    number: int = 0

    @classmethod
    def of(cls, job: Job) -> Switches:
        """Returns the switches of a job's network. Raises InputFault for a network without aggregators."""
        cluster = job.cluster
        fabric = job.fabric or Fabric(hosts=cluster.ports, rate_bps=1.0, aggregators=True)
        leaf_of = tuple(fabric.leaf_of(cluster.worker_port(worker)) for worker in range(cluster.workers))
        leaves, spines = len(fabric.leaf_names()), len(fabric.spine_names())
        return cls(leaf_of, leaves, spines, tuple(fabric.aggregator_of(switch) for switch in range(leaves + spines)))

    @property
    def first_rank(self) -> int:
        """Rank of the first leaf."""
        return len(self.leaf_of) + self.number * len(self.endpoints)


def with_plan_ranks(schedule: Schedule, members: Sequence[int], first_rank: int) -> Schedule:
    """A schedule with ranks in place of its members, and with those from `first_rank` on in place of its switches."""
    switches = range(first_rank, first_rank + schedule.ranks - len(members))
    return schedule.among([*members, *switches], first_rank + len(switches))


@dataclass(frozen=True)
class Tree:
    """Members and the switches above them, by their numbers in a schedule: members, then leaves, then spines."""

    #: Members of each machine.
    machines: Sequence[Sequence[int]]
    #: Leaf of each member.
    leaf_of: Sequence[int]
    leaves: int
    spines: int

    @property
    def members(self) -> int:
        """Number of members."""
        return len(self.leaf_of)

    @property
    def places(self) -> int:
        """Members on each machine that talk to switches: as many as every machine has."""
        return min(len(machine) for machine in self.machines)

    @property
    def trees(self) -> int:
        """Trees that parts are divided among, each with another spine as its root."""
        return max(1, self.spines)

    def leaf(self, member: int) -> int:
        """Number of a member's leaf."""
        return self.members + self.leaf_of[member]

    def spine(self, tree: int) -> int:
        """Number of a tree's root where it is a spine."""
        return self.members + self.leaves + tree % self.trees

    def schedule(self, parts: int, rows: Iterator[Row]) -> Schedule:
        """A schedule of these rows, with separate connections for each pair."""
        return schedule_of(self.members + self.leaves + self.spines, parts, rows).connected()


def all_reduce(tree: Tree) -> Schedule:
    """Returns an all-reduce in the network. Part p goes by place p modulo the places of a machine, and by the next
    spine each time all places had their turn."""
    places = tree.places

    def rows() -> Iterator[Row]:
        for part in range(places * tree.trees):
            leaders = [machine[part % places] for machine in tree.machines]
            for machine, leader in zip(tree.machines, leaders, strict=True):
                yield from _inside(machine, leader, part, Combine.ADD)
            if len(leaders) > 1:
                yield from _up_and_down(tree, leaders, part, tree.spine(part // places))
            for machine, leader in zip(tree.machines, leaders, strict=True):
                yield from _inside(machine, leader, part, Combine.COPY)

    return tree.schedule(places * tree.trees, rows())


def _inside(machine: Sequence[int], leader: int, part: int, combine: Combine) -> Iterator[Row]:
    for member in machine:
        if member != leader and combine == Combine.ADD:
            yield member, leader, part, ADDED_INSIDE, combine, 0, 1
        elif member != leader:
            yield leader, member, part, PASSED_ON, combine, 0, 1


def _up_and_down(tree: Tree, leaders: Sequence[int], part: int, spine: int) -> Iterator[Row]:
    """Yields the transfers of a part from the leaders to the top of the tree and back."""
    leaves = sorted({tree.leaf(leader) for leader in leaders})
    for leader in leaders:
        yield leader, tree.leaf(leader), part, TO_LEAF, Combine.ADD, 0, 1
    for leaf in leaves if len(leaves) > 1 else ():
        yield leaf, spine, part, TO_SPINE, Combine.ADD, 0, 0
    for leaf in leaves if len(leaves) > 1 else ():
        yield spine, leaf, part, FROM_SPINE, Combine.COPY, 0, 0
    for leader in leaders:
        yield tree.leaf(leader), leader, part, FROM_LEAF, Combine.COPY, 0, 0


def reduce_scatter(tree: Tree) -> Schedule:
    """Returns a reduce-scatter in the network, whose part i is for member i."""
    rows = (row for part in range(tree.members) for row in _to_one(tree, part, part))
    return tree.schedule(tree.members, rows)


def reduction(tree: Tree, root: int) -> Schedule:
    """Returns a reduction to one member in the network, in as many parts as there are trees."""
    rows = (row for part in range(tree.trees) for row in _to_one(tree, part, root))
    return tree.schedule(tree.trees, rows)


def _to_one(tree: Tree, part: int, receiver: int) -> Iterator[Row]:
    """Yields the transfers by which the other members' values of a part are added on the way to its receiver, who adds
    its own."""
    home = next(machine for machine in tree.machines if receiver in machine)
    rail = home.index(receiver)
    yield from _inside(home, receiver, part, Combine.ADD)
    leaders = []
    for machine in tree.machines:
        if machine is not home:
            leaders.append(machine[rail % len(machine)])
            yield from _inside(machine, leaders[-1], part, Combine.ADD)
    if not leaders:
        return
    last, spine = tree.leaf(receiver), tree.spine(part)
    for leader in leaders:
        yield leader, tree.leaf(leader), part, TO_LEAF, Combine.ADD, 0, 1
    far = sorted({tree.leaf(leader) for leader in leaders} - {last})
    for leaf in far:
        yield leaf, spine, part, TO_SPINE, Combine.ADD, 0, 0
    if far:
        yield spine, last, part, FROM_SPINE, Combine.ADD, 0, 0
    yield last, receiver, part, FROM_LEAF, Combine.ADD, 0, 0


def all_gather(machines: Sequence[Sequence[int]]) -> Schedule:
    """Returns an all-gather: every member sends to those of other machines by one multicast, and one by one to those of
    its own."""
    members = sum(len(machine) for machine in machines)
    return _multicasts(machines, [(member, member) for member in range(members)], members)


def broadcast(machines: Sequence[Sequence[int]], root: int) -> Schedule:
    """Returns the schedule in which one member sends to all others: by one multicast to those of other machines, and
    one by one inside its own."""
    return _multicasts(machines, [(root, 0)], 1)


def _multicasts(machines: Sequence[Sequence[int]], senders: Sequence[tuple[int, int]], parts: int) -> Schedule:
    """The schedule in which each sender multicasts the part that it has."""
    rows: list[Row] = []
    copies: list[int] = []
    for number, (sender, part) in enumerate(senders):
        for machine in machines:
            others = [member for member in machine if member != sender]
            rows += [(sender, member, part, 0, Combine.COPY, 0, 1) for member in others]
            copies += [-1 if sender in machine else number] * len(others)
    schedule = schedule_of(sum(len(machine) for machine in machines), parts, rows).connected()
    return replace(schedule, copies=np.array(copies, np.int64))
