"""Multicast over UDP sockets: one to send each flow, one per flow and member to receive it, and one per member to send
reports from.

A flow's number, the same at every agent, gives its UDP port. Repairs go to a member's reporting socket. The buffer of
a flow's sending socket (SO_SNDBUF) bounds what waits in its host's own queue, so that queue does not overflow.
"""

from __future__ import annotations

import errno
import select
import socket
import struct
import sys
from collections import deque

import numpy as np

from gradwire.agents.connections import HostEntry, SocketOptions, mark
from gradwire.agents.departures import ASK, NUMBERS, ErrorQueue, PortLine, report_departures
from gradwire.agents.multicast_protocol import DatagramContent, Delivered, ReceiveWindow, SendWindow
from gradwire.datatypes.plan import Plan
from gradwire.datatypes.wire.framing import Framing
from gradwire.faults import InternalFault, MachineFault
from gradwire.network.fabric import CONTROL_BAND, MULTICAST_HEADER_BYTES, Fabric, MulticastGroup, band_of_class
from gradwire.network.wire.datagrams import DATA, FIRST, FLOW_PORT, HELLO, PROBE, REPORT_PORT, DatagramSizes, Status
from gradwire.network.wire.flows import MulticastFlow, multicast_flows_of
from gradwire.network_namespace import network_namespace

SO_SNDBUFFORCE, SO_RCVBUFFORCE = 32, 33
UDP_SEGMENT, UDP_GRO = 103, 104
RECEIVE_BUFFER_BYTES = 1 << 26
"""More than the windows of many senders, so that a member which is scheduled late loses nothing that has arrived."""
PATIENCE_NS = 10_000_000
"""How long a sender on a lossy fabric waits before it probes: longer than a window takes at 10 Gbit/s, far less than
TCP's 200 ms."""
WAITING_BYTES = 1 << 20
"""The most that waits in the host's queue where a SEND ends when its last datagram has left; more than a burst keeps
the port busy."""
LOSSLESS_PATIENCE_NS = 20_000_000_000
"""How long a sender on a lossless fabric waits before it probes: what is queued there is not lost (topo/wiring.py gives
TCP the same patience)."""


def _group_ip(flow: MulticastFlow, fabric: Fabric) -> str:
    group = MulticastGroup(flow.src_host, tuple(sorted(flow.ranks)))
    if group not in fabric.groups:
        raise InternalFault(f"the switches have no {group}: the fabric was built without this plan's groups")
    return fabric.group_ip(fabric.groups.index(group))


def _udp(host: HostEntry, address: tuple[str, int], band: int) -> socket.socket:
    with network_namespace(host.namespace):
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.setblocking(False)
    sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, RECEIVE_BUFFER_BYTES // 2)
    mark(sock, band)
    sock.bind(address)
    return sock


class FlowSender:
    """The sending end of a flow."""

    def __init__(self, flow: MulticastFlow, host: HostEntry, fabric: Fabric, options: SocketOptions) -> None:
        self.flow = flow
        self.iteration = self.op = -1
        self.start_ns = 0
        self.is_blocked = False
        self._is_busy = False
        self._shape = shape = DatagramSizes.of(fabric)
        self._burst = shape.burst
        self._fabric = fabric
        self._group = (_group_ip(flow, fabric), FLOW_PORT + flow.number)
        self.sock = _udp(host, (host.ip, FLOW_PORT + flow.number), band_of_class(flow.traffic_class))
        waiting_bytes = WAITING_BYTES if options.unsent_bytes is None else options.unsent_bytes
        self.sock.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, waiting_bytes // 2)
        self.sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(host.ip))
        self.sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 0)
        self.sock.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, shape.size_bytes)
        patience_ns = LOSSLESS_PATIENCE_NS if fabric.is_lossless else PATIENCE_NS
        self.window = SendWindow(tuple(flow.ranks), shape, options.datagram_window_bytes, patience_ns)
        self._line = PortLine.of_multicast(fabric, flow.src_host) if options.unsent_bytes is None else None
        #: Whether a message has been handed over whose last datagram has not left, as far as is known.
        self._is_leaving = False
        #: Timestamps that were asked for.
        self._asked = 0
        if self._line is not None:
            report_departures(self.sock)
        self._repairs: deque[tuple[str, int]] = deque()
        self._datagrams = bytearray(shape.burst * shape.size_bytes)
        DATA.pack_into(self._datagrams, 0, flow.number, 0, 0, 0)
        strides = (shape.size_bytes,)
        self._flow_column = np.ndarray((shape.burst,), ">u4", self._datagrams, 0, strides)
        self._left_column = np.ndarray((shape.burst,), ">u2", self._datagrams, 4, strides)
        self._flags_column = np.ndarray((shape.burst,), ">u2", self._datagrams, 6, strides)
        self._sequence_column = np.ndarray((shape.burst,), ">u8", self._datagrams, 8, strides)
        self._flow_column[:] = flow.number

    def say_hello(self) -> None:
        """Sends a datagram for the switches to learn from: packets that wait for an upcall are overtaken by later ones
        that need none."""
        self.sock.sendto(DATA.pack(self.flow.number, 1, HELLO, 0), self._group)

    def begin(self, iteration: int, op: int, head: bytes, size_bytes: int, now_ns: int) -> None:
        """Accepts a message, which `pump` then moves."""
        self.iteration, self.op, self.start_ns = iteration, op, now_ns
        self._is_busy = True
        self.window.begin(head, size_bytes)

    def pump(self, now_ns: int) -> bool:
        """Hands over repairs, then as much of the message as window and kernel allow; True if that ended its SEND.

        A SEND that ends when its last datagram has left the host ends with `departed_ns`.
        """
        self.is_blocked = False
        try:
            while self._repairs:
                member, sequence = self._repairs[0]
                if not self.window.is_done(sequence):
                    self.sock.sendto(self._single(self.window.piece(sequence), 0), (member, REPORT_PORT))
                self._repairs.popleft()
            while pieces := self.window.burst(now_ns, self._burst):
                self._send_burst(pieces[0], pieces[-1])
        except BlockingIOError:
            self.is_blocked = True
        done = self._is_busy and not self.window.unsent
        self._is_busy &= not done
        if self._line is None:
            return done
        self._is_leaving |= done
        # A burst that was lost in the host's own queue never leaves; its repair has arrived once every member has
        # everything.
        if not (self._is_leaving and self.window.is_quiet):
            return False
        self._is_leaving = False
        return True

    def departed_ns(self, errors: ErrorQueue) -> int | None:
        """Reads the timestamps: for how long the message's last burst is still on the line; None if they are of other
        messages."""
        departures = errors.read(self.sock)
        if not departures:
            raise MachineFault(f"multicast flow {self.flow.number}: its socket broke in the middle of the run")
        for departure in departures:
            if self._line is not None and self._is_leaving and departure.number == (self._asked - 1) % NUMBERS:
                self._is_leaving = False
                return self._line.packet_ns(departure.ip_bytes)
        return None

    def _send_burst(self, first: DatagramContent, last: DatagramContent) -> None:
        count = last.sequence - first.sequence + 1
        self._left_column[:count] = np.arange(count, 0, -1)
        self._sequence_column[:count] = np.arange(first.sequence, first.sequence + count)
        self._flags_column[:count] = 0
        if first.head:
            self._flags_column[0] = FIRST
            self._datagrams[MULTICAST_HEADER_BYTES : MULTICAST_HEADER_BYTES + len(first.head)] = first.head
        end = (count - 1) * self._shape.size_bytes + MULTICAST_HEADER_BYTES + last.size_bytes
        try:
            is_last = self._line is not None and count == self.window.unsent
            self.sock.sendmsg([memoryview(self._datagrams)[:end]], ASK if is_last else [], 0, self._group)
            self._asked += is_last
        except OSError as error:
            if error.errno != errno.EIO or self._burst == 1:
                raise
            # Linux before 6.11 does not cut bursts for a port without checksum offload, which must be off for the
            # userspace datapath.
            print(
                f"flow {self.flow.number}: the port does not support UDP_SEGMENT, datagrams go one by one",
                file=sys.stderr,
            )
            self._burst = 1
            return
        self.window.sent(count)

    def _single(self, piece: DatagramContent, flags: int) -> bytes:
        flags |= FIRST if piece.head else 0
        header = DATA.pack(self.flow.number, 1, flags, piece.sequence)
        return header + piece.head + bytes(piece.size_bytes - len(piece.head))

    def hear(self, now_ns: int) -> None:
        """Reads one member's report and notes what to repeat."""
        try:
            status = Status.unpack(self.sock.recv(self._shape.size_bytes))
        except BlockingIOError:
            return
        member = self._fabric.host_ip(status.member)
        self._repairs.extend((member, sequence) for sequence in self.window.report(status, now_ns))

    def probe_if_due(self, now_ns: int) -> None:
        """Asks all members for their status if none has reported progress for too long."""
        piece = self.window.probe(now_ns)
        if piece is None:
            return
        try:
            self.sock.sendto(self._single(piece, PROBE), self._group)
        except BlockingIOError:
            return  # The datagrams in front of it will bring answers; if not, the next probe will.


class Member:
    """The receiving end of one host: all flows to groups of which it is a member."""

    def __init__(
        self, host: HostEntry, flows: list[MulticastFlow], fabric: Fabric, framing: Framing, window_bytes: int
    ) -> None:
        self.host = host
        self.bytes_received = 0
        self._framing, self._fabric, self._shape = framing, fabric, DatagramSizes.of(fabric)
        self._flows = {flow.number: flow for flow in flows}
        self._windows = {
            flow.number: ReceiveWindow(flow.number, host.index, self._shape, framing, window_bytes) for flow in flows
        }
        self._reports = _udp(host, (host.ip, REPORT_PORT), CONTROL_BAND)
        self.sockets = [self._reports, *(self._join(flow) for flow in flows)]
        self._start = bytearray(MULTICAST_HEADER_BYTES + framing.header_bytes)

    def _join(self, flow: MulticastFlow) -> socket.socket:
        group = _group_ip(flow, self._fabric)
        sock = _udp(self.host, (group, FLOW_PORT + flow.number), CONTROL_BAND)
        sock.setsockopt(socket.IPPROTO_UDP, UDP_GRO, 1)
        membership = struct.pack("4s4s", socket.inet_aton(group), socket.inet_aton(self.host.ip))
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, membership)
        return sock

    def take(self, sock: socket.socket, now_ns: int) -> tuple[MulticastFlow, list[Delivered]] | None:
        """Receives what arrived together, without copying its payload, and reports as needed; returns the messages
        complete after it."""
        try:
            size_bytes = sock.recv_into(self._start, 0, socket.MSG_TRUNC)
        except BlockingIOError:
            return None
        number, left, flags, first = DATA.unpack_from(self._start)
        if flags & HELLO:
            return None
        count = -(-size_bytes // self._shape.size_bytes)
        if number not in self._windows or count > left:
            raise InternalFault(
                f"{size_bytes} bytes of flow {number} are {count} datagrams of a burst with {left} left"
            )
        flow = self._flows[number]
        head = bytes(self._start[MULTICAST_HEADER_BYTES:])
        delivered, status = self._windows[number].take(first, count, flags, head, now_ns)
        if status is not None:
            self._reports.sendto(status.pack(), (self._fabric.host_ip(flow.src_host), FLOW_PORT + number))
        for message in delivered:
            size = self._framing.header_bytes + message.header.size_bytes
            self.bytes_received += size * len(flow.ranks[self.host.index])
        return flow, delivered


class Multicast:
    """The multicast flows of an agent's hosts, as senders and as members."""

    def __init__(self, plan: Plan, hosts: dict[int, HostEntry], fabric: Fabric, options: SocketOptions) -> None:
        flows = multicast_flows_of(plan)
        framing = Framing(len(plan.workers))
        self._of_key = {(flow.queue, flow.group, flow.traffic_class): flow.number for flow in flows}
        self._ops = plan.ops
        self._senders = {
            flow.number: FlowSender(flow, hosts[flow.src_host], fabric, options)
            for flow in flows
            if flow.src_host in hosts
        }
        self._members = [
            Member(
                host, [flow for flow in flows if index in flow.ranks], fabric, framing, options.datagram_window_bytes
            )
            for index, host in hosts.items()
            if any(index in flow.ranks for flow in flows)
        ]
        self.senders = {sender.sock.fileno(): sender for sender in self._senders.values()}
        self.takers = {sock.fileno(): (member, sock) for member in self._members for sock in member.sockets}

    @property
    def repairs(self) -> int:
        """Number of datagrams that were repeated to a member."""
        return sum(sender.window.repairs for sender in self._senders.values())

    @property
    def bytes_received(self) -> int:
        """Payload and framing of complete messages, counted once per receiving rank."""
        return sum(member.bytes_received for member in self._members)

    @property
    def is_quiet(self) -> bool:
        """Returns whether every member has acknowledged everything that was sent."""
        return all(sender.window.is_quiet for sender in self._senders.values())

    def say_hello(self) -> None:
        """Sends a first, empty datagram on every flow; all members must have joined."""
        for sender in self._senders.values():
            sender.say_hello()

    def sender_of(self, op: int) -> FlowSender:
        """The sender of the flow to which a SEND belongs."""
        key = (int(self._ops.lane[op]), int(self._ops.peer[op]), int(self._ops.traffic_class[op]))
        return self._senders[self._of_key[key]]

    def next_timer_ns(self) -> int | None:
        """The latest time to call `probe`; None if no sender waits for a report."""
        times = [sender.window.deadline_ns() for sender in self._senders.values()]
        return min((time_ns for time_ns in times if time_ns is not None), default=None)

    def probe(self, now_ns: int) -> None:
        """Sends the probes that are due."""
        for sender in self._senders.values():
            sender.probe_if_due(now_ns)

    def close(self) -> None:
        """Closes all sockets, which leaves the groups."""
        for sender in self._senders.values():
            sender.sock.close()
        for _, sock in self.takers.values():
            sock.close()


def interest(sender: FlowSender) -> int:
    """The epoll events to wait for at a sending socket."""
    return select.EPOLLIN | (select.EPOLLOUT if sender.is_blocked else 0)
