"""Maps of scenarios: the command from one end to the other on a small grid, and what it refuses."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gradwire.analysis.winners.measured import AT_BORDER, ChosenCell
from gradwire.cli import terminal
from gradwire.faults import InputFault
from gradwire.runs.estimation import estimate_points
from gradwire.runs.mapping.axes import parse_axes
from gradwire.runs.mapping.cells import prepared_cells, scenario_of_cells
from gradwire.runs.mapping.grid import Grid, grid_of
from tests.shared.command_line import gradwire_says
from tests.shared.parts import in_order

LAYERS = [{"name": f"l{i}", "size": ["4MB"], "forward": "1ms", "backward": "2ms"} for i in range(3)]
BOTH = ("halving-doubling", "ring")
AXES = ["fabric.rate=1gbit..100gbit:3", "cluster.workers=2,4"]


def question(**more: Any) -> dict[str, Any]:
    return {
        "title": "small question",
        "cluster": {"workers": 2},
        "fabric": {"rate": "10gbit"},
        "model": {"name": "toy", "layers": LAYERS},
        "strategy": {"name": "ring"},
        "sweep": {"strategy.name": ["ring", "halving-doubling", "csc"]},
        **more,
    }


def grid(settings: list[str] | None = None, chosen: list[str] | None = None, **more: Any) -> Grid:
    return grid_of(question(**more), parse_axes(AXES), settings or [], chosen or [])


def test_a_grid_has_a_point_for_each_cell_and_strategy() -> None:
    found = grid()
    assert list(found.strategies) == ["ring", "halving-doubling"]
    assert "csc" in found.left_out
    assert len(found.points) == 3 * 2
    point = found.points[2, 1]["halving-doubling"]
    section = point.section
    assert (section.fabric.rate, section.cluster.workers, section.strategy.name) == (1e11, 4, "halving-doubling")


def test_an_axis_replaces_what_the_scenario_sweeps() -> None:
    found = grid(sweep={"strategy.name": ["ring", "ddp"], "fabric.rate": ["1gbit", "2gbit"]})
    assert len(found.points) == 6


def test_other_sweeps_are_refused_with_what_to_do() -> None:
    sweep = {"strategy.name": ["ring", "ddp"], "run.seed": [1, 2]}
    with pytest.raises(InputFault, match=in_order("varies seed", "--set")):
        grid(sweep=sweep)
    assert len(grid(["run.seed=2"], sweep=sweep).points) == 6


def test_strategies_are_chosen_by_name_and_one_is_not_enough() -> None:
    assert list(grid(chosen=["ddp", "ring"]).strategies) == ["ddp", "ring"]
    with pytest.raises(InputFault, match=in_order("only ring", "csc")):
        grid(chosen=["ring", "csc"])
    with pytest.raises(InputFault, match="rign"):
        grid(chosen=["rign", "ddp"])


def test_variants_of_a_strategy_are_named_by_their_options() -> None:
    tables = [{"name": "ddp", "options": {"bucket_cap": size}} for size in ("1MiB", "25MiB")]
    found = grid(sweep={"strategy": [*tables, {"name": "ring"}]})
    assert list(found.strategies) == ["ddp (bucket_cap=1MiB)", "ddp (bucket_cap=25MiB)", "ring"]


def test_a_wrong_key_is_reported_before_anything_is_estimated() -> None:
    with pytest.raises(InputFault, match="rat"):
        grid_of(question(), parse_axes(["fabric.rat=1gbit,2gbit", "cluster.workers=2,4"]))


def test_cells_that_cannot_be_say_why_and_the_others_are_mapped() -> None:
    found = grid_of(question(), parse_axes(["fabric.rate=1gbit,2gbit", "cluster.workers=2,99999999"]))
    assert set(found.points) == {(0, 0), (1, 0)}
    assert "cluster.workers" in found.impossible[0, 1]


def test_measured_cells_are_a_scenario_with_the_chosen_strategies_in_order() -> None:
    cells = [
        ChosenCell((2, 0), AT_BORDER, ("halving-doubling", "ring")),
        ChosenCell((0, 1), AT_BORDER, ("ring", "halving-doubling")),
    ]
    points = scenario_of_cells(grid(), cells).points
    assert [(p.section.fabric.rate, p.section.cluster.workers, p.section.strategy.name) for p in points] == [
        (1e11, 2, "halving-doubling"),
        (1e11, 2, "ring"),
        (1e9, 4, "ring"),
        (1e9, 4, "halving-doubling"),
    ]


def test_measuring_leaves_out_what_can_be_estimated_and_not_run(tmp_path: Path) -> None:
    # The logs of so many iterations fit in the machine's memory for 4,092 of a ring, and 3,711 of the other one.
    asked = question(run={"iterations": 3_900, "memory_mb": 512})
    of_eight = grid_of(asked, parse_axes([AXES[0], "cluster.workers=2,8"]), [], [])
    cells = [ChosenCell((0, 0), AT_BORDER, BOTH), ChosenCell((0, 1), AT_BORDER, BOTH)]
    prepared, refused = prepared_cells(of_eight, cells, tmp_path / "out", terminal.screen())
    assert set(refused) == {((0, 1), BOTH[0])}
    assert "would not fit" in refused[(0, 1), BOTH[0]]
    ready = [(run.point.section.cluster.workers, run.point.section.strategy.name) for run in prepared.planned]
    assert ready == [(2, BOTH[0]), (2, "ring"), (8, "ring")]
    with pytest.raises(InputFault, match="would not fit"):
        prepared_cells(of_eight, [replace(cells[1], strategies=BOTH[:1])], tmp_path / "out", terminal.screen())


def test_measuring_leaves_out_what_the_virtual_clock_does_not_carry(tmp_path: Path) -> None:
    small = [{**layer, "size": ["400kB"], "forward": "1us", "backward": "1us"} for layer in LAYERS]
    asked = question(model={"name": "toy", "layers": small})
    rates = grid_of(asked, parse_axes(["fabric.rate=1gbit,800gbit", "cluster.workers=2,16"]), [], [])
    cells = [ChosenCell((0, 0), AT_BORDER, BOTH), ChosenCell((1, 1), AT_BORDER, BOTH)]
    prepared, refused = prepared_cells(rates, cells, tmp_path / "out", terminal.screen())
    assert set(refused) == {((1, 1), name) for name in BOTH}
    assert all("virtual clock" in reason for reason in refused.values())
    assert [run.point.section.cluster.workers for run in prepared.planned] == [2, 2]


SCENARIO = """
title = "small question"
[cluster]
workers = 2
[fabric]
rate = "10gbit"
[model]
name = "toy"
layers = [{name = "a", size = ["4MB"], forward = "1ms", backward = "2ms"}]
[strategy]
name = "ring"
[sweep]
"strategy.name" = ["ring", "halving-doubling", "ddp"]
"""


def test_the_command_writes_a_page_a_chart_and_all_cells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file, axes = tmp_path / "small.toml", (AXES[0], "cluster.workers=2,3,4")
    file.write_text(SCENARIO)
    over = [word for axis in axes for word in ("--over", axis)]
    words = ("map", str(file), *over, "--out", str(tmp_path / "out"), "--jobs", "1")
    status, out, err = gradwire_says(monkeypatch, capsys, *words)
    assert (status, "9 cells" in out) == (0, True), err
    assert "27 of 27" in err
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        *("map.html", "map.png", "map.svg"),
        *("map.csv", "map.json"),
    }
    rows = list(csv.DictReader((tmp_path / "out" / "map.csv").open()))
    assert len(rows) == 3 * 3 * 3
    unable = [row for row in rows if not row["estimate_s"]]
    assert {(row["cluster.workers"], row["strategy"]) for row in unable} == {("3", "halving-doubling")}
    assert all("power of" in row["why_not"] for row in unable)
    document = json.loads((tmp_path / "out" / "map.json").read_text())
    assert len(document["cells"]) == 9
    point = grid_of(file, parse_axes(axes)).points[1, 2]["ring"]
    (estimate,) = estimate_points([point], 1)
    (cell,) = (cell for cell in document["cells"] if cell["place"] == [1, 2])
    assert cell["estimates_s"]["ring"] == pytest.approx(estimate.iteration_time_s, rel=1e-12)
    here = {
        row["strategy"]: row["wins"] for row in rows if (row["fabric.rate"], row["cluster.workers"]) == ("10gbit", "4")
    }
    assert {name for name, wins in here.items() if wins == "True"} == set(cell["fastest"])
