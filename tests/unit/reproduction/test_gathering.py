"""The reproduction's run loop without a machine: shared points, kept points, narrowed scenarios, and failures."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gradwire.analysis.verdict.verdict import Verdict
from gradwire.faults import InputFault, MachineFault
from gradwire.runs import judged, planned
from gradwire.runs.executing.executor import LocalPool
from gradwire.runs.planned import source_key
from gradwire.vm.machines import Clock
from reproduction import gathering
from reproduction.gathering import Reproduction, model_facts, wanted_scenarios
from reproduction.point_store import PointStore
from reproduction.scoring.evidence import NoEvidence
from reproduction.scoring.reference import ScenarioReference
from tests.shared.parts import in_order, tells
from tests.unit.runs.test_campaign import GOOD, Silent, good_job, machine, reported

FIRST = """
title = "First"
[cluster]
workers = 2
[fabric]
rate = "10gbit"
[model]
name = "alexnet"
device = "k40"
[strategy]
name = "vanilla"
[sweep]
"strategy.name" = ["vanilla", "geryon"]
"""
SECOND = FIRST.replace('["vanilla", "geryon"]', '["geryon", "partition-slicing"]')


class Watching(Silent):
    def __init__(self) -> None:
        super().__init__()
        self.there = 0

    def already(self, points: int) -> None:
        self.there += points


@pytest.fixture(autouse=True)
def scenarios(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "scenarios").mkdir()
    for name, text in (("first", FIRST), ("second", SECOND)):
        (tmp_path / "scenarios" / f"{name}.toml").write_text(text)
    monkeypatch.setattr(gathering, "SCENARIOS", tmp_path / "scenarios")


def scenario(name: str, **fields: Any) -> ScenarioReference:
    return ScenarioReference.model_validate({"id": f"p3-{name}", "title": name, "runs": [name], **fields})


def reproduction(tmp_path: Path, *scenarios: ScenarioReference, quick: bool = False) -> Reproduction:
    return Reproduction(scenarios, tmp_path / "store", quick=quick)


BOTH = (scenario("first"), scenario("second"))


def test_scenarios_share_points_and_nothing_runs_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, good_job)
    first, watcher = reproduction(tmp_path, *BOTH), Watching()
    assert first.points == 3
    gathered = first.gather(LocalPool(2), watcher)
    assert (len(watcher.begun), watcher.there, len(gathered.ran)) == (3, 0, 3)
    shared = [gathered.points(one).point(strategy="geryon") for one in BOTH]
    assert shared[0].folder == shared[1].folder
    assert [point.parameters["run"] for point in shared] == ["first", "second"]
    assert shared[0].plan().digest() == gathered.points(BOTH[0]).row(strategy="geryon").plan_digest
    assert shared[0].record().iterations == 4

    def never(*_: Any) -> Any:
        raise AssertionError("nothing needs to be compiled or run")

    machine(monkeypatch, never)
    monkeypatch.setattr(planned, "compile_resolved", never)
    watcher = Watching()
    again = reproduction(tmp_path, *BOTH).gather(LocalPool(1), watcher)
    assert (len(watcher.begun), watcher.there, len(again.ran)) == (0, 3, 0)
    assert again.points(BOTH[1]).rows() == gathered.points(BOTH[1]).rows()


def test_a_changed_point_runs_and_the_others_do_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, good_job)
    reproduction(tmp_path, *BOTH).gather(LocalPool(1), Watching())
    changed = SECOND.replace("workers = 2", "workers = 3")
    (tmp_path / "scenarios" / "second.toml").write_text(changed)
    watcher = Watching()
    reproduction(tmp_path, *BOTH).gather(LocalPool(1), watcher)
    assert (len(watcher.begun), watcher.there) == (2, 2)


def test_a_failure_is_told_and_mended_by_the_next_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def job(folder: Path, on_line: Callable[[str], None]) -> int:
        if "coarse" in (folder / "task.json").read_text():
            raise MachineFault("the kernel died")
        return good_job(folder, on_line)

    machine(monkeypatch, job)
    gathered = reproduction(tmp_path, BOTH[0]).gather(LocalPool(1), Watching())
    ((label, reason),) = gathered.failed
    assert "first" in label
    assert "the kernel died" in reason
    points = gathered.points(BOTH[0])
    assert points.row(strategy="vanilla").valid
    with pytest.raises(NoEvidence, match="the kernel died"):
        points.row(strategy="geryon")
    machine(monkeypatch, good_job)
    watcher = Watching()
    assert reproduction(tmp_path, BOTH[0]).gather(LocalPool(1), watcher).failed == []
    assert (len(watcher.begun), watcher.there) == (1, 1)


def test_an_invalid_run_is_judged_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, good_job)
    bad = Verdict(False, GOOD.checks, "invalid: drops")
    monkeypatch.setattr(judged, "judge", lambda *_, **_kinds: bad)
    assert len(reproduction(tmp_path, BOTH[0]).gather(LocalPool(1), Watching()).failed) == 2
    monkeypatch.setattr(judged, "judge", lambda *_, **_kinds: GOOD)
    watcher = Watching()
    assert reproduction(tmp_path, BOTH[0]).gather(LocalPool(1), watcher).failed == []
    assert watcher.begun == []


def test_plans_are_compiled_when_asked_for_and_never_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, good_job)
    one = scenario("first", runs=[], plans=["first"])
    gathered = reproduction(tmp_path, one).gather(LocalPool(1), Watching())
    points = gathered.points(one)
    assert points.model(strategy="vanilla").parameters == points.model(strategy="geryon").parameters
    assert points.plan(strategy="vanilla").samples == 1024
    with pytest.raises(NoEvidence, match="only compiled"):
        points.row(strategy="vanilla")
    with pytest.raises(NoEvidence, match="only compiled"):
        points.log(strategy="vanilla")


def test_quick_narrows_a_scenario(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, good_job)
    one = scenario("first", quick=True, quick_only={"strategy": "vanilla"})
    assert reproduction(tmp_path, one).points == 2
    narrow = reproduction(tmp_path, one, quick=True)
    assert narrow.points == 1
    assert [p.parameters["strategy"] for p in narrow.gather(LocalPool(1), Watching()).by_run["first"]] == ["vanilla"]


def test_run_folders_can_be_reported_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, good_job)
    first = reproduction(tmp_path, *BOTH)
    gathered = first.gather(LocalPool(1), Watching())
    first.write_run_folders(gathered, tmp_path / "out")
    renamed = tmp_path / "out" / "first" / "points" / "as-another-version-named-it"
    renamed.symlink_to(tmp_path / "store" / "0123456789abcdef")
    first.write_run_folders(gathered, tmp_path / "out")
    assert not renamed.is_symlink()
    renamed.symlink_to(tmp_path)
    with pytest.raises(InputFault, match=in_order("as-another-version-named-it:", "link")):
        first.write_run_folders(gathered, tmp_path / "out")
    renamed.unlink()
    points = first.files["first"].points
    assert [one.result.verdict for one in reported(tmp_path / "out" / "first", list(points))] == ["valid", "valid"]
    assert (tmp_path / "out" / "first" / "points.csv").read_text().count("valid") == 2


def test_ctrl_c_keeps_what_is_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = threading.Event()

    def job(folder: Path, on_line: Callable[[str], None]) -> int:
        if begun.is_set():
            raise KeyboardInterrupt
        begun.set()
        return good_job(folder, on_line)

    machine(monkeypatch, job)
    with pytest.raises(KeyboardInterrupt):
        reproduction(tmp_path, *BOTH).gather(LocalPool(1), Watching())
    machine(monkeypatch, good_job)
    watcher = Watching()
    reproduction(tmp_path, *BOTH).gather(LocalPool(1), watcher)
    assert watcher.there == 1


def test_another_process_that_runs_the_same_point_is_waited_for(tmp_path: Path) -> None:
    store = PointStore(tmp_path / "store", Clock())
    stop = threading.Event()
    held, release = threading.Event(), threading.Event()

    def other() -> None:
        with store.locked("key", threading.Event()):
            held.set()
            assert release.wait(120)

    holder = threading.Thread(target=other)
    holder.start()
    assert held.wait(120)
    waiting = threading.Timer(0.1, stop.set)
    waiting.start()
    with pytest.raises(MachineFault, match="stopped"), store.locked("key", stop):
        pass
    release.set()
    holder.join()
    with store.locked("key", threading.Event()):
        pass


def test_a_damaged_note_of_a_key_is_named(tmp_path: Path) -> None:
    (point, *_) = reproduction(tmp_path, BOTH[0]).files["first"].points
    store = PointStore(tmp_path / "store", Clock())
    assert store.judge_point(point) is None
    note = tmp_path / "store" / "keys" / source_key(point, Clock())
    note.parent.mkdir(parents=True)
    note.write_bytes(b"\xff\xfe")
    with pytest.raises(InputFault, match=f"{note.name}: is damaged"):
        store.judge_point(point)


def test_facts_of_a_model(tmp_path: Path) -> None:
    one = reproduction(tmp_path, BOTH[0])
    facts = model_facts(one.files["first"].points[0])
    assert facts.parameters == sum(facts.layer_parameters()) == 62_378_344
    assert sum(facts.forward_s) + sum(facts.backward_s) == pytest.approx(0.846)
    assert tells(str(facts.fitted_on), "Geryon", "Table II", "AlexNet", "vanilla")


def test_names_that_have_no_quick_scenario_are_refused() -> None:
    assert wanted_scenarios([], quick=True)
    with pytest.raises(InputFault, match=in_order("no scenario", "--quick")):
        wanted_scenarios(["geryon-fig5"], quick=True)


def test_the_machine_is_tried_once_and_only_when_a_point_has_to_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(memory_mb: int) -> None:
        raise MachineFault(f"no room for {memory_mb} MiB")

    machine(monkeypatch, good_job)
    watcher = Watching()
    with pytest.raises(MachineFault, match="3072 MiB"):
        reproduction(tmp_path, *BOTH).gather(LocalPool(2, fail), watcher)
    assert watcher.begun == []
    tried: list[int] = []
    reproduction(tmp_path, *BOTH).gather(LocalPool(2, tried.append), watcher)
    assert tried == [3072]
    assert reproduction(tmp_path, *BOTH).gather(LocalPool(2, fail), watcher).failed == []
