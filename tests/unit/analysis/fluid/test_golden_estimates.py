"""Estimates as they were before flows had lags: where no link has a delay, and where all flows come to a port after the same one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gradwire.analysis.fluid.estimate import Buffered, Departure, SendEnds, estimate
from gradwire.network.fabric import Fabric, Topology
from gradwire.network.graph_shapes import Ring
from gradwire.network.network_graph import spread
from gradwire.runs.stored.spines import Spines
from gradwire.workloads.patterns import Transfer, all_to_all, compile_transfers, incast, one, ring

STAR = Fabric(6, 8e9, classes=3)
LEAF_SPINE = Fabric(hosts=8, rate_bps=8e9, topology=Topology.LEAF_SPINE, leaves=2, spines=2, oversubscription=2.0)
RING = Fabric(6, 8e9, Topology.RING, classes=1, graph=spread(6, 6, Ring(6).pairs(), 8e9, "a ring"))
FABRICS = {
    "star": STAR,
    "star, 50 us": replace(STAR, delay_s=5e-5),
    "star, 4 ms": replace(STAR, delay_s=4e-3),
    "leaf-spine": LEAF_SPINE,
    "ring of 6": RING,
    "limited": replace(STAR, flow_rate_bps=3e9),
}
SIZE_BYTES = 3_000_001
RULES: dict[str, SendEnds] = {"departure": Departure(), "buffered": Buffered(700_000)}


def patterns(hosts: int) -> dict[str, list[Transfer]]:
    return {
        "one": one(SIZE_BYTES),
        "incast": incast(hosts, SIZE_BYTES),
        "ring": ring(hosts, SIZE_BYTES),
        "all-to-all": all_to_all(hosts, SIZE_BYTES // 7),
        "mixed": [
            Transfer(source, (source * 3 + 1) % hosts, 100_003 * (1 + source), messages=3)
            for source in range(hosts)
            if source != (source * 3 + 1) % hosts
        ],
    }


def found() -> dict[tuple[str, str, str], float]:
    """Time of an iteration by network, pattern and rule."""
    times = {}
    for name, fabric in FABRICS.items():
        for pattern, transfers in patterns(fabric.hosts).items():
            plan = compile_transfers("some", fabric.hosts, transfers)
            for rule, send_ends in RULES.items():
                times[name, pattern, rule] = estimate(
                    plan, fabric, Spines(fabric).spine_of, send_ends=send_ends
                ).iteration_s
    return times


EXPECTED_S = {
    ("star", "one", "departure"): 0.0031868730179558,
    ("star", "one", "buffered"): 0.003186873017955798,
    ("star", "incast", "departure"): 0.01593300553176795,
    ("star", "incast", "buffered"): 0.015933005531767956,
    ("star", "ring", "departure"): 0.0031871449295580107,
    ("star", "ring", "buffered"): 0.0031871449295580107,
    ("star", "all-to-all", "departure"): 0.0022767232803867403,
    ("star", "all-to-all", "buffered"): 0.0022767232803867403,
    ("star", "mixed", "departure"): 0.001275096531767956,
    ("star", "mixed", "buffered"): 0.001275028553867403,
    ("star, 50 us", "one", "departure"): 0.0033868730179558012,
    ("star, 50 us", "one", "buffered"): 0.0033868730179557995,
    ("star, 50 us", "incast", "departure"): 0.016133005531767955,
    ("star, 50 us", "incast", "buffered"): 0.016133005531767962,
    ("star, 50 us", "ring", "departure"): 0.00348707695165746,
    ("star, 50 us", "ring", "buffered"): 0.003487076951657458,
    ("star, 50 us", "all-to-all", "departure"): 0.0025767232803867402,
    ("star, 50 us", "all-to-all", "buffered"): 0.0025767232803867402,
    ("star, 50 us", "mixed", "departure"): 0.0015750285538674038,
    ("star, 50 us", "mixed", "buffered"): 0.0015750285538674033,
    ("star, 4 ms", "one", "departure"): 0.019186873017955804,
    ("star, 4 ms", "one", "buffered"): 0.01918687301795579,
    ("star, 4 ms", "incast", "departure"): 0.03193300553176795,
    ("star, 4 ms", "incast", "buffered"): 0.03193300553176795,
    ("star, 4 ms", "ring", "departure"): 0.027187076951657466,
    ("star, 4 ms", "ring", "buffered"): 0.027187076951657452,
    ("star, 4 ms", "all-to-all", "departure"): 0.026276723280386736,
    ("star, 4 ms", "all-to-all", "buffered"): 0.026276723280386736,
    ("star, 4 ms", "mixed", "departure"): 0.0252750285538674,
    ("star, 4 ms", "mixed", "buffered"): 0.0252750285538674,
    ("leaf-spine", "one", "departure"): 0.003187008973756904,
    ("leaf-spine", "one", "buffered"): 0.003187008973756904,
    ("leaf-spine", "incast", "departure"): 0.022306207744475143,
    ("leaf-spine", "incast", "buffered"): 0.022306207744475143,
    ("leaf-spine", "ring", "departure"): 0.00318741684116022,
    ("leaf-spine", "ring", "buffered"): 0.00318741684116022,
    ("leaf-spine", "all-to-all", "departure"): 0.0036426212928176785,
    ("leaf-spine", "all-to-all", "buffered"): 0.0036426212928176785,
    ("leaf-spine", "mixed", "departure"): 0.0013815892237569066,
    ("leaf-spine", "mixed", "buffered"): 0.0013815892237569061,
    ("ring of 6", "one", "departure"): 0.0031868730179558,
    ("ring of 6", "one", "buffered"): 0.003186873017955798,
    ("ring of 6", "incast", "departure"): 0.01593300553176795,
    ("ring of 6", "incast", "buffered"): 0.015933005531767956,
    ("ring of 6", "ring", "departure"): 0.0031871449295580107,
    ("ring of 6", "ring", "buffered"): 0.0031871449295580107,
    ("ring of 6", "all-to-all", "departure"): 0.002731931980662985,
    ("ring of 6", "all-to-all", "buffered"): 0.002731931980662985,
    ("ring of 6", "mixed", "departure"): 0.001275096531767956,
    ("ring of 6", "mixed", "buffered"): 0.001275028553867403,
    ("limited", "one", "departure"): 0.008497761565377536,
    ("limited", "one", "buffered"): 0.008497761565377532,
    ("limited", "incast", "departure"): 0.01593300553176795,
    ("limited", "incast", "buffered"): 0.015933005531767956,
    ("limited", "ring", "departure"): 0.008497920180478829,
    ("limited", "ring", "buffered"): 0.008497920180478822,
    ("limited", "all-to-all", "departure"): 0.0022767232803867403,
    ("limited", "all-to-all", "buffered"): 0.0022767232803867403,
    ("limited", "mixed", "departure"): 0.001770831390423572,
    ("limited", "mixed", "buffered"): 0.0017708313904235729,
}
"""By the engine of 2026-11-25, which had all bytes of a flow at all its ports at once."""


def test_equal_delays_change_nothing() -> None:
    assert found() == pytest.approx(EXPECTED_S, rel=1e-9)
