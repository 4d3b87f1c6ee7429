"""Faults of agents, put into their process in the machine."""

from __future__ import annotations

import socket
from collections.abc import Callable
from functools import partial
from typing import Any

import gradwire.agents.connections
from gradwire.agents.interpreter import Interpreter, Outgoing
from gradwire.agents.loop import ReplayLoop
from gradwire.agents.op_state import OpLogger, RankGraph, SendQueue, Stream
from gradwire.agents.transfer import Sender
from gradwire.datatypes.plan import Contributions, Discipline, OpKind, Plan
from gradwire.datatypes.wire.framing import Header
from gradwire.network.fabric import socket_priority
from tests.mutations.fault import Fault, replace_in

MS = 1_000_000


def around(owner: type, name: str, wrap: Callable[..., Any]) -> Callable[[], None]:
    """Replaces a method by one that gets it as its first argument."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *arguments, **named: wrap(original, *arguments, **named)

    return partial(replace_in, owner, name, make)


def graph_changed(change: Callable[[RankGraph, Plan], None]) -> Callable[[], None]:
    """Changes what an agent knows of the plan."""

    def wrapped(original: Callable[..., None], graph: RankGraph, plan: Plan, ranks: set[int]) -> None:
        original(graph, plan, ranks)
        change(graph, plan)

    return around(RankGraph, "__init__", wrapped)


def timed(share: float) -> Callable[[], None]:
    """Computation of another duration."""

    def change(graph: RankGraph, _: Plan) -> None:
        for op in graph.own_ops:
            if graph.kind[op] == OpKind.COMPUTE:
                graph.duration_ns[op] = int(graph.duration_ns[op] * share)

    return graph_changed(change)


def one_skipped(graph: RankGraph, _: Plan) -> None:
    for op in [op for op in graph.own_ops if graph.kind[op] == OpKind.COMPUTE and graph.duration_ns[op]][:1]:
        graph.duration_ns[op] = 0


def no_latency(graph: RankGraph, _: Plan) -> None:
    for op in graph.own_ops:
        if graph.kind[op] == OpKind.SEND:
            graph.duration_ns[op] = 0


def one_dependency_less(kind: OpKind) -> Callable[[RankGraph, Plan], None]:
    """The first op of a kind that waits for two does not wait for the last of them to end."""

    def change(graph: RankGraph, _: Plan) -> None:
        for op in [op for op in graph.own_ops if graph.kind[op] == kind and graph.waits_first[op] > 1][:1]:
            graph.waits_first[op] -= 1
            graph.waits_later[op] -= 1

    return change


def counting_down(graph: RankGraph, plan: Plan) -> None:
    for op in graph.own_ops:
        if graph.kind[op] == OpKind.SEND and plan.queue_discipline[graph.lane[op]] == Discipline.COUNTER:
            graph.order[op] = -graph.order[op]


def last_in_first_out(original: Callable[..., Any], queue: SendQueue) -> Any:
    if not queue.is_busy and len(queue._waiting) > 1:
        queue._waiting = [queue._waiting[-1], *queue._waiting[:-1]]
        queue.is_busy = True
        return queue._waiting.pop(0)
    return original(queue)


def as_fifo(original: Callable[..., None], queue: SendQueue, discipline: Any, orders: list[int]) -> None:
    original(queue, discipline, orders)
    queue._is_fifo, queue._is_counted = True, False


def two_messages_at_once(original: Callable[..., Any], queue: SendQueue) -> Any:
    queue.is_busy = False
    return original(queue)


def two_ops_at_once(original: Callable[..., Any], stream: Stream) -> Any:
    stream.is_running, stream.free_ns = False, 0
    return original(stream)


def sent_twice(original: Callable[..., None], loop: ReplayLoop, outbox: list[Outgoing], now_ns: int) -> None:
    again = [m for m in outbox if loop._size[m.op] > 4096][:1]
    original(loop, outbox, now_ns)
    for message in again:
        head = loop._framing.pack(loop._header(message, 0))
        sender = loop._senders[loop._connection_of_send[message.op]]
        sender._head += head
        sender._written_bytes += len(head)


def smaller(original: Callable[..., None], loop: ReplayLoop, plan: Plan, *more: Any) -> None:
    """Messages of more than 100 kB carry a tenth less, and their headers say so."""
    original(loop, plan, *more)
    loop._size = [size * 9 // 10 if size > 100_000 else size for size in loop._size]


def swapped_sizes(original: Callable[..., None], loop: ReplayLoop, plan: Plan, *more: Any) -> None:
    """Two messages of one queue to one rank, of different sizes, carry each other's bytes."""
    original(loop, plan, *more)
    ops, remote = plan.ops, plan.is_remote()
    route: dict[tuple[int, int, int], int] = {}
    for op in remote.nonzero()[0].tolist():
        key = (int(ops.rank[op]), int(ops.peer[op]), int(ops.traffic_class[op]))
        other = route.setdefault(key, op)
        if key[2] >= 0 and 2 * loop._size[op] > 3 * loop._size[other]:
            loop._size[op], loop._size[other] = loop._size[other], loop._size[op]
            return


def header_changed(change: Callable[[Header], Header]) -> Callable[[], None]:
    def wrapped(original: Callable[..., Header], loop: ReplayLoop, message: Outgoing, to: int) -> Header:
        header = original(loop, message, to)
        return change(header) if header.chunk >= 0 else header

    return around(ReplayLoop, "_header", wrapped)


def of_everybody(header: Header) -> Header:
    return header._replace(contributions=Contributions(header.contributions.iteration, 0b111))


def logged(change: Callable[..., tuple[int, int, int]]) -> Callable[[], None]:
    """Another row is logged than what happened; the change gets the op and its three times."""

    def wrapped(original: Callable[..., None], log: OpLogger, iteration: int, op: int, *times: int) -> None:
        original(log, iteration, op, *change(op, *times))

    return around(OpLogger, "add", wrapped)


def marked_as_others() -> None:
    """The most urgent class travels as the least urgent one, by DSCP and by priority."""
    replace_in(
        gradwire.agents.connections,
        "mark",
        lambda original: lambda sock, band: original(sock, 2 if band == 1 else band),
    )


def unmarked_for_switches() -> None:
    """Sockets set their priority and no DSCP."""

    def mark(sock: socket.socket, band: int) -> None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, socket_priority(band))

    replace_in(gradwire.agents.connections, "mark", lambda _: mark)


def ended_at_the_socket(original: Callable[..., None], sender: Sender, *more: Any) -> None:
    original(sender, *more)
    sender.is_leaving = False


def hesitant(original: Callable[..., Any], interpreter: Interpreter, lane: int) -> Any:
    """Every message waits for another 100 us."""
    queue = interpreter._queues[lane]
    queue.free_ns = max(queue.free_ns, interpreter._now_ns) + 100_000
    return original(interpreter, lane)


FAULTS = [
    Fault("a computation takes no time", graph_changed(one_skipped)),
    Fault("computation takes 1 % less", timed(0.99)),
    Fault("messages have no software latency", graph_changed(no_latency)),
    Fault("a computation waits for one op less", graph_changed(one_dependency_less(OpKind.COMPUTE))),
    Fault("a SEND waits for one op less", graph_changed(one_dependency_less(OpKind.SEND)), "tree"),
    Fault("a send queue serves the last first", around(SendQueue, "pop", last_in_first_out), "priorities"),
    Fault("a priority queue serves first come, first served", around(SendQueue, "__init__", as_fifo), "priorities"),
    Fault("a counting queue counts down", graph_changed(counting_down), "counters"),
    Fault("a send queue sends two messages at once", around(SendQueue, "pop", two_messages_at_once), "priorities"),
    Fault("a stream computes two ops at once", around(Stream, "pop", two_ops_at_once)),
    Fault("a header is sent twice", around(ReplayLoop, "_send_all", sent_twice)),
    Fault("messages carry a tenth less", around(ReplayLoop, "__init__", smaller)),
    Fault("two messages carry each other's bytes", around(ReplayLoop, "__init__", swapped_sizes), "counters"),
    Fault("messages claim everybody's contributions", header_changed(of_everybody)),
    Fault("the log's ends are 1 us early", logged(lambda _, nominal, start, end: (nominal, start, end - 1000))),
    Fault("the log's clock is 1 % slow", logged(lambda _, *times: tuple(at * 99 // 100 for at in times))),
    Fault("the most urgent class is marked as the other", marked_as_others),
    Fault("sockets set no DSCP", unmarked_for_switches),
    Fault("a SEND ends when its socket has it", around(Sender, "begin", ended_at_the_socket)),
    Fault("messages wait for another 100 us", around(Interpreter, "_serve_queue", hesitant)),
]
