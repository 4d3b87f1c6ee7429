"""Whether the network carried programs' traffic as it should. Pure. What needs a plan to compare with is not
checked."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from gradwire.analysis.verdict.checks import Check
from gradwire.datatypes.fabric import PREAMBLE_FCS_GAP_BYTES, Fabric
from gradwire.programs.program_protocol import PortTraffic, Report

CARRIED = "the network carried all that it was given"
NO_PLAN = ("ops logged", "agent bytes", "port bytes", "band bytes", "upcalls", "lower bound")
"""Checks of a point's verdict that compare with its plan."""
RATE_SLACK = 0.001
"""Tolerates that a port's counters are read a little after the last program has ended, when ACKs may still be on their
way."""


def line_bytes(port: PortTraffic) -> int:
    """What the port's line carried, with preamble, FCS and gap of every frame."""
    return port.sent_bytes + port.packets * PREAMBLE_FCS_GAP_BYTES


def line_use(port: PortTraffic, duration_s: float) -> float:
    """Mean share of the line that was used; 0 for a run that took no time."""
    return line_bytes(port) * 8 / (port.rate_bps * duration_s) if duration_s > 0 else 0.0


def checks(report: Report, fabric: Fabric) -> list[Check]:
    """Every check that can be made without a plan.

    With finite buffers, what TCP sends again is not compared with the drops, some of which may be of datagrams. Where
    programs replaced queues below a port's shaper, what these drop is the programs' doing: the port's drops and TCP's
    retransmits are not judged.
    """
    replaced = [port for port in report.ports if port.replaced_by]
    queues = [_queues(replaced)] if replaced else []
    report = msgspec.structs.replace(report, ports=tuple(port for port in report.ports if port not in replaced))
    resent = [] if fabric.buffer_bytes or replaced else [_retransmits(report, fabric)]
    kept = [_drops(report, fabric)] if report.ports else []
    return [*queues, *kept, *resent, _table_misses(report), *([_line_rate(report, fabric)] if report.ports else [])]


def busiest(ports: Sequence[PortTraffic], count: int) -> list[PortTraffic]:
    """The ports that carried most, most first."""
    return sorted(ports, key=line_bytes, reverse=True)[:count]


def _drops(report: Report, fabric: Fabric) -> Check:
    """As for a point: none, or with losses at most six standard deviations and ten more than were asked for."""
    drops, packets = sum(port.drops for port in report.ports), sum(port.packets for port in report.ports)
    if fabric.buffer_bytes:
        return _drops_of_buffers(report, fabric)
    requested = fabric.loss * packets
    limit = 0 if fabric.loss == 0 else int(requested + 6 * np.sqrt(requested) + 10)
    meaning = "A queue overflowed: programs sent more than the fabric's queues hold, so it was not lossless."
    return Check("drops", str(drops), str(limit), drops <= limit, meaning)


def _drops_of_buffers(report: Report, fabric: Fabric) -> Check:
    """Finite buffers drop what they must, at switches' ports; those of hosts still drop nothing."""
    total, hosts = sum(port.drops for port in report.ports), {f"{name}-eth0" for name in fabric.host_names()}
    at_hosts = sum(port.drops for port in report.ports if port.interface in hosts)
    limit = f"0 at hosts; at switches what {fabric.buffer_bytes} bytes cannot hold"
    meaning = "A host dropped what it was to send, which its memory holds."
    return Check("drops", f"{total}, {at_hosts} of them at hosts", limit, at_hosts == 0, meaning)


def _retransmits(report: Report, fabric: Fabric) -> Check:
    sent, drops = report.tcp_retransmits, sum(port.drops for port in report.ports)
    limit = 0 if fabric.loss == 0 else 2 * drops * max(1, fabric.gso_bytes // fabric.mss_bytes())
    meaning = "TCP took a segment for lost: data was sent twice and a congestion window shrank."
    return Check("TCP retransmits", str(sent), str(limit), sent <= limit, meaning)


def _queues(replaced: Sequence[PortTraffic]) -> Check:
    """Programs may put queues below the bands of their ports, but the line keeps its rate."""
    said = ", ".join(f"{port.interface} has {' and '.join(port.replaced_by)}" for port in replaced)
    meaning = (
        "A program replaced the queues that give its port the line's rate, so the line is as fast as what is there "
        "now. Queues go below a band (`tc qdisc replace dev h1-eth0 parent 1:1 netem ...`); rates, delays and losses "
        "of a link "
        'can be described in the scenario ([fabric.link."h1"]).'
    )
    return Check("queues", said, "each port with its shaper", all(port.is_shaped for port in replaced), meaning)


def _table_misses(report: Report) -> Check:
    """Every packet matched a flow of the controller, which has one for each pair of hosts."""
    missed = report.table_misses
    meaning = (
        "Switches dropped packets that no rule is for, such as those to an address that no host has, or broadcasts."
    )
    return Check("table misses", str(missed), "0", missed == 0, meaning)


def _line_rate(report: Report, fabric: Fabric) -> Check:
    """No port sent more than its line carries in the time, and the burst by which it may run ahead."""
    worst = max(report.ports, key=lambda port: line_use(port, report.duration_s))
    grain_bits = fabric.grain_s(exact_timers=True) * fabric.rate_bps
    limit_bits = worst.rate_bps * report.duration_s * (1 + RATE_SLACK) + grain_bits
    return Check(
        "line rate",
        f"{line_use(worst, report.duration_s):.1%} of {worst.interface}'s",
        "100 %",
        line_bytes(worst) * 8 <= limit_bits,
        "A link ran faster than it was configured, so all times are those of another network.",
    )
