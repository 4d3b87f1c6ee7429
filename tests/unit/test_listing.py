"""Commands that list what a scenario may say, for people and as JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gradwire.workloads.models import model_names
from gradwire.workloads.registry import strategy_names
from tests.unit.test_command_line import call as call  # noqa: PLC0414


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


def test_the_lists_are_whole(call: Any) -> None:
    assert [each["name"] for each in json.loads(call("models", "--json")[1])] == model_names()
    assert [each["name"] for each in json.loads(call("strategies", "--json")[1])] == strategy_names()


def test_a_key_is_explained(call: Any) -> None:
    status, out, _ = call("explain", "fabric.rate")
    assert status == 0
    assert "Line rate of each host's link" in out
    assert "required" in out
    (section,) = json.loads(call("explain", "fabric.rate", "--json")[1])
    assert [key["name"] for key in section["keys"]] == ["fabric.rate"]
    assert call("explain", "fabric.rte")[0] == 2
    assert "oversubscription" in call("explain")[1]


def test_the_schema_is_json_and_the_version_is_told(call: Any) -> None:
    assert json.loads(call("explain", "--json-schema")[1])["title"] == "gradwire scenario"
    status, out, _ = call("--version")
    assert status == 0
    assert out.startswith("gradwire 0.")
