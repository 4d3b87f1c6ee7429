"""Where runs go: a run folder belongs to one scenario, and one command at a time runs points in it."""

from __future__ import annotations

import json
import multiprocessing
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gradwire.faults import InputFault, MachineFault
from gradwire.files import as_one_set
from gradwire.runs.campaign import Campaign
from gradwire.runs.executing.executor import LocalPool
from gradwire.runs.launch.place import (
    NewRunFolder,
    default_name,
    empty_folder,
    place_for,
    refuse_unusable,
    refuse_unusable_file,
    take_over,
)
from gradwire.runs.reporting import printed_cells, without_foreign_values
from gradwire.runs.stored.run_folder import HOLDER_FILE, locked, write_run_folder
from gradwire.scenario.loading import Scenario, load_scenario
from gradwire.vm.machines import Clock
from tests.shared.command_line import gradwire_says, needs_no_kernel
from tests.shared.parts import in_order, tells
from tests.shared.snippets import ROOT
from tests.unit.cli.test_command_line import SCENARIO
from tests.unit.runs.test_campaign import Silent, good_job, machine, planned_runs

TABLE_2 = ROOT / "scenarios" / "geryon-table2.toml"
VIRTUAL = Clock()


@pytest.fixture(autouse=True)
def _empty_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


def scenario(*settings: str, text: str = SCENARIO) -> Scenario:
    path = Path("small.toml")
    path.write_text(text)
    return load_scenario(path, settings)


def made(loaded: Scenario, clock: Clock = VIRTUAL, out: Path | None = None) -> Path:
    folder = place_for(loaded, clock, out).folder
    write_run_folder(folder, loaded.document, clock)
    return folder


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ((), "small"),
        (("model.name=vgg19", "fabric.rate=25gbit"), "small-vgg19-25gbit"),
        (("cluster.workers=[2,4]",), "small-workers2+4"),
        (("model.name=../mine/tiny.toml", "strategy.name=./one.py"), "small-tiny-one"),
        (('strategy.name=["ring","vanilla"]',), "small-ring+vanilla"),
        (("strategy.options={}", "model.name=../../x"), "small-options-name..+..+x"),
        (("model.name=" + "x" * 300,), "small-" + "x" * 59),
    ],
)
def test_a_folder_is_named_after_the_scenario_and_what_was_set(settings: tuple[str, ...], name: str) -> None:
    named = replace(scenario(), settings=settings)
    assert default_name(named, VIRTUAL) == name
    assert place_for(named, VIRTUAL) == NewRunFolder(Path("runs") / name)


def test_another_clock_has_another_folder() -> None:
    assert default_name(scenario(), Clock("wall", 100)) == "small-wall-100"


def test_a_scenario_comes_back_to_its_folder_and_no_other_does() -> None:
    first = scenario()
    assert made(first) == Path("runs/small")
    edited = scenario(text=SCENARIO.replace("alexnet", "vgg19"))
    assert place_for(edited, VIRTUAL) == NewRunFolder(Path("runs/small.2"), (Path("runs/small"),))
    made(edited)
    third = scenario(text=SCENARIO.replace("alexnet", "resnet50"))
    assert place_for(third, VIRTUAL) == NewRunFolder(Path("runs/small.3"), (Path("runs/small"), Path("runs/small.2")))
    assert place_for(first, VIRTUAL) == NewRunFolder(Path("runs/small"))
    assert place_for(edited, VIRTUAL).folder == Path("runs/small.2")


def test_words_about_the_same_points_change_no_folder() -> None:
    made(scenario())
    assert place_for(scenario(text=SCENARIO.replace("A test", "Another title")), VIRTUAL).folder == Path("runs/small")


def test_a_folder_that_cannot_be_read_is_left_alone() -> None:
    folder = made(scenario())
    (folder / "scenario.toml").write_text("[not")
    assert place_for(scenario(), VIRTUAL) == NewRunFolder(Path("runs/small.2"), (folder,))


def test_a_folder_of_ones_own_is_refused_where_it_holds_others() -> None:
    out = made(scenario(), out=Path("results"))
    assert place_for(scenario(), VIRTUAL, out) == NewRunFolder(out)
    with pytest.raises(InputFault, match=in_order("--out results:", "another scenario", "'A test'", "results-2")):
        place_for(scenario("fabric.rate=25gbit"), VIRTUAL, out)
    with pytest.raises(InputFault, match=r"clock \(virtual, scale 1\)"):
        place_for(scenario(), Clock(scale=2), out)


def test_the_title_says_what_was_set() -> None:
    title = scenario("fabric.rate=25gbit", "run.iterations=1").title
    assert tells(title, "A test", "fabric.rate = 25gbit", "run.iterations = 1")
    assert scenario().title == "A test"


@pytest.mark.parametrize(
    ("settings", "kept"),
    [
        (("model.name=vgg19",), 3),
        (("run.iterations=5",), 14),
        (("run.seed=2",), 14),
        (("model.name=vgg19", "fabric.rate=25gbit"), 0),
        (("costs.slice_merge.value=1ms",), 0),
    ],
)
def test_printed_values_of_other_settings_are_left_out(settings: tuple[str, ...], kept: int) -> None:
    original, changed = load_scenario(TABLE_2), load_scenario(TABLE_2, settings)
    everything = printed_cells(original)
    left = without_foreign_values(changed, original)
    assert len(printed_cells(left)) == min(kept, len(everything))
    assert {cell.value for cell in printed_cells(left)} <= {cell.value for cell in everything}
    assert bool(left.notes) == (kept < len(everything))
    assert left.points == changed.points


@contextmanager
def another_process(folder: Path) -> Iterator[int]:
    """Holds the lock of a folder."""
    context = multiprocessing.get_context("spawn")
    begun, end = context.Event(), context.Event()
    process = context.Process(target=_hold, args=(folder, begun, end))
    process.start()
    assert begun.wait(60)
    try:
        yield process.pid or 0
    finally:
        end.set()
        process.join()


def _hold(folder: Path, begun: Any, end: Any) -> None:
    with locked(folder, "gradwire run x.toml"):
        begun.set()
        end.wait()


def test_one_command_at_a_time_runs_points_in_a_folder() -> None:
    folder = Path("results")
    with another_process(folder) as pid:
        said = rf"results: is in use by process {pid} on .* since 20.* \(`gradwire run x.toml`"
        with ExitStack() as held, pytest.raises(MachineFault, match=said):
            held.enter_context(locked(folder, "gradwire run x.toml"))
        assert json.loads((folder / HOLDER_FILE).read_text())["pid"] == pid
    with locked(folder, "gradwire run x.toml"):
        assert json.loads((folder / HOLDER_FILE).read_text())["pid"] == os.getpid()
    assert not (folder / HOLDER_FILE).exists()


def test_folders_of_programs_are_of_one_command() -> None:
    names = [Path("runs/first"), Path("runs/second")]
    with another_process(names[0]):
        with pytest.raises(MachineFault, match="is in use by process"), empty_folder(names[0], [], "gradwire exec"):
            pass
        (names[0]).rename("runs/held")
        with empty_folder(None, names, "gradwire exec") as taken:
            assert taken == names[0]
            with empty_folder(None, names, "gradwire exec") as other:
                assert other == names[1]
    with empty_folder(names[1], [], "gradwire exec"):
        (names[1] / "summary.json").touch()
    with pytest.raises(InputFault, match="is not empty"), empty_folder(names[1], [], "gradwire exec"):
        pass


def _write_set(folder: Path, begun: Any, number: int) -> None:
    begun.wait(60)
    for _ in range(20):
        with as_one_set(folder):
            for name in "abcdefgh":
                (folder / name).write_text(str(number))
            assert {(folder / name).read_text() for name in "abcdefgh"} == {str(number)}


def test_sets_of_files_of_two_commands_are_not_mixed() -> None:
    context = multiprocessing.get_context("spawn")
    begun = context.Barrier(2)
    both = [context.Process(target=_write_set, args=(Path("set").absolute(), begun, number)) for number in range(2)]
    for process in both:
        process.start()
    for process in both:
        process.join()
    assert [process.exitcode for process in both] == [0, 0]
    assert len({(Path("set") / name).read_text() for name in "abcdefgh"}) == 1


def test_a_scenario_or_a_table_that_no_run_has_left_stays_as_it_is() -> None:
    for name in ("scenario.toml", "points.csv", "chart.svg"):
        folder = Path(f"with-{name}")
        folder.mkdir()
        (folder / name).write_text("of somebody")
        with pytest.raises(InputFault, match=rf"has files of yours \({name}"):
            place_for(scenario(), VIRTUAL, folder)


def test_points_that_ran_in_another_folder_are_copied_and_do_not_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, good_job)
    ran = planned_runs(Path("runs/first"))
    Campaign(ran, Path("runs/first"), LocalPool(1), Silent()).run()
    wanted = [run.moved_to(Path("runs/second")) for run in ran]
    (ran[1].folder / "completed.json").write_text("damaged")
    wanted[0].folder.mkdir(parents=True)
    (wanted[0].folder / "queues.npz").write_bytes(b"of another run")
    assert take_over(wanted) == {Path("runs/first"): len(wanted) - 1}
    assert not (wanted[0].folder / "queues.npz").exists()
    watcher = Silent()
    Campaign(wanted, Path("runs/second"), LocalPool(1), watcher).run()
    assert [run.folder for run in watcher.begun] == [wanted[1].folder]
    assert take_over(wanted) == {}


@pytest.mark.parametrize("target", ["round", "other.csv"])
def test_a_file_that_would_replace_a_link_is_refused_wherever_that_leads(target: str) -> None:
    Path("round").symlink_to(target)
    with pytest.raises(InputFault, match=in_order("--csv round", "is a link", target)):
        refuse_unusable_file(Path("round"), "--csv")


@pytest.mark.parametrize("below", ["", "inner"])
def test_a_folder_that_cannot_be_made_is_refused_before_any_work(below: str) -> None:
    Path("round").symlink_to("nowhere")
    with pytest.raises(InputFault, match=in_order("round", "link", "--pages")):
        refuse_unusable(Path("round", below), "--pages")


def test_a_point_in_the_place_of_a_link_is_copied_and_the_link_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """`gradwire reproduce` has links to its store where other commands have points."""
    machine(monkeypatch, good_job)
    ran = planned_runs(Path("runs/first"))
    Campaign(ran, Path("runs/first"), LocalPool(1), Silent()).run()
    wanted = [run.moved_to(Path("runs/second")) for run in ran]
    stored = Path("store")
    stored.mkdir()
    (stored / "log.txt").write_text("of a store")
    wanted[0].folder.parent.mkdir(parents=True)
    wanted[0].folder.symlink_to(stored.resolve())
    assert take_over(wanted) == {Path("runs/first"): len(wanted)}
    assert not wanted[0].folder.is_symlink()
    assert (stored / "log.txt").read_text() == "of a store"


def test_a_run_names_the_folder_that_points_come_from_and_what_runs_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    needs_no_kernel(monkeypatch)
    begun: list[Path] = []

    def job(folder: Path, on_line: Callable[[str], None]) -> int:
        begun.append(folder)
        return good_job(folder, on_line)

    machine(monkeypatch, job)
    Path("small.toml").write_text(SCENARIO)
    first = gradwire_says(monkeypatch, capsys, "run", "small.toml", "--out", "runs/first")
    ran = len(begun)
    assert (first[0], "copied" in first[1]) == (0, False)
    status, out, _ = gradwire_says(monkeypatch, capsys, "run", "small.toml", "--out", "runs/second")
    (line,) = [line for line in out.splitlines() if "copied" in line]
    assert (status, f"{ran} from runs/first" in line, "--fresh" in line, len(begun)) == (0, True, True, ran)
    status, out, _ = gradwire_says(monkeypatch, capsys, "run", "small.toml", "--out", "runs/third", "--fresh")
    assert (status, "copied" in out, len(begun)) == (0, False, 2 * ran)
