"""The algorithms that a recorded job is ranked by: each that its collectives can go by, one at a time."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradwire.documents import Document
from gradwire.faults import InputFault
from gradwire.scenario.contenders import is_random, lineup, replays
from gradwire.scenario.limits import MOST_POINTS
from gradwire.scenario.loading import resolve
from gradwire.workloads.traces.workload import Workload
from tests.shared.parts import in_order
from tests.unit.workloads.traces.small_traces import ddp_step, imported


def workload(folder: Path) -> Workload:
    found = imported(ddp_step().write(folder / "rank0.json")).workload
    assert found is not None
    return found


def test_each_kind_that_the_trace_has_is_varied_by_itself(tmp_path: Path) -> None:
    found = replays(workload(tmp_path))
    assert found[0].options == {}
    assert {"all_reduce": "direct"} in [contender.options for contender in found]
    assert all(tuple(contender.options) == contender.told_by for contender in found)
    assert {"priorities": "needed-first"} in [contender.options for contender in found]
    assert not any("recorded" in contender.options.values() for contender in found)
    assert not any("all_gather" in contender.options for contender in found)


def test_only_replay_takes_part(tmp_path: Path) -> None:
    with pytest.raises(InputFault, match=in_order("--strategy ring:", "'replay'")):
        replays(workload(tmp_path), ["ring"])


@pytest.mark.parametrize("seeds", [MOST_POINTS + 1, 10**9, 10**30])
def test_seeds_beyond_all_points_are_refused_before_they_are_counted(seeds: int) -> None:
    with pytest.raises(InputFault, match=r"seeds: .* must be at most 10,000"):
        lineup({}, [], seeds)


@pytest.mark.parametrize(
    ("options", "drawn"),
    [({}, False), ({"rate": 10}, True), ({"rate": 10, "arrivals": "even"}, False), ({"arrivals": "poisson"}, False)],
)
def test_arrivals_are_drawn_unless_they_are_even_or_all_at_once(options: Document, drawn: bool) -> None:
    document: Document = {"title": "t", "cluster": {"workers": 2}, "fabric": {"rate": "10gbit"}}
    document["model"] = {"name": "llama3-8b", "device": "h100"}
    document["strategy"] = {"name": "serve", "options": options}
    scenario = resolve(document, "s", "s")
    assert [is_random(point.section) for point in scenario.points] == [drawn]
