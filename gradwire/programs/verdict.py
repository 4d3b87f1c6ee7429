"""Checks that the network carried programs' traffic as it should. Pure. Checks that would need a plan to compare with
are left out."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from gradwire.analysis.verdict.checks import Check
from gradwire.analysis.verdict.fault_checks import fault_check
from gradwire.analysis.verdict.host_checks import parameter_checks, resending_keys
from gradwire.analysis.verdict.law_checks import law_checks
from gradwire.analysis.verdict.pause_checks import pause_checks
from gradwire.datatypes.line_counts import LineCount
from gradwire.datatypes.records import PlannedFault
from gradwire.inside.program_protocol import PortTraffic, Report
from gradwire.network.fabric import PREAMBLE_FCS_GAP_BYTES, Fabric

CARRIED = "the network carried all that it was given"
STOCK_RESENT_SHARE = 0.01
"""Share of the segments that TCP on stock hosts may send again although none was lost: probes of a tail whose answer
is late (RFC 8985), and segments that wait in their own host's queue for longer than its timer. Tuned hosts have
neither."""

PASSED_ON_MEANING = (
    "Switches were given frames that they neither passed on nor counted as dropped, so the network lost what it was to "
    "carry: something changed the switches' rules. Please report it."
)


def line_bytes(port: PortTraffic) -> int:
    """Bytes that the port's line carried, with preamble, FCS and gap of every frame."""
    return port.sent_bytes + port.packets * PREAMBLE_FCS_GAP_BYTES


def line_use(port: PortTraffic, duration_s: float) -> float:
    """Mean share of the line that was used; 0 for a run that took no time."""
    return line_bytes(port) * 8 / (port.rate_bps * duration_s) if duration_s > 0 else 0.0


def checks(report: Report, fabric: Fabric, faults: Sequence[PlannedFault] = ()) -> list[Check]:
    """Every check that can be made without a plan.

    With finite buffers, what TCP sends again is not compared with the drops, some of which may be of datagrams; nor
    where the scenario sets what decides that. Where programs replaced queues below a port's shaper, what these drop is
    the programs' doing: the port's drops and TCP's retransmits are not judged. Nor are they where `faults`, which the
    scenario asks for, may lose packets; and rules of switches are not where one restarts. With any fault, what switches
    passed on is not compared with what they were given.
    """
    passed_on = [] if faults else [*passed_on_check(fabric, report.lines, _lost_at_switches(report, fabric))]
    replaced = [port for port in report.ports if port.replaced_by]
    report = msgspec.structs.replace(report, ports=tuple(port for port in report.ports if port not in replaced))
    restarts = any(fault.kind == "switch-restart" for fault in faults)
    is_compared = not (fabric.drops or resending_keys(fabric) or replaced or fabric.faulty)
    resent = [_retransmits(report, fabric)] if is_compared else []
    kept = [_drops(report, fabric, replaced)] if report.ports and not fabric.faulty else []
    ruled = [] if restarts else [_table_misses(report)]
    happened = [_faults(report, fabric, faults, restarts=restarts)] if faults else []
    parameters = parameter_checks(fabric, report.host_parameters)
    controlled = pause_checks(fabric, report.pauses)
    laws = law_checks(fabric, report.lines)
    return [*kept, *resent, *ruled, *laws, *passed_on, *controlled, *parameters, *happened]


def _faults(report: Report, fabric: Fabric, faults: Sequence[PlannedFault], *, restarts: bool) -> Check:
    """Each fault happened as the scenario says; its value names the checks that faults leave no ground for."""
    left_out = [
        *(("drops", "TCP retransmits") if fabric.faulty else ()),
        *(("table misses",) if restarts else ()),
        *(check.name for check in passed_on_check(fabric, report.lines, 0)),
    ]
    ended_ns = round(report.duration_s * 1e9)
    return fault_check(faults, report.faults, ended_ns, ", ".join(left_out), "all programs had ended")


def _lost_at_switches(report: Report, fabric: Fabric) -> int:
    """Number of packets that switches' ports dropped, that met no rule, and that are reports of groups, which rules
    drop. Packets that a host's port drops never reach a switch."""
    hosts = {f"{name}-eth0" for name in fabric.endpoint_names()}
    return sum(port.drops for port in report.ports if port.interface not in hosts) + (
        report.table_misses + report.dropped_reports
    )


def busiest(ports: Sequence[PortTraffic], count: int) -> list[PortTraffic]:
    """The ports that carried most, most first."""
    return sorted(ports, key=line_bytes, reverse=True)[:count]


def _drops(report: Report, fabric: Fabric, replaced: Sequence[PortTraffic]) -> Check:
    """Checks drops, as for a point: there are none, or with losses at most six standard deviations and ten more than
    were asked for."""
    if fabric.drops:
        return _drops_of_buffers(report, fabric)
    drops, limit = sum(port.drops for port in report.ports), _most_lost(report.ports, fabric)
    meaning = "A queue overflowed: programs sent more than the fabric's queues hold, so it was not lossless."
    own = "".join(f"; a program's own: {port.interface} has {' and '.join(port.replaced_by)}" for port in replaced)
    return Check("drops", f"{drops}{own}", str(limit), drops <= limit, meaning)


def _most_lost(ports: Sequence[PortTraffic], fabric: Fabric) -> int:
    """Largest number of packets that these ports may lose at random: at each of them its share of the packets that it
    has sent or lost."""
    losses = fabric.losses
    requested = sum(losses.get(port.interface, 0.0) * (port.packets + port.drops) for port in ports)
    return int(requested + 6 * np.sqrt(requested) + 10) if any(port.interface in losses for port in ports) else 0


def _drops_of_buffers(report: Report, fabric: Fabric) -> Check:
    """Checks drops in a network with finite buffers: switches' ports drop as many as they must, and hosts' ports only
    those that their links lose at random."""
    total, hosts = sum(port.drops for port in report.ports), {f"{name}-eth0" for name in fabric.host_names()}
    of_hosts = [port for port in report.ports if port.interface in hosts]
    at_hosts, most = sum(port.drops for port in of_hosts), _most_lost(of_hosts, fabric)
    buffers = " or ".join(map(str, sorted({link.buffer_bytes for link in fabric.links()} - {0})))
    limit = f"{most} at hosts; at switches what {buffers} bytes cannot hold"
    meaning = "A host dropped what it was to send, which its memory holds."
    return Check("drops", f"{total}, {at_hosts} of them at hosts", limit, at_hosts <= most, meaning)


def _retransmits(report: Report, fabric: Fabric) -> Check:
    sent, drops = report.tcp_retransmits, sum(port.drops for port in report.ports)
    limit = 2 * drops * max(1, fabric.gso_bytes // fabric.mss_bytes()) if fabric.losses else 0
    if fabric.host_tcp.is_stock:
        limit += int(STOCK_RESENT_SHARE * report.tcp_segments)
    meaning = "TCP took a segment for lost: data was sent twice and a congestion window shrank."
    return Check("TCP retransmits", str(sent), str(limit), sent <= limit, meaning)


def _table_misses(report: Report) -> Check:
    """Every packet matched a flow of the controller, which has one for each pair of hosts."""
    missed = report.table_misses
    meaning = (
        "Switches dropped packets that no rule is for, such as those to an address that no host has, or broadcasts."
    )
    return Check("table misses", str(missed), "0", missed == 0, meaning)


def passed_on_check(fabric: Fabric, lines: Sequence[LineCount], lost_packets: int) -> Iterator[Check]:
    """Yields the check that switches passed on every frame that they were given, except for as many packets as were
    counted as lost.

    A switch that copies frames passes on more. Nothing for a run without counters of lines, and for a user's controller,
    whose rules may drop.
    """
    if not lines or fabric.controller:
        return
    frames, lost = {line.port: line.frames for line in lines}, sum(line.lost for line in lines)
    given = passed = 0
    hosts = {*fabric.endpoint_names()}
    for link in fabric.links():
        for near, far in ((link.a, link.b), (link.b, link.a)):
            if near.device in hosts and far.device not in hosts:
                given += frames.get(near.interface, 0)
                passed += frames.get(far.interface, 0)
    most = lost + lost_packets * math.ceil(fabric.gso_bytes / fabric.mss_bytes())
    yield Check(
        "passed on by switches",
        f"{passed:,} of {given:,} frames",
        f"all but {most:,}",
        given - passed <= most,
        PASSED_ON_MEANING,
    )
