"""Reliable multicast without I/O: what a sender must keep and repeat, and what a member has and lacks.

The datagrams of a flow are numbered, and stay in order because they share one path and one band. A gap is therefore a
loss: a member reports it at once, and the sender repeats what is missing to that member alone. If the last datagrams,
a report or a repair are lost, the sender sees no progress. After a while it then repeats its last datagram to all
members as a probe, and each of them answers with everything that it lacks. A sender is at most one window ahead of its
slowest member, so queues stay bounded and a lossless fabric loses nothing. Losses cost time, but never data.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

from gradwire.datatypes.wire.framing import Framing, Header
from gradwire.faults import InternalFault
from gradwire.network.wire.datagrams import FIRST, PROBE, DatagramSizes, Span, Status

REPORTS_PER_WINDOW = 8
"""How often a member reports its progress within a window: seldom enough to cost little, often enough not to stall the
sender."""
BACKOFF_LIMIT = 64
"""The interval between probes doubles up to this many times the first one."""


class DatagramContent(NamedTuple):
    """The content of a datagram to send."""

    sequence: int
    #: The message's framing header, if the datagram begins with it.
    head: bytes
    #: Size of the piece, `head` included.
    size_bytes: int


@dataclass
class _UnconfirmedMessage:
    """A message that some member may still lack, sent as datagrams `first` up to, but not including, `after`."""

    first: int
    after: int
    head: bytes
    message_bytes: int


class SendWindow:
    """The sender's side of a flow."""

    def __init__(self, members: tuple[int, ...], shape: DatagramSizes, window_bytes: int, patience_ns: int) -> None:
        self.repairs = 0
        self.next = 0
        self._shape = shape
        self._window = max(2 * shape.burst, window_bytes // shape.piece_bytes)
        self._patience_ns = self._wait_ns = patience_ns
        self._arrived = dict.fromkeys(members, 0)
        self._slowest = 0
        self._kept: deque[_UnconfirmedMessage] = deque()
        self._since_ns = 0

    @property
    def is_quiet(self) -> bool:
        """Returns whether every member has acknowledged every datagram, and nothing waits to be sent."""
        return self._slowest == self.next and not self.unsent

    @property
    def unsent(self) -> int:
        """Number of datagrams of the last message that have never been sent."""
        return self._kept[-1].after - self.next if self._kept else 0

    def is_done(self, sequence: int) -> bool:
        """Returns whether every member has acknowledged datagram `sequence`."""
        return sequence < self._slowest

    def begin(self, head: bytes, size_bytes: int) -> None:
        """Accepts a message with framing header `head` and `size_bytes` of payload."""
        total = len(head) + size_bytes
        self._kept.append(_UnconfirmedMessage(self.next, self.next + self._shape.count(total), head, total))

    def burst(self, now_ns: int, most: int) -> list[DatagramContent]:
        """The first and last of the datagrams that may go now, `most` in all, or nothing while the window is too full.

        `sent` must follow.
        """
        count = min(most, self.unsent)
        if not count or self._slowest + self._window - self.next < count:
            return []
        if self._slowest == self.next:
            self._since_ns = now_ns
        return [self.piece(self.next + i) for i in (0, count - 1)] if count > 1 else [self.piece(self.next)]

    def sent(self, count: int) -> None:
        """Notes that the kernel accepted `count` datagrams."""
        self.next += count

    def piece(self, sequence: int) -> DatagramContent:
        """The content of datagram `sequence`."""
        message = next(kept for kept in reversed(self._kept) if kept.first <= sequence < kept.after)
        offset = (sequence - message.first) * self._shape.piece_bytes
        head = message.head if not offset else b""
        return DatagramContent(sequence, head, min(self._shape.piece_bytes, message.message_bytes - offset))

    def report(self, status: Status, now_ns: int) -> list[int]:
        """Takes a member's report; returns the numbers to repeat to that member.

        Raises InternalFault for an impossible report.
        """
        if status.member not in self._arrived or status.cumulative > self.next:
            raise InternalFault(f"flow {status.flow}: {status} cannot be, only {self.next} datagrams were sent")
        self._arrived[status.member] = max(self._arrived[status.member], status.cumulative)
        slowest = min(self._arrived.values())
        if slowest > self._slowest:
            self._slowest, self._since_ns, self._wait_ns = slowest, now_ns, self._patience_ns
            while self._kept and self._kept[0].after <= slowest:
                self._kept.popleft()
        have = self._arrived[status.member]
        missing = [n for first, after in status.missing for n in range(max(first, have), after)]
        self.repairs += len(missing)
        return missing

    def deadline_ns(self) -> int | None:
        """The time to probe if no report brings progress before; None if every member has everything."""
        return None if self._slowest == self.next else self._since_ns + self._wait_ns

    def probe(self, now_ns: int) -> DatagramContent | None:
        """The datagram to repeat to all members as a probe, or None if it is too early."""
        deadline_ns = self.deadline_ns()
        if deadline_ns is None or now_ns < deadline_ns:
            return None
        self._since_ns = now_ns
        self._wait_ns = min(2 * self._wait_ns, BACKOFF_LIMIT * self._patience_ns)
        return self.piece(self.next - 1)


class Delivered(NamedTuple):
    """A message that has arrived completely."""

    header: Header
    #: When its first datagram came.
    start_ns: int


class ReceiveWindow:
    """A member's side of a flow, at endpoint `member`."""

    def __init__(self, flow: int, member: int, shape: DatagramSizes, framing: Framing, window_bytes: int) -> None:
        self._flow, self._member = flow, member
        self._shape, self._framing = shape, framing
        self._report_every = max(1, window_bytes // shape.piece_bytes // REPORTS_PER_WINDOW)
        self._highest = 0
        self._missing: list[Span] = []
        self._heads: dict[int, tuple[Header, int]] = {}
        self._message_first = 0
        self._reported = 0

    @property
    def cumulative(self) -> int:
        """All datagrams before this number have arrived."""
        return self._missing[0][0] if self._missing else self._highest

    def take(
        self, first: int, count: int, flags: int, head: bytes, now_ns: int
    ) -> tuple[list[Delivered], Status | None]:
        """Takes `count` datagrams from number `first`, which begins with `head`; returns complete messages and a
        report to send."""
        if flags & FIRST and first >= self._message_first:
            self._heads.setdefault(first, (self._framing.unpack(head), now_ns))
        gap = self._note(first, first + count)
        delivered = list(self._deliver())
        reported: tuple[Span, ...] | None = None
        if flags & PROBE:
            reported = tuple(self._missing)
        elif gap is not None:
            reported = (gap,)
        elif delivered or self.cumulative - self._reported >= self._report_every:
            reported = ()
        if reported is None:
            return delivered, None
        self._reported = self.cumulative
        return delivered, Status(self._flow, self._member, self.cumulative, reported)

    def _note(self, first: int, after: int) -> Span | None:
        """Marks a span as arrived; returns the gap that it reveals before itself."""
        gap = (self._highest, first) if first > self._highest else None
        if first < self._highest:
            self._missing = [rest for span in self._missing for rest in _without(span, (first, after))]
        if gap is not None:
            self._missing.append(gap)
        self._highest = max(self._highest, after)
        return gap

    def _deliver(self) -> list[Delivered]:
        """The messages whose last missing datagram has come."""
        complete = []
        while self._message_first < self.cumulative:
            header, start_ns = self._heads[self._message_first]
            after = self._message_first + self._shape.count(self._framing.header_bytes + header.size_bytes)
            if after > self.cumulative:
                break
            complete.append(Delivered(header, start_ns))
            del self._heads[self._message_first]
            self._message_first = after
        return complete


def _without(span: Span, gone: Span) -> list[Span]:
    """Returns what remains of a span once `gone` is cut out: at most two spans."""
    left = (span[0], min(span[1], gone[0])), (max(span[0], gone[1]), span[1])
    return [piece for piece in left if piece[0] < piece[1]]
