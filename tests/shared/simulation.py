"""Interpreters that replay a plan against a simulated network: no sockets, no clock."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from gradwire.agents.interpreter import Interpreter, Outgoing
from gradwire.datatypes.plan import Contributions, Plan
from gradwire.datatypes.records import OpLog

BYTE_NS = 10
"""On the simulated network a message takes 10 ns per byte to be handed over, and as long again to arrive."""

Tamper = Callable[[Outgoing], Contributions]


@dataclass
class Simulation:
    """Interpreters that share a plan's ranks, and a network whose delay depends on a message's size only."""

    plan: Plan
    interpreters: list[Interpreter]
    #: How long after its time each timer is acted on.
    late_ns: int = 0
    #: Times the op's number, this is added to a message's delay, so that messages of equal size do not arrive at the same moment.
    apart_ns: int = 0
    #: What a message's header carries, in place of its true contributions.
    tamper: Tamper = lambda message: message.contributions
    sent_order: list[tuple[int, int]] = field(default_factory=list)

    def run(self) -> OpLog:
        self._events: list[tuple[int, int, Callable[[int], None]]] = []
        self._numbers = itertools.count()
        self._owner = {rank: interpreter for interpreter in self.interpreters for rank in owned(interpreter)}
        for interpreter in self.interpreters:
            self._at(0, interpreter.start, interpreter)
        while not all(interpreter.finished for interpreter in self.interpreters):
            self._step()
        return OpLog.concatenate([interpreter.log.freeze() for interpreter in self.interpreters])

    def _step(self) -> None:
        timers = [(at, i) for i in self.interpreters if (at := i.next_timer_ns()) is not None]
        timer = min(timers, key=lambda item: item[0], default=None)
        if timer is not None and (not self._events or timer[0] + self.late_ns <= self._events[0][0]):
            now_ns, interpreter = timer[0] + self.late_ns, timer[1]
            interpreter.advance(now_ns)
            self._send(interpreter, now_ns)
        else:
            assert self._events, "nothing can happen any more, but the plan is not replayed"
            now_ns, _, act = heapq.heappop(self._events)
            act(now_ns)

    def _send(self, interpreter: Interpreter, now_ns: int) -> None:
        for message in interpreter.take_outbox():
            self.sent_order.append((message.iteration, message.op))
            size_ns = int(self.plan.ops.size_bytes[message.op]) * BYTE_NS
            to = int(self.plan.ops.peer[message.op])
            receiver = self._owner[to]
            self._at(now_ns + size_ns, partial(interpreter.sent, message.iteration, message.op, now_ns), interpreter)
            arrive = partial(receiver.arrived, message.op, to, message.iteration, self.tamper(message), now_ns)
            self._at(now_ns + 2 * size_ns + 1 + self.apart_ns * message.op, arrive, receiver)

    def _at(self, time_ns: int, act: Callable[[int], None], interpreter: Interpreter) -> None:
        def then(now_ns: int) -> None:
            act(now_ns)
            self._send(interpreter, now_ns)

        heapq.heappush(self._events, (time_ns, next(self._numbers), then))


def owned(interpreter: Interpreter) -> set[int]:
    return {interpreter._graph.rank[op] for op in interpreter._graph.own_ops}


def all_ranks(plan: Plan) -> set[int]:
    return set(range(len(plan.rank_role)))


def replay(plan: Plan, iterations: int = 2, *, late_ns: int = 0, tamper: Tamper | None = None) -> OpLog:
    simulation = Simulation(plan, [Interpreter(plan, all_ranks(plan), iterations)], late_ns)
    if tamper:
        simulation.tamper = tamper
    return simulation.run()


def times(log: OpLog) -> dict[tuple[int, int], tuple[int, int, int]]:
    """(nominal start, start, end) of each (iteration, op)."""
    names = ("iteration", "op", "nominal_start_ns", "start_ns", "end_ns")
    rows = zip(*(getattr(log, name).tolist() for name in names), strict=True)
    return {(iteration, op): (nominal, start, end) for iteration, op, nominal, start, end in rows}
