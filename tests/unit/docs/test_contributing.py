"""What CONTRIBUTING.md promises: commands and paths that exist, one script for every CI, locked dependencies, news fragments."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.shared.snippets import ROOT
from tests.unit.docs.test_documentation import LINK

GUIDE = ROOT / "CONTRIBUTING.md"
FRAGMENTS = ROOT / "changelog.d"
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PYTHON = "Programming Language :: Python :: "
PINNED = re.compile(r"[\w./-]+@[0-9a-f]{40} # v[\d.]+")
IMAGE = re.compile(r".+@(sha256:[0-9a-f]{64}|\$\{\{ matrix\.python\.digest \}\})")


def toml() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_targets_and_paths_of_the_guide_exist() -> None:
    text, makefile = GUIDE.read_text(), (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"`?make ([a-z-]+)", text))
    assert {"check", "test", "lock"} <= targets
    assert {target for target in targets if not re.search(rf"^{target}:", makefile, re.MULTILINE)} == set()
    for path in re.findall(r"`((?:gradwire|tests|docs)/[\w/.-]*)`", text):
        assert (ROOT / path).exists(), path
    for link in LINK.findall(text):
        assert (ROOT / link.partition("#")[0]).exists(), link


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_pin_actions_and_containers_and_may_read_only_unless_they_publish(workflow: Path) -> None:
    text = workflow.read_text()
    used = re.findall(r"uses: (.*)", text)
    assert used
    assert [action for action in used if not PINNED.fullmatch(action)] == []
    assert [image for image in re.findall(r"container: (.*)", text) if not IMAGE.fullmatch(image)] == []
    assert "\npermissions:\n  contents: read\n" in text
    assert text.count("actions/checkout@") == text.count("persist-credentials: false")


def test_other_ci_runs_the_same_script_on_each_python() -> None:
    text = (ROOT / ".github" / "workflows" / "test.yml").read_text()
    assert text.endswith("run: su user -c .ci/run\n")
    tested = re.findall(r'version: "(\d\.\d+)[\d.]*"\n +digest: sha256:[0-9a-f]{64}\n', text)
    assert len(tested) == text.count("- version:")
    assert tested == [line.removeprefix(PYTHON) for line in toml()["project"]["classifiers"] if line.startswith(PYTHON)]


def locked(path: Path) -> set[str]:
    """Names of the packages in a lock, each of which has a version and hashes."""
    lock = path.read_text()
    pins = re.findall(r"^([\w.-]+)==[^\\]*\\\n((?: +--hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", lock, re.MULTILINE)
    assert len(pins) == len(re.findall(r"^[\w]", lock, re.MULTILINE))
    assert "://" not in lock
    return {name for name, _ in pins}


def test_every_dependency_is_locked_with_hashes_and_without_an_index() -> None:
    project = toml()["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    names = {re.split(r"[^\w.-]", line)[0].lower() for line in wanted}
    assert names - locked(ROOT / ".ci/requirements.txt") == set()


def test_the_tools_of_a_release_are_locked_too() -> None:
    wanted = (ROOT / "release" / "requirements.in").read_text().splitlines()
    names = {re.split(r"[^\w.-]", line)[0] for line in wanted if not line.startswith("#")}
    assert names - locked(ROOT / "release" / "requirements.txt") == set()


def test_fragments_have_a_kind_and_one_line() -> None:
    table = toml()["tool"]["towncrier"]
    kinds = "|".join(kind["directory"] for kind in table["type"])
    for path in FRAGMENTS.iterdir():
        if path.name in table["ignore"]:
            continue
        assert re.fullmatch(rf"[a-z0-9-]+\.({kinds})\.md", path.name), path.name
        assert len(path.read_text().splitlines()) == 1, f"{path.name}: one line"
