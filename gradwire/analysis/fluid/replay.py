"""The event loop: does with fluid flows and exact times what the agents' interpreter does with sockets and
timers.

An op waits for its dependencies, then for its lane. A COMPUTE or REDUCE holds its serial stream for its duration. A
SEND holds its queue for its software latency and until its last byte has left, or until so few bytes wait that it may
end earlier (`Buffered`). A RECV ends when its message has arrived and its other dependencies have ended.

Everything that falls on one moment happens before anything is served, so that ops which become ready at the same
moment compete by their order in the plan. Times are sums and quotients of floating-point numbers; what lies within
SIMULTANEOUS_NS is one moment.
"""

from __future__ import annotations

from typing import NamedTuple

from gradwire.analysis.fluid.agenda import Agenda, cancel, schedule
from gradwire.analysis.fluid.compiled import compiled, inlined
from gradwire.analysis.fluid.contention import Contention, computed_at_ns, note_computed, note_message
from gradwire.analysis.fluid.draining import (
    append,
    drain,
    fill_window,
    next_bytes,
    remove_first,
    share_ports,
    touch,
)
from gradwire.analysis.fluid.graph import STREAM, Float64, Graph
from gradwire.analysis.fluid.lanes import NOTHING, Lanes, have_served, next_to_serve, push, take_next
from gradwire.analysis.fluid.network import CROWDED, Network
from gradwire.analysis.fluid.progress import ENDED, NONE, OVERLAP, Progress
from gradwire.analysis.fluid.serving import expect, pass_through, slack_bytes, take
from gradwire.analysis.fluid.stations import WINDOWED
from gradwire.datatypes.plan import Discipline, OpKind

SIMULTANEOUS_NS = 1e-3
"""A thousand times the rounding error of a time of an hour, and a millionth of what the shortest message takes."""

GOLDEN = 0.6180339887498949
"""The golden ratio's fraction. Its multiples, modulo 1, are spread evenly and never repeat."""

DONE, STUCK, OVERLAPPING, FULL_LINE = 0, 1, 2, 3
"""Results of `proceed`: it came as far as asked; nothing can happen any more; more iterations overlap than there is
room for; or more changes are on a line than there is room for."""

_COMPUTE, _SEND, _RECV = int(OpKind.COMPUTE), int(OpKind.SEND), int(OpKind.RECV)
_FIFO = int(Discipline.FIFO)


class Replay(NamedTuple):
    """The data of a replay. The agenda's things are the lanes, then the flows and stations, then the next arrival of a
    message that has left, then the lines to the stations."""

    graph: Graph
    progress: Progress
    lanes: Lanes
    agenda: Agenda
    network: Network
    #: Least time between the departure of the last byte of each op's message and its arrival, and the most by which it
    #: may be longer. Empty if no message is late.
    latency_ns: Float64
    jitter_ns: Float64
    #: Part of `jitter_ns` that each op's message takes in iteration 0, from 0 to 1; empty if there is no jitter.
    drawn: Float64
    #: Time by which each op is longer in iteration 0; empty if none is.
    longer_first_ns: Float64
    contention: Contention


@compiled
def proceed(replay: Replay, iteration: int) -> int:
    """Goes on until all ops of an iteration have ended; returns DONE, STUCK or OVERLAPPING. To be called for 0, 1, 2,
    ... in turn."""
    agenda, progress, now_ns = replay.agenda, replay.progress, 0.0
    if iteration == 0:
        _open(replay.graph, progress, replay.lanes, 0, now_ns)
    while True:
        # Nothing is left to settle or to share where an earlier call ended.
        _settle(replay, now_ns)
        share_ports(replay.network, agenda, len(replay.lanes.lanes), now_ns)
        if progress.counts[OVERLAP]:
            return OVERLAPPING
        if replay.network.counts[CROWDED]:
            return FULL_LINE
        if progress.results[iteration].has_ended:
            return DONE
        if agenda.size[0] == 0:
            return STUCK
        now_ns = agenda.things[agenda.heap[0]].at_ns
        while agenda.size[0] > 0 and agenda.things[agenda.heap[0]].at_ns <= now_ns + SIMULTANEOUS_NS:
            _happen(replay, agenda.heap[0], now_ns)


@compiled
def _happen(replay: Replay, thing: int, now_ns: float) -> None:
    """The event of a lane, of a flow, or an arrival."""
    lanes, network = replay.lanes.lanes, replay.network
    cancel(replay.agenda, thing)
    if thing < len(lanes):
        if lanes[thing].policy == STREAM:
            _release(replay, thing)
        else:
            _dispatch(replay, lanes[thing].serving, now_ns)
    elif thing < len(lanes) + len(network.flows):
        flow = thing - len(lanes)
        if network.flows[flow].kind > WINDOWED:
            _go_on(replay, flow, now_ns)
            return
        target = next_bytes(network, flow)
        record = network.flows[flow]
        # Its window may be full, or a message that was appended at this moment has found the one before it gone.
        is_early = _is_before(network, flow, target, now_ns)
        drain(network, flow, now_ns)
        if not is_early:
            record.left_bytes = max(record.left_bytes, target)
        if record.kind == WINDOWED:
            fill_window(network, flow)
        _pass_on(replay, flow, now_ns)
    elif thing == len(lanes) + len(network.flows):
        _arrive(replay, now_ns)
    else:
        _feel(replay, thing - len(lanes) - len(network.flows) - 1, now_ns)


# To and from the network


@compiled
def _go_on(replay: Replay, flow: int, now_ns: float) -> None:
    """The event of a station: a message has left, or nothing waits any more."""
    network = replay.network
    drain(network, flow, now_ns)
    record = network.flows[flow]
    if record.count > 0:
        target = next_bytes(network, flow)
        if record.left_bytes >= target - slack_bytes(network, flow):
            record.left_bytes = max(record.left_bytes, target)
    # Messages first: where nothing waits, what has left becomes what has come, which rounding may make less.
    _pass_on(replay, flow, now_ns)
    pass_through(network, flow)


@compiled
def _feel(replay: Replay, flow: int, now_ns: float) -> None:
    """Handles a change of the rate at which bytes come over the line to a station."""
    network = replay.network
    drain(network, flow, now_ns)
    take(network, flow)
    expect(network, replay.agenda, len(replay.lanes.lanes), flow)
    _pass_on(replay, flow, now_ns)


@compiled
def _is_before(network: Network, flow: int, target_bytes: float, now_ns: float) -> bool:
    """Returns whether the flow will come to this byte only later than now."""
    record = network.flows[flow]
    return bool(record.left_ns + (target_bytes - record.left_bytes) / record.rate > now_ns + SIMULTANEOUS_NS)


@inlined
def _dispatch(replay: Replay, instance: int, now_ns: float) -> None:
    """Hands a message to its flow, or over at once if it passes no port."""
    graph = replay.graph
    send = graph.ops[instance % (len(graph.ops) - 1)]
    if send.flow < 0:
        _release(replay, send.lane)
        _deliver(graph, replay.progress, replay.lanes, instance, now_ns)
    else:
        append(replay.network, send.flow, instance, send.line_bytes, now_ns)
        _pass_on(replay, send.flow, now_ns)


@inlined
def _pass_on(replay: Replay, flow: int, now_ns: float) -> None:
    """Ends the SEND that may end, sends the messages on their way that arrive, and removes those that have left."""
    network, graph = replay.network, replay.graph
    record = network.flows[flow]
    if record.accept_bytes <= record.left_bytes:
        record.accept_bytes = float("inf")
        _release(replay, graph.ops[record.accepted % (len(graph.ops) - 1)].lane)
    while record.count > 0:
        oldest = network.messages[record.first_message + record.head]
        if not oldest.has_arrived and oldest.arrive_bytes <= record.left_bytes:
            oldest.has_arrived = 1
            _depart(replay, oldest.instance, record.travel_ns, now_ns)
        if oldest.end_bytes > record.left_bytes:
            break
        remove_first(network, flow)
    touch(network, flow)


@compiled
def _depart(replay: Replay, instance: int, travel_ns: float, now_ns: float) -> None:
    """A message's last byte has left: it travels, or has arrived."""
    wait_ns, ops = travel_ns, len(replay.graph.ops) - 1
    if len(replay.latency_ns) > 0:
        wait_ns += replay.latency_ns[instance % ops]
    if len(replay.jitter_ns) > 0:
        iteration = replay.progress.columns[instance // ops].iteration
        wait_ns += replay.jitter_ns[instance % ops] * ((replay.drawn[instance % ops] + iteration * GOLDEN) % 1.0)
    if wait_ns == 0.0:
        _deliver(replay.graph, replay.progress, replay.lanes, instance, now_ns)
        return
    schedule(replay.progress.travellers, instance, now_ns + wait_ns)
    _schedule_arrival(replay)


@compiled
def _schedule_arrival(replay: Replay) -> None:
    """Schedules the next arrival among the messages that have left."""
    travellers = replay.progress.travellers
    if travellers.size[0] > 0:
        thing = len(replay.lanes.lanes) + len(replay.network.flows)
        schedule(replay.agenda, thing, travellers.things[travellers.heap[0]].at_ns)


@compiled
def _arrive(replay: Replay, now_ns: float) -> None:
    """The message arrives that does so next."""
    instance = replay.progress.travellers.heap[0]
    cancel(replay.progress.travellers, instance)
    _schedule_arrival(replay)
    _deliver(replay.graph, replay.progress, replay.lanes, instance, now_ns)


@compiled
def _deliver(graph: Graph, progress: Progress, lanes: Lanes, instance: int, now_ns: float) -> None:
    ops = len(graph.ops) - 1
    send, iteration = instance % ops, progress.columns[instance // ops].iteration
    for number in range(graph.ops[send].first_recv, graph.ops[send + 1].first_recv):
        _dependency_ended(graph, progress, lanes, iteration, graph.recvs[number], now_ns)


# From waiting to ready


@compiled
def _open(graph: Graph, progress: Progress, lanes: Lanes, iteration: int, now_ns: float) -> None:
    """Makes the counts of an iteration when the first of its ops is touched."""
    ops, number = len(graph.ops) - 1, iteration % len(progress.columns)
    column = progress.columns[number]
    if column.iteration != NONE:
        progress.counts[OVERLAP] = 1
        return
    column.iteration, column.unended = iteration, ops
    column.begun_ns, column.fingerprint_ns = now_ns, 0.0
    for op in range(ops):
        waits = graph.ops[op].waits_first if iteration == 0 else graph.ops[op].waits_later
        progress.pending[number * ops + op] = waits
        if waits == 0:
            _become_ready(graph, progress, lanes, number * ops + op, now_ns)


@compiled
def _dependency_ended(graph: Graph, progress: Progress, lanes: Lanes, iteration: int, op: int, now_ns: float) -> None:
    if iteration >= len(progress.results):
        return
    number = iteration % len(progress.columns)
    if progress.columns[number].iteration != iteration:
        _open(graph, progress, lanes, iteration, now_ns)
        if progress.counts[OVERLAP]:
            return
    instance = number * (len(graph.ops) - 1) + op
    progress.pending[instance] -= 1
    if progress.pending[instance] == 0:
        _become_ready(graph, progress, lanes, instance, now_ns)


@compiled
def _become_ready(graph: Graph, progress: Progress, lanes: Lanes, instance: int, now_ns: float) -> None:
    ops = len(graph.ops) - 1
    op = graph.ops[instance % ops]
    if op.kind == _RECV:
        _note_start(graph, progress, instance, now_ns)
        _end(progress, instance)
        return
    if op.kind == _COMPUTE or (op.kind == _SEND and lanes.lanes[op.lane].policy == _FIFO):
        push(lanes, op.lane, now_ns, op.order, instance)
    elif op.kind == _SEND:
        push(lanes, op.lane, float(progress.columns[instance // ops].iteration), op.order, instance)
    else:
        push(lanes, op.lane, op.order, now_ns, instance)
    have_served(lanes, op.lane)


# From ready to running


@compiled
def _settle(replay: Replay, now_ns: float) -> None:
    """Lets everything happen that takes no time: first all ends, then streams, then queues."""
    progress = replay.progress
    while not progress.counts[OVERLAP]:
        if progress.counts[ENDED] > 0:
            progress.counts[ENDED] -= 1
            instance = progress.ended[progress.counts[ENDED]]
            if len(replay.contention.speed) > 0:
                ops = len(replay.graph.ops) - 1
                note_message(replay.contention, replay.agenda, instance % ops, instance // ops, True, now_ns)
            _propagate(replay.graph, progress, replay.lanes, instance, now_ns)
            continue
        lane = next_to_serve(replay.lanes)
        if lane == NOTHING:
            return
        _serve(replay, lane, now_ns)


@inlined
def _serve(replay: Replay, lane: int, now_ns: float) -> None:
    """Starts the next op of a lane, if it is free and one waits."""
    graph = replay.graph
    instance = take_next(replay.lanes, graph.orders, lane)
    if instance == NOTHING:
        return
    _note_start(graph, replay.progress, instance, now_ns)
    ops = len(graph.ops) - 1
    duration_ns = graph.ops[instance % ops].duration_ns
    if len(replay.longer_first_ns) > 0 and replay.progress.columns[instance // ops].iteration == 0:
        duration_ns += replay.longer_first_ns[instance % ops]
    is_stream = replay.lanes.lanes[lane].policy == STREAM
    if len(replay.contention.speed) > 0 and not is_stream:
        note_message(replay.contention, replay.agenda, instance % ops, instance // ops, False, now_ns)
    if duration_ns > 0.0:
        end_ns = now_ns + duration_ns
        if len(replay.contention.speed) > 0 and replay.contention.slows[instance % ops]:
            end_ns = computed_at_ns(replay.contention, lane, duration_ns, now_ns)
        schedule(replay.agenda, lane, end_ns)
    elif is_stream:
        _release(replay, lane)
    else:
        _dispatch(replay, instance, now_ns)


# From running to ended


@inlined
def _release(replay: Replay, lane: int) -> None:
    """Ends the op that a lane serves."""
    lanes = replay.lanes
    _end(replay.progress, lanes.lanes[lane].serving)
    if len(replay.contention.speed) > 0 and lanes.lanes[lane].policy == STREAM:
        note_computed(replay.contention, lane)
    lanes.lanes[lane].serving = NOTHING
    have_served(lanes, lane)


@inlined
def _end(progress: Progress, instance: int) -> None:
    progress.ended[progress.counts[ENDED]] = instance
    progress.counts[ENDED] += 1


@compiled
def _propagate(graph: Graph, progress: Progress, lanes: Lanes, instance: int, now_ns: float) -> None:
    """Tells the ops that depend on one that has ended, and the iteration."""
    ops = len(graph.ops) - 1
    number = instance % ops
    op, column = graph.ops[number], progress.columns[instance // ops]
    iteration = column.iteration
    if len(progress.op_end_ns) > 0:
        progress.op_end_ns[iteration, number] = now_ns
    # Multiples of the golden ratio give each op a weight of its own, so that ops which swap their times show.
    weight = 0.5 + (number * GOLDEN) % 1.0
    column.fingerprint_ns += weight * (now_ns - column.begun_ns)
    result = progress.results[iteration]
    if op.concludes:
        result.end_ns = max(result.end_ns, now_ns)
    for place in range(op.first_edge, graph.ops[number + 1].first_edge):
        edge = graph.edges[place]
        _dependency_ended(graph, progress, lanes, iteration + edge.lag, edge.op, now_ns)
    column.unended -= 1
    if column.unended == 0:
        result.begun_ns, result.fingerprint_ns, result.has_ended = column.begun_ns, column.fingerprint_ns, 1
        column.iteration = NONE


@inlined
def _note_start(graph: Graph, progress: Progress, instance: int, now_ns: float) -> None:
    ops = len(graph.ops) - 1
    op, iteration = instance % ops, progress.columns[instance // ops].iteration
    if graph.ops[op].begins and iteration == 0:
        progress.first_begin_ns[0] = min(progress.first_begin_ns[0], now_ns)
    if len(progress.op_start_ns) > 0:
        progress.op_start_ns[iteration, op] = now_ns
