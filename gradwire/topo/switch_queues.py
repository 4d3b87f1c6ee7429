"""Queues of switches' ports that drop what does not fit, and mark what waits behind too much, as arguments of tc. Pure.

Every band has its own queue, and so its own buffer, first come, first served: a switch whose memory is divided among
its ports and traffic classes by fixed limits. Hosts keep their deep queues, for there what waits is in the memory of
the sender, and TCP holds it back.

Marks are those of DCTCP (Alizadeh et al., SIGCOMM 2010, section 3.2): a packet that arrives at a queue longer than K
is marked, and no other. The paper makes them as here, by RED whose two thresholds are K and whose average is the queue
as it is (section 3.1).
"""

from __future__ import annotations

import math

from gradwire.datatypes.fabric import NO_LIMIT_BYTES

MOST_AVERAGED = 1000
"""So many packets that a multiple of their size can still be as close to a threshold as tc wants it."""
UNSHAPED_BPS = 10**12
"""Stands for "no limit" where RED wants the rate at which a queue empties."""


def switch_queue(buffer_bytes: int, ecn_bytes: int, burst_bytes: int, rate_bps: float) -> list[str]:
    """The queue of a band at a switch's port of line rate `rate_bps` that has a buffer or marks; either may be 0.

    tc counts bytes as it sees frames, without preamble, FCS and gap. RED has the order not to drop what cannot be
    marked, such as datagrams: the buffer alone drops.
    """
    limit, threshold = str(buffer_bytes or NO_LIMIT_BYTES), str(ecn_bytes)
    if not ecn_bytes:
        return ["bfifo", "limit", limit]
    packets, packet_bytes = averaged_packets(ecn_bytes, burst_bytes)
    rate = f"{UNSHAPED_BPS if math.isinf(rate_bps) else round(rate_bps)}bit"
    average = ["avpkt", str(packet_bytes), "burst", str(packets), "bandwidth", rate]
    return ["red", "limit", limit, "min", threshold, "max", threshold, *average, "probability", "1", "ecn", "nodrop"]


def averaged_packets(threshold_bytes: int, burst_bytes: int) -> tuple[int, int]:
    """RED's `burst` and `avpkt` for which tc takes the shortest memory that it can: half of the weight is the newest
    arrival's.

    tc derives the weight w from them (tc_red_eval_ewma of iproute2): the largest power of 1/2, from 1/2 on, for which
    burst + 1 - min / avpkt <= (1 - (1 - w)^burst) / w. The left side has to be 1 at least, and is about 1 where min is
    a multiple of avpkt.
    """
    packets = min(max(1, threshold_bytes // burst_bytes), MOST_AVERAGED)
    return packets, math.ceil(threshold_bytes / packets)
