"""Files with a user's controller: read and hashed, never run by gradwire, and handed over only for who gave the scenario."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from gradwire.faults import InputFault
from gradwire.named_code import COMMAND_LINE, permit
from gradwire.scenario.definitions.controller_files import controller_in, controller_text
from gradwire.scenario.loading import load_scenario
from tests.shared.parts import in_order

SCENARIO = """
title = "Ways of a controller"
cluster.workers = 4
fabric = {{ rate = "10gbit", topology = "leaf-spine", leaves = 2, spines = 2, {keys} }}
model = {{ name = "resnet50", device = "v100" }}
strategy.name = "{strategy}"
"""


def scenario(folder: Path, keys: str, strategy: str = "ring") -> Path:
    path = folder / "own.toml"
    path.write_text(SCENARIO.format(keys=keys, strategy=strategy))
    return path


def test_the_file_is_hashed_and_not_run(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("raise SystemExit('was run')")
    (point,) = load_scenario(scenario(tmp_path, 'controller = "app.py"')).points
    content = point.section.defined.controllers["app"]
    assert content.file == str(tmp_path / "app.py")
    assert point.resolved.fabric.controller == content.sha256
    assert controller_text(content.file, content.sha256) == "raise SystemExit('was run')"
    (tmp_path / "app.py").write_text("pass")
    with pytest.raises(InputFault, match=r"app\.py has changed"):
        controller_text(content.file, content.sha256)


def test_code_that_nobody_permitted_is_not_handed_over(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("pass")
    digest = hashlib.sha256(b"pass").hexdigest()
    with pytest.raises(InputFault, match="is not run"):
        controller_text(str(tmp_path / "app.py"), digest)
    permit(tmp_path / "app.py", COMMAND_LINE)
    assert controller_text(str(tmp_path / "app.py"), digest) == "pass"


@pytest.mark.parametrize(
    ("keys", "text", "words"),
    [
        ('controller = "app.py"', "def", "app.py: is not Python"),
        ('controller = "none.py"', "", "none.py: no such file"),
        ('controller = "app"', "", "fabric.controller = 'app': no such controller; give a .py file"),
        (
            'controller = "app.py", routing = "ecmp"',
            "",
            "routing = 'ecmp': leave it out, for fabric.controller says all ways",
        ),
        ('routing = "controller"', "", "controller: missing"),
    ],
)
def test_what_is_wrong_is_named(keys: str, text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(text)
    with pytest.raises(InputFault) as fault:
        [point.resolved.fabric for point in load_scenario(scenario(tmp_path, keys)).points]
    assert words in str(fault.value)


def test_what_cannot_be_read_is_named_once(tmp_path: Path) -> None:
    (tmp_path / "folder.py").mkdir()
    for name in ("folder.py", "bytes.py"):
        permit(tmp_path / name, COMMAND_LINE)
    with pytest.raises(InputFault, match=r"is a folder") as fault:
        controller_in(tmp_path / "folder.py")
    assert str(fault.value).count(f"{tmp_path}/folder.py") == 1
    (tmp_path / "bytes.py").write_bytes(b"\xff")
    with pytest.raises(InputFault, match=in_order("bytes.py:", "UTF-8")):
        controller_in(tmp_path / "bytes.py")


def test_bursts_on_one_switch_are_told_the_topology_that_they_need(tmp_path: Path) -> None:
    path = scenario(tmp_path, 'routing = "spray"')
    path.write_text(path.read_text().replace('topology = "leaf-spine", leaves = 2, spines = 2, ', ""))
    with pytest.raises(InputFault, match=in_order("'spray':", "fabric.topology = 'leaf-spine'")):
        load_scenario(path)
