"""Counters of a network over a run as frozen data: of queues, of lines, of TCP and of switches.

They are the same whatever ran: a plan, programs, or both. Imports the standard library.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LineCount:
    """The frames that one port put on its line. Bytes are those of frames, as tc counts them."""

    #: The port's interface.
    port: str
    #: Whether the port still has its line.
    is_there: bool
    frames: int
    size_bytes: int
    #: Frames that the far end's machine could not take.
    lost: int
    #: Time that the line would have needed, when it was given more, for what it had not sent yet: the longest, and when
    #: that was.
    ahead_ns: int
    ahead_at_ns: int
    #: How long that may be.
    limit_ns: int
    #: Bytes put on the line while it was ahead by more than the limit, and the first and last moment of that.
    beyond_bytes: int = 0
    beyond_first_ns: int = 0
    beyond_last_ns: int = 0


@dataclass(frozen=True)
class BandCount:
    """Counters of one priority band of one port over the run."""

    port: str
    band: int
    bytes_sent: int
    packets_sent: int
    drops: int
    #: Packets that were marked (ECN), and those that arrived where the queue was longer than the threshold.
    marks: int = 0
    above_threshold: int = 0
    #: For a switch's queue that drops or marks, as the kernel has it: the most bytes that it holds, the length from
    #: which it marks some packets, and the length from which it marks all. 0 for those that it does not have.
    limit_bytes: int = 0
    threshold_bytes: int = 0
    all_marked_bytes: int = 0


@dataclass(frozen=True)
class ReplacedQueues:
    """Counters of a port whose queues programs replaced. They count in sum, and from then on."""

    port: str
    #: The queues that are there instead, in the words of tc: "1:1 netem"; or "nothing".
    queues: tuple[str, ...]
    bytes_sent: int
    packets_sent: int
    drops: int


@dataclass(frozen=True)
class NetworkCounts:
    """Counters of the whole network over the run."""

    bands: tuple[BandCount, ...]
    #: TCP segments, summed over hosts.
    tcp_segments_sent: int
    #: Retransmitted TCP segments, summed over hosts.
    tcp_retransmits: int
    #: Packets that the datapath had to ask the switch process about.
    upcalls: int
    #: Packets that the switch dropped because they matched no flow.
    table_miss_packets: int
    #: Reports of group membership that hosts' kernels sent, and frames to bridges alone, which switches have rules to drop.
    dropped_reports: int = 0
    #: Packets that arrived at hosts with a mark (ECN).
    marked_arrivals: int = 0
    #: Expiries of TCP's retransmission timers, summed over hosts.
    tcp_timeouts: int = 0
    #: Packets that the kernel dropped before it took them in, because it had too many waiting.
    input_drops: int = 0
    #: What each line was given; empty without counters of lines, as on the wall clock.
    lines: tuple[LineCount, ...] = ()
    #: One for each port whose queues are not those of the network any more. Such a port has no bands.
    replaced: tuple[ReplacedQueues, ...] = ()
    #: Ports of hosts whose queues somebody changed meanwhile, also if they are as before; None where nobody watched, as
    #: without programs.
    changed_ports: tuple[str, ...] | None = None
