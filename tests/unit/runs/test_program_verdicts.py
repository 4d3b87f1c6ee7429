"""What a stored point of programs is worth, by the files in its folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from gradwire.analysis.program_results import ProgramResult
from gradwire.analysis.verdict.verdict import failed_run
from gradwire.datatypes.network_counts import BandCount, NetworkCounts
from gradwire.datatypes.pauses import PauseCount, PauseState
from gradwire.faults import InputFault
from gradwire.inside.point_protocol import write_json
from gradwire.inside.program_protocol import Report
from gradwire.programs.execution import SUMMARY_FILE, ProgramRunSummary
from gradwire.runs.judged import write_verdict
from gradwire.runs.stored.stored_run import Completion, StoredRun, write_completion
from gradwire.runs.works import judge_stored
from gradwire.scenario.program_scenarios import ProgramPoint, ProgramPointSection
from tests.shared.parts import in_order, tells

SECTION = ProgramPointSection.model_validate(
    {
        "cluster": {"workers": 2},
        "fabric": {"rate": "10gbit"},
        "program": {
            "server": {"command": "serve", "hosts": ["h1"], "background": True, "figures": "iperf3"},
            "client": {"command": "ask", "hosts": ["h2"]},
        },
    }
)
POINT = ProgramPoint({"rate": "10gbit"}, SECTION)
PORT = BandCount("h1-eth0", 1, 1_000_000, 700, 0)
COUNTS = NetworkCounts((PORT,), 700, 0, upcalls=2, table_miss_packets=0)
REPORT = Report(duration_s=0.01, timed_out=False, counts=COUNTS, killed_for_memory=0)


def stored(folder: Path, report: Report = REPORT, lines: str = '{"time_s": 0.01}\n', **ended: object) -> Path:
    """A folder as a run leaves it."""
    statuses: dict[str, int] = {"client/h2": 0}
    summary = ProgramRunSummary((("sh",), ("sh",)), statuses, "", 6.0, 1 << 27, report)
    write_json(folder / SUMMARY_FILE, msgspec.structs.replace(summary, **ended), indent=1)
    write_completion(folder, Completion("key"), (SUMMARY_FILE,))
    (folder / "figures" / "client").mkdir(parents=True)
    (folder / "figures" / "client" / "h2.jsonl").write_text(lines)
    (folder / "output" / "server").mkdir(parents=True)
    (folder / "output" / "server" / "h1.out").write_text("the beginning of a rep")
    return folder


def judge_programs(point: ProgramPoint, folder: Path) -> ProgramResult:
    """The row of a point's run, judged as it lies."""
    result: ProgramResult = judge_stored(StoredRun(folder, point), point).result
    return result


def test_a_sound_run_is_valid_with_its_figures(tmp_path: Path) -> None:
    result = judge_programs(POINT, stored(tmp_path))
    assert (result.valid, result.duration_s, result.wall_s, result.memory_bytes) == (True, 0.01, 6.0, 1 << 27)
    assert [(row.program, row.host, row.figures) for row in result.figures] == [("client", "h2", {"time_s": 0.01})]
    assert [check.name for check in result.verdict.checks] == [
        "programs",
        "drops",
        "TCP retransmits",
        "table misses",
        "figures",
    ]
    assert StoredRun(tmp_path).is_of("key")
    assert not StoredRun(tmp_path).is_of("another")


def test_that_a_program_failed_and_what_the_network_did_are_two_facts(tmp_path: Path) -> None:
    result = judge_programs(POINT, stored(tmp_path, statuses={"client/h2": 139}, failed="client/h2"))
    assert (result.state, result.valid) == ("failed", False)
    assert tells(result.verdict.summary, "failed:", "client/h2", "signal 11", "network carried all")


def test_a_network_that_lost_something_is_told_beside_a_program_that_failed(tmp_path: Path) -> None:
    lossy = msgspec.structs.replace(REPORT, counts=replace(COUNTS, bands=(replace(PORT, drops=3),)))
    folder = stored(tmp_path, lossy, lines='{"time', statuses={"client/h2": 1}, failed="client/h2")
    summary = judge_programs(POINT, folder).verdict.summary
    assert tells(summary, "failed:", "client/h2", "status 1", "not carry all:", "drops 3 (limit 0);")
    assert tells(summary, "client/h2.jsonl:", "line 1:")


def test_a_report_in_an_output_that_was_not_kept_whole_is_no_result(tmp_path: Path) -> None:
    cut = msgspec.structs.replace(REPORT, dropped_output_bytes=9)
    folder = stored(tmp_path, cut, statuses={"client/h2": 0, "server/h1": 0})
    summary = judge_programs(POINT, folder).verdict.summary
    assert tells(summary, "invalid:", "server/h1.out:", "9 bytes")


def test_a_kernel_out_of_memory_is_named(tmp_path: Path) -> None:
    full = msgspec.structs.replace(REPORT, killed_for_memory=1)
    folder = stored(tmp_path, full, statuses={"client/h2": 137}, failed="client/h2")
    assert tells(judge_programs(POINT, folder).verdict.summary, "memory was full", "run.memory_mb")


def test_figures_that_cannot_be_read_make_the_point_invalid(tmp_path: Path) -> None:
    summary = judge_programs(POINT, stored(tmp_path, lines='{"time_s": 1}\n{"time')).verdict.summary
    assert tells(summary, f"invalid: {tmp_path}/figures/client/h2.jsonl:", "line 2:")


def test_a_network_that_lost_something_makes_the_point_invalid(tmp_path: Path) -> None:
    lossy = msgspec.structs.replace(REPORT, counts=replace(COUNTS, bands=(replace(PORT, drops=3),), tcp_retransmits=3))
    verdict = judge_programs(POINT, stored(tmp_path, lossy)).verdict
    assert {check.name: check.value for check in verdict.checks if not check.ok} == {
        "drops": "3",
        "TCP retransmits": "3",
    }


def test_a_run_that_was_cut_short_is_kept_with_its_reason(tmp_path: Path) -> None:
    write_verdict(tmp_path, failed_run("no luck"))
    again = judge_programs(POINT, tmp_path)
    assert (again.valid, again.duration_s, again.verdict.summary) == (False, None, "invalid: no luck")


def test_a_point_that_never_ran_is_no_result(tmp_path: Path) -> None:
    with pytest.raises(InputFault, match=in_order("not run", "`gradwire run`")):
        judge_programs(replace(POINT), tmp_path)
    stored(tmp_path)
    (tmp_path / SUMMARY_FILE).write_text("{")
    with pytest.raises(InputFault, match=r"summary\.json: is damaged"):
        judge_programs(POINT, tmp_path)


def test_a_program_that_never_started_makes_the_point_invalid(tmp_path: Path) -> None:
    program = {**SECTION.program, "server": SECTION.program["server"].model_copy(update={"start": 1.0})}
    late = replace(POINT, section=SECTION.model_copy(update={"program": program}))
    assert tells(judge_programs(late, stored(tmp_path)).verdict.summary, "invalid:", "server", "not started")


def test_whoever_was_ended_may_have_been_in_the_middle_of_a_line(tmp_path: Path) -> None:
    folder = stored(tmp_path, lines='{"time_s": 1}\n{"time', statuses={})
    result = judge_programs(POINT, folder)
    assert result.valid
    assert [row.figures for row in result.figures] == [{"time_s": 1}]


def test_a_report_that_was_never_printed_is_missed(tmp_path: Path) -> None:
    folder = stored(tmp_path, statuses={"client/h2": 0, "server/h1": 0})
    (folder / "output" / "server" / "h1.out").unlink()
    assert tells(judge_programs(POINT, folder).verdict.summary, "server/h1.out:", "`iperf3 --json`")


def paused(pauses: int, resumes: int, dropped: int = 0) -> Report:
    """What a network of two hosts with flow control reports, where the switch has paused h1."""
    counts = [
        PauseCount(
            port=port.interface,
            band=1,
            pauses=pauses if port.interface == "s1-eth1" else 0,
            resumes=resumes if port.interface == "s1-eth1" else 0,
            paused_ns=1_000_000,
            paused_since_ns=-1,
            most_bytes=100_000,
            most_headroom_bytes=8_000,
            headroom_bytes=20_000 if port.device == "s1" else 0,
            dropped=dropped,
            stops=pauses if port.interface == "h1-eth0" else 0,
            stopped_ns=0,
            is_stopped=False,
            waiting_bytes=0,
            charged_bytes=0,
        )
        for port, _ in LOSSLESS.fabric.ports()
    ]
    return msgspec.structs.replace(REPORT, pauses=PauseState(10_000_000, 0, tuple(counts)))


LOSSLESS = ProgramPoint({}, ProgramPointSection.model_validate({
    "cluster": {"workers": 2},
    "fabric": {"rate": "10gbit", "lossless": {}},
    "program": {"client": {"command": "ask", "hosts": ["h2"]}},
}))  # fmt: skip


def made(folder: Path, name: str) -> Path:
    (folder / name).mkdir()
    return folder / name


def test_pauses_of_programs_are_judged_and_told(tmp_path: Path) -> None:
    result = judge_programs(LOSSLESS, stored(made(tmp_path, "sound"), paused(7, 7)))
    assert result.valid, result.verdict.summary
    assert tells(result.pauses[0], "paused 7 times", "1.000 ms", "h1 out by s1-eth1", "class 0")
    assert any(tells(line, "headroom:", "8,000", "20,000 bytes", "s1-eth1") for line in result.pauses)
    for name, report in (("held", paused(7, 6)), ("lost", paused(7, 7, dropped=1)), ("not told", REPORT)):
        assert not judge_programs(LOSSLESS, stored(made(tmp_path, name), report)).valid
    with pytest.raises(ValueError, match="stops = -1"):
        judge_programs(LOSSLESS, stored(made(tmp_path, "unsound"), paused(-1, 7)))
