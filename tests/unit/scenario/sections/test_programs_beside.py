"""Programs beside a strategy: what a scenario of both resolves to, and what is refused before anything boots."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradwire.faults import InputFault
from gradwire.runs.planned import PlannedRun, plan_runs
from gradwire.scenario.loading import Scenario, load_scenario
from gradwire.scenario.resolution.compilation import ResolvedPoint
from gradwire.vm.machines import Clock

TEXT = """
title = "Beside"
[cluster]
workers = 2
[fabric]
rate = "10gbit"
[model]
name = "tiny"
layers = [{ name = "fc", size = ["1MB"], forward = "1ms", backward = "1ms" }]
[strategy]
name = "ring"
[program.tenant]
command = "true"
hosts = "h1"
"""


def loaded(folder: Path, *settings: str) -> Scenario:
    (folder / "beside.toml").write_text(TEXT)
    return load_scenario(folder / "beside.toml", settings)


def planned(folder: Path, *settings: str, clock: Clock | None = None) -> PlannedRun:
    (run,) = plan_runs(loaded(folder, *settings).points, folder, clock or Clock())
    return run


def test_a_program_has_a_class_of_the_network(tmp_path: Path) -> None:
    (point,) = loaded(tmp_path).points
    assert ResolvedPoint(point.section).fabric.classes == 1
    (point,) = loaded(tmp_path, "program.tenant.traffic_class=2").points
    assert ResolvedPoint(point.section).fabric.classes == 3


def test_programs_belong_to_the_key_of_a_run(tmp_path: Path) -> None:
    keys = {
        planned(tmp_path, *settings).key
        for settings in (
            (),
            ("program.tenant.start=1s",),
            ("program.tenant.command=echo",),
            ("program.tenant.hosts=h2",),
        )
    }
    assert len(keys) == 4
    assert planned(tmp_path).key in keys


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("program.tenant.hosts=h3", "program.tenant.hosts: no host is called 'h3'; hosts are h1 to h2"),
        ("program.tenant.command=nonesuch", "program.tenant.command: nonesuch: no such program on the PATH"),
        ("program.tenant.starts=1s", "program.tenant.starts: unknown key"),
    ],
)
def test_what_cannot_run_is_refused(tmp_path: Path, setting: str, said: str) -> None:
    with pytest.raises(InputFault) as fault:
        plan_runs(loaded(tmp_path, setting).points, tmp_path, Clock())
    assert said in str(fault.value)


def test_programs_need_the_virtual_clock_and_undivided_bytes(tmp_path: Path) -> None:
    with pytest.raises(InputFault, match="virtual clock only"):
        planned(tmp_path, clock=Clock("wall", 200))
    with pytest.raises(InputFault, match="fewer workers"):
        planned(tmp_path, clock=Clock(scale=2))
