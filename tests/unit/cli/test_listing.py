"""Commands that list what a scenario may say, for people and as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gradwire.workloads.models import model_names
from gradwire.workloads.strategy_registry import strategy_names
from tests.shared.parts import tells


@pytest.mark.parametrize(
    ("command", "name", "facts"),
    [
        ("scenarios", "geryon-table2", {"title"}),
        ("models", "resnet50", {"parameters", "batch", "layers", "source"}),
        ("devices", "k40", {"models", "memory_bytes", "description"}),
        ("strategies", "p3", {"options", "summary", "source", "from"}),
    ],
)
def test_lists_are_there_for_people_and_programs(call: Any, command: str, name: str, facts: set[str]) -> None:
    status, out, err = call(command)
    assert (status, err) == (0, "")
    assert name in out
    status, out, err = call(command, "--json")
    assert (status, err) == (0, "")
    assert facts <= {each["name"]: each for each in json.loads(out)}[name].keys()


@pytest.mark.parametrize(("command", "name"), [("models", "vgg16"), ("devices", "k80-half")])
def test_one_is_printed_as_a_file_which_can_be_listed_itself(
    call: Any, tmp_path: Path, command: str, name: str
) -> None:
    status, text, err = call(command, name, "--toml")
    assert (status, err) == (0, "")
    path = tmp_path / "mine.toml"
    path.write_text(text.replace(f'name = "{name}"', 'name = "mine"', 1))
    (built_in,), (mine,) = (json.loads(call(command, each, "--json")[1]) for each in (name, str(path)))
    assert mine == {**built_in, "name": "mine", "from": []}


def test_a_wrong_file_or_no_name_is_told(call: Any, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('name = "mine"\n')
    for words, named in (
        (("models", str(tmp_path / "mine.toml")), "batch: missing"),
        (("models", "--toml"), "`gradwire models "),
        (("devices", "k41"), "'k40'"),
    ):
        status, _, err = call(*words)
        assert status == 2
        assert named in err


def test_the_lists_are_whole(call: Any) -> None:
    assert [each["name"] for each in json.loads(call("models", "--json")[1])] == model_names()
    strategies = json.loads(call("strategies", "--json")[1])
    assert [each["name"] for each in strategies] == sorted([*strategy_names(), "replay"])
    (replay,) = (each for each in strategies if each["name"] == "replay")
    assert replay["from"] == ["gradwire"]


def test_a_key_is_explained(call: Any) -> None:
    status, out, _ = call("explain", "fabric.rate")
    assert status == 0
    assert tells(out, "required", "Line rate")
    (section,) = json.loads(call("explain", "fabric.rate", "--json")[1])
    assert [key["name"] for key in section["keys"]] == ["fabric.rate"]
    assert call("explain", "fabric.rte")[0] == 2
    assert "oversubscription" in call("explain")[1]


def test_the_schema_is_json_and_the_version_is_told(call: Any) -> None:
    assert json.loads(call("explain", "--json-schema")[1])["title"] == "gradwire scenario"
    status, out, _ = call("--version")
    assert status == 0
    assert out.startswith("gradwire 0.")
