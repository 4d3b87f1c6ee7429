"""Rows of real Gloo as scenarios of programs."""

from __future__ import annotations

import csv
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gradwire.analysis.program_results import FigureRow, ProgramResult
from gradwire.analysis.verdict.verdict import Verdict
from gradwire.datatypes.host_settings import HostTcp
from gradwire.documents import table_at
from gradwire.faults import InputFault
from gradwire.runs.executing.executor_choice import Where
from gradwire.runs.judged import JudgedRun
from gradwire.scenario.loading import ScenarioOrigin
from gradwire.scenario.program_scenarios import ProgramPoint
from gradwire.scenario.scenario_files import resolved_scenario
from reproduction.world import additions, gloo, nccl
from reproduction.world.cells import GIVEN, Programs, Unexpressed, load_given, with_further
from reproduction.world.command import PROGRAMS, chosen_cells, merged, reproduce_world
from reproduction.world.gloo import Predicted, chosen, further_rows, predicted, table
from reproduction.world.gloo_rows import CPU_TIME, PAUSE_S, Row, programs, rows_of, scenario
from reproduction.world.predicting import Predicted as FromARun
from reproduction.world.running_programs import jobs_for, predicted_by, refuse_unfit
from reproduction.world.scored import Status, score_row, write_rows
from reproduction.world.sources.tc_cluster import TC_CLUSTER
from tests.shared.parts import in_order, tells

FAR = Row("all-reduce", 128, 4, "delay 10 ms, rate 1 Gbit/s", 2000.0)


def given() -> list[Row]:
    with GIVEN.open(newline="") as lines:
        return rows_of(csv.DictReader(lines))


def test_every_printed_row_of_gloo_is_a_scenario_with_the_sources_netem() -> None:
    rows = given()
    assert len(rows) == 16
    assert [row.hosts for row in rows] == sorted(row.hosts for row in rows)
    netems = {(row.setting, row.netem) for row in rows}
    assert netems == {
        ("default", "none"),
        ("delay 10 ms", "delay 10ms rate 5.05gbit limit 1000"),
        ("rate 5 Gbit/s", "rate 5gbit limit 1000"),
        ("delay 1 ms, rate 5 Gbit/s", "delay 1ms rate 5gbit limit 625"),
        ("delay 5 ms, rate 2 Gbit/s", "delay 5ms rate 2gbit limit 1250"),
        ("delay 10 ms, rate 1 Gbit/s", "delay 10ms rate 1gbit limit 1250"),
    }
    assert len({row.name for row in rows}) == len(rows)


def test_a_row_is_stock_hosts_with_the_clouds_limits() -> None:
    document = scenario(FAR, "python3", 6, "stock-before-6.6")
    (point,) = resolved_scenario(document, ScenarioOrigin("test.toml", "test", None)).points
    assert isinstance(point, ProgramPoint)
    fabric = point.fabric
    assert (fabric.hosts, fabric.host_tcp, fabric.mtu_bytes) == (4, HostTcp.STOCK_BEFORE_6_6, 9001)
    assert 4 * fabric.delay_s == pytest.approx(1e-4)
    assert fabric.flow_rate_bps == pytest.approx(5.05e9)


def test_computation_takes_time_and_reductions_have_more_calls() -> None:
    delayed = "delay 1 ms, rate 5 Gbit/s"
    for row, calls in (
        (Row("reduce", 128, 4, "default", 300.0), 9),
        (Row("all-reduce", 128, 4, delayed, 300.0), 25),
        (Row("all-reduce", 128, 8, delayed, math.nan), 9),
        (Row("broadcast", 128, 4, delayed, 300.0), 3),
    ):
        document = programs(row).document("python3")
        assert table_at(document, "program", "gloo", "arguments")["calls"] == calls
        assert table_at(document, "run")["cpu_time"] == CPU_TIME


def test_every_cell_with_few_hosts_has_programs_and_a_command_that_runs_it_alone() -> None:
    for row in with_further(TC_CLUSTER, load_given()):
        cell = TC_CLUSTER.cell(row)
        if not row.what.startswith("gloo"):
            assert not isinstance(cell.planned, Programs) or not cell.planned.needs_torch
        elif " 16 hosts" in row.what or " 32 hosts" in row.what:
            assert isinstance(cell.planned, Unexpressed)
            assert cell.planned.program
        else:
            assert isinstance(cell.planned, Programs)
            document = cell.planned.document("python3")
            assert len(resolved_scenario(document, ScenarioOrigin("test.toml", "test", None)).points) == 1
            assert cell.planned.command().endswith(" --further") == (row.printed is None)
            expected = {
                ("gloo p2p, 64 MiB, 2 hosts", "delay 10 ms"): "pause between calls",
                ("gloo all-reduce, 128 MiB, 4 hosts", "delay 1 ms, rate 5 Gbit/s"): "compute time",
            }
            assert cell.fitted == expected.get((row.what, row.setting), "")


def test_cells_that_are_not_given_can_be_asked_for() -> None:
    rows = given()
    further = further_rows(rows)
    assert not {row.name for row in further} & {row.name for row in rows}
    assert [row.hosts for row in further] == sorted(row.hosts for row in further)
    assert sum(row.hosts == 8 for row in further) == 12


def test_rows_that_no_name_matches_are_refused() -> None:
    assert [row.name for row in chosen(given(), "^p2p.*default$")] == ["p2p-2-64-default"]
    with pytest.raises(ValueError, match=in_order("--only p3p:", "p2p-2-64-default")):
        chosen(given(), "p3p")
    with pytest.raises(ValueError, match="regular expression"):
        chosen(given(), "(")


@pytest.mark.parametrize("module", [gloo, nccl])
def test_a_run_of_no_row_fails(
    module: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--only", "p3p"] + (["--python", "python3"] if module is gloo else [])
    monkeypatch.setattr(sys, "argv", ["module", *words])
    with pytest.raises(SystemExit, match="2"):
        module.main()
    assert "--only p3p: " in capsys.readouterr().err


def test_a_run_becomes_a_prediction_without_its_first_call() -> None:
    wanted = programs(FAR)
    rows = [{"call": number, "time_s": time_s} for number, time_s in ((2, 2.2), (0, 3.0), (1, 2.0))]
    found = predicted_by(wanted, judged(True, rows))
    assert found.value == pytest.approx(2100)
    assert tells(found.seen, "time_s", "3, 2, 2.2")
    assert predicted_by(wanted, judged(False, rows)) == FromARun(None, "invalid: drops")
    assert predicted_by(wanted, judged(True, [])).value is None
    with pytest.raises(ValueError, match="must be two"):
        wanted.value([1.0])


def test_without_a_python_a_row_of_programs_is_not_run_and_says_what_runs_it() -> None:
    (row,) = [row for row in load_given() if row.what.startswith("gloo all-reduce") and row.setting == "default"]
    cell = TC_CLUSTER.cell(row)
    scored = score_row(row, cell, {})
    assert (scored.status, scored.predicted) == (Status.NOT_RUN, None)
    assert "world --python" in scored.seen
    assert tells(scored.command, "reproduction.world.gloo", "--python PYTHON", "--only '^all-reduce-4-128-default$'")
    assert isinstance(cell.planned, Programs)
    scored = score_row(row, cell, {cell.planned: FromARun(320.0, "seen")})
    assert (scored.status, scored.predicted, scored.by) == (Status.PREDICTED, 320.0, "programs")


def test_a_python_without_pytorch_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputFault, match="no such file"):
        refuse_unfit(tmp_path / "python")
    other = tmp_path / "python"
    other.write_text("#!/bin/sh\necho no torch >&2; exit 1\n")
    other.chmod(0o755)
    with pytest.raises(InputFault, match=in_order("(no torch):", "pip install torch")):
        refuse_unfit(other)


def judged(valid: bool, rows: Sequence[Mapping[str, float]]) -> JudgedRun[Any, Any]:
    """A run as far as it is looked at."""
    figures = [FigureRow("gloo", "h1", row) for row in rows]  # type: ignore[arg-type]
    verdict = Verdict(valid, (), "valid" if valid else "invalid: drops")
    result = ProgramResult({}, 1.0, tuple(figures), 0, 2.0, verdict)
    return cast(JudgedRun[Any, Any], SimpleNamespace(result=result))


def test_two_rows_are_fitted_and_marked() -> None:
    rows = given()
    fitted, _ = [row for row in rows if row.is_fitted]
    marked = [line for line in table([Predicted(row, (1.0, 1.0), "valid") for row in rows]) if " *" in line]
    assert [line.partition(" *")[0] for line in marked] == [
        "p2p, 64 MiB, 2 hosts, delay 10 ms",
        "all-reduce, 128 MiB, 4 hosts, delay 1 ms, rate 5 Gbit/s",
    ]
    assert fitted.netem == "delay 10ms rate 5.05gbit limit 1000"
    document = scenario(fitted, "python3", 6, "stock")
    assert table_at(document, "program", "gloo", "arguments")["pause_s"] == PAUSE_S


def test_words_that_nobody_knows_are_refused() -> None:
    with pytest.raises(ValueError, match="a delay, a rate"):
        _ = Row("p2p", 64, 2, "loss 1 %", 1.0).netem


def test_the_first_call_is_shown_alone(tmp_path: Path) -> None:
    (tmp_path / "figures.csv").write_text("call,time_s\n1,2.0\n0,3.0\n2,2.2\n")
    (tmp_path / "points.csv").write_text("verdict\nvalid\n")
    found = predicted(FAR, tmp_path)
    assert found.calls_s == (3.0, 2.0, 2.2)
    assert found.ratio == pytest.approx(1.05)
    assert list(table([found]))[1].split()[-4:] == ["3000", "2100", "1.050", "valid"]


def test_rows_of_programs_alone_can_be_asked_for() -> None:
    cells = chosen_cells([PROGRAMS], load_given())
    assert sum(row.printed is not None for row in cells) == 16
    assert all(isinstance(cell.planned, Programs) for cell in cells.values())
    with pytest.raises(InputFault, match="give --python"):
        reproduce_world([PROGRAMS], Where(), None, None)


def test_a_page_keeps_what_has_not_run_now(tmp_path: Path) -> None:
    cells = chosen_cells(["world-tc_cluster"], load_given())
    (row,) = [row for row in cells if row.what.startswith("gloo p2p") and row.setting == "default"]
    planned = cells[row].planned
    assert isinstance(planned, Programs)
    ran = score_row(row, cells[row], {planned: FromARun(108.0, "seen")})
    write_rows(tmp_path / "world.csv", [ran])
    not_run = score_row(row, cells[row], {})
    assert merged(tmp_path / "world.csv", [not_run]) == [ran]
    assert merged(tmp_path / "none.csv", [not_run]) == [not_run]
    again = score_row(row, cells[row], {planned: FromARun(109.0, "seen")})
    assert merged(tmp_path / "world.csv", [again]) == [again]


@pytest.mark.parametrize(("machine_gib", "cores", "jobs"), [(24, 2, 2), (24, 64, 2), (128, 64, 11), (4, 2, 1)])
def test_rows_that_run_at_a_time_fit_in_half_of_the_memory(machine_gib: int, cores: int, jobs: int) -> None:
    assert jobs_for(5800, machine_gib << 30, cores) == jobs


@pytest.mark.parametrize(("share", "word"), [(1.0, ""), (1.2, ""), (0.8, ""), (0.7, "shorter"), (1.3, "longer")])
def test_a_machine_that_adds_in_other_times_than_the_pages_is_warned_of(share: float, word: str) -> None:
    text = additions.warning(share * additions.FITTED_S)
    assert bool(text) == bool(word)
    assert word in text


def test_an_addition_takes_what_memory_lets_it_take() -> None:
    """Three times 1 MiB between 0.3 GB/s and 300 GB/s."""
    assert 1e-5 < additions.addition_s() < 1e-2
