"""Runs from Python, on a made-up machine: what `gradwire.run` shares with the command, and every table and figure of a run."""

from __future__ import annotations

import csv
import json
import shutil
import tomllib
import warnings
from collections.abc import Callable
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

import gradwire
from gradwire.api.drawing import ShownAxes
from gradwire.datatypes.plan import OpKind
from gradwire.datatypes.records import OpLog
from gradwire.faults import InputFault, MachineFault
from gradwire.runs.estimation import MODEL_NOT_RUN
from tests.shared.command_line import needs_no_kernel
from tests.shared.parts import in_order, tells
from tests.unit.runs.stored.test_named_run import replaying_job
from tests.unit.runs.test_campaign import TEXT, machine

CONTENT = tomllib.loads(TEXT) | {"sweep": {"strategy.name": ["vanilla", "ring"], "fabric.rate": ["10gbit", "25gbit"]}}
PNG = b"\x89PNG"


@pytest.fixture
def replayed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans are replayed on the simulated network of the interpreter's tests, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    machine(monkeypatch, replaying_job)
    needs_no_kernel(monkeypatch)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, gradwire.Run]:
    """A run that was made once, and the folder in which."""
    folder = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        machine(patched, replaying_job)
        needs_no_kernel(patched)
        return folder, gradwire.run(CONTENT, progress=False)


@pytest.fixture
def run(replayed: None, made: tuple[Path, gradwire.Run], tmp_path: Path) -> gradwire.Run:
    """It as it was just made, with the files in a folder that is the test's own."""
    folder, whole = made
    shutil.copytree(folder, tmp_path, symlinks=True, dirs_exist_ok=True)
    return copy(whole)


def test_a_mapping_is_run_as_a_file_of_the_same_content_would_be(
    replayed: None, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = gradwire.run(CONTENT, progress=False)
    assert run.folder == Path("runs/a-test")
    assert run.valid
    monkeypatch.setenv("FORCE_COLOR", "1")  # as Jupyter's kernels do
    assert capsys.readouterr().out == "", "no progress was asked for"
    assert {path.name for path in run.folder.iterdir()} >= {
        "report.html", "chart.png", "points.csv", "points.parquet", "scenario.toml", "provenance.json", "clock.json",
    }  # fmt: skip
    assert "<code>gradwire.run(...)</code>" in (run.folder / "report.html").read_text()
    (tmp_path / "a-test.toml").write_text((run.folder / "scenario.toml").read_text())
    again = gradwire.run("a-test.toml")
    assert again.folder == run.folder
    out = capsys.readouterr().out
    assert "\x1b" not in out, "no bars and colours where there is no terminal"
    assert out.count("already there") == len(again.points) == 4
    assert "nothing to run" in out
    pd.testing.assert_frame_equal(again.points, run.points)


def test_settings_and_folders_are_those_of_the_command(replayed: None, capsys: pytest.CaptureFixture[str]) -> None:
    run = gradwire.run(CONTENT, set={"fabric.rate": "25gbit", "model.batch": [64, 128]}, jobs=1)
    assert run.folder == Path("runs/a-test-25gbit-batch64+128")
    assert tells(run.title, "A test", "fabric.rate = 25gbit", "model.batch = 64 or 128")
    assert sorted(run.points["batch"]) == [64, 64, 128, 128]
    assert tells(capsys.readouterr().out, "4 points", "1 at")
    elsewhere = gradwire.run(CONTENT, set=["strategy.name=ring"], out="mine/here")
    assert elsewhere.folder == Path("mine/here")
    with pytest.raises(InputFault, match=in_order("mine/here", "another scenario")):
        gradwire.run(CONTENT, out="mine/here")


@pytest.mark.parametrize(
    ("scenario", "options", "said"),
    [
        ("geryon-tabel2", {}, "did you mean 'geryon-table2'"),
        ({**CONTENT, "clutser": {}}, {}, "scenario: clutser: unknown key"),
        ({**CONTENT, "model": {"name": None}}, {}, "a scenario has what TOML has"),
        (CONTENT, {"set": {"model.nmae": "x"}}, "scenario: model.nmae: unknown key"),
        (CONTENT, {"set": {"strategy.name": "rign"}}, "did you mean 'ring'"),
        (CONTENT, {"jobs": 0}, "jobs = 0: must be at least 1"),
    ],
)
def test_wrong_input_is_told_as_by_the_command(replayed: None, scenario: Any, options: Any, said: str) -> None:
    with pytest.raises(InputFault, match=said):
        gradwire.run(scenario, **options)
    assert not Path("runs").exists()


def test_points_are_the_rows_of_points_csv_with_types(run: gradwire.Run) -> None:
    with (run.folder / "points.csv").open(newline="") as file:
        written = list(csv.DictReader(file))
    points = run.points
    assert [name.split("_")[:2] for name in points.index] == [[row["strategy"], row["rate"]] for row in written]
    for column in ("iteration_time_s", "throughput_per_s", "bytes_sent", "lower_bound_s"):
        assert points[column].tolist() == [float(row[column]) for row in written]
    assert points["strategy"].tolist() == [row["strategy"] for row in written]
    assert isinstance(points["strategy"].dtype, pd.CategoricalDtype)
    assert sorted(set(points["rate_bps"])) == [1e10, 2.5e10]
    pd.testing.assert_frame_equal(pd.read_parquet(run.folder / "points.parquet"), points)


def test_iterations_have_their_points_parameters(run: gradwire.Run) -> None:
    iterations = run.iterations
    assert len(iterations) == 4 * 4
    means = iterations[~iterations["warmup"]].groupby("point", observed=True)["iteration_time_s"].mean()
    assert means.to_dict() == pytest.approx(run.points["iteration_time_s"].to_dict())
    ring = iterations[iterations["strategy"] == "ring"]
    assert set(ring["point"]) == set(run.points.index[run.points["strategy"] == "ring"])


def test_ops_join_the_plan_and_the_log(run: gradwire.Run) -> None:
    ops = run.ops(strategy="ring", rate="10gbit")
    (name,) = run.points.query("strategy == 'ring' and rate_bps == 1e10").index
    pd.testing.assert_frame_equal(run.ops(name), ops)
    log = OpLog.load(run.folder / "points" / name / "ops.npz")
    assert len(ops) == len(log.op)
    assert np.array_equal(ops["op"], log.op)
    assert np.allclose(ops["start_s"] * 1e9, log.start_ns)
    assert (ops["due_s"] <= ops["start_s"]).all()
    sends, receives = ops[ops["kind"] == "SEND"], ops[ops["kind"] == "RECV"]
    assert sends["size_bytes"].sum() == receives["size_bytes"].sum()
    assert (sends["peer"] != sends["rank"]).all()
    assert sends["crosses_network"].all()
    assert "fc6/weights" in set(sends["tensor"])
    computes = ops[ops["kind"] == OpKind.COMPUTE.name]
    assert computes[["peer", "traffic_class", "tensor"]].isna().all(axis=None)
    assert set(ops["role"]) == {"worker"}
    assert "server" in set(run.ops("vanilla_10gbit")["role"])
    assert "control" in set(run.ops("vanilla_10gbit")["tensor"])
    assert ops.loc[ops["warmup"], "iteration"].unique().tolist() == [0]


def test_ports_and_verdicts(run: gradwire.Run) -> None:
    ports = run.ports("ring_10gbit")
    assert ports.iloc[0][["port", "band", "bytes_sent", "packets_sent", "drops"]].tolist() == ["h1-eth0", 1, 10, 1, 0]
    lasted_s = run.iterations.query("strategy == 'ring' and rate_bps == 1e10")["iteration_time_s"].sum()
    assert ports.iloc[0]["utilisation"] == pytest.approx(8 * (10 + 24) / lasted_s / 1e10)
    assert run.verdicts.groupby("point", observed=True)["passed"].all().tolist() == [True] * 4
    assert set(run.verdicts["check"]) == {"made up"}


def test_why_divides_all_of_an_iterations_time(run: gradwire.Run) -> None:
    why = run.why(strategy="vanilla", rate="25gbit", iteration=2)
    time_s = run.iterations.query("strategy == 'vanilla' and rate == '25gbit' and iteration == 2")["iteration_time_s"]
    assert why.duration_s == pytest.approx(time_s.item())
    assert why.parts["duration_s"].sum() == pytest.approx(why.duration_s)
    assert why.parts["share"].sum() == pytest.approx(1)
    assert why.segments["duration_s"].sum() == pytest.approx(why.duration_s)
    assert why.segments["end_s"].iloc[-1] == pytest.approx(why.duration_s)
    assert why.sentence.endswith(".")
    assert why.sentence in str(why)
    assert why.sentence.partition(":")[0] in why._repr_html_()


def test_why_has_what_was_estimated_of_settings_that_may_help(run: gradwire.Run) -> None:
    where = {"strategy.name": "vanilla", "fabric.rate": "10gbit"}
    advice = run.why(strategy="vanilla", rate="10gbit").advice
    (now_s,) = gradwire.estimate(CONTENT, set=where)["iteration_time_s"]
    assert advice.now_s == pytest.approx([now_s])
    (tried,) = advice.tried
    key, value = tried.setting.split("=", 1)
    (then_s,) = gradwire.estimate(CONTENT, set={**where, key: json.loads(value)})["iteration_time_s"]
    assert tried.time_s == pytest.approx([then_s])
    assert then_s > now_s
    assert advice.best is None


def test_a_comparison_ranks_each_setting(run: gradwire.Run) -> None:
    ranked = run.compare()
    assert ranked["rate"].tolist() == ["10gbit", "10gbit", "25gbit", "25gbit"]
    assert ranked["rank"].tolist() == [1, 2, 1, 2]
    assert (ranked.groupby("rate", observed=True)["iteration_time_s"].diff().dropna() >= 0).all()
    first, second = ranked.iloc[0], ranked.iloc[1]
    assert (first["outcome"], first["ratio"]) == ("fastest", 1)
    assert second["ratio"] == pytest.approx(second["iteration_time_s"] / first["iteration_time_s"])
    assert set(ranked["baseline"]) == {"vanilla"}
    assert pd.isna(ranked.query("strategy == 'vanilla'")["speedup_low"]).all(), "vanilla's order is random: one seed"
    assert ranked["speedup_low"].dtype == "float64"


def test_a_comparison_of_all_strategies_is_a_run(replayed: None) -> None:
    asked: Any = {"model": "alexnet", "workers": 3, "rate": "10gbit", "strategies": ["vanilla", "ring"]}
    run = gradwire.compare(**asked, seeds=2, progress=False)
    assert run.folder == Path("runs/compare-alexnet-3-10gbit")
    assert "fastest" in run.conclusion
    assert set(run.compare()["seeds"]) == {1, 2}
    with pytest.raises(InputFault, match="seeds = 1"):
        gradwire.compare(**asked, seeds=1)


def test_a_run_is_opened_from_its_folder_or_name_and_reported(run: gradwire.Run) -> None:
    for place in ("a-test", run.folder, str(run.folder)):
        opened = gradwire.open(place)
        pd.testing.assert_frame_equal(opened.points, run.points)
        assert opened.conclusion == run.conclusion
    (run.folder / "report.html").unlink()
    assert opened.report() == run.folder / "report.html"
    assert run.conclusion.partition(":")[0] in (run.folder / "report.html").read_text()
    with pytest.raises(InputFault, match=in_order("runs/", "a-test")):
        gradwire.open("b-test")


def test_a_notebook_shows_the_conclusion_and_the_table(run: gradwire.Run) -> None:
    html = run._repr_html_()
    # What replayed them here is not a network, so no cause explains their times.
    assert tells(html, "4 points", "4 are unexplained")
    assert html.count("<tr") == 5
    assert repr(run).startswith("<gradwire.Run runs/a-test: Ring ")


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (((), {}), "fits 4 points"),
        ((("ring",), {}), "fits 2 points"),
        (((), {"strategy": "p3"}), "point 'strategy=p3' fits no point"),
        ((("ring",), {"rate": "10gbit"}), "choose by the one or by the others"),
    ],
)
def test_a_wrong_choice_of_a_point_names_what_there_is(run: gradwire.Run, wanted: Any, said: str) -> None:
    with pytest.raises(InputFault, match=said):
        run.ops(*wanted[0], **wanted[1])


def failing_for_ring(folder: Path, on_line: Callable[[str], None]) -> int:
    if folder.name.startswith("ring"):
        raise MachineFault("out of luck")
    return replaying_job(folder, on_line)


def test_an_invalid_point_says_so_and_is_no_result(replayed: None, monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, failing_for_ring)
    run = gradwire.run(CONTENT, set={"fabric.rate": "10gbit"}, progress=False)
    assert not run.valid
    with pytest.warns(gradwire.InvalidPointWarning, match=r"^ring .*out of luck.*not results") as warned:
        points = run.points
    assert points["valid"].tolist() == [True, False]
    assert warned[0].filename == __file__
    assert np.isnan(points["iteration_time_s"].iloc[1])
    with pytest.warns(gradwire.InvalidPointWarning):
        assert len(run.iterations) == 4
    ranked = run.compare()
    assert ranked["valid"].tolist() == [True, False]
    assert pd.isna(ranked["rank"].iloc[1])
    with warnings.catch_warnings(), pytest.raises(InputFault, match=in_order("points/ring_", "out of luck")):
        run.ops("ring")
    assert tells(run._repr_html_(), "2 points", "1 is unexplained", "1 is not a result")


def test_numbers_of_an_invalid_point_that_came_to_its_end_are_there_with_a_warning(run: gradwire.Run) -> None:
    (name,) = run.points.query("strategy == 'ring' and rate == '10gbit'").index
    verdict = run.folder / "points" / name / "verdict.json"
    verdict.write_text(
        verdict.read_text()
        .replace('"valid": true', '"valid": false')
        .replace('"valid"\n', '"invalid: x"\n')
        .replace('"ok": true', '"ok": false', 1)
    )
    for ask in (run.ops, run.ports, run.why, run.timeline):
        with pytest.warns(gradwire.InvalidPointWarning, match="not results") as warned:
            ask(name)
        assert warned[0].filename == __file__


def test_lines_over_numbers_and_bars_by_word(run: gradwire.Run) -> None:
    axes = run.plot("rate", "throughput_per_s")
    assert isinstance(axes, ShownAxes)
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["vanilla", "ring"]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("Rate (Gbit/s)", "Throughput (samples/s)")
    drawn = [line.get_ydata() for line in axes.lines if len(np.atleast_1d(line.get_xdata())) == 2 and line.get_marker()]
    expected = run.points.query("strategy == 'ring'").sort_values("rate")["throughput_per_s"].tolist()
    assert any(np.allclose(np.asarray(y, float), expected) for y in drawn)
    bars = run.plot("strategy", "scaling_efficiency", rate="10gbit")
    heights = [patch.get_height() for patch in bars.patches if isinstance(patch, Rectangle)]
    assert heights == pytest.approx((100 * run.points.query("rate == '10gbit'")["scaling_efficiency"]).tolist())
    assert len(run.plot("strategy", by="rate").patches) == 4


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"x": "strategy"}, "points also differ in rate: .*rate='10gbit'"),
        ({"x": "size"}, "x = 'size': no parameter"),
        ({"x": "rate", "y": "wall_s"}, "y = 'wall_s': cannot be drawn"),
        ({"x": "rate", "by": "colour"}, "by = 'colour': no parameter"),
        ({"x": "rate", "strategy": "p3"}, "no parameter that all points have"),
    ],
)
def test_a_plot_that_cannot_be_is_refused(run: gradwire.Run, arguments: Any, said: str) -> None:
    with pytest.raises(InputFault, match=said):
        run.plot(**arguments)


def test_a_timeline_has_a_row_for_what_each_rank_does(run: gradwire.Run) -> None:
    axes = run.timeline(strategy="ring", rate="10gbit", iteration=2)
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert labels == [f"rank {rank} {does}" for rank in (0, 1) for does in ("computes", "sends", "receives")]
    ends_ms = [line.get_xdata() for line in axes.lines]
    time_s = run.iterations.query("strategy == 'ring' and rate == '10gbit' and iteration == 2")["iteration_time_s"]
    assert np.asarray(ends_ms[0], float) == pytest.approx(time_s.item() * 1e3)
    with pytest.raises(InputFault, match=in_order("iterations", "0 to 3")):
        run.timeline(strategy="ring", rate="10gbit", iteration=9)


def test_a_port_that_was_not_captured_has_no_utilisation(run: gradwire.Run) -> None:
    with pytest.raises(InputFault, match=in_order("no port", "run.capture")):
        run.utilisation("ring_10gbit")


def test_figures_go_into_axes_that_are_given_and_are_shown_otherwise(run: gradwire.Run) -> None:
    figure = Figure()
    left, right = figure.subplots(1, 2)
    assert run.plot("rate", ax=left) is left
    assert run.timeline("ring_10gbit", ax=right) is right
    shown: Any = run.plot("rate")
    assert shown._repr_png_()[:4] == shown.figure._repr_png_()[:4] == PNG


def test_plans_are_compiled_and_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    plans = gradwire.plan(CONTENT, set={"strategy.name": ["ring", "geryon"], "fabric.rate": "10gbit"})
    assert list(tmp_path.iterdir()) == []
    assert len(plans) == 2
    assert plans.points["plan"].value_counts()["ring"] == 1
    ops = plans.ops(strategy="ring")
    assert len(ops) == plans.points.query("strategy == 'ring'")["ops"].item()
    sends = ops[(ops["kind"] == "SEND") & ops["crosses_network"]]
    assert sends["size_bytes"].sum() == plans.points.query("strategy == 'ring'")["message_bytes"].item()
    with pytest.raises(InputFault, match="2 points"):
        plans.ops()
    assert "<table" in plans._repr_html_()


def test_one_of_several_candidates_is_chosen_by_its_label() -> None:
    plans = gradwire.plan(
        "geryon-table2",
        set={
            "model.name": "alexnet",
            "strategy.name": "geryon",
            "cluster.workers": 2,
            "strategy.options.rule": "search",
        },
    )
    assert len(plans.points) > len(plans) == 1
    assert len(plans.ops(plan="coarse")) == plans.points.query("plan == 'coarse'")["ops"].item()
    with pytest.raises(InputFault, match=in_order("candidates", "coarse")):
        plans.ops()


def test_estimates_are_a_frame_beside_their_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    estimates = gradwire.estimate(CONTENT)
    assert len(estimates) == 4
    assert (estimates["bound_ratio"] >= 0.999).all()
    assert estimates["rate_bps"].tolist().count(1e10) == 2
    assert estimates.attrs["model"] == MODEL_NOT_RUN


def test_an_estimate_refuses_a_wrong_rule() -> None:
    with pytest.raises(InputFault, match=in_order("'later'", "departure or buffered")):
        gradwire.estimate(CONTENT, send_ends="later")
