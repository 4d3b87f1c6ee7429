"""Commands that are killed in the middle of a run, on both clocks, and what `gradwire clean` then removes, beside a run that goes on."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from gradwire.vm.host import NAMESPACES
from gradwire.vm.owners import is_gone, owner_of_process
from tests.shared.commands import gradwire_command

SCENARIO = """
title = "To be killed"
[cluster]
workers = 2
[fabric]
rate = "100mbit"
[model]
name = "one-layer"
layers = [{ name = "fc", size = ["100KB"], forward = "1ms", backward = "1ms" }]
[strategy]
name = "ring"
[run]
warmup = 1
"""
ROOT = Path(__file__).parents[3]
LIMIT_S = 120.0
WALL = ["--clock", "wall", "--scale", "10"]
HAS_WALL = os.geteuid() == 0 and subprocess.run([*NAMESPACES, "true"], check=False, capture_output=True).returncode == 0


def began(folder: Path, name: str, iterations: int, *words: str) -> subprocess.Popen[bytes]:
    """A run whose replay has begun."""
    command = [
        sys.executable,
        "-m",
        "gradwire",
        "run",
        str(folder / "scenario.toml"),
        "--out",
        str(folder / "runs" / name),
    ]
    with (folder / f"{name}.txt").open("w") as output:
        run = subprocess.Popen(
            [*command, "--set", f"run.iterations={iterations}", *words],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    end_s = time.monotonic() + LIMIT_S
    while not any('"replay"' in log.read_text() for log in (folder / "runs" / name).glob("points/*/log.txt")):
        # Whoever yields instead of waiting for the run's end keeps the CPU from the run, where the scheduler prefers the tests.
        with suppress(subprocess.TimeoutExpired):
            run.wait(0.05)
        assert run.poll() is None, (folder / f"{name}.txt").read_text()
        assert time.monotonic() < end_s
    return run


def cleaned(folder: Path, *words: str) -> str:
    done = gradwire_command(
        "clean",
        *words,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(folder / "tmp")},
        limit_s=LIMIT_S,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.usefixtures("virtual_kernel")
def test_what_killed_runs_leave_is_removed_and_a_run_beside_them_ends_well(tmp_path: Path) -> None:
    (tmp_path / "scenario.toml").write_text(SCENARIO)
    (tmp_path / "tmp").mkdir()
    lives = began(tmp_path, "lives", 100)
    killed = [began(tmp_path, "virtual", 100_000)] + ([began(tmp_path, "wall", 100_000, *WALL)] if HAS_WALL else [])
    for run in killed:
        run.kill()
        run.wait(120)
    abandoned = (
        tmp_path / "tmp" / f"gradwire-{killed[0].pid:010d}.{1:020d}.{Path('/proc/self/ns/pid').stat().st_ino:010d}-x"
    )
    foreign = tmp_path / "tmp" / "gradwire-of-somebody"
    for folder in (abandoned, foreign):
        folder.mkdir()

    announced = cleaned(tmp_path, "--dry-run")
    assert abandoned.exists()
    said = cleaned(tmp_path)

    for name in ("virtual", "wall")[: len(killed)]:
        assert f"removed lock {Path('runs') / name / '.lock.json'}" in said
        assert not list((tmp_path / "runs" / name).rglob(".kernel"))
    assert f"removed temporary folder {abandoned}" in said
    assert str(abandoned) in announced
    assert foreign.exists()
    assert "lives" not in said
    assert not [folder for folder in Path("/proc").glob("[0-9]*") if _is_left(int(folder.name), killed)]
    assert cleaned(tmp_path).startswith("nothing")
    assert lives.wait(LIMIT_S) == 0, (tmp_path / "lives.txt").read_text()


def _is_left(pid: int, killed: list[subprocess.Popen[bytes]]) -> bool:
    owner = owner_of_process(pid)
    return owner is not None and is_gone(owner) and int(owner[:10]) in {run.pid for run in killed}
