"""A cluster of 8 that stands for one of 32 takes as long on the wire as the 32 themselves."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from gradwire.analysis.iterations import iteration_times_s
from gradwire.runs.replay import replay_plans
from gradwire.scenario.loading import resolve
from gradwire.scenario.overrides import apply_setting
from gradwire.scenario.resolution.compilation import Compiled, compile_point

pytestmark = pytest.mark.kernel

ITERATIONS = 2
SCENARIO = """
title = "16 MiB, of which latencies take a third to a half"
[cluster]
workers = 8
workers_per_host = 2
stands_for = 32
stands_for_per_host = 8
[fabric]
rate = "25gbit"
classes = 1
[model]
name = "tensor"
layers = [{ name = "tensor", size = ["16MiB"], forward = "1us", backward = "0us" }]
[strategy]
name = "layer-allreduce"
[costs]
message_latency = { value = "100us", source = "made up" }
local_rate = { value = "2.5GB/s", source = "made up" }
"""
DIRECT = ("cluster={workers=32, workers_per_host=8}",)


def compiled(*changes: str) -> Compiled:
    document = tomllib.loads(SCENARIO)
    for change in changes:
        apply_setting(document, change)
    (point,) = resolve(document, "test.toml", "test").points
    return compile_point(point.section)


def iteration_s(point: Compiled) -> float:
    (run,) = replay_plans(point.plans, point.fabric, ITERATIONS).values()
    return float(iteration_times_s(run.plan, run.log, ITERATIONS)[-1])


@pytest.mark.parametrize("strategy", ["layer-allreduce", "halving-doubling"])
def test_eight_take_as_long_as_the_thirty_two_that_they_stand_for(virtual_kernel: Path, strategy: str) -> None:
    direct, stand_in = (iteration_s(compiled(f"strategy.name={strategy}", *changes)) for changes in (DIRECT, ()))
    assert stand_in == pytest.approx(direct, rel=0.02)
