"""What calibration sends beside plain transfers."""

from __future__ import annotations

import numpy as np
import pytest

from gradwire.datatypes.plan import OpKind
from gradwire.network.fabric import Fabric
from gradwire.runs.calibrate import REQUEST_BYTES, ROUND_TRIPS, duplex, request_response, round_trips_s
from gradwire.workloads.checker import check
from gradwire.workloads.patterns import compile_transfers


def test_each_response_follows_its_request_and_the_next_request_its_response() -> None:
    plan = request_response(3)
    check(plan)
    sends = np.flatnonzero(plan.ops.kind == OpKind.SEND)
    assert plan.ops.rank[sends].tolist() == [0, 1] * ROUND_TRIPS
    assert set(plan.ops.size_bytes[sends].tolist()) == {REQUEST_BYTES}


def test_a_round_trip_ideally_takes_four_frames_time() -> None:
    # 1,000 bytes, a header of 48 + 1, IP and TCP's 52, and 38 of Ethernet: 1,139 bytes on the line.
    assert round_trips_s(Fabric(3, 10e9)) / ROUND_TRIPS == pytest.approx(4 * 1139 * 8 / 10e9)


def test_both_directions_are_sent_at_once() -> None:
    plan = compile_transfers("duplex", 3, duplex(64_000))
    check(plan)
    data = plan.ops.traffic_class >= 0
    assert plan.ops.rank[data & (plan.ops.kind == OpKind.SEND)].tolist() == [0, 1]
