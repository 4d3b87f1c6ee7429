"""Estimates of rows: each once, in several processes, and from the store afterwards."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gradwire.scenario.loading import Point
from reproduction.world import predicting
from reproduction.world.cells import By, Planned, load_given
from reproduction.world.command import chosen_cells
from reproduction.world.predicting import Predictions

PLANNED = [
    planned
    for cell in chosen_cells(["world-pytorch_ddp"], load_given()).values()
    for planned in (cell.planned, *(what_if.planned for what_if in cell.what_ifs))
    if isinstance(planned, Planned) and planned.by is By.ESTIMATE
][:5]


def by_process(point: Point) -> predicting._Time:
    """The process that estimated, in place of a time."""
    assert point.section.cluster.workers > 0
    return predicting._Time(float(os.getpid()), None, "as estimated")


def refused(_: Point) -> predicting._Time:
    raise AssertionError("it has been estimated before")


@pytest.mark.parametrize("jobs", [1, 2])
def test_estimates_are_made_once_in_as_many_processes_as_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jobs: int
) -> None:
    monkeypatch.setattr(predicting, "_estimated", by_process)
    first = Predictions(PLANNED, tmp_path)
    assert first.estimates == len(PLANNED) == 5
    first.estimate(jobs)
    pids = [first._estimates[predicting._name(planned)].iteration_s for planned in PLANNED]
    assert pids[0] == os.getpid()
    assert (set(pids[1:]) == {os.getpid()}) == (jobs == 1)
    monkeypatch.setattr(predicting, "_estimated", refused)
    again = Predictions(PLANNED, tmp_path)
    again.estimate(jobs)
    assert [again.of(planned) for planned in PLANNED] == [first.of(planned) for planned in PLANNED]
