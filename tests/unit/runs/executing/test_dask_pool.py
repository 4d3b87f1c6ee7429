"""Points on a real Dask cluster of two worker processes, whose machines are stood in for.

Nothing is lost or doubled, whatever workers do.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import distributed
import pytest

from gradwire.faults import InputFault, MachineFault
from gradwire.runs import judged
from gradwire.runs.campaign import Campaign
from gradwire.runs.executing.cluster.pool import DaskPool, connected
from gradwire.runs.executing.executor import LocalPool
from gradwire.runs.executing.executor_choice import Where
from gradwire.runs.judged import JudgedRun
from gradwire.runs.planned import PlannedRun
from gradwire.runs.stored.stored_run import Completion
from tests.shared.parts import tells
from tests.shared.worker_processes import worker_processes
from tests.unit.runs.executing.stand_in_machines import replace_machines, take_habit
from tests.unit.runs.test_campaign import GOOD, Silent, machine, planned_runs, rows
from tests.unit.runs.test_campaign import good_job as local_job

pytestmark = pytest.mark.long
BATCHES = "model.batch=[32,64,128,256]"
LIMIT_S = 300.0


@pytest.fixture(scope="module")
def notes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("notes")


@pytest.fixture(scope="module")
def cluster(notes: Path) -> Iterator[Any]:
    with worker_processes(2) as client:
        client.register_worker_callbacks(setup=partial(replace_machines, notes))
        yield client


@pytest.fixture
def client(cluster: Any, notes: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(judged, "judge", lambda *_, **_kinds: GOOD)
    cluster.wait_for_workers(2, timeout=LIMIT_S)
    cluster.run(take_habit, "")
    for note in notes.iterdir():
        note.unlink()
    return cluster


def workers(client: Any) -> list[str]:
    return sorted(client.nthreads())


def campaign(
    client: Any,
    out: Path,
    points: list[PlannedRun],
    warnings: list[str] | None = None,
    watcher: Silent | None = None,
) -> tuple[list[JudgedRun], Silent]:
    kernel = out.parent / "kernel-6.12"
    kernel.write_bytes(b"a kernel")
    watcher, said = watcher or Silent(), [] if warnings is None else warnings
    pool = DaskPool(client, kernel, 2, said.append)
    try:
        return Campaign(points, out, pool, watcher).run(), watcher
    finally:
        pool.close()


def all_once(out: Path, runs: list[JudgedRun], watcher: Silent) -> None:
    """Every point has one row, is valid, and ended once."""
    assert [run.result.verdict for run in runs] == ["valid"] * 4
    assert [row["batch"] for row in rows(out)] == ["32", "64", "128", "256"]
    assert sorted(run.folder.name for run in watcher.judged) == sorted(run.folder.name for run in runs)


def ran_by(runs: list[JudgedRun]) -> set[str]:
    completions = [run.stored.completion() for run in runs]
    assert all(isinstance(each, Completion) for each in completions)
    return {each.worker.split()[0] for each in completions if each}


def test_rows_and_logs_are_those_of_the_local_pool(
    client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs, watcher = campaign(client, tmp_path / "far", planned_runs(tmp_path / "far", BATCHES))
    all_once(tmp_path / "far", runs, watcher)
    assert ran_by(runs) == set(workers(client))
    assert len(watcher.begun) == 4
    machine(monkeypatch, local_job)
    near = Campaign(planned_runs(tmp_path / "near", BATCHES), tmp_path / "near", LocalPool(2), Silent()).run()
    for one, other in zip(runs, near, strict=True):
        assert (one.folder / "iterations.csv").read_bytes() == (other.folder / "iterations.csv").read_bytes()
        assert (one.folder / "ops.npz").read_bytes() == (other.folder / "ops.npz").read_bytes()
        assert {path.name for path in one.folder.iterdir()} == {path.name for path in other.folder.iterdir()}
        assert one.result.iteration_time_s == other.result.iteration_time_s
    again, watcher = campaign(client, tmp_path / "far", planned_runs(tmp_path / "far", BATCHES))
    assert all(run.reused for run in again)
    assert watcher.begun == []


def until_begun(notes: Path, worker: str) -> None:
    """Waits until a worker has begun a point."""
    end_s = time.monotonic() + LIMIT_S
    begun = notes / "begun"
    while not (begun.exists() and worker in begun.read_text()):
        assert time.monotonic() < end_s, "the worker got no point"
        time.sleep(0.02)


def test_points_of_a_full_worker_go_to_another(client: Any, tmp_path: Path, notes: Path) -> None:
    full, good = workers(client)
    client.run(take_habit, "full", workers=[full])
    runs, watcher = campaign(client, tmp_path / "out", planned_runs(tmp_path / "out", BATCHES))
    all_once(tmp_path / "out", runs, watcher)
    assert ran_by(runs) == {good}
    assert full in (notes / "begun").read_text()


def test_where_all_workers_are_full_the_points_verdict_names_them(client: Any, tmp_path: Path) -> None:
    client.run(take_habit, "full")
    runs, _ = campaign(client, tmp_path / "out", planned_runs(tmp_path / "out"))
    for run in runs:
        assert "no worker" in run.result.verdict
        for worker in workers(client):
            assert f"worker {worker}: its disk" in run.result.verdict


@pytest.mark.parametrize(
    ("habit", "said"),
    [
        ("other gradwire", ["gradwire 9.9"]),
        ("no kernel", ["lacks kernel-6.12"]),
        ("mixed", ["kernel-of-another", "kernel-6.12"]),
    ],
)
def test_a_worker_with_something_else_is_refused_by_name(
    client: Any, tmp_path: Path, habit: str, said: list[str]
) -> None:
    if habit == "no kernel":
        client.run(use_no_cache)
    other, good = workers(client)
    client.run(take_habit, habit, workers=[other])
    warnings: list[str] = []
    runs, watcher = campaign(client, tmp_path / "out", planned_runs(tmp_path / "out", BATCHES), warnings)
    all_once(tmp_path / "out", runs, watcher)
    assert ran_by(runs) == {good}
    (warning,) = warnings
    assert tells(warning, f"worker {other} runs no points:", *said)


def use_no_cache() -> None:
    os.environ["GRADWIRE_CACHE"] = "/dev/null/cache"


def test_where_all_are_refused_nothing_starts(client: Any, tmp_path: Path, notes: Path) -> None:
    client.run(take_habit, "other gradwire")
    with pytest.raises(MachineFault, match="no worker") as refused:
        campaign(client, tmp_path / "out", planned_runs(tmp_path / "out"))
    for worker in workers(client):
        assert tells(str(refused.value), f"worker {worker}:", "gradwire 9.9")
    assert not (notes / "begun").exists()


def test_an_interrupt_stops_the_machines_and_leaves_the_cluster(client: Any, tmp_path: Path, notes: Path) -> None:
    slow, _ = workers(client)
    client.run(take_habit, "slow", workers=[slow])

    class Interrupted(Silent):
        def ended(self, judged: JudgedRun) -> None:
            super().ended(judged)
            until_begun(notes, slow)
            raise KeyboardInterrupt

    watcher = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        campaign(client, tmp_path / "out", planned_runs(tmp_path / "out", BATCHES), watcher=watcher)
    end_s = time.monotonic() + LIMIT_S
    while not (stopped := list(notes.glob("stopped-*"))):
        assert time.monotonic() < end_s, "the machine was not told to stop"
        time.sleep(0.05)
    assert [note.read_text() for note in stopped] == ["True"]
    assert len(workers(client)) == 2
    assert [row["verdict"] for row in rows(tmp_path / "out")] == ["valid"] * len(watcher.judged)


def test_a_withdrawal_alone_ends_a_machine(
    client: Any, tmp_path: Path, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one whose cancelling Dask never heard of."""
    monkeypatch.setattr(distributed.Future, "cancel", lambda *_, **__: None)
    client.run(take_habit, "slow")

    def interrupt() -> None:
        for worker in workers(client):
            until_begun(notes, worker)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        campaign(client, tmp_path / "out", planned_runs(tmp_path / "out", BATCHES))
    end_s = time.monotonic() + LIMIT_S
    while len(stopped := list(notes.glob("stopped-*"))) < 2:
        assert time.monotonic() < end_s, "the machines were not told to stop"
        time.sleep(0.05)
    assert [note.read_text() for note in stopped] == ["True", "True"]


def test_a_scheduler_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gradwire.runs.executing.cluster.pool.PATIENCE_S", 0.5)
    for address, fault in (
        ("tcp://127.0.0.1:9", "no Dask scheduler answers there"),
        ("what://x", "is not an address of a Dask scheduler"),
    ):
        where = Where(executor="dask", scheduler=address)
        with pytest.raises(Exception, match=fault), connected(where.scheduler, 1):
            pass


@pytest.mark.parametrize(
    "content", [b"", b"\xff\xfe", b"{}", b'{"address": 3}', b"[" * 200_000, b'"tcp://127.0.0.1:9"']
)
def test_a_file_that_no_scheduler_wrote_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "scheduler.json").write_bytes(content)
    where = Where(executor="dask", scheduler=str(tmp_path / "scheduler.json"))
    with (
        pytest.raises(InputFault, match=r"scheduler\.json: is not a file that a Dask scheduler wrote"),
        connected(where.scheduler, 1),
    ):
        pass


# The last one: no other test waits until the worker is back.
def test_a_worker_that_is_killed_loses_no_point(client: Any, tmp_path: Path, notes: Path) -> None:
    victim, _ = workers(client)
    client.run(take_habit, "slow", workers=[victim])
    pids = client.run(os.getpid)
    killer = threading.Thread(target=kill_once_begun, args=(notes, victim, pids[victim]))
    killer.start()
    runs, watcher = campaign(client, tmp_path / "out", planned_runs(tmp_path / "out", BATCHES))
    killer.join()
    all_once(tmp_path / "out", runs, watcher)
    begun = (notes / "begun").read_text()
    assert f"{pids[victim]} {victim}" in begun
    assert len(begun.splitlines()) > 4, "what the killed worker had began anew"


def kill_once_begun(notes: Path, victim: str, pid: int) -> None:
    until_begun(notes, victim)
    os.kill(pid, signal.SIGKILL)
