"""Programs cannot forge what is said of their run: tests/end_to_end/programs/attacks.py tries each way."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gradwire.csv_files import read_csv
from gradwire.faults import InternalFault
from gradwire.vm.machine import Boot
from gradwire.vm.session import last_cpu, session
from tests.end_to_end.programs import attacks
from tests.end_to_end.programs.running import execute, left_behind
from tests.shared.commands import gradwire_command

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("virtual_kernel")]

SIZE = ("--workers", "2", "--rate", "10gbit")
ATTACKS = str(Path(attacks.__file__).resolve())
TEXT = f"""
title = "A ring beside a forger and one that stays"
[cluster]
workers = 2
[fabric]
rate = "10gbit"
[model]
name = "one-layer"
layers = [{{ name = "fc", size = ["40MB"], forward = "1ms", backward = "1ms" }}]
[strategy]
name = "ring"
[program.forger]
command = "python3 {ATTACKS} POINTS; exec sleep 1000"
hosts = "h1"
background = true
[program.stayer]
command = 'trap "" TERM; echo "all tried"; while :; do sleep 1; done'
hosts = "h2"
background = true
[run]
warmup = 1
"""


def test_a_program_that_fails_is_never_called_valid(tmp_path: Path) -> None:
    done = execute(tmp_path, *SIZE, "--hosts", "h1", "--", "python3", ATTACKS, str(tmp_path / "run"))
    assert done.output("h1") == "all tried\n", done.output("h1") + done.err
    assert done.status == attacks.STATUS
    assert done.summary()["statuses"] == {"h1": attacks.STATUS}
    assert left_behind(tmp_path) == []


def test_a_program_that_replaces_the_folder_of_its_run_is_told_of(tmp_path: Path) -> None:
    """The folder itself is covered, and what it lies in is the caller's own."""
    replace = f"cd {tmp_path} && mv runs gone && mkdir -p runs/one/output && echo forged >runs/one/summary.json"
    done = execute(tmp_path, "--out", "runs/one", *SIZE, "--hosts", "h1", "--", "sh", "-c", replace)
    assert done.status == 3
    assert "runs/one: was moved" in done.err
    assert "valid: " not in done.out


def test_what_a_program_leaves_running_is_ended_with_it(tmp_path: Path) -> None:
    left = "(setsid sh -c 'trap \"\" TERM; sleep 1; echo left >>left' &) ; sleep 0.5"
    script = f"{left}; test $GRADWIRE_HOST = h2 || sleep 100"
    done = execute(tmp_path, *SIZE, "--time-limit", "0.7s", "--", "sh", "-c", script)
    assert done.status == 3
    assert not (tmp_path / "left").exists()


def test_a_program_starts_others_on_hosts_with_the_same_rights(tmp_path: Path) -> None:
    """As an mpirun does, in whose place a shell stands here."""
    script = """
    export MINE=kept
    echo asked | /run/gradwire/enter-host h2 'cat; hostname; echo $MINE $GRADWIRE_HOST; pwd; exit 5'
    echo status $?
    /run/gradwire/enter-host h2 grep CapBnd /proc/self/status
    grep CapBnd /proc/self/status
    /run/gradwire/enter-host h9 true
    echo $?
    """
    done = execute(tmp_path, *SIZE, "--launch", "mpi", "--", "sh", "-c", script)
    assert done.status == 0, done.err
    *said, there_rights, here_rights, unknown = done.output("h1").splitlines()
    assert said == ["asked", "h2", "kept h2", str(tmp_path), "status 5"]
    assert there_rights == here_rights
    assert unknown == "255"
    assert "enter-host: " in done.output("h1", "err")


def test_programs_beside_a_strategy_reach_neither_its_log_nor_its_end(tmp_path: Path) -> None:
    (tmp_path / "beside.toml").write_text(TEXT.replace("POINTS", str(tmp_path / "run" / "points")))
    done = gradwire_command("run", "beside.toml", "--out", "run", cwd=tmp_path)
    outputs = {path.parent.name: path.read_text() for path in (tmp_path / "run").glob("points/*/output/*/h?.out")}
    assert outputs == {"forger": "all tried\n", "stayer": "all tried\n"}
    (row,) = read_csv(tmp_path / "run" / "points.csv")
    assert row["verdict"] == "valid", done.stdout + done.stderr
    assert float(row["iteration_time_s"]) == pytest.approx(float(row["lower_bound_s"]), rel=0.01)


def test_a_job_that_ends_without_a_word_is_told_of_at_once(tmp_path: Path) -> None:
    with (
        pytest.raises(InternalFault, match="ended before"),
        session(
            Boot([sys.executable, "-c", "raise SystemExit(3)"], {}, last_cpu(), tmp_path, memory_mb=512)
        ) as running,
    ):
        running.follow(print, finished=lambda: False)
    assert list(tmp_path.iterdir()) == []
