"""Orders of transfers on a real network: the toy cases of TicTac and Geryon, within 3 % of times worked out by hand.

A time unit is 30 ms, and a tensor of one unit is what a 10 Gbit/s link carries in one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from gradwire.analysis.bounds import bounds
from gradwire.analysis.iterations import iteration_times_s
from gradwire.analysis.verdict.verdict import BOUND_SLACK
from gradwire.datatypes.plan import OpKind, Plan
from gradwire.network.fabric import Fabric, Topology
from gradwire.runs.replay import ReplayedPlan, replay_plans
from gradwire.workloads.checker import check
from gradwire.workloads.engines.ordered_transfers import compile_ordered
from gradwire.workloads.engines.placement import whole_tensors
from gradwire.workloads.job import BYTES_PER_PARAMETER, Cluster, Job
from gradwire.workloads.models import model
from gradwire.workloads.models.compute_times import ComputeTime, compute_time
from gradwire.workloads.models.profile import Layer, LayerKind, Profile, Tensor
from gradwire.workloads.patterns import Transfer, compile_transfers
from gradwire.workloads.strategies.tictac import Order, transfer_orders
from reproduction.tictac.efficiency import Schedules, r_squared, schedules

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("virtual_kernel")]

UNIT_S = 0.030
RATE_BPS = 10e9
SWITCH = Fabric(4, RATE_BPS)
UNIT_PARAMETERS = round(UNIT_S * RATE_BPS * SWITCH.goodput_share() / 8 / BYTES_PER_PARAMETER)
ITERATIONS = 2
TOLERANCE = 0.03

Toy = Mapping[str, tuple[Mapping[str, int], Sequence[int], int, int]]
"""Of each layer: its tensors in units, the layers that it reads, and units of forward and backward computation."""

FIG_1: Toy = {"op1": ({"recv1": 1}, (), 1, 0), "op2": ({"recv2": 1}, (0,), 1, 0)}
FIG_4A: Toy = {"B": ({"recvB": 3}, (), 1, 0), "A": ({"recvA": 1}, (), 3, 0), "join": ({}, (0, 1), 0, 0)}
FIG_4B: Toy = {
    "AB": ({"recvB": 1, "recvA": 1}, (), 1, 0),
    "C": ({"recvC": 1}, (0,), 1, 0),
    "D": ({"recvD": 1}, (1,), 1, 0),
}
GERYON_FIG_3: Toy = {
    "conv1": ({"w1": 1}, (), 2, 2),
    "conv2": ({"w2": 1}, (0,), 2, 2),
    "conv3": ({"w3": 1}, (1,), 2, 2),
    "fc": ({"w4": 3}, (2,), 1, 1),
}
"""The figure's own times cannot be read; these have its one large fully connected layer at the end, and save 3 units as it does."""


def toy_job(toy: Toy) -> Job:
    """One worker and one server of its own."""
    layers = tuple(
        Layer(
            name,
            LayerKind.FC if name == "fc" else LayerKind.CONV,
            tuple(Tensor(tensor, units * UNIT_PARAMETERS) for tensor, units in tensors.items()),
            1.0,
            tuple(inputs),
        )
        for name, (tensors, inputs, _, _) in toy.items()
    )
    forward_s = tuple(forward * UNIT_S for _, _, forward, _ in toy.values())
    backward_s = tuple(backward * UNIT_S for _, _, _, backward in toy.values())
    compute = ComputeTime(forward_s, backward_s, "made up")
    return Job(Profile("toy", layers, 1, "made up"), compute, Cluster(1, 1, False), 1, rate_bps=RATE_BPS)


def toy_plan(toy: Toy, order: Sequence[int] | None, *, inference: bool = True) -> Plan:
    """The toy with its tensors in the given order, else as TAC has it."""
    job = toy_job(toy)
    orders = [order] if order else transfer_orders(job, "tac", inference=inference)
    plan = compile_ordered(job, whole_tensors(job.profile, 1), orders, f"{orders}", inference=inference)
    check(plan)
    return plan


TOYS: dict[str, tuple[Plan, float]] = {
    # recv1, op1 beside recv2, op2.
    "fig1 tac": (toy_plan(FIG_1, None), 3),
    # recv2, recv1, op1, op2: nothing overlaps.
    "fig1 bad": (toy_plan(FIG_1, [1, 0]), 4),
    # M_A + max(P_A, M_B) + P_B, and the other way round.
    "fig4a tac": (toy_plan(FIG_4A, None), 1 + max(3, 3) + 1),
    "fig4a bad": (toy_plan(FIG_4A, [0, 1]), 3 + max(1, 1) + 3),
    # Two transfers, then one op beside each of the other two, then the last op; in the reverse order, all transfers first.
    "fig4b tac": (toy_plan(FIG_4B, None), 5),
    "fig4b bad": (toy_plan(FIG_4B, [3, 2, 1, 0]), 7),
    # Ordered: forward from 1 to 8, backward to 15, then the push of conv1. Large tensor first: all of it 3 later.
    "fig3 ordered": (toy_plan(GERYON_FIG_3, [0, 1, 2, 3], inference=False), 16),
    "fig3 tac": (toy_plan(GERYON_FIG_3, None, inference=False), 16),
    "fig3 large first": (toy_plan(GERYON_FIG_3, [3, 0, 1, 2], inference=False), 19),
}
"""Plan, and units that an iteration takes by hand."""


def tensor(src: int, dst: int, traffic_class: int) -> Transfer:
    return Transfer(src, dst, UNIT_PARAMETERS * BYTES_PER_PARAMETER, traffic_class)


def fig_5(others: Sequence[tuple[int, int]], *, network_level: bool) -> Plan:
    """An urgent tensor from host 0 to host 2, the first transfer, and others that are not: of the same class at end-host level."""
    low = int(network_level)
    return compile_transfers("fig5", 4, [tensor(0, 2, 0), *(tensor(src, dst, low) for src, dst in others)])


ONE_WORKER, THREE_SENDERS = [(1, 2)], [(1, 2), (3, 2)]
TWO_WORKERS = [(1, 2), (0, 3), (1, 3)]
FIG_5 = {
    f"{name}, {'network' if network_level else 'end-host'}": fig_5(others, network_level=network_level)
    for name, others in (("two senders", ONE_WORKER), ("three senders", THREE_SENDERS), ("two workers", TWO_WORKERS))
    for network_level in (False, True)
}
CROSSING = {name: plan for name, plan in FIG_5.items() if name.startswith("two workers")}


def inception(order: Order, seed: int) -> Plan:
    """Two agents of Inception v2 whose pull and forward pass take about as long as each other."""
    profile = model("inception-v2")
    compute = compute_time(profile, "k80-half", iteration_s=0.2)
    job = Job(profile, compute, Cluster(2, 1, False), profile.batch, seed, rate_bps=RATE_BPS)
    orders = transfer_orders(job, order, inference=True)
    return compile_ordered(job, whole_tensors(profile, 1), orders, f"{order} {seed}", inference=True)


INCEPTION = {f"random {seed}": inception("random", seed) for seed in range(6)} | {"tac": inception("tac", 0)}


@pytest.fixture(scope="module")
def switched(virtual_kernel: object) -> dict[str, ReplayedPlan]:
    return replay_plans({name: plan for name, (plan, _) in TOYS.items()} | FIG_5 | INCEPTION, SWITCH, ITERATIONS)


@pytest.fixture(scope="module", params=[2, 4])
def oversubscribed(virtual_kernel: object, request: pytest.FixtureRequest) -> tuple[int, dict[str, ReplayedPlan]]:
    """Two hosts a leaf and one spine."""
    fabric = Fabric(
        4, RATE_BPS, topology=Topology.LEAF_SPINE, leaves=2, spines=1, oversubscription=float(request.param)
    )
    return request.param, replay_plans(CROSSING, fabric, ITERATIONS)


def urgent_units(replayed: ReplayedPlan) -> float:
    """When the urgent tensor has arrived, in units from its start: mean over the iterations after the first."""
    log, ops = replayed.log, replayed.plan.ops
    send = int(np.flatnonzero((ops.kind == OpKind.SEND) & (ops.chunk < 0) & (ops.traffic_class == 0))[0])
    start = log.start_ns[(log.op == send) & (log.iteration > 0)]
    recv = int(np.flatnonzero((ops.kind == OpKind.RECV) & (ops.message == send))[0])
    end = log.end_ns[(log.op == recv) & (log.iteration > 0)]
    return float(np.mean(np.sort(end) - np.sort(start))) / 1e9 / UNIT_S


@pytest.mark.parametrize("name", TOYS)
def test_toys_take_the_time_worked_out_by_hand(name: str, switched: dict[str, ReplayedPlan]) -> None:
    replayed = switched[name]
    times_s = iteration_times_s(replayed.plan, replayed.log, ITERATIONS)
    assert times_s[1:] / UNIT_S == pytest.approx(TOYS[name][1], rel=TOLERANCE)
    assert times_s[1:].mean() >= BOUND_SLACK * bounds(replayed.plan, replayed.fabric).lower_bound_s


def test_efficiency_of_figure_1(switched: dict[str, ReplayedPlan]) -> None:
    """U = 4, L = 2, makespans of 3 and 4; the best could be twice as fast as the worst."""

    def of(name: str) -> Schedules:
        return schedules(switched[name].plan, switched[name].log, ITERATIONS)

    assert of("fig1 tac").efficiency == pytest.approx(0.5, abs=TOLERANCE)
    assert of("fig1 bad").efficiency == pytest.approx(0.0, abs=TOLERANCE)
    assert of("fig1 tac").speedup == pytest.approx(1.0, rel=TOLERANCE)
    for name in TOYS:
        assert ((of(name).efficiency >= 0) & (of(name).efficiency <= 1)).all(), name


def test_efficiency_explains_the_step_time_of_inception(switched: dict[str, ReplayedPlan]) -> None:
    """TicTac, Fig. 12(a): R2 = 0.98. A step lasts as long as its slowest worker."""
    efficiency, step_s = {}, {}
    for name in INCEPTION:
        replayed = switched[name]
        efficiency[name] = schedules(replayed.plan, replayed.log, ITERATIONS).efficiency[1:].min()
        step_s[name] = iteration_times_s(replayed.plan, replayed.log, ITERATIONS)[1:].mean()
    assert r_squared(np.array(list(efficiency.values())), np.array(list(step_s.values()))) > 0.98
    assert efficiency["tac"] > 0.95
    assert max(value for name, value in efficiency.items() if name != "tac") < efficiency["tac"]
    assert min(value for name, value in step_s.items() if name != "tac") > 1.1 * step_s["tac"]


def test_network_level_delivers_the_urgent_tensor_in_half_the_time(switched: dict[str, ReplayedPlan]) -> None:
    assert urgent_units(switched["two senders, network"]) == pytest.approx(1, rel=TOLERANCE)
    assert urgent_units(switched["two senders, end-host"]) == pytest.approx(2, rel=TOLERANCE)


def test_the_factor_is_the_number_of_senders(switched: dict[str, ReplayedPlan]) -> None:
    assert urgent_units(switched["three senders, network"]) == pytest.approx(1, rel=TOLERANCE)
    assert urgent_units(switched["three senders, end-host"]) == pytest.approx(3, rel=TOLERANCE)


def test_the_gap_grows_with_oversubscription(
    switched: dict[str, ReplayedPlan], oversubscribed: tuple[int, dict[str, ReplayedPlan]]
) -> None:
    """Two servers, two workers, four transfers. On one switch each link carries two of them; an uplink carries all four,
    at full line rate (oversubscription 2) or half of it (4).
    """
    assert urgent_units(switched["two workers, network"]) == pytest.approx(1, rel=TOLERANCE)
    assert urgent_units(switched["two workers, end-host"]) == pytest.approx(2, rel=TOLERANCE)
    oversubscription, replayed = oversubscribed
    alone = oversubscription / 2
    assert urgent_units(replayed["two workers, network"]) == pytest.approx(alone, rel=TOLERANCE)
    assert urgent_units(replayed["two workers, end-host"]) == pytest.approx(4 * alone, rel=TOLERANCE)
