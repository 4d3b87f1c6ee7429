"""Links with a delay: the devices that hold packets between the two ends, as arguments of ip and tc. Pure.

A delay is propagation, so it has to act behind the shaper of the sending port: before it, packets that wait would still
count as not sent, the port would forget them when it is changed, and its burst would come out as one. The kernel's
delay line (netem) is a queue of a port that sends, though. So a long link is two pairs of veth devices. What arrives at
the inner end of one pair is redirected to the inner end of the other, which is where netem holds it:

    h1-eth0 <-> l0a ==> netem of l0b: l0b <-> s1-eth1

The inner ends are in the machine's initial network namespace. Nothing else ever sees their packets.

The shaper of a port lets a packet go at once and makes the next one wait, so a single packet takes no time on the line.
That is too short by 0.3 us for 1 KB at 25 Gbit/s, which matters only to RDMA programs. Where hosts have RDMA devices,
each link also holds a packet for its time on the line, by netem's rate plus the bytes that tc does not count.

A packet counts as not sent by its socket until something takes it from there: a NIC on real hosts, and here the delay
line or the receiver. TCP sends no more while about a millisecond's data of a connection is not sent (small queues,
net/ipv4/tcp_output.c). While packets that waited in switches counted as not sent, two hosts that sent to a third over
100 Mbit/s had at most 21 kB waiting there for 99 % of the time, and filled no buffer of 50 kB. Without them they filled
it, and 343 frames were dropped. So where switches drop or mark, links of hosts are long as well, even if their delay is
zero.
"""

from __future__ import annotations

from dataclasses import replace

from gradwire.datatypes.host_settings import RdmaDevice
from gradwire.network.fabric import PREAMBLE_FCS_GAP_BYTES, Fabric, Link
from gradwire.topo.netlink.delay_lines import DelayLine

MOST_UNDER_WAY = 10_000_000
"""Packets that a link holds at most. A link that drops would not be long but lossy: 100 ms at 100 Gbit/s are 0.8
million frames."""
ORDER_RATE_BPS = 1e15
"""netem keeps the order of packets whose delays differ where it also has a rate. By this one, none takes as much as a
nanosecond."""


def is_long(link: Link, *, stores: bool) -> bool:
    """Returns whether packets spend time on a link. stores: whether each is held for its time on the line."""
    return stores or bool(link.delay_s or link.jitter_s)


def links_that_take(fabric: Fabric) -> frozenset[str]:
    """Names of the links that take packets from the sockets that sent them: of hosts, where switches drop or mark."""
    return frozenset(link.name for link in fabric.links()[: fabric.hosts]) if fabric.has_switch_queues else frozenset()


def inner_ends(fabric: Fabric, prefix: str = "") -> dict[str, tuple[str, str]]:
    """Interfaces inside each long link, at its end `a` and at its end `b`, by the link's name. prefix: that of
    switches."""
    taking = links_that_take(fabric)
    return {
        link.name: (f"{prefix}l{number}a", f"{prefix}l{number}b")
        for number, link in enumerate(fabric.links())
        if link.name in taking or is_long(link, stores=stores_packets(fabric))
    }


def stores_packets(fabric: Fabric) -> bool:
    """Returns whether links hold packets for their time on the line."""
    return fabric.rdma is not RdmaDevice.NONE


def joining_commands(ends: tuple[str, str]) -> list[list[str]]:
    """tc commands, without "tc", that join both halves of a long link: packets that arrive at one leave by the
    other."""
    commands = []
    for here, there in (ends, ends[::-1]):
        place = ["filter", "add", "dev", here, "ingress", "protocol", "all", "pref", "1", "matchall"]
        commands += [
            ["qdisc", "add", "dev", here, "ingress"],
            [*place, "action", "mirred", "egress", "redirect", "dev", there],
        ]
    return commands


def delay_lines(
    link: Link, ends: tuple[str, str], seed: int | None, *, stores: bool = False
) -> list[tuple[str, DelayLine]]:
    """Delay lines for the two directions of a long link, each with the interface whose queue it is. seed: makes jitter
    repeatable. stores: whether packets are held for their time on the line."""
    line = _delay_line(link, stores)
    if seed is None or not link.jitter_s:
        return [(end, line) for end in ends[::-1]]
    return [(end, replace(line, seed=seed + number)) for number, end in enumerate(ends[::-1])]


def _delay_line(link: Link, stores: bool) -> DelayLine:
    """Delay line of one direction of a link. netem takes the mean of a delay and the largest deviation from it in both
    directions. If the link has no delay, a rate at which no frame takes a nanosecond makes netem take packets from
    their sockets."""
    if stores:
        line = DelayLine(MOST_UNDER_WAY, rate_bps=link.rate_bps, overhead_bytes=PREAMBLE_FCS_GAP_BYTES)
    elif link.jitter_s or not link.delay_s:
        line = DelayLine(MOST_UNDER_WAY, rate_bps=ORDER_RATE_BPS)
    else:
        line = DelayLine(MOST_UNDER_WAY)
    return replace(line, delay_s=link.delay_s + link.jitter_s / 2, jitter_s=link.jitter_s / 2)
