"""Three tiers of switches in the virtual-time kernel: rings, all-to-alls and multicasts take as long as the links allow."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import gradwire
from gradwire.analysis.fluid.estimate import estimate
from gradwire.analysis.iterations import iteration_times_s
from gradwire.network.fabric import Fabric, Topology
from gradwire.runs.replay import replay_plans
from gradwire.runs.stored.spines import Spines
from gradwire.workloads.patterns import all_to_all, compile_transfers

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("virtual_kernel")]

RATE_BPS = 100e9
FAT_TREE = Fabric(
    8,
    RATE_BPS,
    Topology.FAT_TREE,
    leaves=2,
    spines=2,
    oversubscription=2.0,
    pods=2,
    cores=4,
    core_oversubscription=2.0,
    classes=1,
)
"""Uplinks of a leaf carry half of what its hosts do, and those of a pod a half of that: 2 x 50 and 4 x 25 Gbit/s."""
FABRIC = {
    "rate": "100gbit",
    "topology": "fat-tree",
    "pods": 2,
    "leaves": 2,
    "spines": 2,
    "cores": 4,
    "oversubscription": 2,
    "core_oversubscription": 2,
}
SIZE_BYTES = 8_000_000
LONG_BYTES = 32_000_000
"""Of an all-to-all, in which flows take turns burst by burst: the last of them end 0.1 ms late on any network, whatever their sizes."""
COMPUTE_S = 2e-3


def scenario(name: str, workers: int) -> dict[str, object]:
    layer = {"name": "fc", "kind": "fc", "size": [f"{8 * SIZE_BYTES}B"], "forward": "1ms", "backward": "1ms"}
    return {
        "title": "three tiers",
        "cluster": {"workers": workers},
        "fabric": FABRIC,
        "model": {"name": "toy", "batch": 1, "layers": [layer]},
        "strategy": {"name": name},
        "run": {"iterations": 3},
    }


def test_a_ring_takes_what_the_link_to_a_core_allows(tmp_path: Path) -> None:
    """Each pair of neighbours in different pods has one link to a core, of 25 Gbit/s, for 2 (N - 1) parts of 1 / N."""
    run = gradwire.run(scenario("ring", 8), out=tmp_path / "run", progress=False)
    (point,) = run.points.to_dict("records")
    assert run.valid
    wire_s = 14 * SIZE_BYTES * 8 / (FAT_TREE.core_rate_bps * FAT_TREE.goodput_share())
    assert point["iteration_time_s"] == pytest.approx(COMPUTE_S + wire_s, rel=0.02)
    assert point["iteration_time_s"] == pytest.approx(point["fluid_time_s"], rel=0.01)


def test_a_multicast_crosses_every_link_once(tmp_path: Path) -> None:
    """Bytes by uplink are compared with what one copy for each link makes."""
    run = gradwire.run(scenario("multicast-ps", 8), out=tmp_path / "run", progress=False)
    assert run.valid
    (point,) = run.points.to_dict("records")
    # Switches hold what several workers push to a server, which an ideal network does not.
    assert point["iteration_time_s"] == pytest.approx(point["fluid_time_s"], rel=0.03)


@pytest.mark.parametrize("core_oversubscription", [1.0, 2.0])
def test_an_all_to_all_takes_what_the_busiest_tier_allows(core_oversubscription: float) -> None:
    fabric = replace(FAT_TREE, core_oversubscription=core_oversubscription)
    plan = compile_transfers("all-to-all", 8, all_to_all(8, LONG_BYTES))
    (run,) = replay_plans({"all-to-all": plan}, fabric, 3).values()
    measured_s = float(iteration_times_s(run.plan, run.log, 3)[-1])
    # A leaf's two hosts send to six others, and a pod's four to four others.
    leaf, pod = fabric.tree.tiers
    lines = max(12 * LONG_BYTES / leaf.part_bps[0], 16 * LONG_BYTES / pod.part_bps[0])
    assert measured_s == pytest.approx(lines * 8 / fabric.goodput_share(), rel=0.02)
    assert measured_s == pytest.approx(estimate(plan, fabric, Spines(fabric).spine_of).iteration_s, rel=0.01)
