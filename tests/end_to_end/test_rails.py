"""Machines with several NICs in the virtual-time kernel: what keeps to its rails crosses no spine, and what does not is seen there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

import gradwire

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("virtual_kernel")]

RATE_BPS, LOCAL_BYTES_PER_S = 100e9, 300e9
SIZE_BYTES, COMPUTE_S = 64_000_000, 2e-3
GOODPUT = 1448 / 1538
UPLINKS = ("s1-eth5", "s1-eth6", "s2-eth5", "s2-eth6")
"""Ports 1 to 4 of a leaf lead to one NIC of each of four machines."""


def carried(tmp_path: Path, strategy: Mapping[str, object], agents: str) -> tuple[float, float, int]:
    """Time of an iteration, the same on the ideal network, and the data that uplinks carried; the run is valid."""
    layer = {"name": "fc", "kind": "fc", "size": [f"{SIZE_BYTES}B"], "forward": "1ms", "backward": "1ms"}
    scenario = {
        "title": "rails",
        "cluster": {"workers": 8, "workers_per_host": 2, "nics_per_host": 2},
        "fabric": {"rate": "100gbit", "topology": "leaf-spine", "leaves": 2, "spines": 2, "rails": True},
        "model": {"name": "toy", "batch": 1, "layers": [layer]},
        "costs": {"local_rate": {"value": "300GB/s", "source": "made up"}},
        "transport": {"agents": agents},
        "strategy": strategy,
        "run": {"warmup": 1, "iterations": 2},
    }
    run = gradwire.run(scenario, out=tmp_path / "run", progress=False)
    assert run.valid
    (point,) = run.points.to_dict("records")
    ports = run.ports()
    up = ports[ports["port"].isin(UPLINKS) & (ports["band"] > 0)]
    assert set(up["port"]) == set(UPLINKS)
    return point["iteration_time_s"], point["fluid_time_s"], int(up["bytes_sent"].sum())


@pytest.mark.parametrize("agents", ["one", "per-host"])
def test_an_allreduce_along_rails_keeps_to_the_leaves(tmp_path: Path, agents: str) -> None:
    """Each of a machine's two workers has a half, which it exchanges over its own NIC with three others."""
    strategy = {"name": "hierarchical-ring", "options": {"group": 2, "inside": "scatter-gather"}}
    time_s, ideal_s, up_bytes = carried(tmp_path, strategy, agents)
    assert up_bytes == 0
    half = SIZE_BYTES / 2
    inside_s, rail_s = 2 * half / LOCAL_BYTES_PER_S, 2 * 3 / 4 * half * 8 / (RATE_BPS * GOODPUT)
    assert time_s == pytest.approx(COMPUTE_S + inside_s + rail_s, rel=0.02)
    assert time_s == pytest.approx(ideal_s, rel=0.01)


def test_a_ring_over_all_workers_changes_rails_at_every_machine(tmp_path: Path) -> None:
    """The second worker of a machine sends to the first of the next one: from the second rail to the first, past a spine."""
    time_s, ideal_s, up_bytes = carried(tmp_path, {"name": "ring", "options": {}}, "one")
    # Two iterations, and the one that warms up, of four messages of 14 parts each.
    assert up_bytes == pytest.approx(3 * 4 * 14 * SIZE_BYTES / 8 * 1514 / 1448, rel=0.01)
    wire_s = 14 * SIZE_BYTES / 8 * 8 / (RATE_BPS * GOODPUT)
    assert time_s == pytest.approx(COMPUTE_S + wire_s, rel=0.02)
    assert time_s == pytest.approx(ideal_s, rel=0.01)


def test_switches_add_what_a_rail_sends(tmp_path: Path) -> None:
    """Each worker sends its half up to the leaf of its rail once, and gets the sum of all back, a piece behind what it still sends."""
    time_s, ideal_s, up_bytes = carried(tmp_path, {"name": "ddp", "options": {"algorithm": "in-network"}}, "one")
    assert up_bytes == 0
    half = SIZE_BYTES / 2
    assert time_s == pytest.approx(COMPUTE_S + half * 8 / (RATE_BPS * GOODPUT), rel=0.05)
    assert time_s == pytest.approx(ideal_s, rel=0.01)
