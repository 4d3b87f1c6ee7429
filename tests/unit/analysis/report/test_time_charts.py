"""Charts of a run over time, and what they say of faults in numbers."""

from __future__ import annotations

import numpy as np

from gradwire.analysis.fault_effects import FaultEffect, MeansAroundFaults, fault_spans
from gradwire.analysis.link_loads import LinkLoad
from gradwire.analysis.report.charts import svg_text
from gradwire.analysis.report.time_charts import FAULT_COLOR, over_time_chart
from gradwire.datatypes.records import FaultRecord, PlannedFault

S = 1_000_000_000
EDGES_NS = np.array([0, 1, 2, 4, 6, 7, 8]) * S
"""Six iterations, of which the third and the fourth take twice as long."""
BINS_NS = np.linspace(0, 8 * S, 9).astype(np.int64)


def fault(begun_s: float, ended_s: float, name: str = "half") -> FaultRecord:
    ns = [round(at * S) if at >= 0 else -1 for at in (begun_s, ended_s)]
    return FaultRecord(PlannedFault(name, "rate", 0, place="h1-eth0", value=1e9), ns[0], *ns)


def test_means_before_during_and_after() -> None:
    times = MeansAroundFaults.of(EDGES_NS, 1, [fault(2.5, 5.5)])
    assert times == MeansAroundFaults(1.0, 2.0, 1.0, during=2, lasts=False)
    assert times is not None
    assert times.in_words() == "1.000 s before, 2.000 s during, 1.000 s after faults"
    assert times.effect() == FaultEffect(lost_s=2.0, slowdown=2.0)


def test_a_fault_that_lasts_to_the_end_has_a_slowdown_and_no_cost() -> None:
    times = MeansAroundFaults.of(EDGES_NS[:5], 0, [fault(2.5, -1)])
    assert times is not None
    assert times.effect() == FaultEffect(lost_s=None, slowdown=2.0)


def test_an_iteration_with_a_part_of_a_fault_is_during_it_and_those_between_two_are_neither() -> None:
    times = MeansAroundFaults.of(EDGES_NS, 0, [fault(1.9, 2.1, "one"), fault(6.5, 6.6, "two")])
    # Iterations 1 and 2, and 4, have a part of one; iteration 3 is between them.
    assert times == MeansAroundFaults(1.0, 4 / 3, 1.0, during=3, lasts=False)


def test_what_is_missing_is_said() -> None:
    times = MeansAroundFaults.of(EDGES_NS, 1, [fault(0.5, -1)])
    assert times is not None
    assert (times.before_s, times.after_s) == (None, None)
    assert times.effect() is None
    assert "no measured iteration before or after" in times.in_words()
    assert MeansAroundFaults.of(EDGES_NS, 1, [fault(-1, -1)]) is None
    assert MeansAroundFaults.of(EDGES_NS, 1, []) is None


def test_a_fault_ends_with_the_run_at_the_latest() -> None:
    spans = fault_spans([fault(1, -1), fault(2, 20), fault(9, 10)], 8 * S)
    assert [(span.begin_s, span.end_s) for span in spans] == [(1, 8), (2, 8)]


def load(name: str, share: float) -> LinkLoad:
    return LinkLoad(name, 10e9, np.full(8, share))


def test_panels_of_times_and_of_lines() -> None:
    loads = [load("h1 out", 0.5), load("leaf1-spine2 to spine2", 0.25)]
    figure = over_time_chart({"": EDGES_NS}, [fault(2, 4)], loads, BINS_NS)
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles == ["", "h1 out, 10 Gbit/s: 50% on average", "leaf1-spine2 to spine2, 10 Gbit/s: 25% on average"]
    times, *_ = figure.axes[0].patches
    assert times.get_data().values.tolist() == [1, 1, 2, 2, 1, 1]  # type: ignore[attr-defined]
    assert [text.get_text().strip() for text in figure.axes[0].texts] == ["fault.half"]
    assert svg_text(figure).count(FAULT_COLOR.lower()) >= len(figure.axes)
    assert len(over_time_chart({"": EDGES_NS}, [], loads, BINS_NS).axes) == 2


def test_several_jobs_have_a_step_each() -> None:
    figure = over_time_chart({"a": EDGES_NS, "b": EDGES_NS[::2]}, [fault(2, 4)], [load("h1 out", 1.0)], BINS_NS)
    legend = figure.axes[0].get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["job a", "job b"]
