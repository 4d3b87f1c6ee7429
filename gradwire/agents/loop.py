"""The event loop of an agent: moves messages and timers of its hosts until the plan is replayed."""

from __future__ import annotations

import os
import select
import socket
import time
from collections.abc import Callable

import numpy as np

from gradwire.agents.departures import ErrorQueue, PortLine
from gradwire.agents.flowlets import Flowlets
from gradwire.agents.interpreter import Interpreter, Outgoing
from gradwire.agents.multicast_sockets import FlowSender, Multicast, interest
from gradwire.agents.perils import Interrupted, Perils
from gradwire.agents.timer import Timer
from gradwire.agents.transfer import LOW_WATER_BYTES, Receiver, Sender, payload_file
from gradwire.datatypes.plan import Int64, Plan
from gradwire.datatypes.records import OpLog
from gradwire.datatypes.wire.framing import Framing, Header
from gradwire.faults import MachineFault
from gradwire.network.wire.flows import Connection


class ReplayLoop:
    """Replays an interpreter's plan over sockets.

    In each turn every ready socket gets one call, so that none starves the others.
    """

    def __init__(
        self,
        plan: Plan,
        interpreter: Interpreter,
        connection_of_send: dict[int, int],
        connections: list[Connection],
        outgoing: dict[int, socket.socket],
        incoming: dict[int, socket.socket],
        multicast: Multicast,
        line_of: dict[int, PortLine],
        perils: Perils | None = None,
        low_water_bytes: int = LOW_WATER_BYTES,
        flowlets: Flowlets | None = None,
    ) -> None:
        """line_of: the line of each host, by endpoint index, if a SEND ends when its last byte has left the host.

        Without a host's line, its SENDs end when the socket has taken their last byte. perils: what may end the replay
        early. low_water_bytes: see `Receiver`. flowlets: where ways are chosen by them.
        """
        self._plan, self._interpreter = plan, interpreter
        self._framing = Framing(len(plan.workers))
        self._connection_of_send = connection_of_send
        self._connections = connections
        self._payload = payload_file()
        self._senders = {
            number: Sender(sock, self._payload, line_of.get(connections[number].src_host))
            for number, sock in outgoing.items()
        }
        self._errors = ErrorQueue()
        self._receivers = {sock.fileno(): Receiver(sock, self._framing, low_water_bytes) for sock in incoming.values()}
        self._rank_of_receiver = {sock.fileno(): connections[number].dst for number, sock in incoming.items()}
        self._perils = perils
        self._dead: set[int] = set()
        self._sender_by_fd = {sender.sock.fileno(): sender for sender in self._senders.values()}
        self._number_of = {sender.sock.fileno(): number for number, sender in self._senders.items()}
        self._multicast, self._flowlets = multicast, flowlets
        self._waiting: set[int] = set()
        self._timer = Timer()
        self._poll = select.epoll()
        self._size = plan.ops.size_bytes.tolist()
        self._rank = plan.ops.rank.tolist()
        self._chunk = plan.ops.chunk.tolist()
        self._tensor = plan.chunk_tensor.tolist()
        self.messages_sent = self.messages_received = self.bytes_sent = 0

    @property
    def bytes_received(self) -> int:
        """Payload and framing received so far."""
        return sum(receiver.bytes_received for receiver in self._receivers.values()) + self._multicast.bytes_received

    @property
    def log(self) -> OpLog:
        """Returns the log of the ops that have ended so far."""
        return self._interpreter.log.freeze()

    @property
    def lateness_ns(self) -> Int64:
        """Returns how long after its time each timer was noticed."""
        return np.array(self._interpreter.lateness_ns, np.int64)

    def run(
        self, start_ns: int, on_iteration: Callable[[int], None], on_death: Callable[[str], None] = lambda _: None
    ) -> None:
        """Replays the plan, beginning at `start_ns` of the monotonic clock; calls `on_iteration` with the number of
        iterations done.

        on_death: hears of each worker that dies, in words. Raises MachineFault for a connection that breaks; with
        perils, Interrupted for that and where they say when to give up.
        """
        try:
            self._run(start_ns, on_iteration, on_death)
        except MachineFault as fault:
            if self._perils is None:
                raise
            raise Interrupted(str(fault), self._all_awaited()) from fault

    def _run(self, start_ns: int, on_iteration: Callable[[int], None], on_death: Callable[[str], None]) -> None:
        self._poll.register(self._timer.descriptor, select.EPOLLIN)
        self._timer.set(start_ns)
        self._poll.poll()
        for descriptor in (*self._receivers, *self._multicast.senders, *self._multicast.takers):
            self._poll.register(descriptor, select.EPOLLIN)
        # By edges, since the timestamps of further ports are read together with those of the next message.
        for descriptor in self._sender_by_fd:
            self._poll.register(descriptor, select.EPOLLET)
        interpreter = self._interpreter
        now_ns = time.monotonic_ns() - start_ns
        interpreter.start(now_ns)
        self._flush(now_ns)
        done = 0
        while not (interpreter.finished and self._multicast.is_quiet):
            self._set_timer(start_ns)
            events = self._poll.poll()
            self._turn(events, start_ns)
            if interpreter.iterations_done != done:
                done = interpreter.iterations_done
                on_iteration(done)
            if self._perils is not None:
                self._watch(self._perils, done, time.monotonic_ns() - start_ns, on_death)

    def _watch(self, perils: Perils, done: int, now_ns: int, on_death: Callable[[str], None]) -> None:
        """Carries out the deaths of workers that are due. Raises Stalled if nothing moves any more."""
        perils.iterated(done, now_ns)
        for rank, what in perils.deaths(now_ns, done).items():
            on_death(what)
            self._die(rank)
        perils.moved(self._interpreter.log.rows + self.bytes_received, now_ns)
        perils.refuse_stall(now_ns, is_computing=self._interpreter.next_timer_ns() is not None)

    def _die(self, rank: int) -> None:
        """Closes a rank's connections, as the kernel does when a process ends.

        What the rank still does reaches nobody.
        """
        self._dead.add(rank)
        for descriptor, sender in list(self._sender_by_fd.items()):
            if self._connections[self._number_of[descriptor]].src == rank:
                self._poll.unregister(descriptor)
                del self._sender_by_fd[descriptor]
                sender.sock.close()
        for descriptor, receiver in list(self._receivers.items()):
            if self._rank_of_receiver[descriptor] == rank:
                self._poll.unregister(descriptor)
                del self._receivers[descriptor]
                receiver.sock.close()

    def _all_awaited(self) -> list[str]:
        """Returns, in words, the first message that each living rank waits for."""
        first: dict[int, str] = {}
        for iteration, op in self._interpreter.awaited():
            if self._rank[op] not in self._dead:
                first.setdefault(self._rank[op], self._awaited_in_words(iteration, op))
        return list(first.values())

    def _awaited_in_words(self, iteration: int, op: int) -> str:
        """Returns the message that a RECV waits for, in words."""
        send = int(self._plan.ops.message[op])
        chunk = self._chunk[send]
        what = self._plan.tensors[self._tensor[chunk]] if chunk >= 0 else "a message"
        return f"rank {self._rank[op]} waits for {what} from rank {self._rank[send]} in iteration {iteration}"

    def _set_timer(self, start_ns: int) -> None:
        next_ns = self._interpreter.next_timer_ns()
        if self._multicast.senders or self._perils is not None:
            times = (
                next_ns,
                self._multicast.next_timer_ns(),
                self._perils.next_ns() if self._perils is not None else None,
            )
            next_ns = min((time_ns for time_ns in times if time_ns is not None), default=None)
        self._timer.set(None if next_ns is None else next_ns + start_ns)

    def answer_until(self, descriptor: int, start_ns: int) -> None:
        """Keeps answering multicast senders, to whom the last report may have been lost, until `descriptor` has
        something to read."""
        if not self._multicast.takers:
            return
        # Other agents may be told to finish first and close their connections, which is not a fault at this point.
        for connection in (*self._receivers, *self._sender_by_fd):
            self._poll.unregister(connection)
        self._poll.register(descriptor, select.EPOLLIN)
        is_readable = False
        while not is_readable:
            self._set_timer(start_ns)
            events = self._poll.poll()
            is_readable = any(ready == descriptor for ready, _ in events)
            self._turn(events, start_ns)
        self._poll.unregister(descriptor)

    def _receive(self, events: list[tuple[int, int]]) -> dict[int, int]:
        """Takes what has come; returns for how long the last packet of each message that has left is on the line, by
        descriptor."""
        departed: dict[int, int] = {}
        for descriptor, event_mask in events:
            on_line_ns: int | None = None
            if descriptor in self._receivers:
                self._receivers[descriptor].receive()
            elif event_mask & select.EPOLLERR and descriptor in self._multicast.senders:
                on_line_ns = self._multicast.senders[descriptor].departed_ns(self._errors)
            elif event_mask & select.EPOLLERR and descriptor in self._sender_by_fd:
                sender = self._sender_by_fd[descriptor]
                on_line_ns = sender.departed_ns(self._errors) if sender.is_leaving else None
            if on_line_ns is not None:
                departed[descriptor] = on_line_ns
        return departed

    def _turn(self, events: list[tuple[int, int]], start_ns: int) -> None:
        interpreter, receivers = self._interpreter, self._receivers
        departed = self._receive(events)
        # Only now: each of those calls may let 16 ns pass (vm/patches/clock-read.patch), in which more comes and is
        # taken by the next one. With a clock from before them, messages of 512 hosts in one agent left up to half a
        # microsecond before they had.
        now_ns = time.monotonic_ns() - start_ns
        interpreter.advance(now_ns)  # First: timers that woke up late belong before messages that arrived later.
        for descriptor, event_mask in events:
            receiver = receivers.get(descriptor)
            if receiver is not None:
                for header, begun_ns in receiver.arrivals(now_ns):
                    self.messages_received += 1
                    interpreter.arrived(
                        header.message, header.dst_rank, header.iteration, header.contributions, begun_ns, now_ns
                    )
            elif descriptor in self._sender_by_fd:
                self._hear(self._sender_by_fd[descriptor], event_mask, departed.get(descriptor), now_ns)
            elif descriptor in self._multicast.takers:
                self._take(descriptor, now_ns)
            elif descriptor in self._multicast.senders:
                sender = self._multicast.senders[descriptor]
                if descriptor in departed:
                    self._note_departure(sender, departed[descriptor], now_ns)
                if event_mask & select.EPOLLIN:
                    sender.hear(now_ns)
                self._pump_multicast(sender, now_ns)
        # What has come goes before what may go, for the compiled agent's kernel receives from all sockets before the
        # agent goes on.
        for descriptor, _ in events:
            if descriptor in receivers:
                receivers[descriptor].set_low_water()
        for descriptor, event_mask in events:
            if event_mask & select.EPOLLOUT and descriptor in self._sender_by_fd:
                self._pump(self._sender_by_fd[descriptor], now_ns)
        self._multicast.probe(now_ns)
        self._flush(now_ns)

    def _take(self, descriptor: int, now_ns: int) -> None:
        member, sock = self._multicast.takers[descriptor]
        delivery = member.take(sock, now_ns)
        if delivery is None:
            return
        flow, messages = delivery
        for header, begun_ns in messages:
            for rank in flow.ranks[member.host.index]:
                self.messages_received += 1
                self._interpreter.arrived(
                    header.message, rank, header.iteration, header.contributions, begun_ns, now_ns
                )

    def _flush(self, now_ns: int) -> None:
        """Sends until nothing more may be sent now: a message that is handed over at once lets its queue serve the
        next one."""
        outbox = self._interpreter.take_outbox()
        while outbox:
            self._send_all(outbox, now_ns)
            outbox = self._interpreter.take_outbox()

    def _send_all(self, outbox: list[Outgoing], now_ns: int) -> None:
        for message in outbox:
            if self._rank[message.op] in self._dead:
                continue
            self.messages_sent += 1
            self.bytes_sent += self._framing.header_bytes + self._size[message.op]
            if message.op not in self._connection_of_send:
                flow = self._multicast.sender_of(message.op)
                head = self._framing.pack(self._header(message, flow.flow.group))
                flow.begin(message.iteration, message.op, head, self._size[message.op], now_ns)
                self._pump_multicast(flow, now_ns)
                continue
            number = self._connection_of_send[message.op]
            sender, connection = self._senders[number], self._connections[number]
            head = self._framing.pack(self._header(message, connection.dst))
            if self._flowlets is not None:
                self._flowlets.begin(number, len(head) + self._size[message.op], now_ns)
            sender.begin(message.iteration, message.op, head, self._size[message.op], now_ns)
            self._pump(sender, now_ns)

    def _header(self, message: Outgoing, destination: int) -> Header:
        chunk = self._chunk[message.op]
        return Header(
            message.iteration,
            message.op,
            self._rank[message.op],
            destination,
            self._tensor[chunk] if chunk >= 0 else -1,
            chunk,
            self._size[message.op],
            message.contributions,
        )

    def _hear(self, sender: Sender, event_mask: int, on_line_ns: int | None, now_ns: int) -> None:
        if event_mask & select.EPOLLHUP:
            raise MachineFault(f"the connection to {sender.peer} broke in the middle of the run")
        if on_line_ns is not None:
            if self._flowlets is not None:
                self._flowlets.end(self._number_of[sender.sock.fileno()], now_ns + on_line_ns)
            self._note_departure(sender, on_line_ns, now_ns)

    def _note_departure(self, sender: Sender | FlowSender, on_line_ns: int, now_ns: int) -> None:
        self._interpreter.sent(sender.iteration, sender.op, sender.start_ns, now_ns, on_line_ns)

    def _pump(self, sender: Sender, now_ns: int) -> None:
        descriptor = sender.sock.fileno()
        if sender.pump():
            if descriptor in self._waiting:
                self._waiting.remove(descriptor)
                self._poll.modify(descriptor, select.EPOLLET)
            if not sender.is_leaving:
                if self._flowlets is not None:
                    self._flowlets.end(self._number_of[descriptor], now_ns)
                self._interpreter.sent(sender.iteration, sender.op, sender.start_ns, now_ns)
        elif descriptor not in self._waiting:
            self._waiting.add(descriptor)
            self._poll.modify(descriptor, select.EPOLLET | select.EPOLLOUT)

    def _pump_multicast(self, sender: FlowSender, now_ns: int) -> None:
        was_blocked = sender.is_blocked
        if sender.pump(now_ns):
            self._interpreter.sent(sender.iteration, sender.op, sender.start_ns, now_ns)
        if sender.is_blocked != was_blocked:
            self._poll.modify(sender.sock.fileno(), interest(sender))

    def close(self) -> None:
        """Closes every connection.

        Call it only after all agents are done, because to the others an early close is a broken run.
        """
        self._poll.close()
        self._timer.close()
        os.close(self._payload)
        for sender in self._senders.values():
            sender.sock.close()
        for receiver in self._receivers.values():
            receiver.sock.close()
        self._multicast.close()
