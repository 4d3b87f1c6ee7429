"""`gradwire init` writes a scenario that can be run, refuses answers of which there is none, and overwrites nothing."""

from __future__ import annotations

import resource
import sys
from pathlib import Path
from typing import Any

import pytest

from gradwire.scenario.loading import load_scenario
from gradwire.scenario.questions import QUESTIONS, TOPOLOGIES


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_what_it_writes_is_a_scenario_with_the_answers(call: Any, tmp_path: Path, topology: str) -> None:
    given = ("--rate", "40gbit", "--workers", "4", "--model", "vgg19", "--topology", topology)
    status, out, err = call("init", "first.toml", *given)
    assert (status, err) == (0, "")
    assert "gradwire plan first.toml" in out
    points = load_scenario(tmp_path / "first.toml", []).points
    assert {point.section.fabric.topology.value for point in points} == {topology}
    assert {(p.section.fabric.rate, p.section.cluster.workers, p.section.model.name) for p in points} == {
        (40e9, 4, "vgg19")
    }
    assert len(points) > 2


def test_what_is_asked_is_answered_at_a_terminal(call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    asked: list[str] = []

    def prompt(text: str, default: str) -> str:
        asked.append(text)
        return default

    monkeypatch.setattr("typer.prompt", prompt)
    assert call("init", "first.toml", "--rate", "10gbit")[0] == 0
    assert asked == [question.text for question in QUESTIONS if question.name != "rate"]


@pytest.mark.parametrize(
    ("option", "value", "why"),
    [
        ("--device", "v1000", "did you mean 'v100'"),
        ("--model", "resnet5", "did you mean"),
        ("--rate", "25", "must be a rate"),
        ("--topology", "ring", "must be single or leaf-spine"),
        ("--workers", "0", "workers"),
        ("--workers", "-1", "must be a whole number"),
        ("--model", 'a"\ntitle = "b', "no quotes"),
    ],
)
def test_answers_that_make_no_scenario_are_refused(
    call: Any, tmp_path: Path, option: str, value: str, why: str
) -> None:
    status, _, err = call("init", "first.toml", option, value)
    assert status == 2
    assert why in err
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_overwritten(call: Any, tmp_path: Path) -> None:
    (tmp_path / "first.toml").write_text("mine")
    assert call("init", "first.toml")[0] == 2
    (tmp_path / "link.toml").symlink_to(tmp_path / "nowhere")
    assert call("init", "link.toml")[0] == 2
    assert (tmp_path / "first.toml").read_text() == "mine"
    assert not (tmp_path / "nowhere").exists()


def test_a_scenario_that_cannot_be_written_whole_is_not_there(call: Any, tmp_path: Path) -> None:
    status, _, err = call("init", "\udcff.toml")
    assert (status, len(err) < 200, list(tmp_path.iterdir())) == (2, True, [])
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        status, _, err = call("init", "first.toml")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (status, "first.toml" in err, list(tmp_path.iterdir())) == (3, True, [])
