"""Queues of netem that hold packets while they are under way, by rtnetlink (linux/pkt_sched.h, struct tc_netem_qopt).

tc would be enough if it kept delays exact. It cuts them to microseconds and then to ticks of 64 ns (iproute2 6.1,
get_ticks): 1 us became 0.96 us, 1.9 us became 0.96 us, and 300 ns became zero. Over the ten links of a round trip that
is a microsecond or more, as much as all links of a building have together. The kernel itself takes nanoseconds, in
attributes that tc does not send.

Delays are rounded to steps of the virtual clock, whose resolution is 16 ns (TIMER_MULTIPLIER, gradwire/vm/patches/).
With a delay between two steps, the timer finds the packet not yet due by the clock and is set again: 1,000 ns took
1,200. No timer of that kernel waits for less than half a microsecond either (TIMER_MIN_DELTA, arch/um/kernel/time.c),
unless hosts have RDMA devices. Shorter delays become that long, and so does the time between two packets that are alone
on their way.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from gradwire.netlink_messages import NLM_F_CREATE, NLM_F_EXCL, NetlinkRequest, attribute, request
from gradwire.topo.netlink.qdiscs import RTM_NEWQDISC, TC_H_ROOT, TC_MESSAGE, TCA_KIND, TCA_OPTIONS

OPTIONS = struct.Struct("=6I")
"""struct tc_netem_qopt: latency and jitter in ticks, which the attributes below replace; limit; loss, gap and duplicate."""
RATE = struct.Struct("=IiIi")
"""struct tc_netem_rate: bytes per second, bytes of overhead per packet, cells and what they add."""
TCA_NETEM_RATE, TCA_NETEM_RATE64, TCA_NETEM_LATENCY64, TCA_NETEM_JITTER64, TCA_NETEM_PRNG_SEED = 6, 8, 10, 11, 14
LARGEST_RATE = 2**32 - 1
"""Largest rate that a field of RATE holds, in bytes per second. It says that the rate is in TCA_NETEM_RATE64."""

CLOCK_STEP_NS = 16
"""Resolution of the virtual clock: two different readings are at least this far apart."""


@dataclass(frozen=True)
class DelayLine:
    """How long a netem queue holds packets, how many it holds at most, and in which order they leave."""

    limit_packets: int
    delay_s: float = 0.0
    #: Largest deviation from the delay in both directions, drawn evenly and at random.
    jitter_s: float = 0.0
    #: Rate at which packets leave, in bit/s: 0 if that takes no time. Where there is one, they leave in the order in which they came.
    rate_bps: float = 0.0
    #: Bytes that each packet has on the line beyond those that tc counts.
    overhead_bytes: int = 0
    #: Makes the jitter repeatable; None where the kernel knows no seed.
    seed: int | None = None

    def options(self) -> bytes:
        """The options of its qdisc, as the kernel takes them."""
        packed = OPTIONS.pack(0, self.limit_packets, 0, 0, 0, 0)
        packed += attribute(TCA_NETEM_LATENCY64, struct.pack("=q", _in_steps_ns(self.delay_s)))
        packed += attribute(TCA_NETEM_JITTER64, struct.pack("=q", _in_steps_ns(self.jitter_s)))
        if self.rate_bps:
            rate_bytes = round(self.rate_bps / 8)
            packed += attribute(TCA_NETEM_RATE64, struct.pack("=Q", rate_bytes)) if rate_bytes > LARGEST_RATE else b""
            packed += attribute(TCA_NETEM_RATE, RATE.pack(min(rate_bytes, LARGEST_RATE), self.overhead_bytes, 0, 0))
        if self.seed is not None:
            packed += attribute(TCA_NETEM_PRNG_SEED, struct.pack("=Q", self.seed))
        return packed

    def words(self, name: str) -> str:
        """The command of tc that would make it at an interface, if tc took such delays."""
        delay = (
            f" delay {self.delay_s * 1e9:.0f}ns {self.jitter_s * 1e9:.0f}ns" if self.delay_s or self.jitter_s else ""
        )
        rate = f" rate {self.rate_bps:.0f}bit {self.overhead_bytes}" if self.rate_bps else ""
        seed = "" if self.seed is None else f" seed {self.seed}"
        return f"tc qdisc add dev {name} root netem limit {self.limit_packets}{delay}{rate}{seed}"


def _in_steps_ns(duration_s: float) -> int:
    return round(duration_s * 1e9 / CLOCK_STEP_NS) * CLOCK_STEP_NS


def holding(line: DelayLine, index: int, name: str) -> NetlinkRequest:
    """Request that adds the delay line to an interface, which has no queue yet. index, name: of the interface."""
    body = TC_MESSAGE.pack(0, index, 0, TC_H_ROOT, 0)
    body += attribute(TCA_KIND, b"netem\0") + attribute(TCA_OPTIONS, line.options())
    return request(line.words(name), RTM_NEWQDISC, NLM_F_CREATE | NLM_F_EXCL, body)
