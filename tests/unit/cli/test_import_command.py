"""`gradwire import`: what it prints, what it writes, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gradwire.scenario.loading import load_scenario
from tests.shared.command_line import gradwire_says
from tests.shared.parts import tells
from tests.unit.workloads.traces.small_traces import KinetoFile, chakra_file, chakra_node, ddp_step


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_workload_a_verdict_and_a_scenario(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ddp_step().write(here / "job.json.gz")
    status, out, err = gradwire_says(monkeypatch, capsys, "import", "job.json.gz")
    assert (status, err) == (0, "")
    assert tells(out, "read: job.json.gz: Kineto", "rank 0, 2 ", "rests on: job.json.gz:", "rank 1 (1 of 2)")
    assert ["all-reduce", "0", "2:", "0,", "1", "2", "0.016004"] in [line.split()[:7] for line in out.splitlines()]
    assert tells(out, "exposed communication: 0.000200 s", "job.json.gz")
    verdict = json.loads((here / "traces" / "job" / "verdict.json").read_text())
    assert verdict["refused"] == []
    assert verdict["summary"]["rows"][0]["size_bytes"] == 16_004
    assert len(verdict["rests_on"]) == 2
    (point,) = load_scenario(here / "traces" / "job" / "job.toml").points
    assert point.section.strategy.name == "replay"


def test_a_refusal_says_all_reasons_and_leaves_no_workload(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ddp_step().write(here / "job.json")
    assert gradwire_says(monkeypatch, capsys, "import", "job.json", "--out", "kept")[0] == 0
    trace = KinetoFile()
    trace.collective("allreduce", None, at=0, begin=1, dur=1)
    trace.collective("allgossip", 5, at=20, begin=21, dur=1)
    trace.write(here / "job.json")
    status, _, err = gradwire_says(monkeypatch, capsys, "import", "job.json", "--out", "kept")
    assert status == 2
    assert tells(err, "job.json: traceEvents[0]:", "all-reduce", "size", "job.json: traceEvents[3]:", "'allgossip'")
    assert not (here / "kept" / "workload.npz").exists()
    assert len(json.loads((here / "kept" / "verdict.json").read_text())["refused"]) == 2


def test_what_traces_do_not_say_can_be_given(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = [chakra_node(1, 4, num_ops=10**9), chakra_node(2, 7, [1], comm_type=0, comm_size=100, pg_name="5")]
    (here / "job").mkdir()
    for rank in range(2):
        chakra_file(here / "job" / f"job.{rank}.et", nodes, schema="symbolic_tensor_network")
    (here / "groups.json").write_text('{"5": [0, 1]}')
    given = ("--groups", "groups.json", "--element-bytes", "2", "--flop-rate", "1TFLOP/s")
    status, out, err = gradwire_says(monkeypatch, capsys, "import", "job", *given)
    assert status == 0, err
    assert ["all-reduce", "0", "2:", "0,", "1", "1", "0.000200"] in [line.split()[:7] for line in out.splitlines()]
    assert "computation: 0.001000 s" in out


def test_a_name_of_several_groups_has_a_list_for_each(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for rank in range(4):
        chakra_file(here / f"job.{rank}.et", [chakra_node(2, 7, comm_type=0, comm_size=100, pg_name="5")])
    paths = [f"job.{rank}.et" for rank in range(4)]
    (here / "groups.json").write_text('{"5": [[0, 1], [2, 3]]}')
    status, out, err = gradwire_says(monkeypatch, capsys, "import", *paths, "--groups", "groups.json")
    assert status == 0, err
    assert "2: 0, 1" in out
    assert "2: 2, 3" in out
    for wrong in ('{"5": [[0, 1], [1, 2]]}', '{"5": [0, [1, 2]]}', '{"5": [[]]}', '{"5": []}', '{"5": [-1, 0]}'):
        (here / "groups.json").write_text(wrong)
        status, _, err = gradwire_says(monkeypatch, capsys, "import", *paths, "--groups", "groups.json")
        assert status == 2
        assert "group '5'" in err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["nowhere.json"], "nowhere.json: no such file"),
        (["empty"], "empty: the folder has no files"),
        (["job.json", "--flop-rate", "fast"], "--flop-rate fast: must be a rate of operations"),
        (["job.json", "--groups", "job.json"], "--groups job.json: "),
        (["job.json", "--step", "3"], "--step 3: it has no such step"),
        (["job.json", "--out", "job.json"], "job.json: is a file, where a folder is wanted"),
    ],
)
def test_wrong_words(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str], says: str
) -> None:
    ddp_step().write(here / "job.json")
    (here / "empty").mkdir()
    status, _, err = gradwire_says(monkeypatch, capsys, "import", *words)
    assert status == 2
    assert says in err
    assert "Traceback" not in err
