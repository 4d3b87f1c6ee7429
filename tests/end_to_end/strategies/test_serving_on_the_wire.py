"""Serving over real TCP: the times of requests are those of the ideal network, where caches wait for one another and where they do not."""

from __future__ import annotations

from dataclasses import astuple, replace
from typing import Any

import pytest

from gradwire.analysis.fluid.estimate import estimate
from gradwire.analysis.request_times import (
    RequestTimes,
    computed_request_times,
    logged_request_times,
    replayed_request_times,
)
from gradwire.datatypes.plan import Plan
from gradwire.network.fabric import Fabric
from gradwire.runs.replay import replay_plans
from gradwire.workloads.job import Cluster, Job
from gradwire.workloads.models import model
from gradwire.workloads.models.compute_times import compute_time
from tests.shared.small_jobs import compiled
from tests.shared.small_services import there

pytestmark = pytest.mark.kernel

FABRIC = Fabric(hosts=4, rate_bps=10e9, classes=2)
ITERATIONS = 2
NEAR = 0.02
"""How far runs may be from estimates."""
CASES: dict[str, dict[str, Any]] = {
    "caches alone on the line": {"prefill": 2, "decode": 2, "rate": 10, "arrivals": "even"},
    "caches that wait for one another": {"prefill": 2, "decode": 2, "rate": 100},
}
SUMS = {"prefill_tensor": 2, "decode_tensor": 2, "rate": 100, "priorities": True}
FINE = replace(FABRIC, gso_bytes=4096)
"""Bursts for which an urgent message waits no longer than 3 us: behind one of 64 KiB it waits for 53 us, and a token for 64 sums."""


def job_of_llama() -> Job:
    profile = model("llama3.2-1b")
    compute = compute_time(profile, "h100")
    return Job(
        profile, compute, Cluster(4), profile.batch, rate_bps=FABRIC.rate_bps, fabric=FABRIC, memory_bytes_per_s=3.35e12
    )


def ideal(plan: Plan, fabric: Fabric = FABRIC) -> RequestTimes:
    times = estimate(plan, fabric, most_iterations=2, with_ops=True)
    assert times.op_end_s is not None
    return replayed_request_times(plan, times.op_end_s[-1:])


def numbers(times: RequestTimes) -> list[float]:
    return [float(each) for spread in astuple(times)[1:] for each in spread]


def served(**options: Any) -> Plan:
    asked = {"requests": 6, "prompt_tokens": 2048, "output_tokens": 4, **options}
    return compiled(job_of_llama(), "serve", asked)["serve"]


def test_requests_take_as_long_as_on_an_ideal_network() -> None:
    plans = {name: served(**options) for name, options in CASES.items()}
    replayed = replay_plans(plans, FABRIC, ITERATIONS)
    for name, plan in plans.items():
        measured = logged_request_times(plan, replayed[name].log, 1, ITERATIONS)
        assert numbers(measured) == pytest.approx(numbers(ideal(plan)), rel=NEAR, abs=50e-6), name
    waiting = plans["caches that wait for one another"]
    assert (
        there(ideal(waiting).between_tokens).tail_s > 5 * there(computed_request_times(waiting).between_tokens).tail_s
    )


def test_sums_of_activations_go_before_caches() -> None:
    """Small frames take the line 3 % longer."""
    plan = served(**SUMS)
    replayed = replay_plans({"sums": plan}, FINE, ITERATIONS)
    measured = logged_request_times(plan, replayed["sums"].log, 1, ITERATIONS)
    assert numbers(measured) == pytest.approx(numbers(ideal(plan, FINE)), rel=0.06)
