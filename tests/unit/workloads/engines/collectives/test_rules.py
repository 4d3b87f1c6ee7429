"""Rules name an algorithm for each size; what is taken in the end is told; and DDP has the same choice for its
buckets."""

from __future__ import annotations

from typing import Any

import pytest

from gradwire.analysis.fluid.estimate import estimate
from gradwire.datatypes.plan import Plan
from gradwire.faults import InputFault
from gradwire.network.fabric import Fabric
from gradwire.workloads.checker import check
from gradwire.workloads.engines.collective_routes import rule_of
from gradwire.workloads.engines.collectives.choice import PIECE_BYTES
from gradwire.workloads.engines.collectives.schedule import Collective
from gradwire.workloads.job import Cluster, Costs, Job
from gradwire.workloads.models.compute_times import ComputeTime
from gradwire.workloads.models.profile import Layer, LayerKind, Profile, Tensor
from gradwire.workloads.strategy_registry import strategy
from gradwire.workloads.trace_replay.replay_strategy import ReplayOptions, routes_of
from tests.shared.parts import in_order, tells
from tests.unit.workloads.engines.collectives.test_algorithms import SIZE, replayed

NAMES = ("ring", "double-tree")
RATE_BPS, LATENCY_S = 10e9, 1e-3


@pytest.mark.parametrize(
    ("text", "size", "algorithm"),
    [
        ("ring", 1, "ring"),
        ("auto", 1, "auto"),
        ("double-tree up to 256KiB else ring", 256 << 10, "double-tree"),
        ("double-tree up to 256KiB else ring", (256 << 10) + 1, "ring"),
        ("ring up to 1KB else double-tree up to 1MB else auto", 1001, "double-tree"),
    ],
)
def test_a_rule_names_an_algorithm_for_each_size(text: str, size: int, algorithm: str) -> None:
    assert rule_of(text, NAMES).algorithm(size) == algorithm


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("tree", "'tree' is none of ring, double-tree, auto"),
        ("double-tree else ring", "say up to which size 'double-tree' is taken, like 'double-tree up to 256KiB else"),
        ("double-tree up to 1MB", "say what is taken beyond that size"),
        ("ring up to 1MB else double-tree up to 1KB else ring", "sizes must grow"),
        ("ring up to much else double-tree", "must be a size"),
    ],
)
def test_a_wrong_rule_is_refused_with_what_would_be_right(text: str, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        rule_of(text, NAMES)


def test_plans_tell_what_was_taken() -> None:
    (note,) = replayed(Collective.ALL_REDUCE, "auto", 6).notes
    assert tells(note, "all-reduce", "6 by ring", f"1 call of {SIZE}B")


def test_channels_without_rings_are_refused() -> None:
    options = {"channels": 2, "all_reduce": "direct", "all_gather": "direct", "reduce_scatter": "direct"}
    with pytest.raises(InputFault, match=in_order("channels = 2:", "nothing", "ring")):
        routes_of(ReplayOptions.model_validate(options))


def one_bucket(
    values: int, workers: int, options: dict[str, Any], *, per_host: int = 1, latency_s: float = 0.0
) -> Plan:
    """DDP of one tensor, which is computed in no time worth the name."""
    layer = Layer("one", LayerKind.FC, (Tensor("one/w", values),), 1.0, ())
    compute = ComputeTime((1e-6,), (1e-6,), "made up")
    job = Job(
        Profile("toy", (layer,), 1, "made up"),
        compute,
        Cluster(workers, 0, True, per_host),
        1,
        1,
        Costs(message_latency_s=latency_s),
    )
    ddp = strategy("ddp")
    (plan,) = ddp.compile(job, ddp.options.model_validate(options)).values()
    check(plan)
    return plan


def moved_s(plan: Plan, workers: int) -> float:
    return estimate(plan, Fabric(hosts=workers, rate_bps=RATE_BPS)).iteration_s - plan.compute_s


def test_ddp_with_a_ring_in_one_channel_is_the_plan_it_always_was() -> None:
    assert one_bucket(8400, 6, {}).digest() == one_bucket(8400, 6, {"algorithm": "ring", "channels": 1}).digest()


@pytest.mark.parametrize("algorithm", ["double-tree", "two-level", "direct", "auto"])
@pytest.mark.parametrize(("workers", "per_host"), [(8, 1), (6, 2), (5, 1)])
def test_ddp_by_every_algorithm_is_sound(algorithm: str, workers: int, per_host: int) -> None:
    plan = one_bucket(840_000, workers, {"algorithm": algorithm}, per_host=per_host)
    assert plan.notes[0].startswith(f"all-reduce among {workers} by ")


def test_ddp_refuses_channels_of_what_has_none() -> None:
    with pytest.raises(InputFault, match=in_order("channels = 2:", "rings")):
        one_bucket(840, 4, {"algorithm": "direct", "channels": 2})


def test_a_double_tree_pays_the_latency_of_its_depth_and_a_ring_that_of_all_members() -> None:
    """Of 8, the deepest is three hops from the root: six one after the other, and fourteen in a ring, whatever its
    channels."""
    for options, messages in (({"algorithm": "double-tree"}, 6), ({}, 14), ({"channels": 2}, 14)):
        spent_s = moved_s(one_bucket(16, 8, options, latency_s=LATENCY_S), 8)
        assert spent_s == pytest.approx(messages * LATENCY_S, rel=0.01)


def test_large_buckets_take_what_their_busiest_port_takes() -> None:
    """A member passes on half of the data in one tree, up and down to two, and in the other sends it up: twice the
    data in all."""
    values = 8 * 16 * PIECE_BYTES // 4
    fabric = Fabric(hosts=8, rate_bps=RATE_BPS)
    whole_s = values * 4 * 8 / (RATE_BPS * fabric.goodput_share())
    for channels in (1, 2):
        spent_s = moved_s(one_bucket(values, 8, {"channels": channels}), 8)
        assert spent_s == pytest.approx(2 * 7 / 8 * whole_s, rel=0.01)
    spent_s = moved_s(one_bucket(values, 8, {"algorithm": "double-tree"}), 8)
    assert 2 * whole_s <= spent_s < 2 * whole_s * 1.2
