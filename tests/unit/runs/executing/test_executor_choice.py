"""Where points run, as options say it."""

from __future__ import annotations

import importlib.util
import tomllib

import pytest

from gradwire.faults import Fault, InputFault, MachineFault
from gradwire.runs.executing.executor import LocalPool
from gradwire.runs.executing.executor_choice import Where
from gradwire.scenario.loading import resolve
from gradwire.vm.machines import Clock
from tests.shared.parts import in_order
from tests.unit.runs.test_campaign import TEXT


@pytest.mark.parametrize(
    ("where", "clock", "fault", "said"),
    [
        (Where(executor="slurm"), Clock(), InputFault, "--executor slurm: must be local or dask"),
        (Where(scheduler="tcp://10.0.0.1:8786"), Clock(), InputFault, "--scheduler belongs to --executor dask"),
        (Where(executor="dask"), Clock("wall", 10), InputFault, "is for the virtual clock"),
    ],
)
def test_what_does_not_fit_together_is_refused(where: Where, clock: Clock, fault: type[Fault], said: str) -> None:
    with pytest.raises(fault, match=said):
        where.refuse_what_cannot_be(clock)


def test_programs_beside_a_strategy_stay_on_this_machine() -> None:
    document = tomllib.loads(TEXT)
    document["program"] = {"backup": {"command": "sleep 1", "hosts": ["h1"]}}
    points = resolve(document, "test.toml", "test").points
    with pytest.raises(InputFault, match=in_order("programs", "this machine")):
        Where(executor="dask").refuse_what_cannot_be(Clock(), points)


def test_without_dask_the_command_that_installs_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(MachineFault, match=r"pip install 'gradwire\[dask\]'"):
        Where(executor="dask").refuse_what_cannot_be(Clock())


def test_the_local_pool_has_as_many_jobs_as_points_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    def jobs(where: Where, clock: Clock, points: int) -> int:
        with where.opened(clock, lambda _: None, lambda _: None, points) as executor:
            assert isinstance(executor, LocalPool)
            return executor.jobs

    assert jobs(Where(3), Clock(), 8) == 3
    assert jobs(Where(3), Clock(), 2) == 2
    assert jobs(Where(3), Clock("wall", 10), 8) == 1
