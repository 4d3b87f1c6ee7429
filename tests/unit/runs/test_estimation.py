"""`gradwire estimate`: every point of a scenario by the fluid engine, compiled once where the network's rate is all that differs."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from gradwire.analysis.bounds import bounds
from gradwire.analysis.fluid.estimate import Buffered
from gradwire.cli.estimates import estimates_table
from gradwire.documents import Document
from gradwire.faults import InputFault
from gradwire.runs import estimation
from gradwire.runs.compiling import many_points as shared_plans
from gradwire.runs.compiling.ideal_times import HELD_S, fluid_times, held_rule
from gradwire.runs.estimation import (
    MODEL_NOT_RUN,
    estimate_points,
)
from gradwire.scenario.loading import Scenario, resolve
from gradwire.scenario.resolution.compilation import compile_plans, compile_point
from gradwire.scenario.resolution.transport_fit import buffer_bytes
from gradwire.workloads import plan_size
from tests.shared.command_line import gradwire_says
from tests.shared.parts import in_order

TEXT = """
title = "small"

[cluster]
workers = 2

[fabric]
rate = "10gbit"

[model]
name = "alexnet"
device = "k40"

[strategy]
name = "ring"

[sweep]
"strategy.name" = ["ring", "vanilla"]
"fabric.rate" = ["1gbit", "10gbit", "100gbit"]
"""


def scenario(**sweep: list[Any]) -> Scenario:
    document: Document = {
        "title": "small",
        "cluster": {"workers": 2},
        "fabric": {"rate": "10gbit"},
        "model": {"name": "alexnet", "device": "k40"},
        "strategy": {"name": "ring"},
        "sweep": {key.replace("__", "."): values for key, values in sweep.items()},
    }
    return resolve(document, "test", "small")


def test_every_point_is_estimated_in_its_place_by_any_number_of_processes() -> None:
    points = scenario(strategy__name=["ring", "vanilla"], fabric__rate=["1gbit", "10gbit", "100gbit"]).points
    estimates = estimate_points(points, jobs=2)
    assert [estimate.parameters for estimate in estimates] == [point.parameters for point in points]
    for point, estimate in zip(points, estimates, strict=True):
        compiled = compile_point(point.section)
        (plan,) = compiled.plans.values()
        rule = held_rule(compiled.unsent_bytes, compiled.fabric, buffer_bytes(point.section, compiled.fabric))
        assert estimate.iteration_time_s == fluid_times(plan, compiled.fabric, rule).iteration_s
        assert estimate.lower_bound_s == bounds(plan, compiled.fabric).lower_bound_s <= estimate.iteration_time_s
    alone = estimate_points(points, jobs=1)
    assert [estimate.iteration_time_s for estimate in alone] == [estimate.iteration_time_s for estimate in estimates]


def test_what_queues_hold_is_in_an_estimate_unless_a_rule_is_given() -> None:
    """An ideal network, which holds nothing, would have netops-ps 1.25 times as slow, and last."""
    document: Document = {
        "title": "one question",
        "cluster": {"workers": 4},
        "fabric": {"rate": "10gbit"},
        "model": {"name": "resnet50", "device": "v100"},
        "strategy": {"name": "ring"},
        "sweep": {
            "strategy": [{"name": "netops-ps", "options": {"placement": "split"}}, {"name": "p3"}, {"name": "ring"}]
        },
    }
    points = resolve(document, "test", "one question").points
    split, p3, ring = estimate_points(points, jobs=1)
    # Measured on the emulated network: 0.1436, 0.1356 +- 0.0046 and 0.1585 s.
    assert (split.iteration_time_s, p3.iteration_time_s, ring.iteration_time_s) == pytest.approx(
        (0.1436, 0.1356, 0.1585), rel=0.015
    )
    assert [point.is_ranked for point in (split, p3, ring)] == [False, True, True]
    foot = estimates_table("", [split, p3, ring], 1.0).foot
    told = rf"An estimate does not rank [^;]*netops-ps[^;]* \({split.by_queues:.1%}\): so much depends on how much queues hold"
    assert re.search(told, foot)
    ideal, *_ = estimate_points(points, jobs=1, send_ends="departure")
    assert ideal.iteration_time_s > 1.2 * split.iteration_time_s
    assert ideal.by_queues == 0
    fabric = compile_point(points[0].section).fabric
    assert held_rule(None, fabric, 1 << 30) == Buffered(round(HELD_S * 10e9 / 8 * fabric.goodput_share()))
    assert held_rule(256_000, fabric, 65536) == Buffered(256_000 + 65536), "a socket's buffer bounds it"


def test_the_fastest_of_several_candidates_is_kept() -> None:
    (point,) = scenario(model=[{"name": "resnet50", "device": "k40"}], strategy__name=["geryon"]).points
    compiled = compile_point(point.section)
    assert len(compiled.plans) > 1
    times_s = {label: fluid_times(plan, compiled.fabric).iteration_s for label, plan in compiled.plans.items()}
    (estimate,) = estimate_points([point], jobs=1)
    assert estimate.plan == min(times_s, key=lambda label: times_s[label])


def compilations(monkeypatch: pytest.MonkeyPatch, loaded: Scenario) -> int:
    """How often a strategy compiles."""
    count = 0

    def counted(*arguments: Any) -> Any:
        nonlocal count
        count += 1
        return compile_plans(*arguments)

    monkeypatch.setattr(shared_plans, "compile_plans", counted)
    monkeypatch.setattr(estimation, "_PLANS", shared_plans.SharedPlans())
    estimate_points(loaded.points, jobs=1)
    return count


def test_a_plan_that_does_not_depend_on_the_rate_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rates = ["1gbit", "10gbit", "100gbit"]
    swept = scenario(fabric__rate=rates, strategy__name=["ring", "vanilla"])
    assert compilations(monkeypatch, swept) == 2


def test_a_plan_whose_strategy_looks_at_the_rate_is_compiled_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    swept = scenario(fabric__rate=["1gbit", "10gbit"], strategy=[{"name": "tictac", "options": {"order": "tac"}}])
    assert compilations(monkeypatch, swept) == 2


def test_a_wrong_point_is_named() -> None:
    (point,) = scenario(strategy=[{"name": "ring", "options": {"colour": 1}}]).points
    with pytest.raises(InputFault, match=r"test: strategy\.options\.colour"):
        estimate_points([point], jobs=1)


def test_what_is_too_large_is_told_before_anything_is_estimated(monkeypatch: pytest.MonkeyPatch) -> None:
    """The largest cluster is last in the scenario."""
    swept = scenario(cluster__workers=[2, 4, 16], fabric__rate=["1gbit", "10gbit"])
    ops = [len(plan.ops) for point in swept.points for plan in compile_point(point.section).plans.values()]
    monkeypatch.setattr(plan_size, "MOST_OPS", max(ops) - 1)
    monkeypatch.setattr(estimation, "fluid_times", None)
    monkeypatch.setattr(estimation, "_PLANS", shared_plans.SharedPlans())
    with pytest.raises(InputFault, match=in_order("test:", "'ring'", "ops")):
        estimate_points(swept.points, jobs=1)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(TEXT)
    return path


def test_the_command_prints_a_table_and_writes_the_rows(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = file.with_suffix(".csv")
    status, out, err = gradwire_says(monkeypatch, capsys, "estimate", str(file), "--out", str(rows), "--jobs", "1")
    assert status == 0, err
    assert MODEL_NOT_RUN.partition(".")[0] in out
    assert f"rows: {rows}" in out
    assert len(rows.read_text().splitlines()) == 7


def test_the_command_prints_json_alone(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told = gradwire_says(monkeypatch, capsys, "estimate", str(file), "--json", "--jobs", "1", "--send-ends", "buffered")
    points = json.loads(told[1])["points"]
    assert [point["parameters"]["rate"] for point in points] == ["1gbit", "10gbit", "100gbit"] * 2
    assert all(point["x_bound"] >= 1 for point in points)


def test_a_wrong_rule_is_refused(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    status, _, err = gradwire_says(monkeypatch, capsys, "estimate", str(file), "--send-ends", "never")
    assert (status, "departure or buffered" in err) == (2, True)


def test_faults_have_no_part_in_an_estimate_which_says_so(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fault = [f"--set=fault.cut.{each}" for each in ("kind=link-down", "link=h2", "at=10ms", "duration=5ms")]
    status, out, err = gradwire_says(monkeypatch, capsys, "estimate", str(file), *fault, "--json")
    told = "an ideal network has no faults: estimates of 6 of 6 points are as if [fault.cut] never happened"
    assert (status, json.loads(out)["warnings"]) == (0, [told])
    assert f"WARNING: {told}" in err
    status, out, err = gradwire_says(monkeypatch, capsys, "estimate", str(file), "--json")
    assert (status, json.loads(out)["warnings"], err.count("WARNING")) == (0, [], 0)


def test_what_drops_marks_and_jitters_is_named(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    keys = ["--set=fabric.loss=0.001", "--set=fabric.link.h2.jitter=1ms", "--set=fabric.link.h2.loss=0.01"]
    _, out, _ = gradwire_says(monkeypatch, capsys, "estimate", str(file), *keys, "--json")
    dropped, jittered = json.loads(out)["warnings"]
    assert 'fabric.link."h2".loss, fabric.loss' in dropped
    assert "jitter" in jittered


def small_far(**sections: dict[str, Any]) -> Scenario:
    """A ring of two hosts, one of them 10 ms away."""
    document: dict[str, Any] = {
        "title": "far",
        "cluster": {"workers": 2},
        "fabric": {"rate": "10gbit", "link": {"h2": {"delay": "10ms"}}},
        "model": {"name": "alexnet", "device": "k40"},
        "strategy": {"name": "ring"},
    }
    return resolve(document | sections, "test", "far")


def test_a_buffer_that_is_too_small_for_its_way_is_in_an_estimate() -> None:
    """Two thirds of 1 MiB per round trip of 20 ms are 0.28 Gbit/s."""
    ample, small = (
        estimate_points(small_far(**more).points, jobs=1)[0].iteration_time_s
        for more in ({}, {"transport": {"buffer": "1MiB"}})
    )
    sent_bytes = 244e6  # AlexNet's gradients, once in and once out at each of two hosts: half of them twice.
    assert small > 3 * ample
    assert small == pytest.approx(sent_bytes / (2 / 3 * 2**20 / 0.02), rel=0.1)


def test_copies_on_links_of_different_delays_are_said_to_be_estimated_roughly() -> None:
    document: dict[str, dict[str, Any]] = {
        "fabric": {"rate": "10gbit", "link": {"h2": {"delay": "1ms"}}},
        "strategy": {"name": "multicast-ps"},
    }
    (told,) = estimate_points(small_far(cluster={"workers": 4, "servers": 1}, **document).points, jobs=1)
    assert "multicast" in told.left_out
    assert told.left_out in estimates_table("", [told], 1.0).foot
