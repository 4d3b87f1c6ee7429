"""What points are expected to cost: told before they run, learned from those that have ended, warned of where it is too much."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gradwire.datatypes.plan import Plan
from gradwire.runs.compiling import checked_plans
from gradwire.runs.expected_cost import (
    BOOT_S,
    BURST_S,
    HOST_S,
    MESSAGE_S,
    PAYLOAD_BYTES_PER_S,
    PYTHON_MESSAGE_S,
    REPORT_S,
    TimeLeft,
    announcement,
    expected_s,
    in_words,
    warnings,
)
from gradwire.runs.lasting_pace import MOST_KEPT, LastingPace
from gradwire.runs.planned import PlannedRun, plan_runs
from gradwire.scenario.loading import load_scenario
from gradwire.vm.machines import Clock
from gradwire.workloads.job import Cluster
from gradwire.workloads.strategy_registry import strategy as known_strategy
from tests.shared.parts import tells
from tests.unit.cli.test_command_line import SCENARIO

FIGURES = Path(__file__).parents[3] / "benchmarks" / "performance" / "figures.json"


def runs(tmp_path: Path, *settings: str) -> list[PlannedRun]:
    path = tmp_path / "small.toml"
    path.write_text(SCENARIO)
    return plan_runs(load_scenario(path, settings).points, tmp_path / "runs", Clock())


def test_more_bytes_hosts_and_messages_cost_more(tmp_path: Path) -> None:
    plain, longer, wider, finer = (
        expected_s(runs(tmp_path, *settings)[0])
        for settings in ((), ("run.iterations=9",), ("cluster.workers=4",), ("strategy.name=p3",))
    )
    assert plain < longer
    assert plain < wider
    assert plain < finer


def test_messages_that_agents_in_python_replay_cost_more(tmp_path: Path) -> None:
    compiled, in_python, multicast, faulty = (
        runs(tmp_path, *settings)[0]
        for settings in (
            (),
            ("transport.agent_code=python",),
            ("strategy.name=multicast-ps",),
            ('fault.far={kind="delay",link="h1",delay="2ms"}',),
        )
    )
    messages = compiled.iteration_messages * compiled.iterations
    more_s = (PYTHON_MESSAGE_S - MESSAGE_S) * messages
    assert expected_s(in_python) == pytest.approx(expected_s(compiled) + more_s)
    assert expected_s(faulty) == pytest.approx(expected_s(compiled) + more_s)
    start_s = BOOT_S + HOST_S * multicast.fabric.hosts
    assert expected_s(multicast) > start_s + PYTHON_MESSAGE_S * multicast.iteration_messages * multicast.iterations


@pytest.mark.parametrize("name", ["12800 messages", "128000 messages"])
def test_what_many_messages_took_is_about_what_is_expected(name: str) -> None:
    """Of the page docs/performance.md: a ring of 8 that sends 100 MB per host."""
    (row,) = (row for row in json.loads(FIGURES.read_text())["messages"] if row["name"] == name)
    expected = row["size_bytes"] / PAYLOAD_BYTES_PER_S + MESSAGE_S * row["messages"]
    assert 0.5 < expected / row["cpu_s"]["median"] < 2


def test_time_left_follows_what_points_took(tmp_path: Path) -> None:
    three = runs(tmp_path, "run.seed=[1,2,3]")
    each = expected_s(three[0])
    expectation = TimeLeft(three, 1)
    assert expectation.left_s() == pytest.approx(3 * each)
    assert TimeLeft(three, 2).left_s() == pytest.approx(1.5 * each)
    assert TimeLeft(three, 8).left_s() == pytest.approx(each)
    expectation.ended(three[0].folder, 2 * each)
    assert expectation.left_s() == pytest.approx(2 * 2 * each)
    assert expectation.left_s({three[1].folder: 0.5}) == pytest.approx(2 * 1.5 * each)
    expectation.ended(three[1].folder, 0.0)
    assert expectation.left_s() == pytest.approx(2 * each)
    expectation.ended(three[2].folder, each)
    assert expectation.left_s() == 0


def test_single_frames_cost_more_than_bursts(tmp_path: Path) -> None:
    deep, frames, finite = (
        runs(tmp_path, *settings)[0] for settings in ((), ("fabric.gso=1514B",), ("fabric.buffer=1MiB",))
    )
    bursts = deep.cost_bytes * (1 / 1514 - 1 / 65536)
    assert expected_s(frames) == pytest.approx(expected_s(deep) + BURST_S * bursts)
    assert expected_s(finite) == pytest.approx(expected_s(frames))


def test_what_the_last_runs_took_is_announced_the_next_time(tmp_path: Path) -> None:
    pace = LastingPace(tmp_path / "pace.json")
    three = runs(tmp_path, "run.seed=[1,2,3]")
    each = expected_s(three[0])
    expectation = TimeLeft(three, 1, pace)
    for run in three:
        assert pace.slower == 1.0
        expectation.ended(run.folder, 3 * each)
    assert pace.slower == pytest.approx(3)
    assert TimeLeft(three, 1, pace).left_s() == pytest.approx(9 * each)
    assert TimeLeft(three, 1).left_s() == pytest.approx(3 * each)
    assert in_words(9 * each + 3 * REPORT_S) in announcement(three, 1, pace)


def test_a_pace_is_the_median_of_the_last_runs(tmp_path: Path) -> None:
    pace = LastingPace(tmp_path / "pace.json")
    for took_s in (
        2.0,
        2.0,
        36000.0,
        0.01,
        4.0,
    ):  # a run is not the machine's pace where that slept, or where it ended early
        pace.note(1.0, took_s)
    assert pace.slower == 2.0
    pace.note(0.0, 5.0)  # programs, of which nothing is expected
    assert pace.slower == 2.0
    for _ in range(MOST_KEPT):
        pace.note(1.0, 0.5)
    assert pace.slower == 0.5
    pace.path.write_bytes(b"no JSON")
    assert pace.slower == 1.0


def test_it_is_announced_in_one_line(tmp_path: Path) -> None:
    assert tells(announcement([], 2), "nothing to run", "`gradwire run --fresh`")
    (line,) = announcement(runs(tmp_path, "run.seed=[1,2,3]"), 2).splitlines()
    assert tells(line, "3 points", "2 at a", "3,072 MiB")


@pytest.mark.parametrize(
    ("duration_s", "words"), [(0.2, "1 s"), (89, "89 s"), (90, "2 min"), (3540, "59 min"), (12_000, "3 h 20 min")]
)
def test_durations_in_words(duration_s: float, words: str) -> None:
    assert in_words(duration_s) == words


def test_a_limit_that_is_too_short_and_a_model_that_is_too_large_are_warned_of(tmp_path: Path) -> None:
    assert list(warnings(runs(tmp_path))) == []
    (too_short,) = warnings(runs(tmp_path, "run.time_limit=1s"))
    assert tells(too_short, "run.time_limit", "1 s")
    large = runs(tmp_path, "model.name=gpt2-xl", "model.iteration_time=1s", "run.seed=[1,2]")
    (too_large,) = warnings(large)
    assert tells(too_large, "gpt2-xl by", "24.9", "k40", "12 GiB")


def test_windows_that_do_not_fill_paths_are_warned_of_once(tmp_path: Path) -> None:
    far = [f'fault.far{host}={{kind="delay",link="h{host}",delay="2ms"}}' for host in (1, 2)]
    assert list(warnings(runs(tmp_path, *far))) == []
    (small,) = warnings(runs(tmp_path, *far, "transport.buffer=64KiB", "run.seed=[1,2]"))
    assert tells(small, "1 more:", "transport.buffer = 64KiB")
    (crowded,) = warnings(runs(tmp_path, *far, "transport.buffer=2000MiB", "run.memory_mb=512"))
    assert "2000MiB each (transport.buffer)" in crowded


@pytest.mark.parametrize(
    ("strategy", "options", "state_bytes"),
    [
        ("ring", {}, 12),
        ("zero1", {}, 4 + 12 / 8),
        ("zero2", {}, 2 + 14 / 8),
        ("fsdp", {}, 16 / 8),
        ("fsdp", {"shard": 4}, 16 / 4),
    ],
)
def test_what_a_worker_keeps_depends_on_how_the_model_is_divided(
    strategy: str, options: dict[str, object], state_bytes: float
) -> None:
    chosen = known_strategy(strategy)
    asked = chosen.options.model_validate(options)
    assert chosen.state_bytes(Cluster(8), asked) == pytest.approx(state_bytes)


def test_a_plan_that_was_found_in_order_is_not_checked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checked_plans, "cache_folder", lambda: tmp_path / "cache")
    checked: list[str] = []

    def check(plan: Plan, _: object) -> None:
        checked.append(plan.digest())

    monkeypatch.setattr(checked_plans, "check", check)
    runs(tmp_path, 'fabric.rate=["10gbit","25gbit"]')
    assert len(checked) == 1
    runs(tmp_path, "fabric.rate=40gbit")
    assert len(checked) == 1
    runs(tmp_path, "fabric.rate=40gbit", "strategy.name=ring")
    assert len(checked) == 2
