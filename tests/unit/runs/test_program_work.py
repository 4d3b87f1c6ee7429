"""What points of programs are known by, and commands that cannot be executed."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from gradwire.faults import InputFault
from gradwire.programs.commands import command_defect
from gradwire.runs.planned_programs import PlannedPrograms, plan_programs
from tests.shared.parts import in_order, tells
from tests.shared.program_scenario_files import load_programs

TEXT = """
title = "Own"
[cluster]
workers = 2
[fabric]
rate = "10gbit"
[program.own]
command = "./own.sh $size"
arguments = { size = 3, verbose = true }
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a scenario and its program, which is the current one."""
    (tmp_path / "own.toml").write_text(TEXT)
    script = tmp_path / "own.sh"
    script.write_text("#!/bin/sh\necho $1\n")
    script.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def planned(here: Path, *settings: str) -> PlannedPrograms:
    (one,) = plan_programs(load_programs(here / "own.toml", settings).points, Path("runs/own"))
    return one


def test_a_key_changes_with_what_decides_the_result_and_not_with_limits(here: Path) -> None:
    first = planned(here).key
    assert planned(here, "run.time_limit=1h", "run.memory_mb=8192", "run.stall_limit=1h").key == first
    assert planned(here, "program.own.arguments.size=4").key != first
    assert planned(here, "fabric.rate=25gbit").key != first
    assert planned(here, "run.capture=h1").key != first
    assert planned(here, "run.cpu_time=1").key != first
    (here / "own.sh").write_text("#!/bin/sh\necho other\n")
    assert planned(here).key != first


def test_a_scenario_says_what_computation_takes(here: Path) -> None:
    assert planned(here).request(0, threading.Event()).cpu_time == 0
    assert planned(here, "run.cpu_time=2.5").request(0, threading.Event()).cpu_time == 2.5
    for wrong, said in (("0.0001", "at least 0.001"), ("-1", "run.cpu_time"), ("2000", "run.cpu_time")):
        with pytest.raises(InputFault, match=said):
            planned(here, f"run.cpu_time={wrong}")


def test_each_point_has_a_folder_of_its_own(here: Path) -> None:
    points = load_programs(here / "own.toml", ["program.own.arguments.size=[1,2]"]).points
    folders = [each.folder for each in plan_programs(points, Path("runs/own"))]
    assert len(set(folders)) == 2
    assert all(folder.parent == Path("runs/own/points") for folder in folders)


def test_arguments_become_variables_of_the_shell(here: Path) -> None:
    (started,) = planned(here).request(0, threading.Event()).programs
    assert (started.argv, started.variables) == (["/bin/sh", "-c", "./own.sh $size"], {"size": "3", "verbose": "true"})


@pytest.mark.parametrize(
    "command",
    [
        "true",
        "cd /tmp && ls",
        "A=1 ./none",
        "for i in 1 2; do true; done",
        "$program",
        "(nonesuch)",
        "test -e x",
        "/bin/sh -c nonesuch",
    ],
)
def test_what_a_shell_can_execute_is_taken(command: str) -> None:
    assert command_defect(command) == ""


def test_what_nobody_can_execute_is_refused_before_anything_boots(here: Path) -> None:
    for command in ("nonesuch -x", "./none.sh"):
        assert tells(command_defect(command), f"{command.split()[0]}:", "no such program")
    assert tells(command_defect("echo 'x"), "quotation", "echo 'x")
    foreign = here / "foreign"
    foreign.write_bytes(b"\x7fELF\x02\x01" + bytes(12) + b"\xb7\x00")
    foreign.chmod(0o755)
    assert "for AArch64" in command_defect(str(foreign))
    with pytest.raises(InputFault, match=in_order("own.toml:", "program.own.command:", "nonesuch:")):
        planned(here, "program.own.command=nonesuch")
    assert not (here / "runs").exists()


def test_programs_do_not_start_where_the_kernel_has_folders_of_its_own(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("/proc")
    with pytest.raises(InputFault, match=in_order("/proc", "not seen")):
        planned(here)


@pytest.mark.parametrize(
    "command",
    [
        "./own.sh --config=settings",
        "sh -c './own.sh settings'",
        "case $GRADWIRE_HOST in h1) ./own.sh settings;; esac",
        "(./own.sh settings)",
        "SETTINGS=settings ./own.sh",
        "./own.sh <settings",
    ],
)
def test_a_file_is_seen_wherever_a_command_names_it(here: Path, command: str) -> None:
    (here / "settings").write_text("1")
    setting = f"program.own.command={command}"
    first = planned(here, setting).key
    (here / "settings").write_text("2")
    assert planned(here, setting).key != first


def test_files_of_the_kernels_own_do_not_count(here: Path) -> None:
    setting = "program.own.command=cat /proc/uptime /proc/self/stat"
    assert planned(here, setting).key == planned(here, setting).key


def test_what_is_no_name_of_a_file_is_none(here: Path) -> None:
    script = "print(1);" * 100
    assert planned(here, f"program.own.command=python3 -c '{script}'").key
    assert "no such program" in command_defect("x" * 200_000)
    with pytest.raises(InputFault, match=r"program\.own\.arguments\.size: .*NUL"):
        planned(here, 'program.own.arguments.size="\\u0000"')
