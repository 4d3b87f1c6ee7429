"""Priority flow control in the virtual-time kernel: incast without a drop, a victim as slow as theory says, a deadlock by
name, and no cost where nothing pauses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradwire
from benchmarks.lossless import JUMBO_BYTES, TRIANGLE, flow_rates_bps, victim_plans
from gradwire.agents.connections import SocketOptions
from gradwire.datatypes.pauses import PauseState
from gradwire.faults import MachineFault
from gradwire.network.fabric import Fabric, Topology
from gradwire.network.lossless import GSO_BYTES, Lossless
from gradwire.runs.replay import COUNTERS, ReplayedPlan, replay_plans
from gradwire.runs.stored.stored_run import StoredRun
from tests.shared.parts import tells

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("virtual_kernel")]

RATE_BPS = 100e9
SOCKETS = SocketOptions(48 << 20, unsent_bytes=None)
SMALL = Lossless(buffer_bytes=3_000_000)


def scenario(fabric: dict[str, Any], size: str, strategy: str, **cluster: Any) -> dict[str, Any]:
    return {
        "title": "lossless",
        "cluster": cluster,
        "fabric": {"rate": "100gbit", **fabric},
        "model": {"name": "toy", "layers": [{"name": "fc", "size": [size], "forward": "1ms", "backward": "1ms"}]},
        "strategy": {"name": strategy},
        "run": {"warmup": 1, "iterations": 2},
    }


def pauses_of(folder: Path) -> tuple[PauseState, StoredRun]:
    stored = StoredRun(next((folder / "points").iterdir()))
    state = stored.record().pauses
    assert state is not None
    return state, stored


def test_incast_of_seven_past_12_mb_drops_nothing_and_fills_the_line(tmp_path: Path) -> None:
    wanted = scenario({"lossless": {}}, "20MB", "kvstore", workers=7, servers=1, colocated=False)
    run = gradwire.run(wanted, out=tmp_path / "run", progress=False)
    point = run.points.iloc[0]
    assert point["verdict"] == "valid"
    # The second engine's time is that of the line: 140 MB to the server, 140 MB from it.
    assert point["iteration_time_s"] / point["fluid_time_s"] == pytest.approx(1, abs=0.01)
    state, stored = pauses_of(run.folder)
    told = [count for count in state.counts if count.pauses]
    assert {count.port for count in told} == {f"s1-eth{number}" for number in range(1, 8)}
    assert all(count.pauses == count.resumes > 100 for count in told)
    assert stored.record().counts.tcp_retransmits == 0
    events = stored.pauses()
    assert events is not None
    assert len(events.time_ns) == state.told == 2 * sum(count.pauses for count in told)


@pytest.fixture(scope="module")
def victims() -> dict[str, ReplayedPlan]:
    """Three hosts send to h5, h1 over the line between leaves. h2 sends over it as well, to h6, which is idle."""
    fabric = Fabric(
        8,
        RATE_BPS,
        Topology.LEAF_SPINE,
        leaves=2,
        spines=1,
        oversubscription=4,
        classes=2,
        gso_bytes=JUMBO_BYTES,
        lossless=SMALL,
    )
    return replay_plans(victim_plans(("same class", "own class")), fabric, 2, sockets=SOCKETS, reads=COUNTERS)


def test_a_victim_is_as_slow_as_the_port_that_it_has_nothing_to_do_with(victims: dict[str, ReplayedPlan]) -> None:
    replayed = victims["same class"]
    third_bps = RATE_BPS / 3 * replayed.fabric.goodput_share()
    # The line has a third of h5's port, and the victim as much of the line as the flow to h5.
    assert flow_rates_bps(replayed)[1, 5] == pytest.approx(third_bps, rel=0.02)
    assert replayed.counts is not None
    assert replayed.counts.tcp_retransmits == 0


def test_in_its_own_class_it_has_what_is_left_of_the_line(victims: dict[str, ReplayedPlan]) -> None:
    replayed = victims["own class"]
    rest_bps = RATE_BPS * 2 / 3 * replayed.fabric.goodput_share()
    assert flow_rates_bps(replayed)[1, 5] >= rest_bps * 0.95
    assert replayed.pauses is not None
    stopped = {(count.port, count.band) for count in replayed.pauses.counts if count.stops}
    assert ("s1-eth5", 1) in stopped
    assert ("s1-eth5", 2) not in stopped


def test_headroom_that_is_too_small_loses_frames_and_makes_the_run_invalid(tmp_path: Path) -> None:
    tight = {"lossless": {"buffer": "2MB", "headroom": "16KiB"}, "gso": "8KiB"}
    wanted = scenario(tight, "20MB", "kvstore", workers=7, servers=1, colocated=False)
    verdict = gradwire.run(wanted, out=tmp_path / "run", progress=False).points["verdict"].iloc[0]
    assert verdict.startswith("invalid: ")
    assert "headroom" in verdict


def test_routes_around_a_triangle_deadlock_are_foreseen_and_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "round.csv").write_text(TRIANGLE)
    fabric = {"topology": "ring", "switches": 3, "routing": "static", "lossless": {"buffer": "2MB"}}
    wanted = scenario({**fabric, "routes": str(tmp_path / "round.csv")}, "200MB", "ring", workers=3)
    verdict = gradwire.run(wanted, out=tmp_path / "run", progress=False).points["verdict"].iloc[0]
    for port, by in (("s1-eth3", "s3-eth3"), ("s3-eth2", "s2-eth3"), ("s2-eth2", "s1-eth2")):
        assert tells(verdict, port, f"paused by {by}")
    assert tells(verdict, "deadlock", "class 0")
    said = capsys.readouterr()
    assert "circle of buffers" in said.out + said.err + caplog.text


def test_a_ring_that_nothing_pauses_takes_as_long_as_without(tmp_path: Path) -> None:
    times_s = {}
    keys: dict[str, dict[str, Any]] = {"deep": {}, "lossless": {"lossless": {}}}
    for name, fabric in keys.items():
        shape = {"topology": "leaf-spine", "leaves": 2, "spines": 1}
        run = gradwire.run(
            scenario({**shape, **fabric}, "50MB", "ring", workers=8), out=tmp_path / name, progress=False
        )
        assert run.points["verdict"].iloc[0] == "valid"
        times_s[name] = float(run.points["iteration_time_s"].iloc[0])
        if fabric:
            state, _ = pauses_of(run.folder)
            assert sum(count.pauses for count in state.counts) == 0
    assert times_s["lossless"] == pytest.approx(times_s["deep"], rel=0.01)


def test_the_same_run_twice_is_the_same_to_the_nanosecond(victims: dict[str, ReplayedPlan]) -> None:
    first = victims["same class"]
    again = replay_plans(
        {"same class": first.plan, "own class": victims["own class"].plan},
        first.fabric,
        2,
        sockets=SOCKETS,
        reads=COUNTERS,
    )
    assert np.array_equal(again["same class"].log.end_ns, first.log.end_ns)
    assert again["same class"].pauses == first.pauses


def test_a_kernel_without_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    fabric = Fabric(2, 1e9, classes=1, gso_bytes=GSO_BYTES, lossless=SMALL)
    monkeypatch.setattr("gradwire.topo.flow_control.CONTROL_FILE", "/proc/no-such-file")
    from gradwire.topo.flow_control import FlowControl  # noqa: PLC0415 (after the change)

    class _Network:
        def __init__(self) -> None:
            self.fabric = fabric

    with pytest.raises(MachineFault, match="priority flow control"):
        FlowControl(_Network(), SMALL)  # type: ignore[arg-type] # it is refused before it is used
