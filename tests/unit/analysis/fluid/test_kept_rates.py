"""Rates that a change cannot reach are kept: after any changes, all are those that filling everything anew gives."""

from __future__ import annotations

import numpy as np
import pytest

from gradwire.analysis.fluid.network import FILLED_FLOWS, VARIED, Network, network_of
from gradwire.analysis.fluid.paths import Paths
from gradwire.analysis.fluid.sharing import fill, forget, join, leave

FLOWS, PORTS, BANDS = 60, 12, 2


def paths(draw: np.random.Generator, shares: tuple[float, ...]) -> Paths:
    """Flows of two bands over two to four of the ports, whose rates are few, so that what they leave is often equal. A port has one of
    the shares of a flow's bytes."""
    routes = [draw.choice(PORTS, draw.integers(2, 5), replace=False) for _ in range(FLOWS)]
    return Paths(
        port_bytes_per_ns=draw.choice([1.0, 2.0, 5.0], PORTS),
        port_from=np.zeros(PORTS, np.int64),
        port_to=np.zeros(PORTS, np.int64),
        route_start=np.concatenate([[0], np.cumsum([len(route) for route in routes])]).astype(np.int64),
        route_port=np.concatenate(routes).astype(np.int64),
        route_share=draw.choice(shares, sum(map(len, routes))),
        flow_band=draw.integers(0, BANDS, FLOWS).astype(np.int64),
        flow_goodput_share=np.ones(FLOWS),
        flow_sends=np.ones(FLOWS, np.int64),
        flow_of_send=np.empty(0, np.int64),
        line_bytes=np.empty(0),
        flow_forks=np.zeros(FLOWS, np.bool_),
        hosts=PORTS,
        flow_is_limited=np.zeros(FLOWS, np.bool_),
        flow_bytes_per_ns=0.0,
    )


def filled(network: Network) -> int:
    """Fills all bands; returns how many rates were computed for it."""
    computed = 0
    for band in range(BANDS):
        if network.dirty_count[band]:
            fill(network, band)
            computed += int(network.counts[FILLED_FLOWS])
            forget(network)
    return computed


@pytest.mark.parametrize("shares", [(1.0,), (1.0, 0.5, 0.25)], ids=["one way", "several ways in turn"])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_rates_are_those_of_filling_anew(seed: int, shares: tuple[float, ...]) -> None:
    """After each of 150 changes, of one flow to four at a time; and fewer rates are computed than without keeping any."""
    draw = np.random.default_rng(seed)
    found, active = paths(draw, shares), set[int]()
    keeping, anew = network_of(found, 0.0, 0.0, 1), network_of(found, 0.0, 0.0, 1)
    anew.counts[VARIED] = 1
    computed = of_all = 0
    for _ in range(150):
        for flow in draw.choice(FLOWS, draw.integers(1, 5), replace=False).tolist():
            for network in (keeping, anew):
                (leave if flow in active else join)(network, flow)
            active ^= {flow}
        computed += filled(keeping)
        of_all += filled(anew)
        np.testing.assert_allclose(keeping.flows["rate"], anew.flows["rate"], rtol=1e-11, atol=1e-15)
    assert computed < of_all
