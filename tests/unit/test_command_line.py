"""The command line: what it prints, and that every fault becomes one message and an exit status."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gradwire import command_line
from gradwire.faults import InternalFault, MachineFault
from gradwire.run.campaign import Campaign
from tests.shared.command_line import gradwire_says

SCENARIO = """
title = "A test"
[cluster]
workers = 2
[fabric]
rate = "10gbit"
[model]
name = "alexnet"
device = "k40"
[strategy]
name = "vanilla"
"""


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(SCENARIO)
    return path


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Any:
    """Runs the command line in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return partial(gradwire_says, monkeypatch, capsys)


def test_plan_prints_every_plan_and_writes_nothing(call: Any, scenario: Path, tmp_path: Path) -> None:
    status, out, err = call("plan", str(scenario), "--set", 'strategy.name=["vanilla","geryon"]')
    assert (status, err) == (0, "")
    assert "TensorFlow's parameter server" in out
    assert "plan 'vanilla', digest " in out
    assert "plan 'coarse', digest " in out
    assert "2 workers, 2 servers on 2 hosts" in out
    assert "busiest port: h" in out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["small.toml"]


def test_plan_prints_the_same_digest_every_time(call: Any, scenario: Path) -> None:
    assert call("plan", str(scenario)) == call("plan", str(scenario))


def test_a_shipped_scenario_is_found_by_its_name_alone(call: Any, tmp_path: Path) -> None:
    options = ("--set", "model.name=alexnet", "--set", "strategy.name=vanilla", "--set", "cluster.workers=2")
    assert call("plan", "geryon-table2", *options)[0] == 0
    status, _, err = call("plan", str(tmp_path / "geryon-table2.toml"), *options)
    assert status == 2
    assert "no such" in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["plan", "none.toml"], ["none.toml", "no such", "geryon-table2"]),
        (["plan", "small.toml", "--set", "model.nmae=x"], ["small.toml: model.nmae: unknown key", "'name'"]),
        (["plan", "small.toml", "--set", "cluster.workers=0"], ["cluster.workers = 0"]),
        (["plan", "small.toml", "--set", "strategy.name=[bold]"], ["strategy '[bold]' is unknown"]),
        (["plan", "small.toml", "--set", "model.name=alexnt"], ["small.toml: model.name: model 'alexnt' is not known"]),
        (["run", "small.toml", "--set", "model.device=k41"], ["small.toml: model.device: device 'k41' is not known"]),
        (
            ["plan", "small.toml", "--set", "strategy.name=rng"],
            ["small.toml: strategy.name: strategy 'rng' is unknown"],
        ),
        (["plan", "small.toml", "--set", "strategy.options.x=3"], ["small.toml: strategy.options of 'vanilla': x"]),
        (["plan", "small.toml", "--set", "cluster.stands_for=3"], ["small.toml: cluster.stands_for: not known"]),
        (["plan", "small.toml", "--set", "cluster.workers_per_host=3"], ["small.toml: cluster.workers_per_host = 3: "]),
        (["run", "small.toml", "--set", "fabric.gso=1kB"], ["small.toml: fabric.gso = 1000: must be 1514"]),
        (["run", "small.toml", "--clock", "foo"], ["--clock foo: must be virtual or wall"]),
        (["run", "small.toml", "--scale", "10"], ["--scale belongs to --clock wall"]),
        (["run", "small.toml", "--scale", "0", "--clock", "wall"], ["--scale"]),
        (["calibrate", "--rate", "fast"], ["--rate", "10gbit"]),
        (["calibrate", "--clock", "foo"], ["--clock foo"]),
        (["report", "."], ["no scenario.toml", "gradwire run"]),
        (["reproduce", "p3-fig99"], ["p3-fig99: no such paper or scenario", "geryon-table2"]),
        (["reproduce", "--check"], ["give --quick, and no names"]),
        (["reproduce", "--quick", "--accept", "geryon"], ["give --quick, and no names"]),
        (["frobnicate"], ["frobnicate"]),
    ],
)
def test_wrong_input_ends_with_2_and_says_what_is_wrong(
    call: Any, scenario: Path, words: list[str], said: list[str]
) -> None:
    status, out, err = call(*words)
    assert (status, out) == (2, "")
    for text in said:
        assert text in err
    assert "Traceback" not in err
    assert not (scenario.parent / "runs").exists()


def test_a_report_of_a_folder_that_never_ran(call: Any, scenario: Path, tmp_path: Path) -> None:
    (tmp_path / "scenario.toml").write_text(SCENARIO)
    status, _, err = call("report", ".")
    assert status == 2
    assert "clock.json" in err
    (tmp_path / "clock.json").write_text(json.dumps({"name": "virtual", "scale": 1}))
    status, _, err = call("report", ".")
    assert status == 2
    assert "has not run" in err


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (MachineFault("no [room]; run `mount [x]`"), 1, "error (machine): no [room]; run `mount [x]`"),
        (InternalFault("it is [/broken]"), 1, "error (bug in gradwire, please report it): it is [/broken]"),
        (KeyboardInterrupt(), 130, "the same command goes on from there"),
    ],
)
def test_faults_and_ctrl_c_of_a_run(
    call: Any, scenario: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, status: int, said: str
) -> None:
    def run(self: Campaign) -> Mapping[str, Any]:
        raise error

    monkeypatch.setattr(Campaign, "run", run)
    monkeypatch.setattr(command_line, "_ensure_kernel", lambda: None)
    ended, _, err = call("run", str(scenario), "--out", "results")
    assert ended == status
    assert said in err
    assert (scenario.parent / "results" / "scenario.toml").exists()
