"""Run folders from others, with links in them: nothing is emptied, removed, overwritten or read through one, by any command."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gradwire.analysis.packets.captures import read_captures
from gradwire.faults import InputFault
from gradwire.runs.cleaning import clean
from gradwire.runs.launch.place import take_over
from gradwire.runs.stored.symbolic_links import MOST_DEEP, copy_of_run, make_empty, refuse_links, store_folder
from gradwire.vm.kernel import CACHE_VARIABLE
from gradwire.vm.machine import BOX_NAME
from tests.hostile.run_folders import sound
from tests.shared.command_line import Answer, gradwire_says, needs_no_kernel
from tests.unit.runs.test_campaign import good_job, machine, planned_runs, run

POINT = "ring_one-layer_2_1gbit_1-fb2628d4"
REPORT_FILES = ("report.html", "table.md", "chart.png", "chart.svg", "points.csv", "points.parquet", "figures.csv")
Say = Callable[..., Answer]


@pytest.fixture
def say(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Say:
    """The command line in a folder with a run that somebody gave (gift/), and files and folders of the user's (victim/)."""
    monkeypatch.chdir(tmp_path)
    needs_no_kernel(monkeypatch)
    for name, content in sound().items():
        (tmp_path / "gift" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "gift" / name).write_bytes(content)
    (tmp_path / "scenario.toml").write_bytes(sound()["scenario.toml"])
    for name in ("thesis.tex", ".kernel/pid", "chapters/one.tex", "notes.partial", ".lock", ".lock.json", "x.1.npz"):
        (tmp_path / "victim" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "victim" / name).write_text("years of work")
    return lambda *words: gradwire_says(monkeypatch, capsys, *words)


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(autouse=True)
def _the_victim_stays_as_it_was(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if "say" in request.fixturenames:
        request.getfixturevalue("say")
    before = files(tmp_path / "victim")
    yield
    assert files(tmp_path / "victim") == before


def linked(path: str, target: str, *, is_folder: bool = False) -> Path:
    """Puts a link in the place of a file or folder."""
    link = Path(path)
    shutil.rmtree(link) if link.is_dir() and not link.is_symlink() else link.unlink(missing_ok=True)
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(Path(target).absolute(), target_is_directory=is_folder)
    return link


def refused(link: Path, answer: Answer) -> None:
    """The link is named in one line, and nothing else is printed."""
    status, out, err = answer
    assert (status, out) == (2, ""), err
    assert err.startswith(f"error (input): {link}: is a link, to "), err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("has_scenario", [True, False])
@pytest.mark.parametrize("place", [f"points/{POINT}", "points", "points/other", "within/deeper"])
def test_a_run_into_a_folder_with_a_linked_folder_is_refused(
    say: Say, place: str, has_scenario: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine(monkeypatch, good_job)
    if not has_scenario:
        Path("gift/scenario.toml").unlink()
    link = linked(f"gift/{place}", "victim", is_folder=True)
    before = files(Path("gift"))
    refused(link, say("run", "scenario.toml", "--out", "gift"))
    assert files(Path("gift")) == before


@pytest.mark.parametrize(
    "name", ["points.csv", "scenario.toml", "clock.json", ".lock", ".lock.json", f"points/{POINT}/task.json"]
)
def test_a_run_into_a_folder_with_a_linked_file_is_refused(
    say: Say, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine(monkeypatch, good_job)
    refused(linked(f"gift/{name}", "victim/thesis.tex"), say("run", "scenario.toml", "--out", "gift"))


def test_a_run_by_default_looks_at_no_link_in_runs_either(say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, good_job)
    shutil.move("gift", "runs/scenario")
    refused(linked(f"runs/scenario/points/{POINT}", "victim", is_folder=True), say("run", "scenario.toml"))


def test_a_run_goes_through_a_link_that_the_user_named_and_resumes_there(
    say: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine(monkeypatch, good_job)
    linked("mine", "gift", is_folder=True)
    status, out, err = say("run", "scenario.toml", "--out", "mine")
    assert status == 0, out + err
    assert Path("gift/points.csv").exists()
    assert Path("mine").is_symlink()


def test_a_run_of_programs_is_refused_likewise(say: Say) -> None:
    text = 'title = "P"\n[cluster]\nworkers = 2\n[fabric]\nrate = "1gbit"\n[program.a]\ncommand = "hostname"\n'
    Path("programs.toml").write_text(text)
    Path("given").mkdir()
    for place in ("points", "report.html"):
        refused(linked(f"given/{place}", "victim", is_folder=True), say("run", "programs.toml", "--out", "given"))
        Path("given", place).unlink()


@pytest.mark.parametrize(
    "name", [*REPORT_FILES, f"points/{POINT}/verdict.json", f"points/{POINT}/iterations.csv", "a/b"]
)
def test_a_report_into_a_folder_with_a_linked_file_is_refused(say: Say, name: str) -> None:
    refused(linked(f"gift/{name}", "victim/thesis.tex"), say("report", "gift"))


def test_a_report_elsewhere_replaces_links_and_not_what_they_lead_to(say: Say) -> None:
    for name in REPORT_FILES:
        linked(f"elsewhere/{name}", "victim/thesis.tex")
        linked(f"elsewhere/{name}.partial", "victim/thesis.tex")
    status, _, err = say("report", "gift", "--out", "elsewhere")
    assert status == 0, err
    for name in set(REPORT_FILES) - {"points.parquet", "figures.csv"}:
        assert not Path("elsewhere", name).is_symlink(), name
        assert Path("elsewhere", name).stat().st_size > 0, name


@pytest.mark.parametrize(
    "words",
    [
        ("report", "gift"),
        ("why", "gift", POINT),
        ("trace", "gift", POINT),
        ("trace", "gift", POINT, "--chakra", "there"),
        ("utilisation", "gift", POINT),
        ("diff", "gift", "gift"),
    ],
    ids=lambda words: " ".join(words[::2]),
)
@pytest.mark.parametrize(
    "name", [f"points/{POINT}/trace-1.json", f"points/{POINT}/ops.npz", f"points/{POINT}/utilisation-h1-eth0.png"]
)
def test_every_command_that_reads_a_run_refuses_links(say: Say, words: tuple[str, ...], name: str) -> None:
    refused(linked(f"gift/{name}", "victim/thesis.tex"), say(*words))


def test_the_folder_of_a_reproduction_is_refused_likewise(say: Say) -> None:
    link = linked("given/runs/geryon-table2/points", "victim", is_folder=True)
    refused(link, say("reproduce", "geryon", "--out", "given"))
    Path("given/claims.csv").touch()
    refused(link, say("diff", "given", "given"))


def test_cleaning_goes_through_no_link(say: Say, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    linked("gift/sub", "victim", is_folder=True)
    linked("gift/points/other", "victim", is_folder=True)
    linked(f"gift/points/{POINT}/.kernel", "victim/.kernel", is_folder=True)
    linked("gift/deep/er", "victim", is_folder=True)
    linked("gift/x.partial", "victim/thesis.tex")
    linked("gift/.lock.json", "victim/.lock.json")
    linked("gift/.lock", "victim/.lock")
    linked("runs/behind", "victim", is_folder=True)
    for left in (
        "gift/points.csv.0123456789abcdef.partial",
        f"gift/points/{POINT}/old.partial",
        "gift/within/.kernel/pid",
    ):
        Path(left).parent.mkdir(parents=True, exist_ok=True)
        Path(left).touch()
    removed = {leaving.what for leaving in clean([Path("gift"), Path("runs")], tmp_path / "cache", dry_run=False)}
    found = {what for what in removed if not what.split(" ")[0].isdigit()}
    assert found == {
        "gift/points.csv.0123456789abcdef.partial",
        f"gift/points/{POINT}/old.partial",
        "gift/within/.kernel",
    }
    assert Path("gift/x.partial").is_symlink()


def test_points_are_not_taken_from_a_run_with_links(say: Say, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there = planned_runs(tmp_path / "runs" / "there")
    machine(monkeypatch, good_job)
    run(tmp_path / "runs" / "there", there)
    assert sum(take_over(planned_runs(tmp_path / "runs" / "one")).values()) == 2
    linked(str(there[0].folder / "log.txt"), "victim/thesis.tex")
    assert not take_over(planned_runs(tmp_path / "runs" / "one"))
    shutil.rmtree(tmp_path / "runs" / "one")
    assert not take_over(planned_runs(tmp_path / "runs" / "two"))


def test_a_copy_of_a_point_has_its_files_and_nothing_else(tmp_path: Path) -> None:
    there, here = tmp_path / "there", tmp_path / "here"
    (there / "capture").mkdir(parents=True)
    (there / "capture" / "a.pcapng").write_text("packets")
    (there / BOX_NAME).mkdir()
    (there / BOX_NAME / "pid").touch()
    os.mkfifo(there / "pipe")
    (there / "link").symlink_to(tmp_path)
    (here / "old").mkdir(parents=True)
    copy_of_run(there, here)
    assert files(here) == {"capture/a.pcapng": b"packets"}
    assert sorted(path.name for path in here.iterdir()) == ["capture"]


def test_links_into_the_store_are_gradwires_own(tmp_path: Path) -> None:
    store, key = tmp_path / "store", "0123456789abcdef"
    (store / key).mkdir(parents=True)
    points = tmp_path / "run" / "points"
    points.mkdir(parents=True)
    (points / "one").symlink_to(store / key)
    (points / "gone").symlink_to(store / "fedcba9876543210")
    refuse_links(tmp_path / "run", store)
    for number, target in enumerate(
        (store, store / "keys", store / key / "capture", tmp_path / key, Path("../../store") / key)
    ):
        (points / f"x{number}").symlink_to(target)
        with pytest.raises(InputFault, match=f"x{number}: .*link"):
            refuse_links(tmp_path / "run", store)
        (points / f"x{number}").unlink()
    (tmp_path / "run" / "one").symlink_to(store / key)
    with pytest.raises(InputFault, match=r"run/one: .*link"):
        refuse_links(tmp_path / "run", store)
    (tmp_path / "run" / "one").unlink()
    (store / key / "ops.npz").symlink_to("/dev/zero")
    with pytest.raises(InputFault, match=r"ops\.npz: .*link.*/dev/zero"):
        refuse_links(tmp_path / "run", store)
    (store / key / "ops.npz").unlink()
    (store / "fedcba9876543210").symlink_to(tmp_path)
    with pytest.raises(InputFault, match=r"gone: .*link"):
        refuse_links(tmp_path / "run", store)


def test_the_store_is_this_users_unless_another_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = "0123456789abcdef"
    points = tmp_path / "run" / "points"
    points.mkdir(parents=True)
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    (store_folder() / key).mkdir(parents=True)
    (points / "one").symlink_to(store_folder() / key)
    refuse_links(tmp_path / "run")
    with pytest.raises(InputFault, match=r"one: .*link"):
        refuse_links(tmp_path / "run", tmp_path / "another")


def test_a_folder_is_emptied_of_links_to_folders_and_these_stay_full(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "thesis.tex").write_text("years of work")
    (tmp_path / "point" / "capture").mkdir(parents=True)
    (tmp_path / "point" / "plots").symlink_to(tmp_path / "elsewhere")
    make_empty(tmp_path / "point")
    assert list((tmp_path / "point").iterdir()) == []
    assert (tmp_path / "elsewhere" / "thesis.tex").read_text() == "years of work"


def test_a_run_puts_a_folder_of_its_own_in_the_place_of_a_link_into_the_store(tmp_path: Path) -> None:
    store = tmp_path / "store"
    store.mkdir()
    (store / "kept").touch()
    (tmp_path / "point").symlink_to(store)
    make_empty(tmp_path / "point")
    assert not (tmp_path / "point").is_symlink()
    assert list((tmp_path / "point").iterdir()) == []
    assert (store / "kept").exists()


def test_folders_in_folders_without_end_are_refused(tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*["a"] * MOST_DEEP)
    deep.mkdir(parents=True)
    refuse_links(tmp_path)
    (deep / "a").mkdir()
    with pytest.raises(InputFault, match="32 folders"):
        refuse_links(tmp_path)


@pytest.mark.parametrize("name", ["../../victim/x.pcap", "/etc/hostname", "..", "", "a/b"])
def test_a_record_names_captures_of_its_own_folder_alone(say: Say, name: str, tmp_path: Path) -> None:
    Path("victim/x.pcap").write_text("")
    try:
        record = type("Record", (), {"captures": [type("About", (), {"file": name})()], "capture_start_ns": 0})()
        with pytest.raises(InputFault, match="name of a file"):
            read_captures(tmp_path / "gift" / "points", None, record, tmp_path)  # type: ignore[arg-type]
    finally:
        Path("victim/x.pcap").unlink()
