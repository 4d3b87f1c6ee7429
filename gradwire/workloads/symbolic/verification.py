"""Verifies a plan: executes it in several orders, and looks for races, without which all other orders yield the same.

A race is where what a plan yields depends on which of two ops comes first, and nothing holds them in order. A plan
without races yields the same in whatever order its ops are taken, so that executing it once tells what it
yields. Of two accesses to what a rank holds of a chunk, one must always come before the other, unless both only use
it, or both add to the same iteration's sum. So the accesses are put in an order that dependencies permit, and cut into
runs of those that may come in any order among themselves; then all of a run must come before all of the next one
(workloads/symbolic/accesses.py). Whether it does is a question of the graph alone, however long the way from one to the
other (workloads/symbolic/precedence.py).

A sum replaces the complete value when the last addition makes it complete. Whoever uses that value must come after all
additions; and whoever uses the value before it, before at least one of them, whichever it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gradwire.datatypes.plan import Int32, Int64, OpKind, Plan, UInt8
from gradwire.workloads.symbolic.accesses import (
    PHASES,
    Access,
    Accesses,
    Groups,
    Neighbours,
    accesses_to_sums,
    accesses_to_values,
    distinct,
    neighbours,
    products,
)
from gradwire.workloads.symbolic.defects import Defect, racing
from gradwire.workloads.symbolic.plan_execution import executions
from gradwire.workloads.symbolic.precedence import Bool, Precedence, PrecedenceInCode, PrecedenceInPython
from gradwire.workloads.symbolic.wait_graph import ITERATIONS, Holdings, WaitGraph

Urgency = Callable[[WaitGraph], Int64]
"""How urgent each op is: of those that are ready, the ones with the lowest number go first."""
MOST_OPS_IN_PYTHON = 15_000
"""Larger plans are executed by machine code. Loading that takes half a second, in which Python executes a plan of so
many ops."""
USING = (Access.USES_SUM, Access.USES)
"""Accesses that change nothing."""


def _receives_first(graph: WaitGraph) -> Int64:
    kind = graph.plan.ops.kind
    urgency: Int64 = np.where(kind == OpKind.RECV, 0, np.where(kind == OpKind.SEND, 2, 1))
    return urgency


def _sends_first(graph: WaitGraph) -> Int64:
    kind = graph.plan.ops.kind
    urgency: Int64 = np.where(kind == OpKind.SEND, 0, np.where(kind == OpKind.RECV, 2, 1))
    urgency += (kind == OpKind.RECV) & graph.dead_ends()
    return urgency


def _ahead(ahead: Callable[[Int64, int], npt.NDArray[np.bool_]]) -> Urgency:
    def urgency(graph: WaitGraph) -> Int64:
        held_back: Int64 = (~ahead(graph.plan.ops.rank.astype(np.int64), len(graph.plan.rank_role))).astype(np.int64)
        return held_back

    return urgency


ORDERS: tuple[Urgency, ...] = (
    _receives_first,
    _sends_first,
    _ahead(lambda rank, _: rank % 2 == 0),
    _ahead(lambda rank, _: rank % 2 == 1),
    _ahead(lambda rank, ranks: rank < ranks // 2),
    _ahead(lambda rank, ranks: rank >= ranks // 2),
)
"""The first order puts receives as early and sends as late as possible; the second does the opposite, with receives
that nothing waits for last of all. The others let some ranks run as far ahead of the rest as messages permit: every
second rank, and one half of them (in a parameter server's plan, the workers or the servers). Executing one rank after
the other would pull more apart, but takes almost as many steps as there are ops."""


def defects(plan: Plan) -> Iterator[Defect]:
    """Yields, for each of ORDERS, the first defect that it shows, if any; if there is none, the first race, if any."""
    graph, holdings = WaitGraph(plan), Holdings(plan)
    in_code = graph.count > MOST_OPS_IN_PYTHON
    shown = [run.defect for run in executions(graph, [order(graph) for order in ORDERS], holdings, in_code=in_code)]
    shown_defects = [defect for defect in shown if defect]
    yield from shown_defects
    if not shown_defects and (racing := race(graph, holdings, in_code=in_code)):
        yield racing


class _Pairs(NamedTuple):
    """Columns: pairs of nodes of which the first must come before the other."""

    #: Places of nodes that are in order only if those of the pair are.
    first_place: Int32
    then_place: Int32
    #: The nodes themselves, their row, and what they do.
    first: Int32
    then: Int32
    row: Int32
    first_does: UInt8
    then_does: UInt8

    def of(self, chosen: Int64 | Bool) -> _Pairs:
        return _Pairs._make(column[chosen] for column in self)


def race(graph: WaitGraph, holdings: Holdings, *, in_code: bool) -> Defect | None:
    """The first race that is found in a graph without cycles.

    holdings: of a plan that has been executed, which tells where sums become complete. in_code: by machine code, for
    large graphs.
    """
    return _Races(graph, holdings, in_code=in_code).first()


class _Races:
    def __init__(self, graph: WaitGraph, holdings: Holdings, *, in_code: bool) -> None:
        self.graph, self.holdings = graph, holdings
        self.nodes = ITERATIONS * graph.count
        self.summed = np.flatnonzero(holdings.summed)
        self.joins = ITERATIONS * len(self.summed)
        sums = accesses_to_sums(graph, holdings)
        completing = sums.of(holdings.summed[sums.row] & (sums.what != Access.USES_SUM))
        group = completing.iteration.astype(np.int64) * len(self.summed) + np.searchsorted(self.summed, completing.row)
        #: The nodes that complete each sum, by iteration and row. A node behind those of the graph comes after any of
        #: them.
        self.completing = Groups.of(group, completing.node, self.joins)
        # Where additions take time, the messages that bring them complete the sum, which may be before that time has
        # passed.
        brings = graph.plan.ops.kind[completing.node % graph.count] != OpKind.REDUCE
        brought, brought_to = completing.of(brings), group[brings]
        source, target = graph.unrolled()
        self.precedence = _precedence(
            self.nodes + self.joins,
            np.concatenate([source, brought.node]),
            np.concatenate([target, (self.nodes + brought_to).astype(np.int32)]),
            in_code=in_code,
        )
        self.place = self.precedence.place
        #: By node: the last place at which nothing that it stands for has happened yet.
        self.earliest = self.place.copy()
        self.earliest[self.nodes :] = len(self.place)
        np.minimum.at(self.earliest, self.nodes + brought_to, self.place[brought.node])
        self.after_alone = self._ends_of_chains(source, target)
        self.before_alone = self._ends_of_chains(target, source)
        values = accesses_to_values(graph, holdings)
        completions, completed = self._completions(self._moments(brought), brought_to)
        self.accesses = (sums, values.and_those(completions))
        self.moments = (self._moments(sums), np.concatenate([self._moments(values), completed]))

    def _completions(self, moments: Int64, group: Int64) -> tuple[Accesses, Int64]:
        """Returns the accesses by which sums replace complete values, and their moments: that of the last addition."""
        completed = np.zeros(self.joins, np.int64)
        np.maximum.at(completed, group, moments)
        does = np.full(self.joins, Access.COMPLETES, np.uint8)
        row = np.tile(self.summed, ITERATIONS).astype(np.int32)
        node = self.nodes + np.arange(self.joins, dtype=np.int32)
        iteration = np.repeat(np.arange(ITERATIONS, dtype=np.uint8), len(self.summed))
        return Accesses(row, node, np.zeros(self.joins, np.uint8), does, iteration), completed

    def _moments(self, accesses: Accesses) -> Int64:
        """The moment of each access, in one order that the graph permits."""
        moments: Int64 = self.place[accesses.node].astype(np.int64) * PHASES + accesses.phase
        return moments

    def _ends_of_chains(self, source: Int32, target: Int32) -> Int32:
        """Returns, for each node, the last node of the chain that begins there: it follows edges as long as each is the
        only one that leaves its node."""
        following = np.arange(self.nodes + self.joins, dtype=np.int32)
        only = np.bincount(source, minlength=self.nodes)[source] == 1
        following[source[only]] = target[only]
        while True:
            further = following[following]
            if (further == following).all():
                return following
            following = further

    def first(self) -> Defect | None:
        """The first race that is found."""
        far = [pairs.of(~self.precedence.near(pairs.first_place, pairs.then_place)) for pairs in self._pairs()]
        if not far:
            return None
        pairs = _Pairs._make(map(np.concatenate, zip(*far, strict=True)))
        ordered = self.precedence.ordered(pairs.first_place, pairs.then_place)
        if ordered.all():
            return None
        races = pairs.of(~ordered)
        # What is used too early says most; it may bring races between those that change it with it.
        uses = np.isin(races.then_does, USING) * 2 + np.isin(races.first_does, USING)
        return self._defect(races.of(np.argsort(-uses, kind="stable")[:1]))

    def _pairs(self) -> Iterator[_Pairs]:
        """All pairs of nodes that must be in order, in portions."""
        for accesses, moments in zip(self.accesses, self.moments, strict=True):
            for runs in neighbours(accesses, moments, self.completing, self.nodes):
                yield from self._pairs_of(runs)

    def _pairs_of(self, runs: Neighbours) -> Iterator[_Pairs]:
        """Yields the pairs of nodes that have to be in order. If all ways on from a node lead through another one, that
        one stands for it: many pairs thereby become the same."""
        position, first, then = self.place, runs.first, runs.then
        limit = np.minimum.reduceat(self.earliest[then], runs.begins(runs.then_pair)) if len(then) else then
        on = self.after_alone[first]
        first_stand_in = np.where(position[on] <= limit[runs.first_pair], on, first)
        latest = np.maximum.reduceat(position[first_stand_in], runs.begins(runs.first_pair)) if len(first) else first
        back = self.before_alone[then]
        then_stand_in = np.where(position[back] >= latest[runs.then_pair], back, then)
        firsts = distinct(runs.first_pair, first_stand_in, len(position))
        thens = distinct(runs.then_pair, then_stand_in, len(position))
        for pair, one, other in products(runs.first_pair[firsts], runs.then_pair[thens], len(runs.row)):
            pairs = _Pairs(
                position[first_stand_in[firsts[one]]],
                position[then_stand_in[thens[other]]],
                first[firsts[one]],
                then[thens[other]],
                runs.row[pair],
                runs.first_does[pair],
                runs.then_does[pair],
            )
            # What holds in the first iteration holds in the second.
            yield pairs.of(~(self._again(pairs.first) & self._again(pairs.then)))

    def _again(self, node: Int32) -> Bool:
        """Returns, for each node, whether it is of the second iteration."""
        graph, joins = self.graph, len(self.summed)
        again: Bool = np.where(node < self.nodes, node >= graph.count, node >= self.nodes + joins)
        return again

    def _defect(self, pair: _Pairs) -> Defect:
        """The race between the two nodes of a pair, as a defect of the one that uses the chunk."""
        nodes, does = [], []
        for node, what in ((int(pair.first[0]), pair.first_does[0]), (int(pair.then[0]), pair.then_does[0])):
            op = self._last_of(node) if node >= self.nodes else node
            nodes.append(op)
            does.append(Access(int(what)))
        chunk = int(self.holdings.rows_key[pair.row[0]] % max(1, len(self.graph.plan.chunk_bytes)))
        user, other = (0, 1) if does[0] in USING else (1, 0)
        count = self.graph.count
        later = nodes[other] // count - nodes[user] // count
        return racing(nodes[user] % count, nodes[other] % count, does[user], does[other], chunk, later)

    def _last_of(self, join: int) -> int:
        """Returns the last of the nodes that make a sum complete, in the order of the graph."""
        start, members = self.completing.start, self.completing.members
        nodes = members[start[join - self.nodes] : start[join - self.nodes + 1]]
        return int(nodes[np.argmax(self.place[nodes])])


def _precedence(count: int, source: Int32, target: Int32, *, in_code: bool) -> Precedence:
    return (PrecedenceInCode if in_code else PrecedenceInPython)(count, source, target)
