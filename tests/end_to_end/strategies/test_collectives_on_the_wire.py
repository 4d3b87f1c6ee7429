"""Today's all-reduces on the wire, of one bucket: as long as the ideal network and their closed forms of latency and bytes say."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gradwire.analysis.fluid.estimate import estimate
from gradwire.analysis.iterations import iteration_times_s
from gradwire.network.fabric import Fabric, MulticastGroup, Topology
from gradwire.runs.compiling.ideal_times import fluid_times
from gradwire.runs.replay import replay_plans
from gradwire.workloads.engines.collectives.choice import PIECE_BYTES
from gradwire.workloads.engines.collectives.schedule import Collective
from tests.unit.workloads.engines.collectives.test_algorithms import replayed
from tests.unit.workloads.engines.collectives.test_rules import one_bucket

pytestmark = pytest.mark.kernel

WORKERS, ITERATIONS, RATE_BPS = 8, 2, 10e9
LATENCY_S = 1e-3
LARGE = WORKERS * 4 * PIECE_BYTES // 4
FABRIC = Fabric(hosts=WORKERS, rate_bps=RATE_BPS)
WHOLE_S = LARGE * 4 * 8 / (RATE_BPS * FABRIC.goodput_share())

SHARED = 0.06
"""Up to three connections share a port in a tree, for the time of a piece each: TCP does not divide it as evenly as an ideal network."""


@pytest.mark.parametrize(
    ("options", "values", "least_s", "most_s", "agreement"),
    [
        # Three hops up and three down; and twice the data through a member's port, and at most a third of it before all are at work.
        ({"algorithm": "double-tree"}, 16, 6 * LATENCY_S, 6.3 * LATENCY_S, 0.02),
        ({"algorithm": "double-tree"}, LARGE, 2 * WHOLE_S, 2.5 * WHOLE_S, SHARED),
        ({"channels": 2}, 16, 14 * LATENCY_S, 14.7 * LATENCY_S, 0.02),
        ({"channels": 2}, LARGE, 2 * 7 / 8 * WHOLE_S, 1.02 * 2 * 7 / 8 * WHOLE_S, 0.02),
    ],
    ids=["double tree, short", "double tree, long", "two channels, short", "two channels, long"],
)  # fmt: skip
def test_all_reduces_take_as_long_as_their_closed_forms(
    virtual_kernel: Path, options: dict[str, Any], values: int, least_s: float, most_s: float, agreement: float
) -> None:
    plan = one_bucket(values, WORKERS, options, latency_s=LATENCY_S if values < LARGE else 0.0)
    (run,) = replay_plans({"ddp": plan}, FABRIC, ITERATIONS).values()
    measured_s = float(iteration_times_s(run.plan, run.log, ITERATIONS)[-1])
    assert measured_s == pytest.approx(estimate(plan, FABRIC).iteration_s, rel=agreement)
    assert least_s * 0.99 <= measured_s - plan.compute_s <= most_s


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (Collective.ALL_TO_ALL, "pairwise"),
        (Collective.ALL_TO_ALL, "two-level"),
        (Collective.BROADCAST, "scatter-gather"),
        (Collective.REDUCE_SCATTER, "recursive-halving"),
    ],
)  # fmt: skip
def test_replayed_collectives_reach_whom_they_are_for(virtual_kernel: Path, kind: Collective, name: str) -> None:
    """The agents' ledgers end a run in which anybody lacks a contribution."""
    plan = replayed(kind, name, WORKERS, per_machine=2)
    fabric = Fabric(hosts=WORKERS // 2, rate_bps=RATE_BPS)
    (run,) = replay_plans({"replay": plan}, fabric, ITERATIONS).values()
    assert float(iteration_times_s(run.plan, run.log, ITERATIONS)[-1]) < 1e-3


def test_switches_that_add_and_copy_take_as_long_as_can_be_said_by_hand(virtual_kernel: Path) -> None:
    """Every line carries a part once, of an all-gather those of seven others. What a switch adds arrives a piece later, a 64th of all."""
    size = WORKERS << 20
    goodput, copied = (RATE_BPS * share / 8 for share in (FABRIC.goodput_share(), FABRIC.multicast_goodput_share()))
    expected_s = {
        Collective.ALL_REDUCE: size * (1 + 1 / 64) / goodput,
        Collective.REDUCE_SCATTER: size * (7 / 8 + 1 / 64) / goodput,
        Collective.ALL_GATHER: 7 * size / copied,
        Collective.BROADCAST: size / copied,
    }
    tiers = replace(FABRIC, topology=Topology.LEAF_SPINE, leaves=2, spines=2, aggregators=True)
    plans = {kind.value: replayed(kind, "in-network", WORKERS, fabric=tiers, size=size) for kind in expected_s}
    groups = sorted({tree for plan in plans.values() for tree in plan.multicasts()})
    fabric = replace(tiers, groups=tuple(MulticastGroup(*tree) for tree in groups))
    runs = replay_plans(plans, fabric, ITERATIONS)
    for kind, closed_form_s in expected_s.items():
        run = runs[kind.value]
        measured_s = float(iteration_times_s(run.plan, run.log, ITERATIONS)[-1])
        assert measured_s == pytest.approx(closed_form_s, rel=0.02), kind
        assert measured_s == pytest.approx(fluid_times(run.plan, fabric).iteration_s, rel=0.02), kind
