"""The plug-in of docs/adding-a-strategy.md, installed outside the tree, carries real traffic on four hosts in the time that it should."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gradwire import PACKAGE
from gradwire.scenario.loading import load_scenario
from gradwire.scenario.resolution.compilation import ResolvedPoint
from tests.shared.points_csv import read_points_csv
from tests.shared.snippets import PLUGIN_FOLDER, install_plugin

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("virtual_kernel")]

CLOSE = 0.03


def test_the_walk_through_on_the_real_fabric(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By hand: after the forward pass every port is busy with 1.5 times the model, for as a leaf of one tree a worker sends and gets
    half of it, and passing on in the other (to one child and the root, or to two children) twice half of it.
    """
    path, out = install_plugin(tmp_path), tmp_path / "run"
    scenario = tmp_path / PLUGIN_FOLDER.removeprefix("~/") / "two-tree.toml"
    command = [
        sys.executable,
        "-m",
        "gradwire",
        "run",
        str(scenario),
        "--out",
        str(out),
        "--set",
        "strategy.name=two-tree",
    ]
    environment = {**os.environ, "PYTHONPATH": f"{PACKAGE.parent}:{path}"}
    done = subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (row,) = read_points_csv(out / "points.csv")
    assert row.valid, row.verdict

    monkeypatch.syspath_prepend(path)
    section = load_scenario(scenario).points[0].section
    job = ResolvedPoint(section).job
    port_s = 1.5 * job.profile.size_bytes() * (1538 / 1448) * 8 / section.fabric.rate
    assert row.iteration_time_s == pytest.approx(sum(job.compute.forward_s) + port_s, rel=CLOSE)
