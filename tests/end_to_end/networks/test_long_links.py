"""Links with a delay in the virtual-time kernel: round trips to the microsecond, and no bandwidth lost."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import gradwire
from gradwire.analysis.iterations import iteration_times_s
from gradwire.datatypes.plan import Plan, Role
from gradwire.network.fabric import Fabric
from gradwire.network.links import LinkSetting
from gradwire.runs.replay import replay_plans
from gradwire.workloads.builder import PlanBuilder

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("virtual_kernel")]

PLAIN = Fabric(2, 10e9, classes=1)
TURNS = 5
DELAYS_S = (2.9e-6, 1e-3, 0.1)
"""tc by itself would make 1.98 us of the first."""
EXACT_S = 1e-6
"""What leaves a host less than half a microsecond after something else is held until that has passed (TIMER_MIN_DELTA)."""


def ping_pong() -> Plan:
    """Two ranks that answer each other, TURNS times in each iteration."""
    builder = PlanBuilder("ping-pong")
    ranks = [builder.rank(Role.WORKER, host) for host in range(2)]
    begins, ends = ([builder.compute(rank) for rank in ranks] for _ in range(2))
    queues, last = [builder.queue(rank) for rank in ranks], begins[0]
    for _ in range(TURNS):
        for rank in ranks:
            send, recv = builder.message(queues[rank], ranks[1 - rank], 100, traffic_class=0)
            builder.depend(send, last)
            last = recv
    builder.depend(ends[0], last)
    builder.depend(ends[1], begins[1])
    for rank, begin, end in zip(ranks, begins, ends, strict=True):
        builder.iteration(rank, begin, end)
    builder.depend(begins[0], ends[0], lag=1)
    builder.depend(begins[1], ends[1], lag=1)
    return builder.build(compute_s=0.0, samples=0)


def round_trip_s(fabric: Fabric) -> float:
    """Of a ping in a steady iteration."""
    done = replay_plans({"ping": ping_pong()}, fabric, 3)["ping"]
    return float(iteration_times_s(done.plan, done.log, 3)[-1]) / TURNS


def test_round_trips_are_exact_to_the_microsecond() -> None:
    plain_s = round_trip_s(PLAIN)
    for delay_s in DELAYS_S:
        long = replace(PLAIN, link_settings=(LinkSetting("h2", delay_s=delay_s),))
        assert round_trip_s(long) - plain_s == pytest.approx(2 * delay_s, abs=EXACT_S)
    everywhere_s = round_trip_s(replace(PLAIN, delay_s=1e-3))
    assert everywhere_s - plain_s == pytest.approx(4e-3, abs=EXACT_S)


TEXT = """
title = "A ring over a long link"
[cluster]
workers = 4
[fabric]
rate = "10gbit"
topology = "leaf-spine"
leaves = 2
spines = 2
[model]
name = "toy"
batch = 1
layers = [{ name = "fc", kind = "fc", size = ["40MB"], forward = "1ms", backward = "1ms" }]
[strategy]
name = "ring"
[run]
iterations = 3
[sweep]
"fabric.link.h1.delay" = ["1us", "1ms", "100ms"]
"""


def test_a_ring_over_a_long_link_takes_its_ideal_time(tmp_path: Path) -> None:
    (tmp_path / "long.toml").write_text(TEXT)
    run = gradwire.run(tmp_path / "long.toml", out=tmp_path / "run", progress=False)
    assert run.valid
    for point in run.points.to_dict("records"):
        assert point["iteration_time_s"] == pytest.approx(point["fluid_time_s"], rel=0.01)


def test_links_of_half_the_rate_and_limits_of_flows_take_their_ideal_time(tmp_path: Path) -> None:
    """A ring has one flow into and one out of each host."""
    (tmp_path / "slow.toml").write_text(TEXT.partition("[sweep]")[0])
    folder = tmp_path / "run"
    for name, setting in (
        ("link", {"fabric.link.h1.rate": "5gbit"}),
        ("uplink", {"fabric.link.leaf1-spine*.rate": "2gbit"}),
        ("flow", {"fabric.flow_rate": "4gbit"}),
    ):
        run = gradwire.run(tmp_path / "slow.toml", set=setting, out=folder / name, progress=False)
        assert run.valid
        (point,) = run.points.to_dict("records")
        assert point["iteration_time_s"] == pytest.approx(point["fluid_time_s"], rel=0.01)
