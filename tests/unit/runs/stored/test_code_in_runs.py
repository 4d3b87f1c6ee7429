"""Python that the scenario of a run folder names: commands that read never run it, and reports do without what only it would tell."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import tomli_w

import gradwire
from gradwire.faults import InputFault
from gradwire.runs.compiling.many_points import side_by_side
from gradwire.runs.stored.run_folder import folder_name, stored_plans
from gradwire.scenario.loading import Point, load_scenario
from gradwire.scenario.resolution.compilation import ResolvedPoint
from tests.hostile.run_folders import sound
from tests.shared.command_line import Answer, gradwire_says, needs_no_kernel
from tests.shared.parts import tells
from tests.unit.runs.test_campaign import good_job, machine
from tests.unit.scenario.definitions.own_files import STRATEGY
from tests.unit.test_layout import sources

EVIL = f"""
from pathlib import Path
Path("mark").touch()
{STRATEGY.replace('"one-bucket"', '"ring"')}
"""
MINE = sound()["scenario.toml"].decode()
Say = Callable[..., Answer]


@pytest.fixture
def say(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Say:
    """The command line in a folder with a run that somebody gave, which names a file of Python as its strategy."""
    monkeypatch.chdir(tmp_path)
    needs_no_kernel(monkeypatch)
    machine(monkeypatch, good_job)
    given(tmp_path / "gift")
    (tmp_path / "mine.toml").write_text(MINE)
    return lambda *words: gradwire_says(monkeypatch, capsys, *words)


def given(folder: Path) -> None:
    for name, content in sound().items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    (folder / "evil.py").write_text(EVIL)
    before = [folder_name(point) for point in stored_plans(folder).points]
    document = load_scenario(folder / "scenario.toml").document
    document["defined"] = {"strategies": {"ring": str(folder / "evil.py")}}
    (folder / "scenario.toml").write_text(tomli_w.dumps(document))
    after = [folder_name(point) for point in stored_plans(folder).points]
    for old, new in zip(before, after, strict=True):
        (folder / "points" / old).rename(folder / "points" / new)


@pytest.fixture(autouse=True)
def _nothing_was_run(tmp_path: Path) -> Iterator[None]:
    yield
    assert not (tmp_path / "mark").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("report", "gift"),
        ("report", "gift", "--out", "elsewhere"),
        ("why", "gift", "strategy=ring"),
        ("trace", "gift", "strategy=ring"),
        ("trace", "gift", "strategy=ring", "--kineto", "there"),
        ("diff", "gift", "gift"),
        ("explain", "ring"),
        ("strategies",),
    ],
    ids=" ".join,
)
def test_commands_that_read_run_no_code_of_a_run_folder(say: Say, words: tuple[str, ...]) -> None:
    status, out, err = say(*words)
    assert status == 0, out + err


def test_a_report_does_without_what_only_the_code_would_tell(say: Say) -> None:
    status, out, _ = say("report", "gift")
    page = Path("gift/report.html").read_text()
    assert (status, "All 2 points" in out) == (0, True)
    assert "evil.py" in page  # as what the scenario says
    assert page.count("<svg") > 1  # the network, as the run had it


@pytest.mark.parametrize("out", [("--out", "gift"), ()])
def test_a_run_of_ones_own_scenario_runs_no_code_of_the_folder(say: Say, out: tuple[str, ...]) -> None:
    Path("runs").mkdir()
    given(Path("runs/mine").absolute())
    status, _, err = say("run", "mine.toml", *out)
    if out:
        assert (status, "another scenario" in err) == (2, True)
    else:
        assert (status, Path("runs/mine.2/report.html").exists()) == (0, True)


def test_a_point_that_never_had_a_plan_is_not_compiled_to_report_it(say: Say) -> None:
    for name in ("task.json", "completed.json"):
        for file in Path("gift/points").glob(f"ring*/{name}"):
            file.unlink()
    for file in Path("gift/points").glob("ring*/verdict.json"):
        file.write_text('{"valid": false, "checks": [], "summary": "it failed"}')
    status, out, err = say("report", "gift")
    assert (status, out) == (2, "")
    assert tells(err, "task.json:", "read")


def test_a_notebook_runs_no_code_of_a_run_folder(say: Say) -> None:
    opened = gradwire.open("gift")
    assert opened.points["valid"].all()
    assert len(opened.iterations) == 8
    assert "Ring" in opened.conclusion
    opened._repr_html_()
    opened.report()
    for point in stored_plans(Path("gift")).points:
        if point.parameters["strategy"] == "ring":
            with pytest.raises(InputFault, match=r"evil\.py is not"):
                _ = ResolvedPoint(point.section).strategy


@pytest.mark.parametrize("words", [("plan",), ("estimate",), ("run",)], ids=" ".join)
def test_a_scenario_that_is_given_has_its_strategies_run(say: Say, words: tuple[str, ...]) -> None:
    Path("own.py").write_text(STRATEGY)
    Path("own.toml").write_text(MINE.replace('"kvstore"', '"./own.py"'))
    status, out, err = say(*words, "own.toml")
    assert (status, "one-bucket" in out) == (0, True), err


def test_processes_that_compile_side_by_side_may_run_it_as_well(say: Say) -> None:
    Path("own.py").write_text(STRATEGY)
    Path("own.toml").write_text(MINE.replace('"kvstore"', '"./own.py"'))
    points = load_scenario(Path("own.toml")).points
    assert list(side_by_side(_strategy, points, 2)) == ["ring", "one-bucket"]


def _strategy(point: Point) -> str:
    return ResolvedPoint(point.section).strategy.name


def unpickling(source: str) -> list[str]:
    """Calls that read an array and may unpickle the objects in it."""
    if not re.search(r"\b(load|read_array)\b", source):
        return []
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    reads = [call for call in calls if ast.unparse(call.func) in ("np.load", "np.lib.format.read_array")]
    return [
        ast.unparse(call)
        for call in reads
        if {each.arg: ast.unparse(each.value) for each in call.keywords}.get("allow_pickle") != "False"
    ]


def test_no_array_is_unpickled() -> None:
    """An object in an array is code that is run when it is read."""
    assert unpickling("np.load(path)\nnp.load(path, allow_pickle=False)") == ["np.load(path)"]
    assert {path: found for path in sources("gradwire") if (found := unpickling(path.read_text()))} == {}
