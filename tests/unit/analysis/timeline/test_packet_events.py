"""Captured packets on a timeline."""

from __future__ import annotations

import numpy as np

from gradwire.analysis.packets.capture_files import CapturedPackets
from gradwire.analysis.timeline.packet_events import packet_events


def test_a_packet_lasts_as_long_as_its_line_is_busy_and_to_the_next_at_most() -> None:
    ones = np.ones(3, np.int64)
    packets = CapturedPackets(
        np.array([1000, 2000, 2100]), np.array([True, True, True]), ones, ones, 1226 * ones, 0 * ones
    )
    slices = [event for event in packet_events("h1-eth0", packets, 1e10, 1000, 1) if event["ph"] == "X"]
    assert [(event["ts"], event["dur"]) for event in slices] == [(0.0, 1.0), (1.0, 0.1), (1.1, 1.0)]
    assert {event["tid"] for event in slices} == {1}
    assert slices[0]["name"] == "1,226 bytes"
