"""The counters of lines in the virtual-time kernel: /proc/lines, which its patch (vm/patches/6.12/lines.patch) explains.

Lines are numbered in the order of `Fabric.links`, so that those out of the ends of link k are 2k and 2k + 1.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from contextlib import nullcontext

from gradwire.datatypes.network_counts import LineCount
from gradwire.faults import MachineFault
from gradwire.network.fabric import PREAMBLE_FCS_GAP_BYTES, Fabric, Port
from gradwire.network.frame_sizes import LEAST_FRAME_BYTES
from gradwire.network_namespace import network_namespace
from gradwire.topo.abilities import LINE_COUNTERS
from gradwire.topo.flow_control import BuiltNetwork

LARGEST_PACKET_BYTES = 1 << 16
"""Size of the largest packet that a program may hand to its interface, whatever the size of the network's own
bursts."""
SETTLING_LOOKS = 1000
"""Number of times to look whether anything is still under way, before the counts are taken as they are."""
MOST_LINKS_OF_WAY = 8
"""A way through a fat tree has six."""
SETTLING_S = 1e-3
"""Seconds between two looks, in addition to the delays of a round trip: packets wait at a port for less behind a burst
of others."""


def limit_ns(fabric: Fabric, rate_bps: float) -> int:
    """How far a line may be behind with its frames when it is given the next packet: by its shaper's burst, and by a
    packet more, for programs that send a few frames of control past their queues. 0 for a line without a rate."""
    if math.isinf(rate_bps):
        return 0
    burst_bytes = fabric.burst_bytes(rate_bps, exact_timers=True) + max(LARGEST_PACKET_BYTES, fabric.gso_bytes)
    return math.ceil(burst_bytes * 8e9 / rate_bps)


def description(number: int, interface: str, fabric: Fabric, rate_bps: float) -> str:
    """The line of text that makes a line count. rate_bps: its rate, with preamble, FCS and gap of each frame."""
    rate_bytes = 0 if math.isinf(rate_bps) else round(rate_bps) // 8
    frame = f"{PREAMBLE_FCS_GAP_BYTES} {LEAST_FRAME_BYTES}"
    return f"line {number} {interface} {rate_bytes} {limit_ns(fabric, rate_bps)} {frame}"


def parse_lines(text: str, ports: Sequence[Port], limits_ns: Sequence[int], begin_ns: int) -> tuple[LineCount, ...]:
    """Reads /proc/lines. ports, limits_ns: by their numbers. begin_ns: from when on moments are counted."""
    counts: list[LineCount] = []
    for number, there, frames, size, lost, ahead, at, beyond, first, last in (
        map(int, line.split()) for line in text.splitlines()
    ):
        counts.append(
            LineCount(
                port=ports[number].interface,
                is_there=bool(there),
                frames=frames,
                size_bytes=size,
                lost=lost,
                ahead_ns=ahead,
                ahead_at_ns=max(at - begin_ns, 0),
                limit_ns=limits_ns[number],
                beyond_bytes=beyond,
                beyond_first_ns=max(first - begin_ns, 0),
                beyond_last_ns=max(last - begin_ns, 0),
            )
        )
    return tuple(counts)


class LineCounters:
    """The counters of a network's lines, from its making on, in a kernel that has them (`Abilities.counts_lines`).
    Raises MachineFault where the kernel refuses them.

    From then on, programs on a host can make no interface that leads to another host.
    """

    def __init__(self, network: BuiltNetwork) -> None:
        fabric = network.fabric
        ends = [(end, link.rate_bps) for link in fabric.links() for end in (link.a, link.b)]
        self._ports = [port for port, _ in ends]
        self._limits_ns = [limit_ns(fabric, rate_bps) for _, rate_bps in ends]
        delays_s = sorted((link.delay_s for link in fabric.links()), reverse=True)
        self._settling_s = SETTLING_S + 2 * sum(delays_s[:MOST_LINKS_OF_WAY])
        self._begin_ns = 0
        lines: dict[str, list[str]] = {}
        for number, (port, rate_bps) in enumerate(ends):
            place = network.namespace_of_port(port)
            lines.setdefault(place, []).append(description(number, network.interface(port), fabric, rate_bps))
        for host, (place, said) in enumerate(lines.items(), start=1):
            with network_namespace(place) if place else nullcontext():
                _say([*said, f"host {host}"] if place else said)

    def forget(self) -> None:
        """Sets all counters to zero."""
        self._begin_ns = time.monotonic_ns()
        _say(["anew"])

    def counts(self) -> tuple[LineCount, ...]:
        """Reads what each line has carried since the counters were opened."""
        return parse_lines(LINE_COUNTERS.read_text(), self._ports, self._limits_ns, self._begin_ns)

    def settled(self) -> tuple[LineCount, ...]:
        """Reads the same counts once nothing is under way any more, or after SETTLING_LOOKS times the longest
        way."""
        counts = self.counts()
        for _ in range(SETTLING_LOOKS):
            time.sleep(self._settling_s)
            before, counts = counts, self.counts()
            if [count.frames for count in counts] == [count.frames for count in before]:
                break
        return counts


def _say(lines: Sequence[str]) -> None:
    try:
        with LINE_COUNTERS.open("w") as file:
            for line in lines:
                file.write(line + "\n")
                file.flush()
    except OSError as error:
        raise MachineFault(f"the kernel's counters of lines refused {line!r}: {error.strerror}") from error
