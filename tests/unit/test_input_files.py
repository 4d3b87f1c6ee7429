"""No command writes over what it was given to read: each option that names an output is tried with the command's own input."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from gradwire.cli.command_line import app
from gradwire.faults import InputFault
from gradwire.files import replace_text
from gradwire.input_files import begin_command, forget_input, refuse_input
from gradwire.reading_budget import reading_budget
from gradwire.regular_files import read_text
from tests.hostile.run_folders import sound, write_files
from tests.shared.commands import gradwire_command

SCENARIO = """# a comment that no program writes
title = "two"
cluster.workers = 2
model = { name = "alexnet", device = "k40" }
fabric = { rate = "10gbit", file = "net.json" }
[sweep]
"strategy.name" = ["ring", "kvstore"]
"""
NETWORK = (
    '{"nodes": [{"id": "h1"}, {"id": "h2"}, {"id": "s1"}], '
    '"edges": [{"source": "h1", "target": "s1"}, {"source": "h2", "target": "s1"}]}'
)
GOAL = "num_ranks 2\nrank 0 {\nl1: send 10b to 1 tag 0\n}\nrank 1 {\nl1: recv 10b from 0 tag 0\n}\n"
LOG = "# nccl-tests version 2.13.8\n       8     2   float   sum    -1   5.0  0.0  0.0   0\n"
AXES = "--over run.seed=1,2 --over cluster.workers=2,4"
OUTPUTS: dict[tuple[str, str], tuple[str, ...]] = {
    ("run", "--out"): ("run own.toml --out own.toml", "run given/scenario.toml --out given"),
    ("init", "file"): ("init own.toml",),
    ("compare", "--out"): ("compare --rate 10gbit --model model.toml --workers 2 --out model.toml",),
    ("map", "--out"): (f"map own.toml {AXES} --out own.toml", f"map own.toml {AXES} --out run"),
    ("ccl", "--csv"): ("ccl --log own.log --csv own.log", "ccl --log own.log --csv ./own.log"),
    ("exec", "--out"): ("exec own.toml --out own.toml -- true", "exec own.toml --out run -- true"),
    ("mininet", "--out"): ("mininet --out script.py script.py",),
    ("import", "--out"): ("import own.goal --out own.goal", "import given/verdict.json --out given"),
    ("record", "--out"): ("record --world-size 2 --flop-rate 1TFLOP/s --out script.py -- python script.py",),
    ("report", "--out"): ("report run --out run/scenario.toml", "report run --out other"),
    ("trace", "--out"): (
        "trace run {point} --out run/points/{point}/ops.npz",
        "trace run {point} --out run/scenario.toml",
    ),
    ("trace", "--chakra"): ("trace run {point} --chakra run", "trace run {point} --chakra run/scenario.toml"),
    ("trace", "--kineto"): ("trace run {point} --kineto run",),
    ("plan", "--draw"): ("plan named.svg --draw named.svg", "plan own.toml --set fabric.file=net.svg --draw net.svg"),
    ("estimate", "--out"): ("estimate own.toml --out own.toml", "estimate own.toml --out net.json"),
    ("reproduce", "--out"): ("reproduce p3-fig7 --out own.toml",),
    ("reproduce", "--pages"): ("reproduce p3 --pages own.toml",),
}
"""Options and arguments that name what a command writes, with command lines that name what it reads."""
INPUTS = {
    *(
        ("run", "scenario"),
        ("compare", "--trace"),
        ("map", "scenario"),
        ("ccl", "--log"),
        ("ccl", "--topology"),
        ("exec", "scenario"),
    ),
    *(("shell", "scenario"), ("import", "traces"), ("import", "--groups"), ("report", "run_path"), ("diff", "first")),
    *(
        ("diff", "second"),
        ("why", "run_path"),
        ("trace", "run_path"),
        ("utilisation", "run_path"),
        ("plan", "scenario"),
    ),
    *(("estimate", "scenario"), ("reproduce", "--python"), ("reproduce", "--moved-from")),
}
CLEANED = {("clean", "folders")}


def named_paths() -> set[tuple[str, str]]:
    """The options and arguments of all commands that name a path."""
    commands: dict[str, Any] = vars(get_command(app))["commands"]
    return {
        (name, parameter.opts[0] if parameter.opts[0].startswith("-") else parameter.name)
        for name, command in commands.items()
        for parameter in command.params
        if "Path" in str(parameter.type_descriptor.annotation)
    }


def test_every_path_of_the_command_line_is_known() -> None:
    assert named_paths() == {*OUTPUTS, *INPUTS, *CLEANED}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("own.toml", "named.svg", "given/scenario.toml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(SCENARIO)
    for name in ("net.json", "net.svg", "given/net.json"):
        (tmp_path / name).write_text(NETWORK)
    (tmp_path / "model.toml").write_text('name = "mine"\nbatch = 2\nsource = "nobody"\n')
    (tmp_path / "own.goal").write_text(GOAL)
    (tmp_path / "own.log").write_text(LOG)
    (tmp_path / "script.py").write_text("print(1)\n")
    (tmp_path / "given" / "verdict.json").write_text(GOAL)
    write_files(tmp_path / "run", sound())
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "points.csv").write_text("a table of somebody\n")
    return tmp_path


@pytest.mark.parametrize("line", [line for lines in OUTPUTS.values() for line in lines])
def test_a_command_leaves_its_input_as_it_is(folder: Path, line: str) -> None:
    point = next(each.name for each in sorted((folder / "run" / "points").iterdir()))
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    done = gradwire_command(*line.format(point=point).split(), cwd=folder)
    last = done.stderr.strip().splitlines()[-1]
    assert (done.returncode, last.startswith("error (input): ")) == (2, True), done.stderr
    after = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != ".lock"}
    assert {path for path in before if before[path] != after.get(path)} == set()


def test_a_file_that_is_named_once_may_be_replaced(folder: Path) -> None:
    for _ in range(2):
        assert gradwire_command("ccl", "--sizes", "8", "--csv", "rows.csv", cwd=folder).returncode == 0


def test_what_was_read_is_not_replaced_until_it_is_the_commands_own(tmp_path: Path) -> None:
    given = tmp_path / "given.toml"
    given.write_text("given")
    begin_command(["plan"])
    try:
        replace_text(given, "before it is read")
        with reading_budget(given):
            read_text(given, 100, follow=True)
        with pytest.raises(InputFault, match=r"given\.toml: is a file that this command reads"):
            replace_text(given, "after")
        (tmp_path / "also.toml").hardlink_to(given)
        with pytest.raises(InputFault, match=r"--out .*also\.toml"):
            refuse_input(tmp_path / "also.toml", "--out")
        assert given.read_text() == "before it is read"
        forget_input(given)
        replace_text(given, "after")
    finally:
        begin_command([])
    assert given.read_text() == "after"
