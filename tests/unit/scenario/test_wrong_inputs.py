"""Every wrong input that the schema allows to think of is refused in clear lines, with the file and the key."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import tomli_w

from gradwire.faults import InputFault
from gradwire.scenario.loading import load_scenario
from tests.unit.scenario.wrong_inputs import RIGHT, Wrong, put, wrong_inputs

WRONG = wrong_inputs()
JARGON = re.compile(
    r"Input should|unable to parse|Value error|Extra inputs|Field required"
    r"|valid (string|integer|number|boolean|array|dictionary|list|tuple)"
    r"|pydantic|Traceback|NoneType|<class|_type\b|greater than or equal|less than or equal"
)


def refusal(path: Path, document: dict[str, object]) -> str:
    path.write_text(tomli_w.dumps(document))
    with pytest.raises(InputFault) as refused:
        load_scenario(path)
    return str(refused.value)


def test_there_are_hundreds_of_them_and_none_twice() -> None:
    assert len(WRONG) >= 200
    assert len({repr(wrong.document) for wrong in WRONG}) == len(WRONG)


def test_what_they_are_drawn_from_is_right(tmp_path: Path) -> None:
    path = tmp_path / "right.toml"
    path.write_text(tomli_w.dumps(RIGHT))
    assert len(load_scenario(path).points) == 1


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: f"{wrong.key}: {wrong.mistake}")
def test_each_is_refused_with_file_and_key(tmp_path: Path, wrong: Wrong) -> None:
    path = tmp_path / "wrong.toml"
    lines = refusal(path, wrong.document).splitlines()
    assert all(line.startswith(f"{path}: ") for line in lines)
    assert any(line.startswith(f"{path}: {wrong.key}") for line in lines), lines
    assert not any(JARGON.search(line) for line in lines), lines


def swept(wrong: Wrong) -> dict[str, object]:
    """The wrong value in a list of a sweep that a case overrides everywhere, so that no point uses it."""
    *sections, last = wrong.key.split(".")
    value = wrong.document
    for step in wrong.key.split("."):
        value = value[step]
    right = put(RIGHT, ("strategy",), wrong.document["strategy"])
    return {**right, "sweep": {".".join([*sections, last]): [value]}}


IN_POINTS = [
    wrong
    for wrong in WRONG
    if wrong.key.split(".")[0] in RIGHT
    and wrong.key.count(".") == 1
    and wrong.key.split(".")[0] not in ("title", "strategy")
    and ".0" not in wrong.key
]


@pytest.mark.parametrize("wrong", IN_POINTS, ids=lambda wrong: f"{wrong.key}: {wrong.mistake}")
def test_each_is_refused_in_a_sweep_as_well(tmp_path: Path, wrong: Wrong) -> None:
    path = tmp_path / "wrong.toml"
    lines = refusal(path, swept(wrong)).splitlines()
    assert any(line.startswith(f"{path}: sweep.{wrong.key}") for line in lines), lines
    assert not any(JARGON.search(line) for line in lines), lines
