"""Checks of what got lost, was sent again, and was probed: nothing on a lossless fabric, and on others as much as was asked for."""

from __future__ import annotations

import numpy as np

from gradwire.analysis.verdict.checks import Check
from gradwire.datatypes.fabric import CONTROL_BAND, Fabric
from gradwire.datatypes.records import PointRecord

RATE_TOLERANCE = 0.015
"""Separates sound from unsound links: of 4,224 points of the papers' scenarios, the probe was within 0.0035 of 1 in 4,206
(the largest value in calibration is 1.0034), within 0.009 in 4, and 2.46 or more in 14."""
AT_LINE_RATE = frozenset({"", "cubic", "reno"})
"""Congestion controls that fill a line of which nothing is lost or marked."""


def drops_check(fabric: Fabric, record: PointRecord) -> Check:
    """No port dropped a packet; on a lossy fabric, the drops exceed the requested loss by at most six standard deviations and ten.

    Finite buffers drop what they must, at switches' ports; those of hosts still drop nothing.
    """
    meaning = "A queue overflowed: the fabric was not lossless and TCP slowed down, which PFC would have prevented."
    drops = {band.port: 0 for band in record.counts.bands}
    for band in record.counts.bands:
        drops[band.port] += band.drops
    total = sum(drops.values())
    if fabric.drops:
        at_hosts = sum(drops.get(f"{host}-eth0", 0) for host in fabric.host_names())
        value = f"{total}, {at_hosts} of them at hosts"
        limit = f"0 at hosts; at switches what {_buffers(fabric)} bytes cannot hold"
        return Check(
            "drops", value, limit, at_hosts == 0, "A host dropped what it was to send, which its memory holds."
        )
    losses = fabric.losses
    requested = sum(losses.get(band.port, 0.0) * band.packets_sent for band in record.counts.bands)
    if fabric.loss:
        requested = max(requested, fabric.loss * sum(band.packets_sent for band in record.counts.bands))
    most = int(requested + 6 * np.sqrt(requested) + 10) if losses else 0
    return Check("drops", str(total), str(most), total <= most, meaning)


def retransmits_check(fabric: Fabric, record: PointRecord) -> Check:
    """TCP sent nothing again; on a lossy fabric, at most every segment of each dropped burst twice.

    With finite buffers, at least what they dropped of the data: of a segment that was sent n times, n - 1 times again, one has arrived. At
    most twice what was dropped, and the last segment of each message, which TCP sends again for a probe if its answer is late (RFC 8985).
    """
    sent, counts = record.counts.tcp_retransmits, record.counts.bands
    drops = sum(band.drops for band in counts)
    most = 0 if fabric.is_lossless else 2 * drops * max(1, fabric.gso_bytes // fabric.mss_bytes())
    if fabric.drops:
        dropped = sum(band.drops for band in counts if band.band != CONTROL_BAND)
        most += sum(agent.messages_sent for agent in record.agents)
        limit = f"{dropped}, the packets of data that were dropped, to {most}"
        meaning = "Data was dropped and never sent again, or sent again although it was not dropped."
        return Check("TCP retransmits", str(sent), limit, dropped <= sent <= most, meaning)
    return Check(
        "TCP retransmits",
        str(sent),
        str(most),
        sent <= most,
        "TCP took a segment for lost: data was sent twice and a congestion window shrank.",
    )


def rate_probe_check(fabric: Fabric, record: PointRecord, congestion: str) -> Check:
    """The burst before iteration 0 took as long as the configured line rate implies.

    At least as long where something slows TCP down: losses, finite buffers, marks, or a congestion control that paces.
    """
    slow, fast = record.rate_probe - 1 > RATE_TOLERANCE, 1 - record.rate_probe > RATE_TOLERANCE
    is_exact = not fabric.losses and not fabric.has_switch_queues and congestion in AT_LINE_RATE
    return Check(
        "rate probe",
        f"{record.rate_probe:.4f} of the ideal time",
        f"1 within {RATE_TOLERANCE:.1%}" if is_exact else f"at least {1 - RATE_TOLERANCE:.3f}",
        not (fast or (slow and is_exact)),
        "The links did not run at the configured rate, so all times are those of another network.",
    )


def _buffers(fabric: Fabric) -> str:
    """What queues hold, where they drop."""
    return " or ".join(str(size_bytes) for size_bytes in sorted({link.buffer_bytes for link in fabric.links()} - {0}))
