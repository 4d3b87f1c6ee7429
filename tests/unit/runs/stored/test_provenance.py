"""Where results come from: what is noted when a run begins, what a report says of it, and of folders without such notes."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from gradwire.faults import InputFault
from gradwire.inside.point_protocol import write_json
from gradwire.runs.stored import provenance as provenance_module
from gradwire.runs.stored.provenance import (
    NOT_RECORDED,
    Provenance,
    Start,
    facts,
    note_start,
    provenance,
    typed_command,
)
from gradwire.vm.machines import Clock
from tests.shared.command_line import needs_no_kernel
from tests.shared.parts import in_order, tells
from tests.unit.runs.stored.test_named_run import replaying_job
from tests.unit.runs.test_campaign import TEXT, machine

START = Start(
    began_at="2026-01-02T03:04:05+00:00",
    version="1.2",
    commit="0123456789ab+",
    command="gradwire run x.toml --set 'a=[1, 2]'",
    kernel="kernel-6.12-a-b",
    clock=Clock(scale=4),
    processor="A fast one",
    python="3.11.2",
)


def test_each_start_is_noted_behind_the_others(tmp_path: Path) -> None:
    note_start(tmp_path, Clock(), typed_command(["/usr/bin/gradwire", "run", "x.toml", "--set", "a=[1, 2]"]))
    note_start(tmp_path, Clock("wall", 200), typed_command(["/somewhere/gradwire/__main__.py", "run", "x.toml"]))
    first, second = provenance(tmp_path).starts
    assert shlex.split(first.command) == ["gradwire", "run", "x.toml", "--set", "a=[1, 2]"]
    assert second.command == "gradwire run x.toml"
    assert (first.clock, second.clock) == (Clock(), Clock("wall", 200))
    assert second.kernel
    assert first.version
    assert first.processor
    assert first.began_at <= second.began_at


def test_a_report_says_all_of_the_last_and_when_the_others_were() -> None:
    earlier = Start(began_at="2025-01-01T00:00:00+00:00", version="1.1", clock=Clock())
    said = dict(facts(Provenance((earlier, START)), None))
    assert tells(said["run on"], "2026-01-02 03:04:05 UTC", "2025-01-01 00:00:00 UTC")
    assert tells(said["gradwire"], "1.2", "0123456789ab", "with changes")
    assert tells(said["clock"], "virtual", "divided by 4")
    as_noted = ("command", "kernel", "processor", "Python")
    assert [said[key] for key in as_noted] == [START.command, "kernel-6.12-a-b", START.processor, "3.11.2"]
    without = dict(facts(Provenance((earlier,)), None))
    assert (without["gradwire"], without["command"]) == ("1.1", NOT_RECORDED)
    assert tells(without["clock"], "virtual", "not divided")


def test_a_folder_without_notes_says_so(tmp_path: Path) -> None:
    said = dict(facts(provenance(tmp_path), Clock("wall", 200)))
    assert tells(said.pop("clock"), "wall", "divided by 200")
    assert set(said.values()) == {NOT_RECORDED}
    assert dict(facts(Provenance(), None))["clock"] == NOT_RECORDED


def test_a_damaged_note_is_named_with_its_remedy(tmp_path: Path) -> None:
    (tmp_path / "provenance.json").write_text('{"starts": [{"version"')
    with pytest.raises(InputFault, match=in_order("provenance.json:", "damaged", "remove", "provenance.json")):
        note_start(tmp_path, Clock(), "gradwire")


def test_fields_of_later_versions_do_no_harm(tmp_path: Path) -> None:
    write_json(tmp_path / "provenance.json", Provenance((START,)))
    noted = json.loads((tmp_path / "provenance.json").read_text())
    noted["starts"][0]["weather"] = "fair"
    del noted["starts"][0]["python"]
    (tmp_path / "provenance.json").write_text(json.dumps(noted))
    assert dict(facts(provenance(tmp_path), None))["Python"] == NOT_RECORDED


def test_the_commit_is_that_of_a_checkout_of_its_own(tmp_path: Path) -> None:
    assert provenance_module._commit(tmp_path) == ""

    def git(*words: str) -> str:
        identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
        done = subprocess.run(["git", "-C", tmp_path, *identity, *words], check=True, capture_output=True, text=True)
        return done.stdout.strip()

    git("init", "--quiet")
    assert provenance_module._commit(tmp_path) == "", "nothing is committed yet"
    (tmp_path / "file").write_text("a")
    git("add", "file")
    git("commit", "--quiet", "-m", "first")
    commit = git("rev-parse", "--short=12", "HEAD")
    assert provenance_module._commit(tmp_path) == commit
    (tmp_path / "file").write_text("b")
    assert provenance_module._commit(tmp_path) == f"{commit}+"


def test_a_run_leaves_all_that_its_report_shows(call: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    machine(monkeypatch, replaying_job)
    needs_no_kernel(monkeypatch)
    (tmp_path / "mine.toml").write_text(TEXT)
    words = (
        "run",
        "mine.toml",
        "--set",
        'strategy.name=["ring","tictac"]',
        "--set",
        "model.batch=64",
        "--out",
        "runs/mine",
    )
    status, out, err = call(*words)
    assert (status, err) == (0, "")
    last = next(line for line in reversed(out.splitlines()) if not line.startswith(("report:", "chart:", "rows:")))
    # The network of these tests carries nothing, so that no cause explains how far it is from an ideal one.
    assert tells(last, "is fastest", "None of 2", "2 are unexplained.")
    report = tmp_path / "runs" / "mine" / "report.html"
    page = report.read_text()
    for text in (
        "gradwire run mine.toml --set &#39;strategy.name=[&#34;ring&#34;,&#34;tictac&#34;]&#39; --set model.batch=64 --out runs/mine",
        "<dt>clock</dt><dd>virtual; ",
        "<td>fabric.oversubscription</td><td>1</td>",
        "strategy.options.wire = fp32 (default)",
        "strategy.options.order = tic (default)",
        "title = &#34;A test",
        "of iteration ",
        "times its lower bound of",
    ):
        assert text in page, text
    for point in (tmp_path / "runs" / "mine" / "points").iterdir():
        assert f'href="points/{point.name}/verdict.json"' in page
    (tmp_path / "runs" / "mine" / "provenance.json").unlink()
    status, out, err = call("report", "mine")
    assert (status, err) == (0, "")
    assert last in out
    assert f"<dt>kernel</dt><dd>{NOT_RECORDED}</dd>" in report.read_text()
