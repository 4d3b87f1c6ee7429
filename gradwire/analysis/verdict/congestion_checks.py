"""Checks of the rate, congestion control, marks and windows: a setting that changes nothing must not pass for one that
does not matter. Where links have a delay, they are the limit, and not sockets' windows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from gradwire.analysis.agreement.short_windows import WindowUse
from gradwire.analysis.quantities import quantity
from gradwire.analysis.verdict.checks import Check
from gradwire.analysis.verdict.host_checks import all_ask_for_ecn, sets_tcp
from gradwire.datatypes.host_settings import CONGESTION_KEY
from gradwire.datatypes.network_counts import BandCount
from gradwire.datatypes.plan import Plan
from gradwire.datatypes.records import PointRecord
from gradwire.network.fabric import Fabric
from gradwire.network.links import Port
from gradwire.network.routes import most_trunks_on_way, ports_in_words
from gradwire.network.wire.flows import connections_of

RATE_TOLERANCE = 0.015
"""Separates sound from unsound links: of 4,224 points of the papers' scenarios, the probe was within 0.0035 of 1 in
4,206 (the largest value in calibration is 1.0034), within 0.009 in 4, and 2.46 or more in 14."""
AT_LINE_RATE = frozenset({"", "cubic", "reno"})
"""Congestion controls that fill a line of which nothing is lost or marked."""
QUEUES_MEANING = (
    "Switches' queues hold or mark something else than the scenario asks for, so another network was measured."
)
CONTROL_MEANING = (
    "Some connections used a different congestion control than the scenario asks for, so another network was measured."
)
MARKS_MEANING = (
    "Switches did not mark what they should, or marks did not reach the hosts, so senders did not learn of the queues."
)
SURE_MARKS = 100
"""RED must have marked some where so many packets would be marked just below Kmax: a queue that is on average a
hundredth of the way from Kmin to Kmax makes one mark of them."""
UNBOUNDED = (0, 0, 0)
"""Bounds in the records of a queue that neither drops nor marks."""
WINDOW_TOLERANCE = 0.02
"""By how much windows that hold less than their paths may make an iteration longer: as much as a run may be off an
ideal network before a cause is looked for. Of two hosts at 25 Gbit/s with a round trip of 4 ms, buffers of 4 MiB made
iterations 3.87 times as long, 16 MiB 1.06 times, and the default not longer at all."""
WINDOWS_MEANING = "Sockets' windows, not the links, limited how fast data went: set a larger transport.buffer."


def rate_probe_check(fabric: Fabric, record: PointRecord, congestion: str) -> Check:
    """The burst before iteration 0 took as long as the configured line rate implies.

    At least as long where something slows TCP down: losses, finite buffers, marks, stock hosts' first windows, or a
    congestion control that paces.
    """
    slow, fast = record.rate_probe - 1 > RATE_TOLERANCE, 1 - record.rate_probe > RATE_TOLERANCE
    slows_down = fabric.losses or fabric.has_switch_queues or fabric.host_tcp.is_stock
    is_exact = not slows_down and congestion in AT_LINE_RATE and not sets_tcp(fabric, AT_LINE_RATE)
    return Check(
        "rate probe",
        f"{record.rate_probe:.4f} of the ideal time",
        f"1 within {RATE_TOLERANCE:.1%}" if is_exact else f"at least {1 - RATE_TOLERANCE:.3f}",
        not (fast or (slow and is_exact)),
        "The links did not run at the configured rate, so all times are those of another network.",
    )


def congestion_checks(plan: Plan, fabric: Fabric, record: PointRecord, congestion: str) -> list[Check]:
    """The checks that apply to a run. congestion: the congestion control that was asked for, "" for the kernel's
    default."""
    return [
        *([_queues(fabric, record)] if fabric.has_switch_queues else []),
        *([_control(plan, record, congestion)] if congestion else []),
        *([_control_of_hosts(plan, fabric, record)] if any(fabric.congestion_of_hosts) and not congestion else []),
        *([_marks(plan, fabric, record)] if fabric.marks else []),
    ]


def _queues(fabric: Fabric, record: PointRecord) -> Check:
    """Every queue of a switch's port has the buffer and the threshold asked for,
    and no host's queue has any, as the kernel tells it."""
    hosts = {Port(host, 0).interface for host in fabric.host_names()}
    at_switches = Counter(_bounds(band) for band in record.counts.bands if band.port not in hosts)
    at_hosts = Counter(_bounds(band) for band in record.counts.bands if band.port in hosts)
    if fabric.link_settings or not fabric.is_tiered:
        return _different_queues(fabric, record, hosts)
    limit_bytes, threshold_bytes = fabric.switch_queue_bytes
    asked = (limit_bytes, threshold_bytes, _all_from(fabric, threshold_bytes))
    others = sorted((at_switches - Counter({asked: at_switches[asked]})).items())
    differing = "".join(
        f"; {count} hold {limit}, mark from {some} and all from {all_}" for (limit, some, all_), count in others
    )
    bounded_hosts = at_hosts.total() - at_hosts[UNBOUNDED]
    return Check(
        "switch queues",
        f"{at_switches[asked]} of {at_switches.total()} as asked for{differing}; {bounded_hosts} at hosts",
        f"each holds {limit_bytes} bytes and marks from {threshold_bytes} (0: never); none at hosts",
        not others and not bounded_hosts,
        QUEUES_MEANING,
    )


def _different_queues(fabric: Fabric, record: PointRecord, hosts: Collection[str]) -> Check:
    """Checks the limits and thresholds of queues where links may differ in them."""
    asked = fabric.queue_bytes_by_port()
    wrong = []
    for band in record.counts.bands:
        limit_bytes, threshold_bytes = asked.get(band.port, (0, 0))
        if band.port in hosts:
            limit_bytes = threshold_bytes = 0
        if _bounds(band) != (limit_bytes, threshold_bytes, _all_from(fabric, threshold_bytes)) and (
            band.port in asked or any(_bounds(band))
        ):
            wrong.append(band)
    words = ports_in_words(fabric)
    told = (
        f"; {words[wrong[0].port]} holds {wrong[0].limit_bytes} and marks from {wrong[0].threshold_bytes}"
        if wrong
        else ""
    )
    return Check(
        "switch queues",
        f"{len(record.counts.bands) - len(wrong)} of {len(record.counts.bands)} as asked for{told}",
        "each holds and marks as its link says; none at hosts",
        not wrong,
        QUEUES_MEANING,
    )


def _all_from(fabric: Fabric, threshold_bytes: int) -> int:
    """The length from which on a queue marks all packets, if it marks some from another one on."""
    return (fabric.ecn_most_bytes or threshold_bytes) if threshold_bytes else 0


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
    differing = f"; others have {', '.join(others)}" if others else ""
    return Check(
        "congestion control",
        f"{congestion} at {having} of {expected} connections, with windows of {least} to {most} segments{differing}",
        f"{congestion} at both ends of each",
        having == len(sockets) == expected and not others,
        CONTROL_MEANING,
    )


def _control_of_hosts(plan: Plan, fabric: Fabric, record: PointRecord) -> Check:
    """Both ends of every connection have the congestion control that is asked of their host's kernel, where one is."""
    asked = fabric.congestion_of_hosts
    sockets = [state for agent in record.agents for state in agent.sockets]
    having = sum(asked[state.src_host] in ("", state.congestion) for state in sockets)
    ends = {asked[connection.dst_host] for connection in connections_of(plan)}
    accepted = {name for agent in record.agents for name in agent.accepted_congestion}
    others = sorted(accepted - ends) if "" not in ends else []
    differing = f"; receivers have {', '.join(others)}" if others else ""
    names = ", ".join(sorted({state.congestion for state in sockets}))
    expected = len(connections_of(plan))
    return Check(
        "congestion control",
        f"as asked of their hosts at {having} of {expected} connections, which have {names or 'none'}{differing}",
        f"{CONGESTION_KEY} at both ends of each",
        having == len(sockets) == expected and not others,
        CONTROL_MEANING,
    )


def _marks(plan: Plan, fabric: Fabric, record: PointRecord) -> Check:
    """Checks that packets were marked if queues passed the threshold, and that hosts saw marks, but no more than were
    made.

    Datagrams cannot be marked. A marked packet that still does not fit is dropped, and past several switches one may be
    marked at each. With one switch, all others arrive.
    """
    above = sum(band.above_threshold for band in record.counts.bands)
    marks = sum(band.marks for band in record.counts.bands)
    drops = sum(band.drops for band in record.counts.bands)
    arrived = record.counts.marked_arrivals
    frames = max(1, fabric.gso_bytes // fabric.mss_bytes())
    # RED marks a packet by chance, and few just above Kmin.
    least_above = SURE_MARKS / fabric.ecn_share if fabric.ecn_most_bytes else 0
    marks_are_due = above > least_above and not plan.multicasts() and all_ask_for_ecn(fabric)
    least = 0 if fabric.faulty else min(marks, 1) if most_trunks_on_way(fabric) else marks - drops
    ok = (marks > 0 or not marks_are_due) and least <= arrived <= marks * frames
    return Check(
        "ECN marks",
        f"{marks} of the {above} packets that found more than {_thresholds(fabric)} bytes waiting; {arrived} arrived "
        "at hosts",
        f"some where {'enough packets' if fabric.ecn_most_bytes else 'queues'} passed the threshold, and "
        f"{max(0, least)} to {marks * frames} at hosts",
        ok,
        MARKS_MEANING,
    )


def _thresholds(fabric: Fabric) -> str:
    """The lengths from which queues mark."""
    return " or ".join(str(size_bytes) for size_bytes in sorted({link.ecn_bytes for link in fabric.links()} - {0}))


def window_check(use: WindowUse, asked: bool) -> Check:
    """Checks that connections' windows hold as much as their paths do, or that it does not matter to iterations that
    they do not.

    asked: whether the scenario chose the buffer. It may then be what is to be measured, so the check only tells.
    """
    return Check(
        "windows",
        _short_windows_text(use, asked)
        if use.short
        else f"{use.connections} connections' windows are as large as their round trips need",
        f"windows make iterations at most {1 + WINDOW_TOLERANCE:g} times as long, or the scenario sets transport.buffer or "
        "fabric.hosts",
        asked or not use.decided(WINDOW_TOLERANCE),
        WINDOWS_MEANING,
    )


def _short_windows_text(use: WindowUse, asked: bool) -> str:
    worst = min(use.short, key=lambda window: window.window_bytes / window.path_bytes)
    window, path = quantity(round(worst.window_bytes), "bytes"), quantity(round(worst.path_bytes), "bytes")
    cost = "" if use.slower is None else f", which makes an iteration an estimated {use.slower:.3f} times as long"
    chosen = "; the scenario sets transport.buffer or fabric.hosts" if asked else ""
    return (
        f"{len(use.short)} of {use.connections} connections' windows hold less than their round trips, such as "
        f"{window} of {path} ({worst.ends}, {quantity(worst.round_trip_s, 's')}); sockets were the limit for "
        f"{use.held_back:.0%} of the time that these were busy{cost}{chosen}"
    )
