"""Finding points of a run folder by name, and the output of `gradwire trace` and `gradwire why` for them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradwire.datatypes.plan import Plan
from gradwire.faults import InputFault, MachineFault
from gradwire.inside.point_protocol import PointTask, read_json, write_json
from gradwire.network.fabric import MulticastGroup, Topology
from gradwire.runs.stored.explanation import explain
from gradwire.runs.stored.run_folder import chosen_iteration, named_run
from gradwire.runs.stored.spines import Spines
from gradwire.runs.stored.stored_run import StoredRun
from tests.shared import trace_event_format
from tests.shared.parts import in_order, tells
from tests.shared.simulation import replay
from tests.unit.runs.test_campaign import machine, planned_runs, record, run, say

DOCUMENT = """
title = "A test"
sweep = { "model.batch" = [64, 128], "strategy.name" = ["vanilla", "ring"] }
cluster = { workers = 2 }
fabric = { rate = "10gbit" }
model = { name = "alexnet", device = "k40" }
strategy = { name = "vanilla" }
"""


def replaying_job(folder: Path, on_line: Callable[[str], None]) -> int:
    """Replays the point's plan on the simulated network of the interpreter's tests; vanilla with batch 128 does not finish."""
    task = read_json(folder / "task.json", PointTask)
    label, path = task.plans[0].label, task.plans[0].file
    if folder.name.startswith("128_vanilla"):
        raise MachineFault("out of luck")
    for event in ("first_byte", "replay", "replayed"):
        say(on_line, event)
    replay(Plan.load(folder / path), task.iterations).save(folder / "ops.npz")
    write_json(folder / "record.json", record(task.iterations, task.warmup))
    say(on_line, "done", plan=label)
    return 0


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder whose points were replayed once."""
    out = tmp_path_factory.mktemp("finished") / "results"
    with pytest.MonkeyPatch.context() as patched:
        machine(patched, replaying_job)
        run(out, planned_runs(out, 'strategy.name=["vanilla","ring"]'))
    (out / "scenario.toml").write_text(DOCUMENT)
    return out


@pytest.fixture
def folder(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it for each test."""
    machine(monkeypatch, replaying_job)
    return Path(shutil.copytree(finished, tmp_path / "results", symlinks=True))


def iteration(stored: StoredRun, wanted: int | None) -> int:
    return chosen_iteration(wanted, stored.label, stored.plan(), stored.log(), stored.record())


def test_a_point_is_found_by_its_folder_a_part_of_it_or_its_parameters(folder: Path) -> None:
    run = named_run(folder, "batch=64,strategy=ring")
    assert (run.parameters["batch"], run.parameters["strategy"]) == ("64", "ring")
    assert named_run(folder, "64_ring").folder == named_run(folder, run.folder.name).folder == run.folder
    assert run.plan().name == "ring"
    assert iteration(run, None) in (1, 2, 3)
    assert iteration(run, 0) == 0


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ("geryon", ["'geryon' fits no point", "there are", "64_ring_alexnet", "batch=64,strategy=ring"]),
        ("ring", ["fits 2 points", "it could be", "128_ring_alexnet"]),
        ("strategy=ring", ["fits 2 points"]),
        ("strategy=p3", ["fits no point"]),
        ("128_vanilla", ["has not come to its end", "invalid: out of luck", "gradwire run"]),
    ],
)
def test_a_wrong_name_is_told_what_there_is(folder: Path, wanted: str, said: list[str]) -> None:
    with pytest.raises(InputFault) as fault:
        named_run(folder, wanted)
    for text in said:
        assert text in str(fault.value)


def test_a_wrong_folder_or_iteration_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder.parent)
    with pytest.raises(InputFault, match="elsewhere: no"):
        named_run(Path("elsewhere"), "ring")
    (folder.parent / "runs").mkdir()
    folder.rename(folder.parent / "runs" / "mine")
    assert named_run(Path("mine"), "64_ring").plan().name == "ring"
    with pytest.raises(InputFault, match=in_order("runs/", "mine")):
        named_run(Path("elsewhere"), "ring")
    with pytest.raises(InputFault, match=in_order("--iteration 4:", "batch 64 ring", "0 to 3", "1 are warm-up")):
        iteration(named_run(Path("mine"), "64_ring"), 4)


def test_why_prints_the_path_a_sentence_and_what_was_estimated(call: Any, folder: Path) -> None:
    status, out, err = call("why", str(folder), "64_vanilla", "--iteration", "2")
    assert (status, err) == (0, "")
    assert tells(out, "iteration 2", "time went", "on the line", "contributions", "path")
    sentence, *advice = out[out.rindex("% of iteration 2") :].splitlines()
    assert tells(sentence, "server 0 waits for", "h2 out", "busy", "rank 1 -> server 0")
    assert tells(" ".join(advice), "estimated", "--set") or tells(" ".join(advice), "estimated", "%")


def test_a_run_is_drawn_over_time_with_its_busiest_lines(folder: Path) -> None:
    found = explain(named_run(folder, "64_ring"))
    assert found.over_time.startswith("<?xml")
    assert (found.fault_times, found.drawing) == ("", "")
    assert explain(named_run(folder, "64_ring"), charted=False).over_time == ""


def test_trace_writes_a_file_that_loads(call: Any, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "new" / "trace.json"
    status, output, err = call("trace", str(folder), "64_ring", "--iteration", "1", "--out", str(out))
    assert (status, err) == (0, "")
    assert str(out) in output
    trace = json.loads(out.read_text())
    assert trace_event_format.defects(trace) == []
    assert trace["otherData"]["iteration"] == "1"
    sent = {e["name"] for e in trace["traceEvents"] if e["ph"] == "X" and e["cat"] == "send"}
    assert any(tells(name, "fc6/weights/1", "rank 1") for name in sent)


def test_trace_writes_a_chakra_trace_of_every_rank(call: Any, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "chakra"
    status, output, err = call("trace", str(folder), "64_ring", "--iteration", "1", "--chakra", str(out))
    assert (status, err) == (0, "")
    assert "iteration 1 of" in output
    files = sorted(out.iterdir())
    assert [file.name for file in files] == [f"rank.{rank}.et" for rank in range(len(files))]
    assert call("import", str(out), "--out", str(tmp_path / "back"))[0] == 0
    assert call("trace", str(folder), "64_ring", "--chakra", str(out), "--out", "x.json")[0] == 2


def test_trace_writes_a_profile_of_every_rank(call: Any, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "profiles"
    status, output, err = call("trace", str(folder), "64_ring", "--iteration", "1", "--kineto", str(out))
    assert (status, err) == (0, "")
    assert "iteration 1 of" in output
    files = sorted(out.iterdir())
    assert [file.name for file in files] == [f"rank{rank}.json.gz" for rank in range(len(files))]
    status, output, _ = call("import", str(out), "--out", str(tmp_path / "back"))
    assert status == 0
    assert "written by gradwire" in output
    assert call("trace", str(folder), "64_ring", "--kineto", str(out), "--chakra", str(out))[0] == 2
    assert call("trace", str(folder), "64_ring", "--kineto", str(out), "--out", "x.json")[0] == 2


def test_spines_are_those_that_the_controller_chose(folder: Path) -> None:
    leaf_spine = replace(
        named_run(folder, "64_ring").fabric(), hosts=4, topology=Topology.LEAF_SPINE, leaves=2, spines=2
    )
    spines = Spines(replace(leaf_spine, groups=(MulticastGroup(0, (1, 2)),)))
    tree = spines.spine_of(0, 2, (1, 2))
    assert tree == spines.spine_of(0, 2, (1, 2))
    assert tree in (0, 1)
    pairs = [(a, b) for a in (0, 1) for b in (2, 3)]
    assert np.bincount([spines.spine_of(a, b, ()) or 0 for a, b in pairs]).tolist() == [2, 2]
