"""Points of programs in the run loop that those of plans have: resumed, side by side, and their failures kept as verdicts."""

from __future__ import annotations

import io
import json
import re
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from gradwire.console.live_progress import LiveProgress
from gradwire.console.terminal_screen import TerminalScreen
from gradwire.faults import InputFault, MachineFault
from gradwire.inside.point_protocol import write_json
from gradwire.programs.execution import SUMMARY_FILE, JobRequest, ProgramRunSummary
from gradwire.runs import planned_programs
from gradwire.runs.campaign import Campaign, run_side_by_side
from gradwire.runs.executing.executor import LocalPool
from gradwire.runs.executing.executor_choice import Where
from gradwire.runs.launch.scenario_run import carry_out_several, prepare
from gradwire.runs.planned_programs import PlannedPrograms, plan_programs
from gradwire.runs.program_work import ProgramJudgedRun
from gradwire.runs.stored.run_folder import write_run_folder
from gradwire.runs.works import judge_stored, work_of_scenario
from gradwire.scenario.program_scenarios import programs_of
from gradwire.vm.kernel_death import STOPPED, DeathCause, KernelFault
from gradwire.vm.machines import Clock
from tests.shared.command_line import needs_no_kernel
from tests.shared.parts import tells
from tests.unit.runs.test_program_verdicts import REPORT

SCENARIO = {
    "title": "Two rates",
    "cluster": {"workers": 2},
    "sweep": {"fabric.rate": ["1gbit", "10gbit"]},
    "program": {"client": {"command": "sh -c true", "hosts": ["h2"]}},
}
Execute = Callable[[JobRequest], None]


def planned(folder: Path) -> list[PlannedPrograms]:
    return plan_programs(programs_of(SCENARIO).points, folder)


def leave_summary(request: JobRequest) -> None:
    """What a run leaves whose only program ended well."""
    summary = ProgramRunSummary((("sh",),), {"client/h2": 0}, "", 6.0, 1 << 27, REPORT)
    write_json(request.folder / SUMMARY_FILE, summary, indent=1)


def run(
    monkeypatch: pytest.MonkeyPatch, folder: Path, execute: Execute
) -> tuple[list[ProgramJudgedRun], list[str], str]:
    """Runs the points with this in the machine's place: what they are worth, the folders that ran, and what a terminal shows."""
    ran: list[str] = []

    def machine(request: JobRequest) -> None:
        ran.append(request.folder.name)
        execute(request)

    monkeypatch.setattr(planned_programs, "execute", machine)
    console = Console(file=io.StringIO(), width=200)
    with LiveProgress(console, 2) as progress:
        done = Campaign(planned(folder), folder, LocalPool(1), progress).run()
    assert isinstance(console.file, io.StringIO)
    return done, ran, console.file.getvalue()


def test_what_came_to_its_end_does_not_run_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    first, ran, shown = run(monkeypatch, tmp_path, leave_summary)
    assert [one.valid for one in first] == [True, True]
    assert ran == [each.folder.name for each in planned(tmp_path)]
    assert len(re.findall(r"0\.010000 s .*0 rows .*\(6 s ", shown)) == 2
    again, ran, shown = run(monkeypatch, tmp_path, leave_summary)
    assert ([one.reused for one in again], ran) == ([True, True], [])
    assert shown.count("(already there)") == 2


def test_a_fault_is_the_verdict_of_its_point_alone_and_that_point_runs_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    unlucky = planned(tmp_path)[0].folder

    def machine(request: JobRequest) -> None:
        if request.folder == unlucky:
            raise MachineFault("out of luck")
        leave_summary(request)

    first, _, shown = run(monkeypatch, tmp_path, machine)
    assert [one.verdict.summary for one in first] == ["invalid: out of luck", "valid"]
    assert "invalid: out of luck" in shown
    again, ran, _ = run(monkeypatch, tmp_path, leave_summary)
    assert ([one.valid for one in again], ran) == ([True, True], [unlucky.name])


def test_a_completion_of_before_which_has_its_key_alone_is_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    run(monkeypatch, tmp_path, leave_summary)
    for point in planned(tmp_path):
        (point.folder / "completed.json").write_text(json.dumps({"key": point.key}))
        (point.folder / "seals.json").unlink()
    assert run(monkeypatch, tmp_path, leave_summary)[1] == []


def test_a_summary_that_was_changed_is_no_result(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    run(monkeypatch, tmp_path, leave_summary)
    point = planned(tmp_path)[0]
    summary = point.folder / SUMMARY_FILE
    summary.write_text(summary.read_text().replace("6.0", "5.0"))
    with pytest.raises(InputFault, match=r"summary\.json: .*changed"):
        judge_stored(point.stored, point.point)


def test_a_point_whose_machine_was_stopped_says_so_in_its_result_and_its_report(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    boots: list[str] = []

    def machine(request: JobRequest) -> None:
        boots.append(request.folder.name)
        if boots.count(request.folder.name) == 1:
            raise KernelFault("it was ended", DeathCause(STOPPED, "a signal stopped it", "again"))
        leave_summary(request)

    done, _, shown = run(monkeypatch, tmp_path, machine)
    assert [one.completion and one.completion.stopped for one in done] == [1, 1]
    assert shown.count("begun 2 times)") == 2
    scenario = programs_of(SCENARIO)
    write_run_folder(tmp_path, scenario.document, Clock())
    work_of_scenario(scenario).write_report(scenario, done, tmp_path, tmp_path)
    assert tells((tmp_path / "report.html").read_text(), "by a signal", "2 points: 1gbit")


def test_scenarios_side_by_side_have_a_folder_and_a_report_each_and_lines_that_say_whose_they_are(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    names = ("first", "second")
    together = threading.Barrier(len(names), timeout=120)

    def machine(request: JobRequest) -> None:
        together.wait()
        leave_summary(request)

    monkeypatch.setattr(planned_programs, "execute", machine)
    needs_no_kernel(monkeypatch)
    screen = TerminalScreen(Console(file=io.StringIO(), width=200), Console(file=io.StringIO()))
    one_rate = SCENARIO | {"sweep": {"fabric.rate": ["1gbit"]}}
    prepared = [prepare(programs_of(one_rate), Clock(), tmp_path / name, screen) for name in names]
    done = carry_out_several(prepared, Where(jobs=len(names)), "test", screen)
    assert [each.valid for each in done] == [True, True]
    for name, each in zip(names, done, strict=True):
        assert [run.folder.parent.parent for run in each.runs] == [tmp_path / name]
        assert {"report.html", "points.csv", "scenario.toml"} <= {path.name for path in (tmp_path / name).iterdir()}
    assert isinstance(screen.results.file, io.StringIO)
    shown = screen.results.file.getvalue()
    assert tells(shown, "2 points", "2 at a")
    assert all(f"✓ {name}: " in shown for name in names)


def test_what_ends_one_scenario_ends_those_side_by_side_with_it_and_keeps_what_is_done(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def machine(request: JobRequest) -> None:
        if tmp_path / "second" in request.folder.parents:
            raise KeyboardInterrupt
        leave_summary(request)

    monkeypatch.setattr(planned_programs, "execute", machine)
    pool = LocalPool(1)
    with LiveProgress(Console(file=io.StringIO()), 4) as progress:
        campaigns = [
            Campaign(planned(tmp_path / name), tmp_path / name, pool, progress) for name in ("first", "second")
        ]
        with pytest.raises(KeyboardInterrupt):
            run_side_by_side(campaigns, pool)
    assert [len(campaign.ended) for campaign in campaigns] == [2, 0]
