"""Comparisons of divided models and of recorded jobs, from the command line to the report, on a simulated network."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from gradwire.analysis.points import VALID, PointResult
from gradwire.documents import Document
from gradwire.runs.comparing.questions import AskedNetwork, ParallelQuestion, TraceQuestion
from gradwire.runs.comparing.whole import Whole, at_full_size
from gradwire.scenario.loading import resolve
from gradwire.scenario.parallelism import Parallel
from gradwire.scenario.resolution.compilation import compile_point
from gradwire.workloads import plan_size
from tests.shared.command_line import needs_no_kernel
from tests.shared.parts import tells
from tests.unit.runs.stored.test_named_run import replaying_job
from tests.unit.runs.test_campaign import machine
from tests.unit.workloads.traces.small_traces import ddp_step

BERT = ["compare", "--model", "bert-large", "--parallel", "data=2,tensor=2", "--device", "h100", "--rate", "100gbit"]


def asked(text: str, *settings: str, model: str = "llama3-70b", **more: Any) -> ParallelQuestion:
    return ParallelQuestion(model, Parallel.parse(text), AskedNetwork("400gbit"), "h100", settings=settings, **more)


def test_the_question_sets_what_is_left_open() -> None:
    document = asked("data=8,tensor=8").document()
    assert document["cluster"] == {"workers": 64, "workers_per_host": 8}
    assert document["model"]["blocks"] == 8
    assert document["run"]["fidelity"] == "0.5%"
    assert "costs" not in document  # the rate inside a machine is the device's
    assert tells(document["title"], "llama3-70b", "64 x h100", "8 machines", "400gbit")
    assert asked("data=8,tensor=8").name == "compare-llama3-70b-h100-data8-tensor8-400gbit"


def test_what_is_said_goes_before() -> None:
    document = asked("data=8,tensor=8", "model.blocks=16", "run.fidelity=1%", gpus_per_host=4).document()
    assert (document["model"]["blocks"], document["run"]["fidelity"]) == (16, "1%")
    assert document["cluster"]["workers_per_host"] == 4
    assert "blocks" not in asked("data=2", model="alexnet").document()["model"]
    assert "costs" not in asked("data=2", gpus_per_host=1).document()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--rate", "10gbit"], "give either --model or --trace"),
        (["--rate", "10gbit", "--model", "alexnet", "--trace", "t"], "give either --model or --trace"),
        (["--rate", "10gbit", "--model", "alexnet"], "give --workers, or with a large model --parallel"),
        (
            ["--rate", "10gbit", "--model", "alexnet", "--workers", "2", "--gpus-per-host", "2"],
            "--gpus-per-host: cannot be",
        ),
        ([*BERT[1:], "--workers", "4"], "--workers: cannot be given together with --parallel"),
        ([*BERT[1:], "--servers", "4"], "--servers: cannot be given together with --parallel"),
        (["--rate", "10gbit", "--trace", "none"], "none/workload.npz"),
        (
            ["--rate", "10gbit", "--trace", "none", "--device", "h100"],
            "--device: cannot be given together with --trace",
        ),
    ],
)
def test_what_does_not_go_together_is_refused(call: Any, tmp_path: Path, words: list[str], message: str) -> None:
    (tmp_path / "none").mkdir()
    status, out, err = call("compare", *words)
    assert (status, out) == (2, "")
    assert message in " ".join(err.split())


def test_a_divided_model_is_ranked_by_all_its_blocks(
    call: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    machine(monkeypatch, replaying_job)
    needs_no_kernel(monkeypatch)
    status, out, err = call(*BERT)
    assert status == 0, out + err
    folder = tmp_path / "runs" / "compare-bert-large-h100-data2-tensor2-100gbit"
    kept = json.loads((folder / "whole.json").read_text())["points"]
    assert all(point["blocks"] == 24 for point in kept.values())
    told = " ".join(out.split())
    assert tells(told, "all 24 blocks", "x fluid", "with 8 (points.csv)")
    assert "fidelity: " in told
    measured = (folder / "points.csv").read_text()
    assert "iteration_time_s" in measured
    monkeypatch.setattr("gradwire.runs.comparing.whole._whole", None)  # nothing is estimated twice
    assert call(*BERT)[0] == 0
    status, reported, _ = call("report", str(folder))
    assert status == 0
    (answer,) = [line for line in out.splitlines() if "s per iteration" in line and "fastest" in line]
    assert answer in reported


def ops_of_all_blocks(algorithm: str) -> int:
    """Ops of the whole model's plan by Megatron with an algorithm."""
    document = asked("data=2,tensor=2", "model.blocks=24", model="bert-large").document()
    options: Document = {"tensor": 2, "microbatches": 2, "algorithm": algorithm}
    (point,) = resolve({**document, "strategy": {"name": "megatron", "options": options}}, "bert", "bert").points
    return max(len(plan.ops) for plan in compile_point(point.section).plans.values())


def test_what_is_too_large_with_all_blocks_is_left_out_before_anything_runs(
    call: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A double tree's pieces are several times as many messages as a ring's parts; without it, the others are ranked."""
    machine(monkeypatch, replaying_job)
    needs_no_kernel(monkeypatch)
    ring, tree = ops_of_all_blocks("ring"), ops_of_all_blocks("double-tree")
    most = max(ring * 5 // 4, tree * 9 // 10)
    assert ring < most < tree
    monkeypatch.setattr(plan_size, "MOST_OPS", most)
    status, out, err = call(*BERT)
    assert status == 0, out + err
    told = " ".join(out.split())
    found = re.search(
        rf"\(algorithm=double-tree\) left out here: the plan of all 24 blocks has about ([\d,]+) ops, .*{most:,}", told
    )
    assert found
    assert int(found[1].replace(",", "")) == pytest.approx(tree, rel=0.01)
    names = [path.name for path in (tmp_path / "runs").glob("*/points/*")]
    assert names
    assert not [name for name in names if "double-tree" in name]


def test_where_all_are_too_large_with_all_blocks_nothing_runs(
    call: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    needs_no_kernel(monkeypatch)
    monkeypatch.setattr(plan_size, "MOST_OPS", ops_of_all_blocks("ring") * 9 // 10)
    status, out, err = call(*BERT)
    assert (status, out) == (2, ""), err
    assert tells(" ".join(err.split()), "no strategy", "all 24 blocks")
    assert not list((tmp_path / "runs").glob("*/points/*"))


def test_a_recorded_job_is_ranked_by_algorithm(call: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    machine(monkeypatch, replaying_job)
    needs_no_kernel(monkeypatch)
    trace = ddp_step().write(tmp_path / "rank0.json")
    assert call("import", str(trace), "--out", str(tmp_path / "job"))[0] == 0
    status, out, err = call("compare", "--trace", str(tmp_path / "job"), "--rate", "10gbit")
    assert status == 0, out + err
    assert tells(out, "job on", "2 ranks", "10gbit")
    assert "all_reduce=direct" in out
    grown = TraceQuestion(str(tmp_path / "job"), AskedNetwork("10gbit"), workers=8)
    assert grown.document()["model"]["grow"] == "all-ranks"
    assert grown.name == "compare-job-8-10gbit"
    assert TraceQuestion(str(tmp_path / "job"), AskedNetwork("10gbit")).name == "compare-job-10gbit"
    status, _, err = call("compare", "--trace", str(tmp_path / "job"), "--rate", "10gbit", "--gpus-per-host", "3")
    assert (status, "cluster.workers_per_host = 3:" in err) == (2, True)


def test_a_row_at_full_size_keeps_what_the_network_added() -> None:
    row = PointResult({}, 0.505, None, None, 100.0, 0.9, 0, 1.0, 0.4, "compute", "d", VALID, fluid_time_s=0.5)
    whole = Whole("key", 80, 10.0, 8.0, "port", 7.0, 64)
    scaled = at_full_size(row, whole)
    assert scaled.iteration_time_s == pytest.approx(10.1)
    assert scaled.fluid_ratio == pytest.approx(1.01)
    assert scaled.scaling_efficiency == pytest.approx(7 / 10.1)
    assert scaled.throughput_per_s == pytest.approx(64 / 10.1)
    assert (scaled.lower_bound_s, scaled.lower_bound_kind) == (8.0, "port")
