"""Checks of the queues of hosts' ports where the network is described by what these do: they pause, lose or delay packets,
or limit what one connection gets. Elsewhere programs may have any queues, for the law of lines holds."""

from __future__ import annotations

from collections.abc import Iterator

from gradwire.analysis.verdict.checks import Check
from gradwire.datatypes.network_counts import NetworkCounts
from gradwire.datatypes.records import PlannedFault
from gradwire.network.fabric import Fabric
from gradwire.network.routes import ports_in_words

KINDS_AT_PORTS = ("loss", "delay", "rate")
"""Faults that are carried out by the queues at both ends of a link."""
MEANING = (
    "The scenario describes what these queues do, and a program changed them (`tc`) or passed them by "
    "(PACKET_QDISC_BYPASS), so the network was another one. Leave the port's queues alone, or take that out of the scenario."
)


def host_queue_checks(fabric: Fabric, counts: NetworkCounts, faults: tuple[PlannedFault, ...]) -> Iterator[Check]:
    """Yields the check that the ports of hosts whose queues are described kept them, and sent everything through them;
    nothing for a run without programs, or of which no queue is described."""
    described = _described(fabric, faults)
    if counts.changed_ports is None or not described:
        return
    changed = {*counts.changed_ports, *(port.port for port in counts.replaced)}
    queued = dict.fromkeys(described, 0)
    for band in counts.bands:
        if band.port in queued:
            queued[band.port] += band.packets_sent
    frames = {line.port: line.frames for line in counts.lines}
    passed_by = {port: beyond for port in described if (beyond := frames.get(port, 0) - queued[port]) > 0}
    words = ports_in_words(fabric)
    wrong = [f"{words[port]} was changed" for port in described if port in changed]
    wrong += [f"{count:,} frames passed by {words[port]}" for port, count in passed_by.items() if port not in changed]
    said = f"{len(described) - len(wrong)} of {len(described)} kept" + "".join(f"; {each}" for each in wrong[:1])
    whose = ", ".join(sorted({*described.values()}))
    yield Check("queues of hosts", said, f"all, for {whose}", not wrong, MEANING)


def _described(fabric: Fabric, faults: tuple[PlannedFault, ...]) -> dict[str, str]:
    """The ports of hosts whose queues are described, and by what."""
    hosts = {*fabric.endpoint_names()}
    ends = [(end, (link.a.interface, link.b.interface)) for link in fabric.links() for end in (link.a, link.b)]
    described: dict[str, str] = {}
    for end, both in ends:
        if end.device not in hosts:
            continue
        at_link = [fault.name for fault in faults if fault.kind in KINDS_AT_PORTS and fault.place in both]
        if fabric.lossless is not None:
            described[end.interface] = "fabric.lossless"
        elif fabric.flow_rate_bps:
            described[end.interface] = "fabric.flow_rate"
        elif end.interface in fabric.losses:
            described[end.interface] = "losses of links"
        elif at_link:
            described[end.interface] = f"fault.{at_link[0]}"
    return described
