"""The traffic of ports, from what a network counted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gradwire.analysis.port_traffic import ports_traffic
from gradwire.datatypes.network_counts import BandCount, LineCount, NetworkCounts, ReplacedQueues
from gradwire.network.fabric import Fabric

FABRIC = Fabric(2, 10e9)
BANDS = (BandCount("h1-eth0", 1, 2000, 2, 1), BandCount("h1-eth0", 0, 500, 5, 0))


COUNTS = NetworkCounts(BANDS, 0, 0, upcalls=0, table_miss_packets=0)


def test_a_port_sends_what_its_bands_send() -> None:
    (port,) = ports_traffic(FABRIC, COUNTS)
    assert (port.interface, port.rate_bps, port.sent_bytes, port.packets, port.drops) == ("h1-eth0", 10e9, 2500, 7, 1)
    assert port.band_bytes == (500, 2000)
    assert port.line_bytes == 2500 + 7 * 24
    assert port.line_use(1e-6) == pytest.approx(port.line_bytes * 8 / 10e9 / 1e-6)


def test_a_line_knows_better_than_queues_what_was_sent() -> None:
    line = LineCount("h1-eth0", True, 9, 9000, 0, 1, 1, 2)
    (port,) = ports_traffic(FABRIC, replace(COUNTS, lines=(line,)))
    assert (port.sent_bytes, port.packets, port.drops) == (9000, 9, 1)


def test_queues_that_programs_put_there_are_named_and_have_no_bands() -> None:
    other = ReplacedQueues("h2-eth0", ("root netem",), 100, 1, 7)
    mine, port = ports_traffic(FABRIC, replace(COUNTS, replaced=(other,)))
    assert (port.interface, port.sent_bytes, port.drops, port.band_bytes) == ("h2-eth0", 100, 7, ())
    assert (mine.replaced_by, port.replaced_by) == ((), ("root netem",))
