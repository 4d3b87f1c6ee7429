"""The papers' toy examples on real sockets against times by hand: P3's Figs. 4 and 6, NetOps' Fig. 2.

A unit is what the sizes below take at line rate. Messages pay a little on top: the switch forwards a burst once it has it whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradwire.agents.connections import SocketOptions
from gradwire.datatypes.plan import Combine, OpKind, Plan, Role
from gradwire.network.fabric import Fabric
from gradwire.runs.replay import ReplayedPlan, replay_plans
from gradwire.workloads.job import BYTES_PER_PARAMETER, Cluster, Costs, Job
from gradwire.workloads.models.compute_times import ComputeTime
from gradwire.workloads.models.profile import Layer, LayerKind, Profile, Tensor
from gradwire.workloads.strategy_registry import strategy

pytestmark = pytest.mark.kernel

FABRIC = Fabric(hosts=3, rate_bps=10e9, classes=1)
UNIT_S = 0.01
FIG_4_UNIT_S = 0.05
"""Long against the millisecond of data that TCP keeps in the host's own port (its small queues), which no priority reaches."""
UNIT_PARAMETERS = round(FABRIC.rate_bps / 8 * FABRIC.goodput_share() * UNIT_S / BYTES_PER_PARAMETER)
"""What a port carries in a unit."""
UNIT_BYTES_PER_S = UNIT_PARAMETERS * BYTES_PER_PARAMETER / UNIT_S
BLOCKING_SENDS = SocketOptions(4 << 20, 64 << 10)
"""A burst at most waits unsent in a socket, out of reach of P3's priorities."""
ITERATIONS = 2
CLOSE = 0.03


def toy(
    units: tuple[float, float, float],
    compute_units: float,
    cluster: Cluster,
    costs: Costs | None = None,
    unit_s: float = UNIT_S,
) -> Job:
    """A chain of three layers: the size of each in units of transfer, and the time of each op (forward and backward)."""
    per_unit = UNIT_PARAMETERS * unit_s / UNIT_S
    layers = tuple(
        Layer(
            f"layer{number + 1}",
            LayerKind.FC,
            (Tensor(f"layer{number + 1}", round(size * per_unit)),),
            1.0,
            (number - 1,) if number else (),
        )
        for number, size in enumerate(units)
    )
    seconds = (compute_units * unit_s,) * 3
    return Job(
        Profile("toy", layers, 1, "P3 and NetOps"),
        ComputeTime(seconds, seconds, "P3 and NetOps"),
        cluster,
        1,
        costs=costs or Costs(),
    )


def compiled(job: Job, name: str, **options: Any) -> Plan:
    chosen = strategy(name)
    (plan,) = chosen.compile(job, chosen.options.model_validate(options)).values()
    return plan


PAIR = Cluster(1, 1, colocated=False)
FIG_4 = toy((2, 2, 2), 1.0, PAIR, unit_s=FIG_4_UNIT_S)
FIG_4_SLICE_UNITS = 1 / 40
FIG_6 = toy((1, 3, 1), 1e-6, PAIR, Costs(aggregation_bytes_per_s=UNIT_BYTES_PER_S))
FIG_2 = toy((3, 3, 3), 3.0, Cluster(2, 1, colocated=False))


def plans() -> Mapping[str, Plan]:
    slice_4 = round(UNIT_PARAMETERS * FIG_4_UNIT_S / UNIT_S * FIG_4_SLICE_UNITS)
    return {
        "fig 4 first come": compiled(FIG_4, "p3-slicing", slice_parameters=slice_4),
        "fig 4 priority": compiled(FIG_4, "p3", slice_parameters=slice_4),
        "fig 6 layers, parallel": compiled(FIG_6, "kvstore", updates="parallel", split_parameters=10**9),
        "fig 6 layers, serial": compiled(FIG_6, "kvstore", updates="serial", split_parameters=10**9),
        "fig 6 slices, parallel": compiled(FIG_6, "p3-slicing", updates="parallel", slice_parameters=UNIT_PARAMETERS),
        "fig 6 slices, serial": compiled(FIG_6, "p3-slicing", updates="serial", slice_parameters=UNIT_PARAMETERS),
        "fig 2 round-robin": compiled(FIG_2, "netops-ps"),
        "fig 2 block": compiled(FIG_2, "netops-ps", distribution="block"),
    }


@pytest.fixture(scope="module")
def replayed(virtual_kernel: Path) -> Mapping[str, ReplayedPlan]:
    """All toys, replayed one after the other in one kernel."""
    return replay_plans(plans(), FABRIC, ITERATIONS, sockets=BLOCKING_SENDS)


def ends_s(run: ReplayedPlan, wanted: np.typing.NDArray[np.bool_], iteration: int) -> np.typing.NDArray[np.float64]:
    """When the wanted ops of an iteration ended."""
    rows = wanted[run.log.op] & (run.log.iteration == iteration)
    times_s: np.typing.NDArray[np.float64] = run.log.end_ns[rows] / 1e9
    return times_s


def starts_s(run: ReplayedPlan, wanted: np.typing.NDArray[np.bool_], iteration: int) -> np.typing.NDArray[np.float64]:
    """When the wanted ops of an iteration started."""
    rows = wanted[run.log.op] & (run.log.iteration == iteration)
    times_s: np.typing.NDArray[np.float64] = run.log.start_ns[rows] / 1e9
    return times_s


def computes(plan: Plan, layer: int, *, backward: bool) -> np.typing.NDArray[np.bool_]:
    """The workers' forward or backward ops of a layer: of each rank's two ops of a layer the forward one comes first."""
    ops = plan.ops
    mine = (ops.kind == OpKind.COMPUTE) & (plan.rank_role[ops.rank] == Role.WORKER) & (ops.layer == layer)
    chosen = np.zeros(len(ops), dtype=np.bool_)
    for worker in plan.workers:
        first, second = np.flatnonzero(mine & (ops.rank == worker))
        chosen[second if backward else first] = True
    return chosen


@pytest.mark.parametrize(("how", "units"), [("first come", 4.0), ("priority", 2.0)])
def test_p3_figure_4(replayed: Mapping[str, ReplayedPlan], how: str, units: float) -> None:
    """From the end of layer 1's backward op to the start of its forward op; the last slice comes back one slice later."""
    run = replayed[f"fig 4 {how}"]
    for iteration in range(1, ITERATIONS):
        gradient_s = ends_s(run, computes(run.plan, 0, backward=True), iteration - 1).item()
        forward_s = starts_s(run, computes(run.plan, 0, backward=False), iteration).item()
        assert (forward_s - gradient_s) / FIG_4_UNIT_S == pytest.approx(units + FIG_4_SLICE_UNITS, rel=CLOSE)


@pytest.mark.parametrize(
    ("how", "units"),
    [("layers, parallel", 10), ("layers, serial", 11), ("slices, parallel", 7), ("slices, serial", 7)],
)
def test_p3_figure_6(replayed: Mapping[str, ReplayedPlan], how: str, units: int) -> None:
    """From the first gradient that leaves to the last parameter that is back: 30 % less with slices."""
    run = replayed[f"fig 6 {how}"]
    ops = run.plan.ops
    pushes = (ops.kind == OpKind.SEND) & (ops.chunk >= 0) & (run.plan.rank_role[ops.rank] == Role.WORKER)
    back = (ops.kind == OpKind.RECV) & (ops.combine == Combine.COPY)
    for iteration in range(ITERATIONS):
        took_s = ends_s(run, back, iteration).max() - starts_s(run, pushes, iteration).min()
        assert took_s / UNIT_S == pytest.approx(units, rel=CLOSE)


@pytest.mark.parametrize("distribution", ["round-robin", "block"])
def test_netops_figure_2(replayed: Mapping[str, ReplayedPlan], distribution: str) -> None:
    """3 + 2 * 3 * 3 = 21 units from the first backward op to the last gradient at the server.

    With either order worker 0 starts first, and its gradients keep the server's port busy until the other's come.
    """
    run = replayed[f"fig 2 {distribution}"]
    ops = run.plan.ops
    arrives = (ops.kind == OpKind.RECV) & (ops.combine == Combine.ADD)
    for iteration in range(ITERATIONS):
        began_s = starts_s(run, computes(run.plan, 2, backward=True), iteration).min()
        took_s = ends_s(run, arrives, iteration).max() - began_s
        assert took_s / UNIT_S == pytest.approx(21, rel=CLOSE)


def test_block_distribution_serves_one_worker_after_the_other(replayed: Mapping[str, ReplayedPlan]) -> None:
    """Worker 0 has all its parameters after 9 of 18 units in block order, and after 15 in round robin."""
    for distribution, units in (("block", 9), ("round-robin", 15)):
        run = replayed[f"fig 2 {distribution}"]
        ops = run.plan.ops
        sent = (ops.kind == OpKind.SEND) & (ops.chunk >= 0) & (run.plan.rank_role[ops.rank] == Role.SERVER)
        mine = (ops.kind == OpKind.RECV) & (ops.combine == Combine.COPY) & (ops.rank == run.plan.workers[0])
        for iteration in range(ITERATIONS):
            took_s = ends_s(run, mine, iteration).max() - starts_s(run, sent, iteration).min()
            assert took_s / UNIT_S == pytest.approx(units, rel=CLOSE)
