"""Checks of what the network did: that it lost, dropped and repeated no more than the scenario asks for, whatever ran on
it. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gradwire.analysis.port_traffic import PortTraffic, ports_traffic
from gradwire.analysis.verdict.checks import Check
from gradwire.analysis.verdict.fault_checks import fault_check
from gradwire.analysis.verdict.host_checks import parameter_checks, resending_keys
from gradwire.analysis.verdict.host_queue_checks import host_queue_checks
from gradwire.analysis.verdict.law_checks import law_checks
from gradwire.analysis.verdict.pause_checks import pause_checks
from gradwire.datatypes.host_settings import HostParameter
from gradwire.datatypes.network_counts import NetworkCounts
from gradwire.datatypes.pauses import PauseState
from gradwire.datatypes.records import FaultRecord, PlannedFault
from gradwire.network.fabric import CONTROL_BAND, Fabric
from gradwire.network.links import Port

DROPS, RETRANSMITS, TABLE_MISSES = "drops", "TCP retransmits", "table misses"
OVERTAKEN_AGAIN = 0.05
"""Share of segments that TCP may send again where flowlets take several ways: hosts have Linux's own rules for what comes
late, which is not a fault of the network. It was 0.5 to 1 % for halving-doubling over 4 spines. Hosts that spray take what
comes in any order, and send nothing again (ANY_ORDER_SYSCTLS, topo/wiring.py)."""
PROBED_SHARE = 0.01
"""Share of the segments that programs' TCP on stock hosts may send again although none was lost: probes of a tail whose
answer is late (RFC 8985), and segments that wait in their own host's queue for longer than its timer. Tuned hosts have
neither. Of a plan, whose messages are known, it is the last segment of each."""
DROPS_MEANING = (
    "A queue overflowed: more was sent than the fabric's queues hold, so it was not lossless, and TCP slowed down. PFC would "
    "have prevented that."
)
INPUT_MEANING = (
    "The kernel lost packets that the network did not drop: its input queue (net.core.netdev_max_backlog) was full. Use fewer "
    "hosts; on the wall clock, raise it with sysctl."
)
HOST_DROPS_MEANING = "A host dropped packets that it was to send, although its memory could hold them."
RETRANSMITS_MEANING = "TCP took a segment for lost: data was sent twice, and a congestion window shrank."
TABLE_MISSES_MEANING = (
    "Switches dropped packets that no rule is for: the controller had not installed one, or a program sent to a MAC address "
    "that no host's port has."
)
PASSED_ON_MEANING = (
    "Switches were given frames that they neither passed on nor counted as dropped, so the network lost what it was to "
    "carry. Either a program sent frames to its own host by way of the network, or something changed the switches' rules, "
    "which is our fault: please report it."
)


@dataclass(frozen=True)
class NetworkState:
    """What is known of a network at the end of a run, and what ran on it."""

    fabric: Fabric
    counts: NetworkCounts
    #: As they were at the end.
    host_parameters: Sequence[HostParameter] = ()
    #: What flow control did; None without.
    pauses: PauseState | None = None
    #: The faults that the scenario asks for.
    faults: Sequence[PlannedFault] = ()
    #: Number of messages that a plan's agents sent; None if programs sent something, whose messages are not known, and which
    #: may be datagrams.
    messages: int | None = None

    @cached_property
    def ports(self) -> list[PortTraffic]:
        """Traffic of the ports that have the network's own queues. What others drop is the programs' doing."""
        return [port for port in ports_traffic(self.fabric, self.counts) if not port.replaced_by]

    @property
    def drops(self) -> int:
        """Packets that all these ports dropped."""
        return sum(port.drops for port in self.ports)

    @property
    def restarts(self) -> bool:
        """Whether a switch restarts, so that its rules are gone for a time."""
        return any(fault.kind == "switch-restart" for fault in self.faults)


def network_checks(state: NetworkState) -> list[Check]:
    """Every check that needs no plan.

    Drops and retransmits are not judged where faults lose packets, nor table misses where a switch restarts. With any
    fault, what switches passed on is not compared with what they were given.
    """
    fabric, counts = state.fabric, state.counts
    return [
        *((_drops(state), *_retransmits(state)) if not fabric.faulty else ()),
        *(() if state.restarts else (_table_misses(counts),)),
        *law_checks(fabric, counts.lines),
        *(() if state.faults else passed_on_check(state)),
        *pause_checks(fabric, state.pauses),
        *host_queue_checks(fabric, counts, tuple(state.faults)),
        *parameter_checks(fabric, state.host_parameters),
    ]


def faults_check(
    state: NetworkState, records: Sequence[FaultRecord], ended_ns: int, ended: str, further: Sequence[str] = ()
) -> Check:
    """Each fault happened as the scenario says; its value names the checks that faults leave no ground for.

    ended: what ended at ended_ns, in words. further: checks of a plan that are left out.
    """
    left_out = [
        *further,
        *((DROPS, RETRANSMITS) if state.fabric.faulty else ()),
        *((TABLE_MISSES,) if state.restarts else ()),
        *(check.name for check in passed_on_check(state)),
    ]
    return fault_check(state.faults, records, ended_ns, ", ".join(left_out), ended)


def _drops(state: NetworkState) -> Check:
    """No port dropped a packet; where links lose some at random, at most six standard deviations and ten more than were
    asked for.

    Finite buffers drop what they must, at switches' ports; those of hosts still drop nothing. Nor does the kernel, ever,
    before it has taken a packet in.
    """
    if unseen := state.counts.input_drops:
        return Check(DROPS, f"{unseen} before the kernel took them in", "0", False, INPUT_MEANING)
    fabric, drops = state.fabric, state.drops
    if fabric.drops:
        hosts = {Port(name, 0).interface for name in fabric.host_names()}
        of_hosts = [port for port in state.ports if port.interface in hosts]
        at_hosts, most = sum(port.drops for port in of_hosts), _most_lost(of_hosts, fabric)
        buffers = " or ".join(map(str, sorted({link.buffer_bytes for link in fabric.links()} - {0})))
        limit = f"{most} at hosts; at switches what {buffers} bytes cannot hold"
        return Check(DROPS, f"{drops}, {at_hosts} of them at hosts", limit, at_hosts <= most, HOST_DROPS_MEANING)
    most = _most_lost(state.ports, fabric)
    own = "".join(
        f"; a program's own: {port.port} has {' and '.join(port.queues)}"
        for port in state.counts.replaced
        if port.queues
    )
    return Check(DROPS, f"{drops}{own}", str(most), drops <= most, DROPS_MEANING)


def _most_lost(ports: Sequence[PortTraffic], fabric: Fabric) -> int:
    """Largest number of packets that these ports may lose at random: at each of them its share of the packets that it
    has sent or lost."""
    losses = fabric.losses
    requested = sum(losses.get(port.interface, 0.0) * (port.packets + port.drops) for port in ports)
    return int(requested + 6 * np.sqrt(requested) + 10) if any(port.interface in losses for port in ports) else 0


def _retransmits(state: NetworkState) -> Iterator[Check]:
    """TCP sent nothing again; where links lose packets, at most every segment of each dropped burst twice.

    With finite buffers, at least what they dropped of the data: of a segment that was sent n times, n - 1 times again,
    one has arrived. At most twice what was dropped, and the last segment of each message, which TCP sends again for a
    probe if its answer is late (RFC 8985). Stock hosts probe so without drops as well. Nothing is known of this where
    programs sent something that may not have been TCP, and nothing anywhere if programs replaced queues, which may drop.
    """
    fabric, counts, sent = state.fabric, state.counts, state.counts.tcp_retransmits
    most = 0 if fabric.is_lossless else 2 * state.drops * max(1, fabric.gso_bytes // fabric.mss_bytes())
    messages = round(PROBED_SHARE * counts.tcp_segments_sent) if state.messages is None else state.messages
    if keys := resending_keys(fabric):
        limit = f"any number, for the scenario sets {', '.join(keys)}"
        yield Check(RETRANSMITS, str(sent), limit, True, "TCP sends again what may not be lost, as the scenario asks.")
    elif fabric.routing.policy.chooses_for_flowlets:
        most = round(OVERTAKEN_AGAIN * counts.tcp_segments_sent)
        limit = f"{most}, {OVERTAKEN_AGAIN:.0%} of the segments"
        yield Check(RETRANSMITS, str(sent), limit, sent <= most, "TCP took for lost what came another way later.")
    elif any(port.queues for port in counts.replaced) or (fabric.drops and state.messages is None):
        return
    elif fabric.drops:
        dropped = sum(band.drops for band in counts.bands if band.band != CONTROL_BAND)
        most += messages
        limit = f"{dropped}, the packets of data that were dropped, to {most}"
        meaning = "Data was dropped and never sent again, or sent again although it was not dropped."
        yield Check(RETRANSMITS, str(sent), limit, dropped <= sent <= most, meaning)
    else:
        most += messages if fabric.host_tcp.is_stock else 0
        yield Check(RETRANSMITS, str(sent), str(most), sent <= most, RETRANSMITS_MEANING)


def _table_misses(counts: NetworkCounts) -> Check:
    """Every packet matched a flow of the controller, which has one for each pair of hosts."""
    missed = counts.table_miss_packets
    return Check(TABLE_MISSES, str(missed), "0", missed == 0, TABLE_MISSES_MEANING)


def passed_on_check(state: NetworkState) -> Iterator[Check]:
    """Yields the check that switches passed on every frame that they were given, except for as many packets as were
    counted as lost: those that switches' ports or their headroom dropped, that met no rule, and that are reports of groups, which rules
    drop. Packets that a host's port drops never reach a switch.

    A switch that copies frames passes on more. Nothing for a run without counters of lines, and for a user's controller,
    whose rules may drop.
    """
    fabric, lines = state.fabric, state.counts.lines
    if not lines or fabric.controller:
        return
    hosts = {*fabric.endpoint_names()}
    ports_of_hosts = {Port(name, 0).interface for name in hosts}
    dropped = sum(port.drops for port in ports_traffic(fabric, state.counts) if port.interface not in ports_of_hosts)
    if state.pauses is not None:
        dropped += sum(count.dropped for count in state.pauses.counts)
    lost_packets = dropped + state.counts.table_miss_packets + state.counts.dropped_reports
    most = sum(line.lost for line in lines) + lost_packets * math.ceil(fabric.gso_bytes / fabric.mss_bytes())
    frames = {line.port: line.frames for line in lines}
    given = passed = 0
    for link in fabric.links():
        for near, far in ((link.a, link.b), (link.b, link.a)):
            if near.device in hosts and far.device not in hosts:
                given += frames.get(near.interface, 0)
                passed += frames.get(far.interface, 0)
    value, limit = f"{passed:,} of {given:,} frames", f"all but {most:,}"
    yield Check("passed on by switches", value, limit, given - passed <= most, PASSED_ON_MEANING)
