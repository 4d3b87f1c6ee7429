"""How long the bursts of a run are, where the scenario does not say it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gradwire.analysis.report.run_notes import tell_finer_bursts
from gradwire.network.fabric import MAX_GSO_BYTES
from gradwire.runs.compiling import scale_division
from gradwire.runs.compiling.grain import FINE_GSO_BYTES, MOST_EFFECT, burst_effect
from gradwire.runs.compiling.ideal_times import rule_of
from gradwire.runs.planned import PlannedRun, plan_runs, virtual_clock
from gradwire.scenario.loading import resolve


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scale_division, "cache_folder", lambda: tmp_path / "cache")


FRAME_BYTES = 1514
GRAINS = ("64KiB", "12KiB", "1514B")


def planned(size: str, strategy: str = "p3", **fabric: Any) -> PlannedRun:
    layer = {"name": "a", "size": [size], "forward": "0ms", "backward": "0ms"}
    scenario = resolve(
        {
            "title": "Bursts",
            "cluster": {"workers": 16},
            "fabric": {"rate": "10gbit", **fabric},
            "model": {"name": "made-up", "layers": [layer]},
            "strategy": {"name": strategy},
        },
        "test",
        "test",
    )
    (found,) = plan_runs(scenario.points, Path("/nonexistent"), virtual_clock(scenario.points))
    return found


def test_where_a_burst_is_a_share_of_the_iteration_bursts_are_finer() -> None:
    """Measured: 1.078 times the ideal time in bursts of 64 KiB, 1.009 and 1.022 times in finer ones."""
    run = planned("1MB")
    assert run.fabric.gso_bytes == FRAME_BYTES
    effects = [burst_effect(run.plans, planned("1MB", gso=gso).fabric, rule_of(run.unsent_bytes)) for gso in GRAINS]
    assert effects[0] > 0.1
    assert effects[0] > effects[1] > MOST_EFFECT > effects[2]


def test_bursts_are_no_finer_than_they_have_to_be() -> None:
    assert planned("1MB", strategy="ring").fabric.gso_bytes == FINE_GSO_BYTES


@pytest.mark.parametrize(
    ("size", "fabric", "gso_bytes"),
    [
        ("100MB", {}, MAX_GSO_BYTES),
        ("1MB", {"gso": "64KiB"}, MAX_GSO_BYTES),
        ("1MB", {"gso": "32KiB"}, 32 << 10),
        ("1MB", {"buffer": "1MB"}, 1514),
    ],
)
def test_a_long_iteration_and_what_the_scenario_says_stay_as_they_are(
    size: str, fabric: dict[str, str], gso_bytes: int
) -> None:
    assert planned(size, **fabric).fabric.gso_bytes == gso_bytes


def test_the_limit_is_above_what_the_papers_have_and_the_note_names_the_key() -> None:
    assert 0.03 < MOST_EFFECT < 0.1, "more than ACKs take, and less than what bursts did to P3"
    assert tell_finer_bursts(2, FINE_GSO_BYTES).startswith("fabric.gso: ")
