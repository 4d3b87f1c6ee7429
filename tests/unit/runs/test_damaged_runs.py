"""Run folders with damaged or foreign files, and paths that cannot be written: each gives one message and never a traceback."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from gradwire.faults import MachineFault
from gradwire.runs.launch.place import writing
from gradwire.runs.stored.symbolic_links import store_folder
from gradwire.vm.kernel import CACHE_VARIABLE
from tests.shared.parts import tells
from tests.unit.cli.test_command_line import SCENARIO
from tests.unit.runs.stored.test_named_run import finished as finished  # noqa: PLC0414
from tests.unit.runs.stored.test_named_run import folder as folder  # noqa: PLC0414

POINT = "batch=64,strategy=ring"
READERS = {"report": [], "why": [POINT], "trace": [POINT], "utilisation": [POINT]}
OF_A_POINT = ("task.json", "completed.json", "record.json", "ops.npz", "plan-0.npz")


@pytest.fixture
def point(folder: Path) -> Path:
    """Folder of the named point, in a run folder whose points have all finished."""
    (folder / "clock.json").write_text('{"name": "virtual", "scale": 1}')
    return next((folder / "points").glob("64_ring*"))


def error_of(call: Any, *words: str) -> str:
    status, out, err = call(*words)
    assert (status, out) == (2, "")
    assert err.startswith("error (input): ")
    return " ".join(err.split())


@pytest.mark.parametrize("command", READERS)
@pytest.mark.parametrize("name", OF_A_POINT)
@pytest.mark.parametrize("size", [0, 30])
def test_a_truncated_file_of_a_point_is_named(
    call: Any, folder: Path, point: Path, command: str, name: str, size: int
) -> None:
    (point / name).write_bytes((point / name).read_bytes()[:size])
    message = error_of(call, command, str(folder), *READERS[command])
    assert tells(message, f"{point / name}: is damaged", point, "`gradwire run`")


@pytest.mark.parametrize("command", ["report", "why"])
@pytest.mark.parametrize("name", ["task.json", "completed.json", "record.json"])
def test_a_file_of_another_version_is_said_to_be_one(
    call: Any, folder: Path, point: Path, command: str, name: str
) -> None:
    (point / name).write_text('{"plans": [], "agents": []}')
    assert tells(error_of(call, command, str(folder), *READERS[command]), f"{point / name}:", "another version")


@pytest.mark.parametrize("stand_in", ["zero", "pipe", "another", "folder", "huge"])
@pytest.mark.parametrize("name", [*OF_A_POINT, "seals.json", "scenario.toml", "clock.json", "provenance.json"])
def test_what_is_no_file_in_the_place_of_one_is_refused_in_one_line(
    call: Any, folder: Path, point: Path, name: str, stand_in: str
) -> None:
    file = point / name if (point / name).exists() else folder / name
    kept = file.rename(folder / "kept") if file.exists() else folder / "kept"
    match stand_in:
        case "zero":
            file.symlink_to("/dev/zero")
        case "pipe":
            os.mkfifo(file)
        case "another":
            file.symlink_to(kept)
        case "folder":
            file.mkdir()
        case "huge":
            file.touch()
            os.truncate(file, 1 << 40)
    what = {
        "zero": "is a link, to /dev/zero",
        "pipe": "is a pipe",
        "another": f"is a link, to {kept}",
        "folder": "is a folder",
    }
    message = error_of(call, "report", str(folder))
    assert f"{file}: {'' if file.is_symlink() else 'cannot be read'}" in message
    assert what.get(stand_in, "has 1,099,511,627,776 bytes") in message


def test_a_damaged_point_of_the_store_is_named_where_it_is_kept(
    call: Any, folder: Path, point: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(folder.parent / "cache"))
    store_folder().mkdir(parents=True)
    kept = point.rename(store_folder() / "0123456789abcdef")
    point.symlink_to(kept)
    (kept / "record.json").write_text("")
    assert f"the folder {kept}, and" in error_of(call, "why", str(folder), POINT)


@pytest.mark.parametrize("text", ['{"valid": tr', "{}", None])
def test_a_verdict_that_cannot_be_read_is_judged_again(call: Any, folder: Path, point: Path, text: str | None) -> None:
    verdict = point / "verdict.json"
    verdict.unlink()
    if text is not None:
        verdict.write_text(text)
    for command in ("report", "why", "trace"):
        assert call(command, str(folder), *READERS[command])[0] == 0
    assert verdict.exists() == (text is not None)


@pytest.mark.parametrize("command", READERS)
@pytest.mark.parametrize("text", ["[clus", SCENARIO + "[frobnicate]\n", "title = '\xff"])
def test_a_scenario_that_cannot_be_read(call: Any, folder: Path, command: str, text: str) -> None:
    (folder / "scenario.toml").write_text(text, encoding="latin-1")
    message = error_of(call, command, str(folder), *READERS[command])
    assert tells(message, folder / "scenario.toml", "`gradwire run`", f"--out {folder}")


@pytest.mark.parametrize("text", ['{"name": ', "{}x", '{"hour": 1}', "[]"])
def test_a_clock_that_cannot_be_read(call: Any, folder: Path, text: str) -> None:
    (folder / "clock.json").write_text(text)
    assert f"{folder / 'clock.json'}: " in error_of(call, "report", str(folder))


def test_a_report_writes_its_rows_again(call: Any, folder: Path, point: Path) -> None:
    rows = folder / "points.csv"
    whole = rows.read_text()
    rows.write_text(whole[:40])
    assert call("report", str(folder))[0] == 0
    assert rows.read_text().count("\n") == whole.count("\n")


def test_a_trace_goes_to_a_file(call: Any, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    words = ("trace", str(folder), POINT, "--out")
    assert tells(error_of(call, *words, str(tmp_path)), f"--out {tmp_path}:", "folder")
    assert tells(error_of(call, *words, str(tmp_path / "file" / "trace.json")), "file:", "a file")
    # Root may write anywhere, so the message is that of the system, which cannot create anything there.
    refusal = "/proc/nope: cannot" if os.geteuid() == 0 else "/proc: may not"
    assert refusal in error_of(call, *words, "/proc/nope/x.json")


@pytest.mark.parametrize(
    "words",
    [
        ["run", "small.toml"],
        ["compare", "--model", "alexnet", "--workers", "2", "--rate", "10gbit"],
    ],
)
@pytest.mark.parametrize("out", ["file", "file/below"])
def test_a_run_goes_to_a_folder(call: Any, tmp_path: Path, words: list[str], out: str) -> None:
    (tmp_path / "small.toml").write_text(SCENARIO)
    (tmp_path / "file").write_text("")
    assert tells(error_of(call, *words, "--out", out), "file:", "a file", "--out")


@pytest.mark.parametrize("out", ["file", "/proc/nope"])
def test_a_reproduction_that_could_not_be_written_does_not_begin(call: Any, tmp_path: Path, out: str) -> None:
    (tmp_path / "file").write_text("")
    assert f"{out}: cannot" in error_of(call, "reproduce", "geryon-fig5", "--out", out)


def test_a_full_disk_is_the_machines_fault(tmp_path: Path) -> None:
    with (
        pytest.raises(MachineFault, match=r"report.html: .*No space left"),
        writing(tmp_path),
    ):
        raise OSError(errno.ENOSPC, "No space left on device", "report.html")
