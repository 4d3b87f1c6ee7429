"""Traces of requests in scenarios: where their files are, and what goes beside them."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradwire.datatypes.plan import Moment
from gradwire.faults import InputFault
from gradwire.scenario.loading import load_scenario
from gradwire.scenario.resolution.compilation import compile_point

SCENARIO = """
title = "requests from a file"
cluster.workers = 2
fabric.rate = "10gbit"
model = {{ name = "llama3.2-1b", device = "h100" }}
strategy = {{ name = "serve", options = {{ request_trace = "./there/requests.csv", {more} }} }}
"""


def scenario(folder: Path, more: str) -> Path:
    (folder / "there").mkdir()
    rows = ["arrival_s,prompt_tokens,output_tokens", "0.5,100,1", "0,10,2", "0.1,20,2"]
    (folder / "there" / "requests.csv").write_text("\n".join(rows) + "\n")
    path = folder / "served.toml"
    path.write_text(SCENARIO.format(more=more))
    return path


def test_a_trace_is_beside_its_scenario(tmp_path: Path) -> None:
    (point,) = load_scenario(scenario(tmp_path, "requests = 2")).points
    moments = compile_point(point.section).plans["serve"].moments
    arrived_ns = moments[moments[:, 1] == Moment.ARRIVED, 3]
    assert arrived_ns.tolist() == [0, 100_000_000]


@pytest.mark.parametrize("option", ["rate = 5", 'arrivals = "even"', "prompt_tokens = 5", "output_tokens = 5"])
def test_what_the_trace_says_is_left_out(tmp_path: Path, option: str) -> None:
    name = option.partition(" ")[0]
    with pytest.raises(InputFault, match=f"leave out {name}"):
        load_scenario(scenario(tmp_path, option))


def test_a_trace_that_is_not_there_is_named(tmp_path: Path) -> None:
    path = scenario(tmp_path, "requests = 2")
    (tmp_path / "there" / "requests.csv").unlink()
    (point,) = load_scenario(path).points
    with pytest.raises(InputFault, match=r"there/requests\.csv"):
        compile_point(point.section)
