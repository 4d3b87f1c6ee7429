"""Checks that congestion control and marks acted: a knob that changes nothing must not pass for one that does not matter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from gradwire.analysis.verdict.checks import Check
from gradwire.datatypes.fabric import Fabric
from gradwire.datatypes.plan import Plan
from gradwire.datatypes.records import BandCount, PointRecord
from gradwire.datatypes.wire.flows import connections_of

QUEUES_MEANING = (
    "Switches' queues hold or mark something else than the scenario asks for, so another network was measured."
)
CONTROL_MEANING = "Connections had another congestion control than the one asked for, so another network was measured."
MARKS_MEANING = (
    "Switches did not mark what they should, or marks did not reach the hosts, so senders did not learn of the queues."
)

UNBOUNDED = (0, 0, 0)
"""Of a queue that neither drops nor marks, as records have it."""


def congestion_checks(plan: Plan, fabric: Fabric, record: PointRecord, congestion: str) -> list[Check]:
    """The checks that there is ground for. congestion: what was asked for, "" for the kernel's default."""
    return [
        *([_queues(fabric, record)] if fabric.has_switch_queues else []),
        *([_control(plan, record, congestion)] if congestion else []),
        *([_marks(plan, fabric, record)] if fabric.marks else []),
    ]


def _queues(fabric: Fabric, record: PointRecord) -> Check:
    """Every queue of a switch's port has the buffer and the threshold asked for, and no host's queue has any, as the kernel tells it."""
    hosts = {f"{host}-eth0" for host in fabric.host_names()}
    at_switches = Counter(_bounds(band) for band in record.counts.bands if band.port not in hosts)
    at_hosts = Counter(_bounds(band) for band in record.counts.bands if band.port in hosts)
    if fabric.link_settings or fabric.graph is not None:
        return _different_queues(fabric, record, hosts)
    limit_bytes, threshold_bytes = fabric.switch_queue_bytes
    asked = (limit_bytes, threshold_bytes, threshold_bytes)
    others = sorted((at_switches - Counter({asked: at_switches[asked]})).items())
    told = "".join(
        f"; {count} hold {limit}, mark from {some} and all from {all_}" for (limit, some, all_), count in others
    )
    bounded_hosts = at_hosts.total() - at_hosts[UNBOUNDED]
    return Check(
        "switch queues",
        f"{at_switches[asked]} of {at_switches.total()} as asked for{told}; {bounded_hosts} at hosts",
        f"each holds {limit_bytes} bytes and marks from {threshold_bytes} (0: never); none at hosts",
        not others and not bounded_hosts,
        QUEUES_MEANING,
    )


def _different_queues(fabric: Fabric, record: PointRecord, hosts: Collection[str]) -> Check:
    """The same where links may differ in their buffers and thresholds."""
    asked = fabric.queue_bytes_by_port()
    wrong = []
    for band in record.counts.bands:
        limit_bytes, threshold_bytes = asked.get(band.port, (0, 0))
        if band.port in hosts:
            limit_bytes = threshold_bytes = 0
        if _bounds(band) != (limit_bytes, threshold_bytes, threshold_bytes) and (
            band.port in asked or any(_bounds(band))
        ):
            wrong.append(band)
    told = f"; {wrong[0].port} holds {wrong[0].limit_bytes} and marks from {wrong[0].threshold_bytes}" if wrong else ""
    return Check(
        "switch queues",
        f"{len(record.counts.bands) - len(wrong)} of {len(record.counts.bands)} as asked for{told}",
        "each holds and marks as its link says; none at hosts",
        not wrong,
        QUEUES_MEANING,
    )


def _bounds(band: BandCount) -> tuple[int, int, int]:
    return band.limit_bytes, band.threshold_bytes, band.all_marked_bytes


def _control(plan: Plan, record: PointRecord, congestion: str) -> Check:
    """Both ends of every connection have the congestion control asked for, as read back from the sockets."""
    sockets = [state for agent in record.agents for state in agent.sockets]
    having = sum(state.congestion == congestion for state in sockets)
    accepted = {name for agent in record.agents for name in agent.accepted_congestion}
    expected = len(connections_of(plan))
    others = sorted((accepted | {state.congestion for state in sockets}) - {congestion})
    least = min((state.least_window for state in sockets), default=0)
    most = max((state.most_window for state in sockets), default=0)
    told = f"; others have {', '.join(others)}" if others else ""
    return Check(
        "congestion control",
        f"{congestion} at {having} of {expected} connections, with windows of {least} to {most} segments{told}",
        f"{congestion} at both ends of each",
        having == len(sockets) == expected and not others,
        CONTROL_MEANING,
    )


def _marks(plan: Plan, fabric: Fabric, record: PointRecord) -> Check:
    """Where queues passed the threshold, packets were marked, and hosts saw marks, no more than were made.

    Datagrams cannot be marked. A marked packet that still does not fit is dropped, and past several switches one may be marked at each.
    With one switch, all others arrive.
    """
    above = sum(band.above_threshold for band in record.counts.bands)
    marks = sum(band.marks for band in record.counts.bands)
    drops = sum(band.drops for band in record.counts.bands)
    arrived = record.counts.marked_arrivals
    frames = max(1, fabric.gso_bytes // fabric.mss_bytes())
    marks_are_due = above > 0 and not plan.multicasts()
    least = 0 if fabric.faulty else min(marks, 1) if fabric.most_trunks_on_way else marks - drops
    ok = (marks > 0 or not marks_are_due) and least <= arrived <= marks * frames
    return Check(
        "ECN marks",
        f"{marks} of the {above} packets that found more than {_thresholds(fabric)} bytes waiting; {arrived} arrived at hosts",
        f"some where queues passed the threshold, and {max(0, least)} to {marks * frames} at hosts",
        ok,
        MARKS_MEANING,
    )


def _thresholds(fabric: Fabric) -> str:
    """The lengths from which queues mark."""
    return " or ".join(str(size_bytes) for size_bytes in sorted({link.ecn_bytes for link in fabric.links()} - {0}))
