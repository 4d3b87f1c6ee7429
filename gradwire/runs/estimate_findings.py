"""The findings of estimates, by the same rules as those of runs."""

from __future__ import annotations

from collections.abc import Sequence

from gradwire.analysis.findings.findings import Finding, find
from gradwire.analysis.findings.observations import OtherResults, observations
from gradwire.analysis.points import VALID, PointResult
from gradwire.runs.estimation import PointEstimate
from gradwire.scenario.contenders import PARTIAL, is_random
from gradwire.scenario.loading import Scenario

NOT_RANKED = "not ranked: too much depends on how much queues hold"
UNKNOWN = (
    *("fabric.buffer", "fabric.ecn", "fabric.lossless", "fabric.loss", "fabric.controller", "fabric.fair_queues"),
    *("fabric.flowlet_gap", "fabric.hosts", "fabric.host", "fabric.classes", "fabric.gso"),
    *("transport.congestion", "transport.agents", "transport.agent_code", "fault", "program", "part", "run"),
)
"""Keys that an ideal network does not know, with all keys inside them."""
OF_LINKS = ("loss", "buffer", "ecn", "jitter")
"""Keys of [fabric.link.NAME] that it does not know."""


def findings_of(scenario: Scenario, estimates: Sequence[PointEstimate]) -> tuple[Finding, ...]:
    """Returns the findings of a scenario's estimated points; estimates that do not rank a point do not count."""
    rows = [_row(estimate) for estimate in estimates]
    random = [is_random(point.section) for point in scenario.points for _ in point.section.job or ("",)]
    others = [OtherResults(requests=estimate.requests and estimate.requests[0]) for estimate in estimates]
    return find(observations(rows, PARTIAL, random, others), scenario.keys, unknown=_unknown(scenario))


def _unknown(scenario: Scenario) -> list[str]:
    """Swept parameters without an effect on estimates."""
    return [name for name, key in scenario.keys.items() if key != "run.seed" and _is_unknown(key)]


def _is_unknown(key: str) -> bool:
    of_link = key.startswith("fabric.link.") and key.rpartition(".")[2] in OF_LINKS
    return of_link or any(key == each or key.startswith(f"{each}.") for each in UNKNOWN)


def _row(estimate: PointEstimate) -> PointResult:
    return PointResult(
        parameters=dict(estimate.parameters),
        iteration_time_s=estimate.iteration_time_s,
        iteration_time_std_s=None,
        ci95_s=None,
        throughput_per_s=estimate.throughput_per_s,
        scaling_efficiency=estimate.scaling_efficiency,
        bytes_sent=0,
        wall_s=estimate.took_s,
        lower_bound_s=estimate.lower_bound_s,
        lower_bound_kind=estimate.lower_bound_kind,
        alone_time_s=estimate.alone_time_s,
        plan_digest="",
        verdict=VALID if estimate.is_ranked else NOT_RANKED,
    )
