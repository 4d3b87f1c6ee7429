"""The command line: what it prints, and that every fault becomes one message and an exit status."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest
import typer

from gradwire.cli import command_line, upkeep
from gradwire.faults import InputFault, InternalFault, MachineFault
from gradwire.regular_files import read_bytes
from gradwire.runs import point_machine, replay
from gradwire.runs.launch import scenario_run
from gradwire.scenario import toml_documents
from gradwire.vm.doctor import Diagnosis
from reproduction.point_store import PointStore
from tests.shared.command_line import needs_no_kernel
from tests.shared.parts import tells
from tests.shared.snippets import ROOT

SCENARIO = """
title = "A test"
[cluster]
workers = 2
[fabric]
rate = "10gbit"
[model]
name = "alexnet"
device = "k40"
[strategy]
name = "vanilla"
"""


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(SCENARIO)
    return path


def test_an_option_that_is_a_key_leads_to_the_key(call: Any) -> None:
    status, _, err = call("run", "question.toml", "--workers", "4")
    assert status == 2
    assert "--set cluster.workers=" in err
    assert "--fresh" in call("run", "question.toml", "--frsh")[2]


def test_plan_prints_every_plan_and_writes_nothing(call: Any, scenario: Path, tmp_path: Path) -> None:
    status, out, err = call("plan", "-v", str(scenario), "--set", 'strategy.name=["vanilla","geryon"]')
    assert (status, err) == (0, "")
    assert re.findall(r"plan '(\w+)', digest [0-9a-f]+", out) == ["vanilla", "coarse"]
    assert "connections = 1" in out
    assert tells(out, "2 workers", "2 servers", "2 hosts", "busiest port: h")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["small.toml"]


def test_plan_prints_the_same_digest_every_time(call: Any, scenario: Path) -> None:
    assert call("plan", "-v", str(scenario)) == call("plan", "-v", str(scenario))


def test_plan_shows_the_settings_that_somebody_chose(call: Any, scenario: Path) -> None:
    out = call("plan", str(scenario), "--set", "fabric.delay=0s", "--set", "fabric.buffer=1MB")[1]
    assert "buffer = 1MB" in out
    assert "delay = " not in out
    assert "digest" not in out


def test_plan_draws_each_network_once(call: Any, scenario: Path, tmp_path: Path) -> None:
    rates = ("--set", 'fabric.rate=["10gbit","25gbit"]', "--set", "run.seed=[1,2]")
    for kind, begin in ((".svg", b"<?xml"), (".png", b"\x89PNG"), (".pdf", b"%PDF")):
        file = tmp_path / f"network{kind}"
        status, out, _ = call("plan", str(scenario), *rates, "--draw", str(file))
        assert status == 0
        drawn = [file, tmp_path / f"network-2{kind}"]
        assert [line for line in out.splitlines() if line.startswith("network: ")] == [
            f"network: {path}" for path in drawn
        ]
        assert all(path.read_bytes().startswith(begin) for path in drawn)


@pytest.mark.parametrize(
    ("file", "said"), [("network.gif", "must end in .svg, .png or .pdf"), ("none/network.svg", "cannot be written")]
)
def test_a_drawing_that_cannot_be_written_is_refused(
    call: Any, scenario: Path, tmp_path: Path, file: str, said: str
) -> None:
    status, _, err = call("plan", str(scenario), "--draw", str(tmp_path / file))
    assert status == 2
    assert said in err


@pytest.mark.parametrize("name", ["network.svg", "network-2.svg"])
def test_a_drawing_replaces_no_link_and_no_pipe(call: Any, scenario: Path, tmp_path: Path, name: str) -> None:
    rates = ("--set", 'fabric.rate=["10gbit","25gbit"]')
    makers: list[Callable[[Path], object]] = [os.mkfifo, lambda path: path.symlink_to("elsewhere.svg")]
    for make in makers:
        make(tmp_path / name)
        status, _, err = call("plan", str(scenario), *rates, "--draw", str(tmp_path / "network.svg"))
        assert (status, str(tmp_path / name) in err) == (2, True)
        assert not (tmp_path / name).is_file()
        (tmp_path / name).unlink()


def test_a_shipped_scenario_is_found_by_its_name_alone(call: Any, tmp_path: Path) -> None:
    options = ("--set", "model.name=alexnet", "--set", "strategy.name=vanilla", "--set", "cluster.workers=2")
    assert call("plan", "geryon-table2", *options)[0] == 0
    status, _, err = call("plan", str(tmp_path / "geryon-table2.toml"), *options)
    assert status == 2
    assert "no such" in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["plan", "none.toml"], ["none.toml: no such file", "`gradwire scenarios`"]),
        (["plan", "geryon-tabel2"], ["no such scenario; did you mean 'geryon-table2'? `gradwire scenarios`"]),
        (["plan", "small.toml", "--set", "model.nmae=x"], ["small.toml: model.nmae: unknown key", "'name'"]),
        (["plan", "small.toml", "--set", "cluster.workers=0"], ["cluster.workers = 0"]),
        (["plan", "small.toml", "--set", 'strategy.name="[bold]"'], ["strategy '[bold]' is unknown"]),
        (["plan", "small.toml", "--set", "model.name=alexnt"], ["small.toml: model.name: model 'alexnt' is not known"]),
        (["run", "small.toml", "--set", "model.device=k41"], ["small.toml: model.device: device 'k41' is not known"]),
        (
            ["plan", "small.toml", "--set", "strategy.name=rng"],
            ["small.toml: strategy.name: strategy 'rng' is unknown"],
        ),
        (
            ["plan", "small.toml", "--set", "strategy.options.x=3"],
            ["small.toml: strategy.options.x: 'vanilla' has no such option"],
        ),
        (["plan", "small.toml", "--set", "cluster.stands_for=3"], ["small.toml: cluster.stands_for: not known"]),
        (["plan", "small.toml", "--set", "cluster.workers_per_host=3"], ["small.toml: cluster.workers_per_host = 3: "]),
        (["run", "small.toml", "--set", "fabric.gso=1kB"], ["small.toml: fabric.gso = 1000: must be 1514"]),
        (["run", "small.toml", "--clock", "foo"], ["--clock foo: must be virtual or wall"]),
        (["run", "small.toml", "--scale", "10"], ["--scale belongs to --clock wall"]),
        (["run", "small.toml", "--scale", "0", "--clock", "wall"], ["--scale"]),
        (["calibrate", "--rate", "fast"], ["--rate", "10gbit"]),
        (["calibrate", "--rate", "1bit"], ["--rate 1bit: must be 10mbit to 10000gbit"]),
        (["calibrate", "--clock", "foo"], ["--clock foo"]),
        (["report", "."], ["no scenario.toml", "gradwire run"]),
        (
            ["reproduce", "p3-fig77"],
            ["p3-fig77: no such paper or scenario; did you mean p3-fig7", "`gradwire reproduce --list`"],
        ),
        (
            ["reproduce", "--list", "x"],
            ["x: no such paper or scenario; papers are geryon, p3, ", "`gradwire reproduce --list`"],
        ),
        (["reproduce", "world-tc"], ["world-tc: no such source", "`gradwire reproduce --list world`"]),
        (["reproduce", "--paper", "world", "geryon"], ["printed measurements run alone"]),
        (["reproduce", "world", "--quick"], ["printed measurements run alone"]),
        (["reproduce", "--check"], ["give --quick, and no names"]),
        (["reproduce", "--quick", "--accept", "geryon"], ["give --quick, and no names"]),
        (["reproduce", "geryon-fig7", "--pages", "docs"], ["--pages writes whole papers", "gradientflow"]),
        (["reproduce", "--quick", "--pages", "docs"], ["--pages writes whole papers", "--quick"]),
        (["reproduce", "p3", "--moved-from", "old"], ["--moved-from", "give --pages as well"]),
        (
            ["reproduce", "p3", "--pages", "docs", "--moved-from", "old"],
            ["old/reproduction/p3.csv: there is no such file"],
        ),
        (["frobnicate"], ["frobnicate"]),
    ],
)
def test_wrong_input_ends_with_2_and_says_what_is_wrong(
    call: Any, scenario: Path, words: list[str], said: list[str]
) -> None:
    status, out, err = call(*words)
    assert (status, out) == (2, "")
    for text in said:
        assert text in err
    assert "Traceback" not in err
    assert not (scenario.parent / "runs").exists()


@pytest.mark.parametrize(("paper", "listed"), [("world", ("world-dlperf:", "(24 ")), ("p3", ("p3-fig7:", "4 "))])
def test_the_names_of_a_paper_or_a_source_are_listed(call: Any, paper: str, listed: tuple[str, ...]) -> None:
    status, out, _ = call("reproduce", "--list", paper)
    assert status == 0
    assert any(tells(line, *listed) for line in out.splitlines())
    assert "geryon" not in out


def test_a_report_of_a_folder_that_never_ran(call: Any, scenario: Path, tmp_path: Path) -> None:
    (tmp_path / "scenario.toml").write_text(SCENARIO)
    status, _, err = call("report", ".")
    assert status == 2
    assert "has not run" in err


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (MachineFault("no [room]; run `mount [x]`"), 3, "error (machine): no [room]; run `mount [x]`"),
        (InternalFault("it is [/broken]"), 4, "error (bug in gradwire, please report it): it is [/broken]"),
        (KeyboardInterrupt(), 130, "the same command continues from there"),
    ],
)
def test_faults_and_ctrl_c_of_a_run(
    call: Any, scenario: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, status: int, said: str
) -> None:
    def run(*_: Any) -> NoReturn:
        raise error

    monkeypatch.setattr(scenario_run, "run_side_by_side", run)
    needs_no_kernel(monkeypatch)
    ended, _, err = call("run", str(scenario), "--out", "results")
    assert ended == status
    assert said in err
    assert (scenario.parent / "results" / "scenario.toml").exists()


@pytest.mark.parametrize("command", ["run", "plan", "estimate"])
def test_a_command_reads_its_scenario_once(
    call: Any, scenario: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """What it is without its settings, and what runs it, come from the same reading."""
    read: list[Path] = []

    def counted(path: Path, *limits: Any, **options: Any) -> bytes:
        read.append(path)
        return read_bytes(path, *limits, **options)

    def run(*_: Any) -> NoReturn:
        raise MachineFault("far enough")

    monkeypatch.setattr(scenario_run, "run_side_by_side", run)
    monkeypatch.setattr(toml_documents, "read_bytes", counted)
    needs_no_kernel(monkeypatch)
    status, _, err = call(command, str(scenario), "--set", "fabric.rate=25gbit")
    assert (status, "far enough" in err) == ((3, True) if command == "run" else (0, False))
    assert read == [scenario]


@pytest.mark.parametrize(
    "words",
    [
        ("run", "small.toml", "--out", "results"),
        (
            "compare",
            "--model",
            "alexnet",
            "--workers",
            "2",
            "--rate",
            "10gbit",
            "--strategy",
            "ring",
            "--out",
            "results",
        ),
        ("reproduce", "tictac", "--quick", "--out", "results"),
        ("calibrate",),
    ],
    ids=lambda words: words[0],
)
@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (MachineFault("it may not trace\nremedy: let it"), 3, "error (machine): it may not trace\nremedy: let it\n"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_what_would_hit_every_point_is_told_once_and_none_starts(
    call: Any,
    scenario: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    error: BaseException,
    status: int,
    said: str,
) -> None:
    def fail(*_: Any) -> None:
        raise error

    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("no machine is to boot")

    needs_no_kernel(monkeypatch, fail)
    monkeypatch.setattr(point_machine, "run_job", never)
    monkeypatch.setattr(replay, "run_job", never)
    monkeypatch.setattr(PointStore, "judge_point", lambda *_: None)
    ended, out, err = call(*words)
    assert ended == status
    before_it_starts = ("to run", "are not run again")
    assert [line for line in out.splitlines() if line and not any(words in line for words in before_it_starts)] == []
    assert err.count(said) == 1
    assert "invalid" not in err
    assert not list(scenario.parent.glob("results/**/report.html"))
    assert not list(scenario.parent.glob("results/points/*"))


@pytest.mark.parametrize(("ok", "required", "status"), [(True, True, 0), (False, False, 0), (False, True, 3)])
def test_the_doctor_ends_with_a_fault_of_the_machine_if_something_required_is_wrong(
    call: Any, monkeypatch: pytest.MonkeyPatch, ok: bool, required: bool, status: int
) -> None:
    monkeypatch.setattr(upkeep, "diagnose", lambda: [Diagnosis("tc", True, "there")])
    monkeypatch.setattr(upkeep, "prove_network", lambda _: Diagnosis("network", ok, "seen", "mend it", required))
    ended, out, _ = call("doctor")
    assert ended == status
    assert "mend it" in out


def test_a_kernel_that_is_not_there_is_told_with_the_command_that_builds_it(
    call: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(upkeep, "cached_kernel", lambda: None)
    monkeypatch.setenv("GRADWIRE_CACHE", str(tmp_path))
    status, out, err = call("kernel", "--check")
    assert (status, out) == (MachineFault.exit_status, "")
    assert tells(err, str(tmp_path), "`gradwire kernel`")
    assert not list(tmp_path.iterdir())


def test_exit_statuses_are_told_by_the_help_and_the_guide(call: Any) -> None:
    _, out, _ = call("--help")
    assert "Exit status" in out
    table = (ROOT / "docs" / "commands.md").read_text()
    for fault in (InputFault, MachineFault, InternalFault):
        assert f"| {fault.exit_status} |" in table


def test_a_scenario_that_is_not_there_is_told_in_a_line(call: Any) -> None:
    _, _, err = call("run", "my-question.toml")
    assert len(err) < 200, "and not with the names of all that there are"


@pytest.mark.parametrize("columns", [60, 80])
@pytest.mark.parametrize("words", [(), ("--help",), ("run", "--help"), ("reproduce", "--help")])
def test_help_cuts_no_word(call: Any, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    _, out, err = call(*words)
    lines = (out + err).splitlines()
    assert max(map(len, lines)) <= columns
    assert not [line for line in lines if "…" in line or (line.endswith("...") and not line.startswith("Usage: "))]
    if words[:1] == ("run",):
        said = " ".join(" ".join(lines).split())
        assert "fabric.rate=25gbit" in said
        assert "cluster.workers=[2,4]" in said
        assert "tcp://10.0.0.1:8786" in said


def test_help_lists_each_command_in_one_section() -> None:
    listed = " ".join(command_line.SECTIONS.values()).split()
    group = typer.main.get_command(command_line.app)
    assert isinstance(group, command_line.Commands)
    assert sorted(listed) == sorted(group.commands)
