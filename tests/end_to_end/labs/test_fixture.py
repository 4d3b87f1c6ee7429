"""The fixture `gradwire_lab`, the examples and the page's blocks, by pytest in a separate process, as users call it."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gradwire import PACKAGE
from tests.shared.parts import tells
from tests.shared.snippets import ROOT, snippets

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("virtual_kernel")]

GUIDE = ROOT / "docs" / "labs.md"
EXAMPLES = ROOT / "examples" / "labs"
WALL_LIMIT_S = 550.0
FAILING = """
def test_fails(gradwire_lab):
    net = gradwire_lab(seed=9)
    h1, s1 = net.host("h1"), net.switch()
    net.link(h1, s1)
    assert h1.run("echo oops >&2; exit 4").returncode == 0
"""


def by_pytest(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """`pytest WORDS` in a folder, with the plug-in even if this installation is older than its entry point."""
    known = {entry.name for entry in importlib.metadata.entry_points(group="pytest11")}
    plugin = [] if "gradwire" in known else ["-p", "gradwire.lab.pytest_plugin"]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    path = ":".join(filter(None, (str(PACKAGE.parent), kept.get("PYTHONPATH"))))
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *plugin, *words]
    return subprocess.run(
        command, cwd=folder, env=kept | {"PYTHONPATH": path}, capture_output=True, text=True, check=False,
        timeout=WALL_LIMIT_S,
    )  # fmt: skip


def test_a_failed_test_keeps_its_packets_and_says_where(tmp_path: Path) -> None:
    (tmp_path / "test_one.py").write_text(FAILING)
    done = by_pytest(tmp_path, "test_one.py")
    assert done.returncode == 1, done.stdout
    assert "seed 9, " in done.stdout
    assert tells(done.stdout, "status 4", "oops")
    packets = tmp_path / "gradwire-packets" / "test_one.py-test_fails" / "h1-eth0.pcapng"
    assert f"packets: {packets}" in done.stdout
    assert packets.read_bytes().startswith(b"\x0a\x0d\x0d\x0a")


@pytest.mark.parametrize("name", sorted(path.name for path in EXAMPLES.glob("test_*.py")))
def test_an_example_passes(tmp_path: Path, name: str) -> None:
    done = by_pytest(tmp_path, str(EXAMPLES / name), f"--rootdir={tmp_path}")
    assert done.returncode == 0, done.stdout


def test_the_page_does_what_it_shows(tmp_path: Path) -> None:
    for snippet in snippets(GUIDE):
        if snippet.file:
            (tmp_path / Path(snippet.file).name).write_text(snippet.text)
        elif snippet.language == "python":
            (tmp_path / "test_block.py").write_text(
                "def test_block():\n" + "".join(f"    {line}\n" for line in snippet.text.splitlines())
            )
    done = by_pytest(tmp_path, "test_block.py", "test_downloads.py")
    assert done.returncode == 0, done.stdout
