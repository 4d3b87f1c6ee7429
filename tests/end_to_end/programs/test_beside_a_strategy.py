"""Programs beside a strategy share its network as max-min fairness says, report figures, and make the point invalid when they fail."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from gradwire.csv_files import read_csv
from tests.end_to_end.programs.running import left_behind
from tests.shared.commands import gradwire_command
from tests.shared.parts import tells

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("virtual_kernel")]

COMPUTE_S, SIZE_BYTES, WORKERS = 0.002, 40e6, 4
SMALL = ("40MB", "1MB")
"""Where it does not matter how long the ring takes."""
TEXT = """
title = "A ring beside a backup"
[cluster]
workers = 4
[fabric]
rate = "10gbit"
[model]
name = "one-layer"
layers = [{ name = "fc", size = ["40MB"], forward = "1ms", backward = "1ms" }]
[strategy]
name = "ring"
[program.backup]
command = '$tool'
arguments = { tool = "true" }
hosts = ["h2", "h1"]
background = true
[run]
warmup = 1
"""
BACKUP = "eval 'case $GRADWIRE_HOST in h2) exec iperf3 -s;; h1) exec iperf3 -t 1000 -c h2;; esac'"


def run(
    folder: Path, tool: str, text: str = TEXT.replace(*SMALL)
) -> tuple[subprocess.CompletedProcess[str], dict[str, str]]:
    (folder / "beside.toml").write_text(text.replace("$tool", tool))
    done = gradwire_command("run", "beside.toml", "--out", "run", cwd=folder)
    (row,) = read_csv(folder / "run" / "points.csv")
    assert left_behind(folder) == []
    return done, row


def test_a_tenant_on_one_link_halves_what_a_ring_has_of_it(tmp_path: Path) -> None:
    """The ring's slowest link carries 2 (n - 1) / n of the model at half of the line's payload."""
    done, row = run(tmp_path, BACKUP.replace("'", "").removeprefix("eval "), TEXT)
    assert row["verdict"] == "valid", done.stdout + done.stderr
    bytes_on_the_link = 2 * (WORKERS - 1) / WORKERS * SIZE_BYTES
    ideal_s = COMPUTE_S + bytes_on_the_link * 8 / (10e9 * 1448 / 1538 / 2)
    assert float(row["iteration_time_s"]) == pytest.approx(ideal_s, rel=0.005)
    assert tells(done.stdout, "programs ran", "1 of 1 points")


def test_figures_of_programs_beside_a_strategy_are_kept(tmp_path: Path) -> None:
    tool = 'echo "{\\"begun_s\\": 1.5}" >>$GRADWIRE_FIGURES; echo working; exec sleep 1000'
    done, row = run(tmp_path, tool)
    assert row["verdict"] == "valid", done.stdout + done.stderr
    rows = read_csv(tmp_path / "run" / "figures.csv")
    assert [(each["program"], each["host"], each["begun_s"]) for each in rows] == [
        ("backup", "h2", "1.5"),
        ("backup", "h1", "1.5"),
    ]
    outputs = sorted((tmp_path / "run").glob("points/*/output/backup/*.out"))
    assert [output.read_text() for output in outputs] == ["working\n"] * 2


def test_a_program_that_fails_makes_the_point_invalid(tmp_path: Path) -> None:
    done, row = run(tmp_path, "test $GRADWIRE_HOST = h1")
    assert done.returncode == 1
    assert tells(row["verdict"], "invalid: ", "backup/h2", "status 1")


def test_a_program_that_never_starts_makes_the_point_invalid(tmp_path: Path) -> None:
    (tmp_path / "beside.toml").write_text(
        TEXT.replace(*SMALL).replace("$tool", "true").replace("background", 'start = "1h"\nbackground')
    )
    done = gradwire_command("run", "beside.toml", "--out", "run", cwd=tmp_path)
    assert done.returncode == 1
    (row,) = read_csv(tmp_path / "run" / "points.csv")
    assert "backup/h2 had not started" in row["verdict"]


def test_packets_are_captured_beside_programs_too(tmp_path: Path) -> None:
    tool = BACKUP.replace("'", "").removeprefix("eval ")
    (tmp_path / "beside.toml").write_text(TEXT.replace("40MB", "8MB").replace("$tool", tool) + 'capture = ["h1"]\n')
    done = gradwire_command("run", "beside.toml", "--out", "run", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
