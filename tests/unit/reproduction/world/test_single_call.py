"""One call as a plan: how long it takes on an ideal network, by hand, and that its time leaves the barrier out."""

from __future__ import annotations

import numpy as np
import pytest

from gradwire.datatypes.plan import Plan
from gradwire.datatypes.records import OpLog
from gradwire.faults import InputFault, InternalFault
from gradwire.runs.ccl_packets import call_times_s
from gradwire.runs.estimation import estimate_points
from gradwire.scenario.loading import Point, load_scenario
from gradwire.scenario.resolution.compilation import compile_resolved
from gradwire.workloads.checker import check
from reproduction.world.cells import SCENARIOS

RATE_BPS, MIB = 10e9, 1 << 20
PAYLOAD = 8949 / 9039
"""TCP's share of a line at an MTU of 9001."""


def point(*settings: str) -> Point:
    (found,) = load_scenario(SCENARIOS / "tc-cluster-nccl.toml", settings).points
    return found


def call(collective: str, ranks: int = 4, *settings: str) -> Point:
    options = (f"strategy.options.collective={collective}", "strategy.options.size=128MiB")
    return point(f"cluster.workers={ranks}", "fabric.delay=0s", "strategy.options.pause=0s", *options, *settings)


def plan_of(of: Point) -> Plan:
    (plan,) = compile_resolved(of.resolved).plans.values()
    return plan


@pytest.mark.parametrize(
    ("collective", "ranks", "sent"),
    [("message", 2, 1.0), ("all-reduce", 4, 1.5), ("broadcast", 4, 1.0), ("reduce", 4, 1.0), ("all-to-all", 4, 0.75)],
)
def test_a_call_takes_what_its_busiest_line_takes(collective: str, ranks: int, sent: float) -> None:
    algorithm = "direct" if collective == "all-to-all" else "ring"
    of = call(collective, ranks, f"strategy.options.algorithm={algorithm}")
    check(plan_of(of))
    (found,) = estimate_points([of], 1)
    by_hand_s = sent * 128 * MIB * 8 / (RATE_BPS * PAYLOAD)
    # Along a chain, the last piece of 512 KiB takes two more hops.
    hops_s = 2 * (512 << 10) * 8 / (RATE_BPS * PAYLOAD) if collective in ("broadcast", "reduce") else 0.0
    assert found.iteration_time_s == pytest.approx(by_hand_s + hops_s, rel=2e-3)


def log_of(plan: Plan, times_ns: dict[int, tuple[int, int]]) -> OpLog:
    count = len(plan.ops)
    start, end = (np.array([times_ns.get(op, (0, 0))[i] for op in range(count)], np.int64) for i in (0, 1))
    return OpLog(
        iteration=np.zeros(count, np.int64), op=np.arange(count), start_ns=start, end_ns=end, nominal_start_ns=start
    )


def test_the_time_of_a_call_is_the_longest_of_all_ranks_behind_the_barrier() -> None:
    plan = plan_of(call("all-reduce", 2, "strategy.options.pause=1s"))
    # Behind a pause of each rank, barriers of ranks 0 and 1 begin, their calls begin, the barriers end, the calls end.
    times_ns = {4: (100, 100), 5: (130, 130), 8: (900, 900), 9: (1000, 1000)}
    assert call_times_s(plan, log_of(plan, times_ns), 1) == pytest.approx([870e-9])


def test_a_plan_without_a_barrier_has_no_time_of_a_call() -> None:
    plan = plan_of(call("all-reduce", 2, "strategy.options.barrier=false"))
    with pytest.raises(InternalFault, match="behind a barrier"):
        call_times_s(plan, log_of(plan, {}), 1)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (("cluster.workers=3", "strategy.options.collective=message"), "cluster.workers = 3: a message needs 2"),
        (("strategy.options.collective=gather",), "strategy.options.collective"),
    ],
)
def test_a_wrong_call_is_named(settings: tuple[str, ...], said: str) -> None:
    with pytest.raises(InputFault) as fault:
        plan_of(point(*settings))
    assert said in str(fault.value)


def test_an_unknown_algorithm_is_named() -> None:
    with pytest.raises(InputFault, match=r"strategy\.options\.algorithm = 'frob'.*double-tree"):
        plan_of(call("all-reduce", 4, "strategy.options.algorithm=frob"))
