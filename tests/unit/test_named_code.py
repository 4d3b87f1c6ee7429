"""Whose code runs: the table by hand, and each command with each kind of file."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from gradwire.faults import InputFault
from gradwire.named_code import COMMAND_LINE, RUN_FOLDER, NamedBy, code_in, named_by_scenario, permit, running, why_not
from gradwire.reading_budget import SpentError
from gradwire.scenario.definitions.controller_files import controller_in
from tests.shared.command_line import Answer, gradwire_says, needs_no_kernel
from tests.unit.runs.test_campaign import good_job, machine
from tests.unit.scenario.definitions.own_files import STRATEGY
from tests.unit.test_layout import ROOT, sources

MARKED = "from pathlib import Path\nPath({mark!r}).touch()\n"
TOPO = """
class Two:
    def hosts(self): return ["h1", "h2"]
    def switches(self): return ["s1"]
    def nodeInfo(self, node): return {}
    def links(self, **asked): return [("h1", "s1", {}), ("h2", "s1", {})]
"""
SCENARIO = """
title = "Whose code"
cluster.workers = 2
model = {{ name = "alexnet", device = "k40" }}
strategy.name = "{strategy}"
fabric = {{ rate = "10gbit"{fabric} }}
run = {{ iterations = 1, warmup = 1 }}
"""
READING = (
    ("plan",),
    ("estimate",),
    ("run",),
    ("map", "--over", "fabric.rate=1gbit,10gbit", "--over", "cluster.workers=2,4"),
)
KINDS = ("strategy", "topo", "controller", "defined")
"""A file of each, and a strategy whose path a scenario has under `defined`."""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    needs_no_kernel(monkeypatch)
    machine(monkeypatch, good_job)
    return tmp_path


def code(path: Path, mark: Path) -> Path:
    """A file that is a strategy, a Topo and a controller, and leaves a mark where it is run."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(MARKED.format(mark=str(mark)) + TOPO + STRATEGY)
    return path


def scenario(path: Path, kind: str, named: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    fabric = {"topo": f', file = "{named}:Two"', "controller": f', controller = "{named}"'}.get(kind, "")
    strategy = {"strategy": named, "defined": "one-bucket"}.get(kind, "ring")
    text = SCENARIO.format(strategy=strategy, fabric=fabric)
    path.write_text(text + (f'[defined.strategies]\none-bucket = "{named}"\n' if kind == "defined" else ""))
    return path


def test_the_table(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    inside, below, beside = folder / "a.py", folder / "b" / "a.py", tmp_path / "a.py"
    for path in (inside, below, beside):
        code(path, tmp_path / "mark")
    (folder / "link.py").symlink_to(beside)
    (folder / "way").symlink_to(tmp_path)
    (tmp_path / "in.py").symlink_to(inside)
    (folder / "round.py").symlink_to(folder / "round.py")
    by_scenario = named_by_scenario(folder / "x.toml")
    for path in (inside, below, tmp_path / "in.py", folder / "none.py", folder / "round.py"):
        assert why_not(path, by_scenario) == "", path
    for path in (beside, folder / "link.py", folder / "way" / "a.py", folder / ".." / "a.py", Path("/mine/a.py")):
        assert str(path) in why_not(path, by_scenario)
    assert str(beside) in why_not(folder / "link.py", by_scenario)  # where the link leads
    assert why_not(tmp_path / "mine2" / "a.py", by_scenario)  # a folder whose name begins alike
    for path in (inside, beside):
        assert why_not(path, COMMAND_LINE) == ""
        assert why_not(path, RUN_FOLDER)
    (folder / "clock.json").touch()
    assert named_by_scenario(folder / "x.toml") == RUN_FOLDER


def test_nothing_is_read_that_was_not_permitted(tmp_path: Path) -> None:
    path = code(tmp_path / "a.py", tmp_path / "mark")
    with pytest.raises(InputFault, match=r"a\.py is not"):
        code_in(path)
    with pytest.raises(InputFault, match=r"a\.py is not"):
        permit(path, NamedBy("x.toml", tmp_path / "elsewhere"))
    permit(path, COMMAND_LINE)
    assert "Two" in code_in(path)


def refused(answer: Answer, here: Path) -> bool:
    status, _, err = answer
    assert not (here / "mark").exists()
    return status == 2 and "is not run" in err and "Traceback" not in err


@pytest.mark.parametrize("command", READING, ids=lambda words: words[0])
@pytest.mark.parametrize("kind", KINDS)
def test_a_scenario_runs_no_code_outside_of_its_folder(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: tuple[str, ...], kind: str
) -> None:
    outside = code(here / "outside.py", here / "mark")
    (here / "mine").mkdir()
    (here / "mine" / "link.py").symlink_to(outside)
    for named in (str(outside), "../outside.py", "link.py"):
        if kind == "defined" and named == "../outside.py":
            continue  # where it leads depends on the current folder
        path = scenario(here / "mine" / "own.toml", kind, named)
        word, *more = command
        assert refused(gradwire_says(monkeypatch, capsys, word, str(path), *more), here), named


@pytest.mark.parametrize("command", READING, ids=lambda words: words[0])
@pytest.mark.parametrize("kind", KINDS)
def test_a_scenario_in_a_run_folder_runs_none(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: tuple[str, ...], kind: str
) -> None:
    inside = code(here / "gift" / "own.py", here / "mark")
    (here / "gift" / "clock.json").write_text("{}")
    word, *more = command
    path = scenario(here / "gift" / "scenario.toml", kind, str(inside))
    assert refused(gradwire_says(monkeypatch, capsys, word, str(path), *more), here)


@pytest.mark.parametrize("words", [("exec",), ("shell",)], ids=lambda words: words[0])
def test_programs_get_no_network_from_elsewhere(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    outside = code(here / "outside.py", here / "mark")
    path = scenario(here / "mine" / "own.toml", "topo", str(outside))
    more = ["--", "true"] if words[0] == "exec" else []
    assert refused(gradwire_says(monkeypatch, capsys, *words, str(path), *more), here)


@pytest.mark.parametrize("kind", ["strategy", "topo"])
def test_what_the_command_line_names_runs_wherever_it_is(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    outside = code(here / "outside.py", here / "mark")
    path = scenario(here / "mine" / "own.toml", "none", "")
    setting = {"strategy": f"strategy.name={outside}", "topo": f"fabric.file={outside}:Two"}[kind]
    status, _, err = gradwire_says(monkeypatch, capsys, "plan", str(path), "--set", setting)
    assert (status, (here / "mark").exists()) == (0, True), err


@pytest.mark.parametrize("kind", KINDS)
def test_plan_runs_what_is_in_the_folder_or_below(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    inside = code(here / "mine" / "below" / "own.py", here / "mark")
    path = scenario(here / "mine" / "own.toml", kind, str(inside))
    status, _, err = gradwire_says(monkeypatch, capsys, "plan", str(path))
    assert (status, (here / "mark").exists()) == (0, kind != "controller"), err


@pytest.mark.parametrize("name", ["a\\u0000.py", "~nobody-of-this-name/a.py"])
def test_what_is_not_a_path_is_named(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    for kind in KINDS:
        path = scenario(here / "own.toml", kind, name)
        status, _, err = gradwire_says(monkeypatch, capsys, "plan", str(path))
        assert (status, "Traceback" in err) == (2, False), err


RUNS_TEXT = {
    "gradwire/workloads/strategy_registry.py",  # by `code_in`
    "gradwire/scenario/definitions/topo_classes.py",  # in a separate process, of a permitted file
    "gradwire/inside/stock_mininet/start.py",  # in the machine, of what the command line names
    "gradwire/inside/warm_interpreter.py",  # in the machine, of programs
}


def calls_exec(source: str) -> bool:
    return "exec" in source and any(
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "exec"
        for node in ast.walk(ast.parse(source))
    )


def test_no_other_module_runs_text() -> None:
    found = {str(Path(path).relative_to(ROOT)) for path in sources("gradwire") if calls_exec(path.read_text())}
    assert found == RUNS_TEXT


MUTE = type("Mute", (Exception,), {"__str__": lambda _: 1 // 0})


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (SystemExit(0), "it failed: SystemExit: 0"),
        (SystemExit("no"), "it failed: SystemExit: no"),
        (GeneratorExit(), "it failed: GeneratorExit"),
        (MUTE(), "it failed: Mute"),
        (ValueError("two\nlines"), "it failed: ValueError: two lines"),
        (ValueError("long " * 1000), "it failed: ValueError: " + "long " * 60 + "..."),
        (InputFault("a fault"), "a fault"),
    ],
)
def test_whatever_code_raises_is_one_message(error: BaseException, said: str) -> None:
    with pytest.raises(InputFault) as raised, running("it failed: "):
        raise error
    assert str(raised.value) == said


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(128 + 15), SpentError(), OverflowError()])
def test_what_ends_a_command_passes(error: BaseException) -> None:
    with pytest.raises(type(error)), running("it failed: ", passing=(OverflowError,)):
        raise error


@pytest.mark.parametrize("text", ["-" * 100_000 + "1", "x" + ".a" * 100_000, "(" * 300, "x\0", "def"])
def test_a_controller_that_cannot_be_compiled_is_no_python(tmp_path: Path, text: str) -> None:
    path = tmp_path / "app.py"
    path.write_text(text)
    permit(path, COMMAND_LINE)
    with pytest.raises(InputFault, match="is not Python"):
        controller_in(path)
