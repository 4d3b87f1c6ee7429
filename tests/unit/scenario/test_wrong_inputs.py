"""Every wrong input that the schema allows to think of is refused in clear lines, with the file and the key."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

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


def defect(path: Path, document: dict[str, Any], key: str) -> str | None:
    """What is wrong with how a wrong document is refused, if anything."""
    path.write_text(tomli_w.dumps(document))
    try:
        load_scenario(path)
    except InputFault as refused:
        lines = str(refused).splitlines()
    else:
        return "it is taken"
    if not all(line.startswith(f"{path}: ") for line in lines):
        return f"a line without the file: {lines}"
    if not any(line.startswith(f"{path}: {key}") for line in lines):
        return f"{key} is not named: {lines}"
    return f"jargon: {lines}" if any(JARGON.search(line) for line in lines) else None


def by_table(wrongs: Iterable[Wrong]) -> pytest.MarkDecorator:
    """Wrong scenarios as parameters, a test for each table: thousands of tests would take longer to hand out than to run."""
    tables: dict[str, list[Wrong]] = {}
    for wrong in wrongs:
        tables.setdefault(".".join(wrong.key.split(".")[:2]), []).append(wrong)
    return pytest.mark.parametrize("wrongs", tables.values(), ids=tables)


def defects(
    folder: Path, wrongs: list[Wrong], document: Callable[[Wrong], dict[str, Any]], prefix: str = ""
) -> list[str]:
    """The wrong scenarios of a table that are not refused as they should be, each with what is wrong about it."""
    found = {f"{w.key}: {w.mistake}": defect(folder / "wrong.toml", document(w), prefix + w.key) for w in wrongs}
    return [f"{case}: {what}" for case, what in found.items() if what]


def test_there_are_hundreds_of_them_and_none_twice() -> None:
    assert len(WRONG) >= 200
    assert len({repr(wrong.document) for wrong in WRONG}) == len(WRONG)


def test_what_they_are_drawn_from_is_right(tmp_path: Path) -> None:
    path = tmp_path / "right.toml"
    path.write_text(tomli_w.dumps(RIGHT))
    assert len(load_scenario(path).points) == 1


@by_table(WRONG)
def test_each_is_refused_with_file_and_key(tmp_path: Path, wrongs: list[Wrong]) -> None:
    assert defects(tmp_path, wrongs, lambda wrong: wrong.document) == []


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("cluster.workers", "cluster.workers: NoneType"),
        ("cluster.workers", "cluster.servers: must be a number"),
        ("cluster.workers", "must be a number"),
    ],
)
def test_a_bad_refusal_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str, text: str) -> None:
    path = tmp_path / "wrong.toml"

    def refuses(_path: Path) -> None:
        raise InputFault(f"{path}: {text}" if ":" in text else text)

    monkeypatch.setattr("tests.unit.scenario.test_wrong_inputs.load_scenario", refuses)
    assert defect(path, RIGHT, key)
    monkeypatch.undo()
    assert defect(path, RIGHT, key) == "it is taken"


def swept(wrong: Wrong) -> dict[str, Any]:
    """The wrong value in a list of a sweep that a case overrides everywhere, so that no point uses it."""
    *sections, last = wrong.key.split(".")
    value: Any = wrong.document
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


@by_table(IN_POINTS)
def test_each_is_refused_in_a_sweep_as_well(tmp_path: Path, wrongs: list[Wrong]) -> None:
    assert defects(tmp_path, wrongs, swept, "sweep.") == []
