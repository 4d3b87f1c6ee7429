"""Networks whose switches are in no tiers, in virtual time: flows take what the lines of their ways allow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

import gradwire
from gradwire.agents.connections import SocketOptions
from gradwire.analysis.fluid.estimate import estimate
from gradwire.analysis.iterations import iteration_times_s
from gradwire.datatypes.plan import Plan
from gradwire.network.fabric import Fabric, Topology
from gradwire.network.graph_shapes import Dragonfly, FullMesh, Ring, Torus
from gradwire.network.links import LinkSetting
from gradwire.network.network_graph import spread
from gradwire.network.path_delays import enough_buffer_bytes, round_trip_bytes
from gradwire.runs.replay import replay_plans
from gradwire.workloads.patterns import Transfer, all_to_all, compile_transfers, incast, one
from gradwire.workloads.patterns import ring as ring_of

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("virtual_kernel")]

RATE_BPS = 10e9
SIZE_BYTES = 10_000_000
NEAR = 0.01


def graph(hosts: int, switches: int, pairs: list[tuple[int, int]]) -> Fabric:
    return Fabric(
        hosts, RATE_BPS, Topology.CUSTOM, classes=1, graph=spread(hosts, switches, pairs, RATE_BPS, "of a test")
    )


TRIANGLE, RING = graph(3, 3, FullMesh(3).pairs()), graph(6, 6, Ring(6).pairs())


def plans_of(hosts: int, size_bytes: int = SIZE_BYTES) -> dict[str, Plan]:
    patterns: Mapping[str, list[Transfer]] = {
        "one": one(size_bytes),
        "incast": incast(hosts, size_bytes),
        "ring": ring_of(hosts, size_bytes),
        "all-to-all": all_to_all(hosts, size_bytes),
    }
    return {name: compile_transfers(name, hosts, transfers) for name, transfers in patterns.items()}


def assert_ideal(fabric: Fabric, plans: Mapping[str, Plan]) -> None:
    """Each plan's last iteration takes its time on an ideal network."""
    path_bytes = round_trip_bytes(fabric, ())
    sockets = SocketOptions(enough_buffer_bytes(path_bytes), None, path_bytes=path_bytes)
    done = replay_plans(plans, fabric, 3, sockets=sockets)
    ratios = {
        name: float(iteration_times_s(each.plan, each.log, 3)[-1]) / estimate(each.plan, each.fabric).iteration_s
        for name, each in done.items()
    }
    assert ratios == pytest.approx(dict.fromkeys(plans, 1.0), rel=NEAR)


@pytest.mark.parametrize("fabric", [TRIANGLE, RING], ids=["triangle", "ring of 6"])
def test_flows_take_their_ideal_time(fabric: Fabric) -> None:
    assert_ideal(fabric, plans_of(fabric.hosts))


@pytest.mark.parametrize("delay_s", [1e-6, 1e-3, 0.1])
def test_so_they_do_over_long_links(delay_s: float) -> None:
    """All equally long: between flows of different delays, the engine has the farther one at the shared port as early as the nearer."""
    assert_ideal(replace(TRIANGLE, delay_s=delay_s), plans_of(3))


def test_so_they_do_over_links_of_unequal_rates() -> None:
    settings = (LinkSetting("s1-s2", rate_bps=2.5e9), LinkSetting("h3", rate_bps=5e9))
    fabric = replace(TRIANGLE, link_settings=settings)
    assert_ideal(fabric, plans_of(3))


@pytest.mark.parametrize(
    "fabric",
    [graph(16, 16, Torus((4, 4)).pairs()), graph(12, 12, Dragonfly(4, 3, 1).pairs())],
    ids=["torus", "dragonfly"],
)
def test_collectives_on_tori_and_dragonflies(fabric: Fabric) -> None:
    plans = plans_of(fabric.hosts)
    assert_ideal(fabric, {name: plans[name] for name in ("ring", "all-to-all")})


LAB = """
from mininet.link import TCLink
from mininet.topo import Topo


class Campus(Topo):
    def build(self):
        switches = [self.addSwitch(f"s{number}") for number in (1, 2, 3)]
        for number in range(1, 6):
            self.addLink(self.addHost(f"h{number}"), switches[number % 3], cls=TCLink, bw=1000)
        self.addLink(switches[0], switches[1], cls=TCLink, bw=500, delay="2ms")
        self.addLink(switches[1], switches[2], cls=TCLink, bw=1000)
        self.addLink(switches[2], switches[0], cls=TCLink, bw=1000)
"""
SCENARIO = """
title = "A ring on a laboratory's network, one of whose hosts is idle"
[cluster]
workers = 4
[fabric]
rate = "10gbit"
file = "lab.py:Campus"
[model]
name = "toy"
batch = 1
layers = [{ name = "fc", kind = "fc", size = ["20MB"], forward = "1ms", backward = "1ms" }]
[strategy]
name = "ring"
[run]
iterations = 3
"""


def test_a_topo_of_the_users_own_runs_and_reads_again_without_its_file(tmp_path: Path) -> None:
    (tmp_path / "lab.py").write_text(LAB)
    (tmp_path / "lab.toml").write_text(SCENARIO)
    run = gradwire.run(tmp_path / "lab.toml", out=tmp_path / "run", progress=False)
    assert run.valid
    (point,) = run.points.to_dict("records")
    assert point["iteration_time_s"] == pytest.approx(point["fluid_time_s"], rel=NEAR)
    (tmp_path / "lab.py").unlink()
    assert gradwire.Run(tmp_path / "run").valid
