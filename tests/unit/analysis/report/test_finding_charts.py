"""Charts of what was found of requests and of faults."""

from __future__ import annotations

import pytest
from matplotlib.figure import Figure

from gradwire.analysis.fault_effects import FaultEffect
from gradwire.analysis.findings.findings import FaultEffects, ObservationAt, RequestsServed
from gradwire.analysis.findings.observations import Observation
from gradwire.analysis.report.charts import Labels
from gradwire.analysis.report.finding_charts import finding_chart
from gradwire.analysis.request_times import RequestSpread, RequestTimes
from gradwire.analysis.statistics import Sample

TITLE = "A title of more letters than a line above a figure has room for: " * 3
RATES = ("10gbit", "25gbit")


def at(rate: str, requests: RequestTimes | None = None, effect: FaultEffect | None = None) -> ObservationAt:
    observed = Observation(
        {"rate": rate}, Sample({"1": 1.0}, random=False), 1, 0.5, 1.0, requests=requests, fault_effect=effect
    )
    return ObservationAt((("rate", rate),), observed)


def served(first_s: float, later_s: float) -> RequestTimes:
    first, later = (RequestSpread(time_s, 2 * time_s) for time_s in (first_s, later_s))
    return RequestTimes(5, first, later, None, None)


def widths(figure: Figure | None) -> list[list[float]]:
    assert figure is not None
    return [[round(bar.get_width(), 6) for bar in axes.patches] for axes in figure.axes]  # type: ignore[attr-defined]


def test_requests_have_medians_and_tails_of_first_and_of_later_tokens() -> None:
    found = RequestsServed((at(RATES[0], served(0.5, 0.02)), at(RATES[1], served(0.25, 0.01))))
    figure = finding_chart([found], TITLE, Labels({}))
    assert widths(figure) == [[1000, 500, 500, 250], [40, 20, 20, 10]]
    assert figure is not None
    assert [text.get_text() for text in figure.axes[0].get_yticklabels()] == [*RATES]
    assert max(map(len, figure.get_suptitle().splitlines())) < 90


@pytest.mark.parametrize(("lost_s", "expected"), [((0.25, 1.5), [0.25, 1.5]), ((None, None), [3.0, 9.0])])
def test_faults_have_what_they_cost_or_how_much_slower_iterations_are(
    lost_s: tuple[float | None, float | None], expected: list[float]
) -> None:
    effects = [FaultEffect(lost, slowdown) for lost, slowdown in zip(lost_s, (3.0, 9.0), strict=True)]
    found = FaultEffects(tuple(at(rate, effect=effect) for rate, effect in zip(RATES, effects, strict=True)))
    assert widths(finding_chart([found], TITLE, Labels({}))) == [expected]
    assert finding_chart([FaultEffects(found.at[:1])], TITLE, Labels({})) is None
    assert finding_chart([], TITLE, Labels({})) is None
