"""The process that helps to compile the engine for the first time compiles for the very types that the engine uses."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gradwire import PACKAGE
from gradwire.analysis.fluid import compiled, engine, replay, second_compiler
from gradwire.analysis.fluid import estimate as estimating
from gradwire.analysis.fluid.replay import Replay
from gradwire.reading_budget import is_budgeted, reading_budget
from gradwire.scenario.loading import scenario_of
from gradwire.scenario.resolution.compilation import compile_point

JOB = {
    "title": "a job of two",
    "cluster": {"workers": 2},
    "fabric": {"rate": "10gbit"},
    "model": {"name": "one", "layers": [{"name": "fc", "size": ["1MB"], "forward": "1ms", "backward": "1ms"}]},
    "strategy": {"name": "ring"},
}


@pytest.fixture
def state(monkeypatch: pytest.MonkeyPatch) -> Replay:
    """What the engine works on, after an estimate by it: all is compiled and kept."""
    seen: list[Replay] = []
    monkeypatch.setattr(engine, "compile_if_never", seen.append)
    (point,) = scenario_of(JOB).points
    compiled_point = compile_point(point.section)
    for plan in compiled_point.plans.values():
        estimating.estimate(plan, compiled_point.fabric)
    return seen[0]


def test_it_finds_all_that_it_would_compile_where_the_engine_has_run(state: Replay) -> None:
    """Another type would make machine code that nobody loads, and no error."""
    types = pickle.dumps(tuple(map(second_compiler.type_of, (state, state.network, state.agenda))))
    code = (
        f"from {second_compiler.__name__} import help_compiling\n"
        "for function in help_compiling():\n"
        "    print(sum(function.stats.cache_hits.values()), sum(function.stats.cache_misses.values()))"
    )
    done = subprocess.run([sys.executable, "-c", code], input=types, check=True, timeout=300, stdout=subprocess.PIPE)
    assert done.stdout.decode().split("\n") == ["1 0", "1 0", "1 0", "1 0", ""]


def test_a_folder_without_the_outermost_loop_is_not_complete(tmp_path: Path) -> None:
    (tmp_path / "draining.share_ports-134.py311.nbi").touch()
    assert not second_compiler.is_compiled(tmp_path)
    (tmp_path / "replay.proceed-70.py311.nbi").touch()
    assert second_compiler.is_compiled(tmp_path)


@pytest.mark.parametrize("is_kept", [True, False])
def test_to_compile_is_no_part_of_reading(monkeypatch: pytest.MonkeyPatch, state: Replay, *, is_kept: bool) -> None:
    """Without a cache it takes ten times what a reader may."""
    told: list[bool] = []
    compiling = SimpleNamespace(
        overloads={}, compile=lambda _: told.append(is_budgeted()), stats=cast(Any, replay.proceed).stats
    )
    monkeypatch.setattr(replay, "proceed", compiling)
    monkeypatch.setattr(compiled, "KEPT", is_kept)
    with reading_budget("a scenario"):
        second_compiler.compile_if_never(state)
    assert told == [False]


@pytest.mark.long
def test_two_cores_compile_what_one_would(tmp_path: Path) -> None:
    """25 s of a core, and the same time of an iteration."""
    code = f"import gradwire; print(repr(gradwire.estimate({JOB!r})['iteration_time_s'].iloc[0]))"
    alone = f"from gradwire.analysis.fluid import second_compiler; second_compiler.LEAST_CORES = 1000; {code}"
    said = []
    for number, text in enumerate((code, alone)):
        environment = {
            "GRADWIRE_CACHE": str(tmp_path / str(number)),
            "PATH": "/usr/bin:/bin",
            "PYTHONPATH": str(PACKAGE.parent),
        }
        done = subprocess.run([sys.executable, "-c", text], env=environment, capture_output=True, text=True, check=True)
        said.append(done.stdout)
        assert list((tmp_path / str(number)).rglob("replay.proceed-*.nbi"))
    assert said[0] == said[1]
