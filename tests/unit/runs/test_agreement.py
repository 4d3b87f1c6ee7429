"""Stored runs beside their estimates: each cause in a run that was made to have it, and what is kept."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest

from gradwire.analysis.agreement.causes import Agreement, Cause
from gradwire.analysis.fluid.delays import Delays, delays_of
from gradwire.analysis.fluid.estimate import Buffered, Departure, Jitter
from gradwire.analysis.fluid.ideal import IdealRun
from gradwire.analysis.fluid.steady import MeasuredIterations
from gradwire.datatypes.plan import Plan
from gradwire.datatypes.records import FaultRecord, OpLog, PointRecord, WindowState
from gradwire.inside.point_protocol import PointTask, read_json, write_json
from gradwire.network.fabric import Fabric
from gradwire.network.wire.flows import connections_of
from gradwire.runs import agreement
from gradwire.runs.agreement import compared, examine, examine_and_keep, kept_agreement
from gradwire.runs.judged import JudgedRun, by_job
from gradwire.runs.planned import plan_runs
from gradwire.runs.stored.stored_run import LOG_FILE
from gradwire.scenario.loading import resolve
from gradwire.scenario.overrides import apply_setting
from gradwire.topo.tc import QUANTUM_BYTES
from gradwire.vm.machines import Clock
from tests.shared.parts import tells
from tests.unit.analysis.agreement.made_up_runs import logged
from tests.unit.runs.test_campaign import machine, record, run, say

TEXT = """
title = "A test"
[cluster]
workers = 4
[fabric]
rate = "10gbit"
[model]
name = "toy"
batch = 1
[[model.layers]]
name = "conv"
kind = "conv"
size = ["1MB"]
forward = "1ms"
backward = "2ms"
[[model.layers]]
name = "fc"
kind = "fc"
size = ["6MB"]
forward = "200us"
backward = "400us"
[strategy]
name = "ring"
[run]
warmup = 1
iterations = 5
"""
MANY = f'{{name="many", kind="conv", size={["64KB"] * 100 + ["1MB"]}, forward="10us", backward="10us"}}'
TURN_S = QUANTUM_BYTES * 8 / 1e10
Change = Callable[[OpLog], OpLog]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of agreements. The engine, which was imported before, keeps its machine code where it was."""
    monkeypatch.setenv("GRADWIRE_CACHE", str(tmp_path / "cache"))


def stored_run(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    *settings: str,
    change: Change | None = None,
    clock: Clock | None = None,
    **effects: Any,
) -> JudgedRun:
    """A point that ran on a fluid network with these effects, and whose log was changed then."""

    def job(point: Path, on_line: Callable[[str], None]) -> int:
        task = read_json(point / "task.json", PointTask)
        unsent_bytes = task.sockets.unsent_bytes
        send_ends = Departure() if unsent_bytes is None else Buffered(unsent_bytes)
        plan = Plan.load(point / task.plans[0].file)
        log = logged(
            IdealRun(
                plan, task.fabric, None, MeasuredIterations(task.warmup, task.iterations - task.warmup), send_ends
            ),
            **effects,
        )
        (change(log) if change else log).save(point / LOG_FILE)
        told = record(task.iterations, task.warmup)
        write_json(point / "record.json", with_windows(told, plan, task) if task.faults else told)
        for event in ("first_byte", "replay", "replayed"):
            say(on_line, event)
        say(on_line, "done", plan=task.plans[0].label)
        return 0

    machine(monkeypatch, job)
    document = tomllib.loads(TEXT)
    for setting in settings:
        apply_setting(document, setting)
    points = plan_runs(resolve(document, "test.toml", "test").points, folder, clock or Clock())
    ((judged,), _) = run(folder, points)
    return judged


SENT_WHEN_LEFT = ("strategy.name=p3-slicing", "transport.send_ends=departure")


def with_windows(told: PointRecord, plan: Plan, task: PointTask) -> PointRecord:
    """The record with what became of the task's faults, and with the windows that its sockets have."""
    held_bytes = task.sockets.buffer_bytes
    windows = tuple(
        WindowState(each.number, each.src_host, each.dst_host, held_bytes, held_bytes, held_bytes, 1, 1, 0, 0, 1 << 40)
        for each in connections_of(plan)
    )
    faults = tuple(FaultRecord(fault, 0, 1, 10**12) for fault in task.faults)
    return replace(told, agents=(replace(told.agents[0], windows=windows),), faults=faults)


def examined(judged: JudgedRun) -> Agreement:
    assert judged.result.fluid_time_s is not None
    return examine(judged.stored, judged.point, judged.result.fluid_time_s)


def stretched(factor: float, first_iteration: int = 0) -> Change:
    """Every time from an iteration on, counted from its begin, is so much longer."""

    def change(log: OpLog) -> OpLog:
        begin_ns = log.start_ns[log.iteration == first_iteration].min()

        def longer(times_ns: Any) -> Any:
            return np.where(times_ns > begin_ns, begin_ns + (times_ns - begin_ns) * factor, times_ns).astype(np.int64)

        start_ns = longer(log.start_ns)
        return OpLog(log.iteration, log.op, start_ns, start_ns, longer(log.end_ns))

    return change


def test_a_run_of_an_ideal_network_has_nothing_to_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    judged = stored_run(tmp_path, monkeypatch)
    assert examined(judged) == Agreement()
    assert judged.result.fluid_ratio == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize(
    ("settings", "effects", "cause", "said"),
    [
        ([*SENT_WHEN_LEFT], {"send_ends": Buffered(300_000)}, Cause.SWITCHES, "Messages that had left their hosts"),
        (
            ["strategy.name=p3-slicing", "transport.send_ends=buffered", "transport.unsent=16KiB"],
            {"send_ends": Buffered(400_000)},
            Cause.SOCKETS,
            "16 KiB may wait unsent (transport.unsent)",
        ),
        (
            ["strategy.name=halving-doubling", "cluster.workers=16", "run.iterations=9"],
            {"send_ends": Buffered(500_000), "jitter": Jitter(TURN_S, 7)},
            Cause.SKEW,
            "This plan amplifies jitter: messages that arrive up to 56 us late, behind 64 KiB of others, make an iteration",
        ),
        # Most of its messages are so short that they are not late by a turn.
        (
            ["strategy.name=halving-doubling", f"model.layers=[[{MANY}]]"],
            {"jitter": Jitter(TURN_S, 7), "whole_bytes": QUANTUM_BYTES},
            Cause.BURSTS,
            "Messages arrive up to 56 us late, behind 64 KiB of others",
        ),
        # Its messages are late as well, but what is held is what explains it.
        (
            [*SENT_WHEN_LEFT],
            {"send_ends": Buffered(300_000), "jitter": Jitter(TURN_S, 7)},
            Cause.SWITCHES,
            "Messages that had left their hosts",
        ),
        # A network's own delays are in all estimates.
        (
            [*SENT_WHEN_LEFT, "fabric.delay=10us"],
            {"send_ends": Buffered(300_000)},
            Cause.SWITCHES,
            "Messages that had left their hosts",
        ),
        # Copies of a multicast may be early because others are far away, if they are not all as far.
        (
            ["strategy.name=multicast-ps", "fabric.link.h1.delay=3ms"],
            {"delays": Delays((1e-3, *[0.0] * 7))},
            Cause.DELAYS,
            "copies of a multicast meet other flows at another time",
        ),
        (["strategy.name=ring", "strategy.options.segments=16"], {"latency_s": 4e-4}, Cause.UNEXPLAINED, "Check this point before"),
    ],
)  # fmt: skip
def test_each_cause_is_found_where_it_is(
    settings: list[str],
    effects: dict[str, Any],
    cause: Cause,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    agreement = examined(stored_run(tmp_path, monkeypatch, *settings, **effects))
    assert (agreement.cause, said in agreement.sentence) == (cause, True), agreement.sentence


FAR = [f'fault.far{host}={{kind="delay",link="h{host}",delay="1ms"}}' for host in (1, 2, 3, 4)]
"""4 ms for a round trip, in which 5 MB pass."""
LINKS_S = [1e-3] * 4


@pytest.mark.parametrize(
    ("settings", "window_bytes", "cause", "said"),
    [
        ([], float("inf"), Cause.DELAYS, "explain 100% of the difference. Links make messages arrive later, the longest by 1 ms"),
        (
            ["transport.buffer=1MiB"],
            2 / 3 * (1 << 20),
            Cause.WINDOWS,
            "sockets keep no more than 700 kB of a connection under way (transport.buffer), where 4.7 MB would fill the line from h1 to "
            "h2, over a round trip of 4 ms",
        ),
        # Short windows that do not explain it are not named.
        (["transport.buffer=1MiB"], float("inf"), Cause.DELAYS, "the links' delays explain 100% of the difference"),
        (["fault.far1.duration=1ms"], float("inf"), Cause.NOT_EXAMINED, "faults happened in the network"),
    ],
    ids=["default buffer", "small buffer", "small buffer that does not matter", "delay that ends"],
)  # fmt: skip
def test_of_long_links_delays_and_windows_are_told_apart(
    settings: list[str],
    window_bytes: float,
    cause: Cause,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fabric = Fabric(hosts=4, rate_bps=10e9)
    far = delays_of(fabric, LINKS_S, window_bytes)
    agreement = examined(stored_run(tmp_path, monkeypatch, *FAR, *settings, delays=far))
    assert (agreement.cause, said in agreement.sentence) == (cause, True), agreement.sentence


def test_the_cold_start_is_named_where_it_alone_is_slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def slow_start(log: OpLog) -> OpLog:
        later = log.iteration > 0
        return OpLog(
            log.iteration,
            log.op,
            log.nominal_start_ns,
            np.where(later, log.start_ns + 10_000_000, log.start_ns),
            np.where(
                later, log.end_ns + 10_000_000, log.end_ns + (log.end_ns == log.end_ns[~later].max()) * 10_000_000
            ),
        )

    judged = stored_run(tmp_path, monkeypatch, "run.warmup=0", change=slow_start)
    agreement = examined(judged)
    assert agreement.cause is Cause.START
    assert tells(agreement.sentence, "first iteration", "others take 1.000 times")


def test_the_end_is_named_where_it_alone_is_fast(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fast_end(log: OpLog) -> OpLog:
        earlier_ns = np.where(log.iteration == log.iteration.max(), 10_000_000, 0)
        return OpLog(
            log.iteration, log.op, log.nominal_start_ns - earlier_ns, log.start_ns - earlier_ns, log.end_ns - earlier_ns
        )

    agreement = examined(stored_run(tmp_path, monkeypatch, "run.iterations=3", change=fast_end))
    assert agreement.cause is Cause.END
    assert tells(agreement.sentence, "last iteration", "others take 1.000 times")


def test_times_that_nothing_explains_are_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    agreement = examined(stored_run(tmp_path, monkeypatch, change=stretched(1.2)))
    assert agreement.cause is Cause.UNEXPLAINED


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("fabric.loss=0.001", "loses packets on purpose (fabric.loss = 0.001)"),
        ("fabric.fair_queues=false", "fabric.fair_queues = false"),
    ],
)
def test_no_cause_is_looked_for_where_the_point_asks_for_what_is_not_ideal(
    setting: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agreement = examined(stored_run(tmp_path, monkeypatch, setting, change=stretched(1.2)))
    assert agreement.cause is Cause.NOT_EXAMINED
    assert said in agreement.sentence


def test_a_plan_that_is_too_large_is_told_with_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    judged = stored_run(tmp_path, monkeypatch, change=stretched(1.2))
    monkeypatch.setattr(agreement, "LARGEST_PLAN_OPS", 10)
    found = examined(judged)
    assert found.cause is Cause.NOT_EXAMINED
    assert "10 (LARGEST_PLAN_OPS)" in found.sentence


def keep(judged: JudgedRun) -> Agreement:
    assert judged.result.fluid_time_s is not None
    return examine_and_keep(judged.stored, judged.point, judged.result.fluid_time_s)


def kept_of(judged: JudgedRun) -> Agreement | None:
    return kept_agreement(judged.stored, judged.point)


def test_a_run_is_examined_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    judged = stored_run(tmp_path, monkeypatch, change=stretched(1.2))
    before = {path: path.stat().st_mtime_ns for path in judged.folder.iterdir()}
    assert kept_of(judged) is None
    agreement = keep(judged)
    assert kept_of(judged) == agreement
    assert agreement.cause is Cause.UNEXPLAINED
    assert {path: path.stat().st_mtime_ns for path in judged.folder.iterdir()} == before, "nothing is written there"


def test_what_was_logged_anew_or_is_examined_by_other_code_is_examined_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged = stored_run(tmp_path, monkeypatch)
    keep(judged)
    with monkeypatch.context() as patched:
        patched.setattr(agreement, "_code_digest", lambda: "another")
        assert kept_of(judged) is None
    assert kept_of(judged) is not None
    stretched(1.1)(judged.stored.log()).save(judged.folder / LOG_FILE)
    assert kept_of(judged) is None


def test_a_cache_that_is_damaged_or_cannot_be_written_is_no_obstacle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged = stored_run(tmp_path, monkeypatch)
    agreement = keep(judged)
    (file,) = (tmp_path / "cache" / "agreement").iterdir()
    file.write_text("{")
    assert kept_of(judged) is None
    monkeypatch.setenv("GRADWIRE_CACHE", str(file))
    assert keep(judged) == agreement
    assert kept_of(judged) is None


def test_rows_get_their_causes_and_what_is_known_is_not_examined_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged = stored_run(tmp_path, monkeypatch, *SENT_WHEN_LEFT, send_ends=Buffered(300_000))
    assert judged.result.fluid_cause == ""
    assert (judged.result.fluid_ratio or 1) < 0.97
    (first,) = compared([judged])
    assert first.result.fluid_cause == "switch queues"
    assert first.result.fluid_ratio == judged.result.fluid_ratio

    def refuse(*_: object) -> NoReturn:
        raise AssertionError("this is known")

    monkeypatch.setattr(agreement, "examine_and_keep", refuse)
    assert compared([judged]) == [first]
    monkeypatch.setattr(agreement, "kept_agreement", refuse)
    assert compared([first]) == [first]


def test_bursts_of_a_divided_network_explain_late_messages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    burst_s = (64 << 10) * 8 / 2.5e9
    judged = stored_run(tmp_path, monkeypatch, "strategy.name=vanilla", clock=Clock(scale=4), latency_s=burst_s * 0.98)
    agreement = examined(judged)
    assert agreement.cause == Cause.BURSTS
    assert tells(agreement.sentence, "bursts", "divided by 4", "64 KiB")
    completion = judged.stored.completion()
    assert completion is not None
    ratio = judged.result.fluid_ratio or 0.0
    assert 1 < ratio < 1 + completion.division_error


def test_what_agrees_is_not_examined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    judged = stored_run(tmp_path, monkeypatch)
    (agreed,) = compared([judged])
    assert agreed.agreement == Agreement()
    assert not (tmp_path / "cache" / "agreement").exists()


def test_of_several_jobs_each_is_compared_and_not_what_they_do_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that iterates a hundred times while another does twice makes most iterations of their plan."""
    judged = stored_run(tmp_path, monkeypatch, change=stretched(1.2))
    estimated_s = judged.result.fluid_time_s or 0.0
    near, far = (replace(judged.result, iteration_time_s=estimated_s * factor) for factor in (1.001, 1.2))
    (agreed,) = compared([replace(judged, job_results=(near, near))])
    assert agreed.agreement == Agreement()
    (examined_,) = compared([replace(judged, job_results=(near, far))])
    assert [row.fluid_cause for row in examined_.job_results] == ["", "unexplained"]
    # What is shown when it ends are the times that tables have, and not that of an iteration of both.
    of_jobs = [replace(row, parameters={"job": name}) for row, name in ((near, "a"), (far, "b"))]
    said = replace(judged, job_results=tuple(of_jobs)).summary
    assert tells(said, "job a", f"{near.iteration_time_s:.4f} s", "job b", f"{far.iteration_time_s:.4f} s")


JOBS = """
title = "A test"
fabric.rate = "10gbit"
run = { warmup = 1, iterations = 5 }
[job.one]
model = { name = "toy", layers = [{ name = "only", size = ["2MB"], forward = "1ms", backward = "2ms" }] }
strategy = { name = "ring" }
cluster = { workers = 2 }
[job.other]
model = { name = "toy", layers = [{ name = "only", size = ["2MB"], forward = "1ms", backward = "2ms" }] }
strategy = { name = "ring" }
cluster = { workers = 2 }
"""


def late_in_the_second_half(log: OpLog) -> OpLog:
    """Times of the second of two equal jobs are a fifth longer."""
    longer, is_second = stretched(1.2)(log), log.op > log.op.max() // 2
    start_ns = np.where(is_second, longer.start_ns, log.start_ns)
    return OpLog(log.iteration, log.op, start_ns, start_ns, np.where(is_second, longer.end_ns, log.end_ns))


def test_each_of_several_jobs_has_its_own_cause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "TEXT", JOBS)
    judged = stored_run(tmp_path, monkeypatch, change=late_in_the_second_half)
    judged = replace(judged, result=replace(judged.result, verdict="valid"))  # a message that nothing delayed was late
    (agreed,) = compared([judged])
    assert [row.fluid_cause for row in agreed.job_results] == ["", "unexplained"]
    own = [run.agreement for run in by_job([agreed])]
    assert [each.cause for each in own if each] == [Cause.NONE, Cause.UNEXPLAINED]
    assert agreed.agreement is not None
    assert agreed.agreement.sentence == agreed.agreement.jobs[1].sentence


def test_a_run_that_is_not_valid_is_not_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(point: Path, on_line: Callable[[str], None]) -> int:
        return 1

    machine(monkeypatch, fail)
    points = plan_runs(resolve(tomllib.loads(TEXT), "test.toml", "test").points, tmp_path, Clock())
    ((judged,), _) = run(tmp_path, points)
    assert not judged.result.valid
    assert compared([judged]) == [judged]
