"""A scenario of programs, run as a user does: swept, kept, resumed, and judged."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from gradwire.csv_files import read_csv
from tests.end_to_end.programs.running import ENVIRONMENT, INTERRUPTIBLE, WALL_LIMIT_S, left_behind
from tests.shared.commands import gradwire_command
from tests.shared.parts import tells

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("virtual_kernel")]

TEXT = """
title = "Who waits for whom"
[cluster]
workers = 3
[fabric]
rate = "10gbit"
[program.server]
command = 'test $GRADWIRE_HOST = h1; echo listening; exec sleep 1000'
hosts = "h1"
background = true
[program.early]
command = 'sleep $pause && echo "{\\"pause_s\\": $pause, \\"ended_s\\": $(cut -d " " -f 1 /proc/uptime)}" >>$GRADWIRE_FIGURES'
arguments = { pause = 0.5 }
[program.late]
command = 'echo "{\\"ended_s\\": $(cut -d " " -f 1 /proc/uptime)}" >>$GRADWIRE_FIGURES'
hosts = "h3"
start = "2s"
[sweep]
"program.early.arguments.pause" = [0.5, 1.5]
"""


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return gradwire_command("run", "own.toml", *words, cwd=folder)


def test_programs_start_in_their_time_report_figures_and_are_not_run_twice(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(TEXT)
    done = run(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    folder = tmp_path / "runs" / "own"
    rows = read_csv(folder / "figures.csv")
    assert [(row["pause"], row["program"], row["host"]) for row in rows] == [
        (pause, program, host)
        for pause in ("0.5", "1.5")
        for program, host in (("early", "h1"), ("early", "h2"), ("early", "h3"), ("late", "h3"))
    ]
    assert [row["verdict"] for row in read_csv(folder / "points.csv")] == ["valid", "valid"]
    for point in read_csv(folder / "points.csv"):
        assert float(point["virtual_s"]) == pytest.approx(2, abs=0.05)
        early, late = (
            max(float(row["ended_s"]) for row in rows if row["pause"] == point["pause"] and row["program"] == program)
            for program in ("early", "late")
        )
        assert late - early == pytest.approx(2 - float(point["pause"]), abs=0.05)
    servers = sorted(folder.glob("points/*/output/server/h1.out"))
    assert [server.read_text() for server in servers] == ["listening\n"] * 2
    again = run(tmp_path)
    assert again.stdout.count("(already there)") == 2
    assert left_behind(tmp_path) == []


def test_a_program_that_fails_is_its_points_verdict_and_no_figure(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(TEXT.replace("sleep $pause &&", "test $pause = 0.5 &&"))
    done = run(tmp_path)
    assert done.returncode == 1
    assert tells(done.stdout, "failed: early/h", "status 1", "network carried all")
    assert "invalid" not in done.stdout
    assert tells(done.stdout, "1 of 2", "points failed")
    shown = gradwire_command("report", "own", cwd=tmp_path)
    assert tells(shown.stdout, "1 of 2", "points failed")


def test_ctrl_c_ends_all_machines_and_keeps_what_is_complete(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(
        TEXT.replace("sleep $pause", 'eval "sleep $pause"').replace("[0.5, 1.5]", '[0.5, "0.5; while :; do :; done"]')
    )
    process = subprocess.Popen(
        [*INTERRUPTIBLE, "run", "own.toml", "--set", "run.stall_limit=1h", "--jobs", "1"],
        cwd=tmp_path, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    for line in process.stdout:
        if "✓" in line:
            break
    spinning = tmp_path / "runs"
    while len(list(spinning.glob("own*/points/*/output/server/h1.out"))) < 2:
        assert process.poll() is None
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    rest = process.stdout.read()
    assert process.wait(WALL_LIMIT_S) == 130, rest
    assert "interrupted;" in rest
    assert left_behind(tmp_path) == []
    assert len(list(spinning.glob("own*/points/*/completed.json"))) == 1


def test_a_command_that_is_not_there_is_refused_before_anything_boots(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(TEXT)
    done = run(tmp_path, "--set", "program.late.command=nonesuch")
    assert done.returncode != 0
    assert "program.late.command: nonesuch: no" in done.stderr
    assert not (tmp_path / "runs").exists()


def test_the_network_of_programs_serves_a_shell_and_exec(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(TEXT)
    done = gradwire_command("exec", "own.toml", "--hosts", "h3", "--", "hostname", cwd=tmp_path)
    assert done.stdout.startswith("h3 | h3\n"), done.stderr
