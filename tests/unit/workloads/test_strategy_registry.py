"""Strategies that a notebook registers: found by name, replaced by a later one, refused where the name is somebody
else's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, cast

import pytest

from gradwire.faults import InputFault
from gradwire.plugin import Job, Plan, Strategy, register
from gradwire.scenario.loading import scenario_of
from gradwire.workloads.strategy_registry import (
    BUILT_IN,
    MEANT,
    REGISTERED,
    THIS_PROCESS,
    strategy,
    strategy_names,
    strategy_origins,
)
from tests.shared.parts import in_order

CONTENT: dict[str, Any] = {
    "title": "Mine",
    "cluster": {"workers": 2},
    "fabric": {"rate": "10gbit"},
    "model": {"name": "alexnet", "device": "k40"},
    "strategy": {"name": "mine"},
}


def compiled(job: Job, options: Any) -> Mapping[str, Plan]:
    return strategy("ring").compile(job, options)


MINE = Strategy(name="mine", summary="a ring", source="here", compile=compiled, needs_servers=False)


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    """Strategies that a test registers are forgotten after it."""
    yield
    REGISTERED.clear()


def test_a_registered_strategy_is_one_of_all() -> None:
    with pytest.raises(InputFault, match="'mine' is unknown"):
        scenario_of(CONTENT)
    assert register(MINE) is MINE
    assert strategy("mine") is MINE
    assert "mine" in strategy_names()
    assert strategy_origins("mine") == [THIS_PROCESS]
    assert scenario_of(CONTENT).points[0].section.strategy.name == "mine"


def test_a_later_one_of_the_same_name_takes_its_place() -> None:
    register(MINE)
    later = register(replace(MINE, summary="another"))
    assert strategy("mine") is later


@pytest.mark.parametrize("name", ["ring", "geryon"])
def test_names_of_gradwires_own_strategies_are_refused(name: str) -> None:
    with pytest.raises(InputFault, match=f"'{name}' is already"):
        register(replace(MINE, name=name))
    assert strategy(name).source != "here"


def test_what_is_no_strategy_is_refused() -> None:
    with pytest.raises(InputFault, match=in_order("function:", "Strategy")):
        register(cast(Strategy, compiled))


def test_words_of_the_field_mean_strategies_that_there_are() -> None:
    assert {name for names in MEANT.values() for name in names} <= set(BUILT_IN)
    assert not MEANT.keys() & BUILT_IN.keys()
    with pytest.raises(InputFault, match=in_order("'ps' is unknown", "'vanilla' or 'kvstore'")):
        strategy("ps")
