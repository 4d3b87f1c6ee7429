"""Serving: which messages there are and of which size, what waits for what, and what the checker refuses."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gradwire.analysis.fluid.estimate import estimate
from gradwire.analysis.request_times import computed_request_times, replayed_request_times
from gradwire.datatypes.plan import CONTROL_CLASS, Moment, OpKind, Plan
from gradwire.faults import InputFault
from gradwire.workloads import plan_size
from gradwire.workloads.checker import PlanError, check
from gradwire.workloads.divisions.job_memory import job_memory
from gradwire.workloads.job import Cluster
from gradwire.workloads.models import model
from gradwire.workloads.plan_size import MostOps, TooManyOps
from gradwire.workloads.strategy_registry import strategy
from tests.shared.examples import examples
from tests.shared.small_jobs import (
    compiled,
    dependencies,
    job_of,
    with_copies,
    with_dependencies,
    without_op,
)
from tests.shared.small_services import (
    BLOCKS,
    BYTES_PER_S,
    CACHE_BYTES,
    FABRIC,
    WIDTH,
    served,
    service,
    there,
    with_costs,
)

PROMPT = 1000
FORMS: list[tuple[int, int, dict[str, Any]]] = [
    (2, 1, {"requests": 3, "output_tokens": 3}),
    (4, 2, {"prefill_tensor": 2, "decode_tensor": 2, "requests": 3, "output_tokens": 3, "cache_transfer": "whole"}),
    (3, 1, {"prefill": 2, "requests": 4, "output_tokens": 2, "rate": 1e5}),
    (4, 1, {"prefill_tensor": 2, "decode_tensor": 2, "requests": 2, "output_tokens": 2, "priorities": True}),
]
MIXED: list[tuple[int, int, dict[str, Any]]] = [
    (5, 1, {"decode_experts": 4, "requests": 5, "output_tokens": 3, "route_shared": True}),
    (4, 2, {"prefill": 0, "decode_experts": 2, "decode_tensor": 2, "requests": 4, "output_tokens": 2}),
]
ALL = [(False, *form) for form in FORMS] + [(True, *form) for form in MIXED]


def form(number: int) -> Plan:
    mixes, workers, per_host, options = ALL[number]
    return served(service(workers, per_host=per_host, mixes=mixes), prompt_tokens=8, **options)


def sizes(plan: Plan) -> Counter[int]:
    """How many messages with data there are of each size."""
    ops = plan.ops
    return Counter(ops.size_bytes[(ops.kind == OpKind.SEND) & (ops.traffic_class != CONTROL_CLASS)].tolist())


@pytest.mark.parametrize("number", range(len(ALL)))
def test_plans_are_accepted(number: int) -> None:
    check(form(number))


@settings(max_examples=examples(30), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(number=st.integers(0, len(ALL) - 1), pick=st.integers(0, 10_000))
def test_a_message_that_is_missing_or_goes_twice_or_comes_first_is_refused(number: int, pick: int) -> None:
    plan = form(number)
    ops = plan.ops
    sends = np.flatnonzero((ops.kind == OpKind.SEND) & (ops.traffic_class != CONTROL_CLASS))
    send = int(sends[pick % len(sends)])
    receive = int(np.flatnonzero((ops.kind == OpKind.RECV) & (ops.message == send))[0])
    deps = [dep for dep in dependencies(plan) if dep[2] == 0]
    op, on, _ = deps[pick % len(deps)]
    wrong = (
        without_op(plan, send),
        without_op(plan, receive),
        with_copies(plan, [send, receive]),
        with_dependencies(plan, [*dependencies(plan), (on, op, 0)]),
    )
    for each in wrong:
        with pytest.raises(PlanError):
            check(each)


@settings(max_examples=examples(20), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(number=st.integers(0, len(ALL) - 1), pick=st.integers(0, 10_000))
def test_a_step_that_does_not_wait_for_its_cache_or_its_tokens_is_refused(number: int, pick: int) -> None:
    plan = form(number)
    ops = plan.ops
    receives = np.flatnonzero((ops.kind == OpKind.RECV) & (ops.traffic_class != CONTROL_CLASS))
    receive = int(receives[pick % len(receives)])
    with pytest.raises(PlanError):
        check(with_dependencies(plan, [dep for dep in dependencies(plan) if dep[1] != receive]))


@pytest.mark.parametrize(("transfer", "parts"), [("by-layer", BLOCKS), ("whole", 1)])
def test_a_cache_has_keys_and_values_of_each_token_and_block(transfer: str, parts: int) -> None:
    plan = served(service(2), requests=3, prompt_tokens=PROMPT, output_tokens=2, cache_transfer=transfer)
    assert sizes(plan) == {PROMPT * CACHE_BYTES * BLOCKS // parts: 3 * parts}


def test_a_step_waits_for_the_first_token_though_the_cache_is_there() -> None:
    """By layer, the last keys and values leave before the last block's second half and the output are computed."""
    plan = served(service(2), requests=1, prompt_tokens=PROMPT, output_tokens=2)
    found = times(plan)
    assert 0 < there(found.behind).median_s < 1e-6
    assert there(found.between_tokens).median_s > there(computed_request_times(plan).between_tokens).median_s


def test_each_worker_sends_the_heads_that_it_has() -> None:
    plan = served(
        service(6, per_host=2),
        prefill_tensor=2,
        decode_tensor=4,
        requests=1,
        prompt_tokens=PROMPT,
        cache_transfer="whole",
    )
    assert sizes(plan) == {PROMPT * CACHE_BYTES * BLOCKS // 4: 4, **sums(4, 1, 15)}
    of_caches = plan.ops.size_bytes == PROMPT * CACHE_BYTES * BLOCKS // 4
    sends = np.flatnonzero(of_caches & (plan.ops.kind == OpKind.SEND))
    pairs = zip(plan.ops.rank[sends].tolist(), plan.ops.peer[sends].tolist(), strict=True)
    assert set(pairs) == {(0, 2), (0, 3), (1, 4), (1, 5)}


def sums(members: int, tokens: int, steps: int) -> dict[int, int]:
    """Messages of the sums of all steps among workers on several machines: one behind the embedding and one behind each half of a block."""
    return {-(-tokens * WIDTH // members) * 2: steps * (1 + 2 * BLOCKS) * 2 * (members - 1) * members}


def test_an_answer_of_one_token_needs_no_cache() -> None:
    plan = served(service(2), requests=3, output_tokens=1)
    assert not sizes(plan)
    assert Counter(plan.moments[:, 1].tolist()) == {Moment.ARRIVED: 3, Moment.TOKEN: 3}


@pytest.mark.parametrize(("shared", "experts"), [(False, 2), (True, 3)])
def test_tokens_go_to_all_experts_in_one_format_and_back_in_another(shared: bool, experts: int) -> None:
    """Four replicas with two requests each; every other gets a quarter of what their tokens are to 2 experts, or 3 with the shared one."""
    job = service(4, mixes=True)
    plan = served(job, prefill=0, decode_experts=4, requests=8, output_tokens=1, route_shared=shared)
    there = 2 * experts * WIDTH // 4
    assert sizes(plan) == {there: 4 * 3 * BLOCKS, 2 * there: 4 * 3 * BLOCKS}


def times(plan: Plan) -> Any:
    found = estimate(plan, FABRIC, most_iterations=2, with_ops=True)
    assert found.op_end_s is not None
    return replayed_request_times(plan, found.op_end_s[-1:])


def test_a_request_by_itself_takes_what_one_works_out() -> None:
    """Every layer takes 1 us for each token, and for each pair of tokens that look at one another an eighth of that; the last norm and the
    output are of one token."""
    plan = served(service(2), requests=1, prompt_tokens=PROMPT, output_tokens=3, cache_transfer="whole")
    layers = len(service(2).profile.layers)
    prompt_s = ((layers - 2 - BLOCKS) * PROMPT + 2 + BLOCKS * PROMPT**2 / 8) * 1e-6
    cache_s = PROMPT * CACHE_BYTES * BLOCKS / BYTES_PER_S
    steps_s = [(layers - BLOCKS + BLOCKS * cached / 8) * 1e-6 for cached in (PROMPT + 1, PROMPT + 2)]
    found, alone = times(plan), computed_request_times(plan)
    assert there(found.first_token).median_s == pytest.approx(prompt_s, rel=1e-6)
    assert there(alone.first_token).median_s == pytest.approx(prompt_s, rel=1e-6)
    assert there(found.cache).median_s == there(found.behind).median_s == pytest.approx(cache_s, rel=5e-3)
    assert there(found.between_tokens).median_s == pytest.approx((cache_s + sum(steps_s)) / 2, rel=1e-3)
    assert there(alone.between_tokens).median_s == pytest.approx(sum(steps_s) / 2, rel=1e-6)


def test_a_step_takes_as_long_as_reading_weights_and_caches() -> None:
    rate = 1e6
    plan = served(service(1, memory_bytes_per_s=rate), prefill=0, requests=2, prompt_tokens=PROMPT, output_tokens=1)
    profile = service(1).profile
    read_bytes = 2 * (profile.parameters - profile.layers[0].parameters) + 2 * BLOCKS * PROMPT * CACHE_BYTES
    assert there(times(plan).first_token).median_s == pytest.approx(read_bytes / rate, rel=1e-3)


def test_sums_within_a_machine_take_time_and_no_messages() -> None:
    options: dict[str, Any] = {
        "requests": 1,
        "prompt_tokens": PROMPT,
        "output_tokens": 1,
        "prefill_tensor": 2,
        "decode_tensor": 2,
    }
    job = service(4, per_host=2)
    free = there(times(served(job, **options)).first_token).median_s
    slow = times(served(with_costs(job, local_bytes_per_s=1e9), **options)).first_token.median_s
    assert slow - free == pytest.approx((1 + 2 * BLOCKS) * PROMPT * WIDTH * 2 / 1e9, rel=1e-6)


@pytest.mark.parametrize(
    ("name", "bytes_of_token"), [("deepseek-v3", 70_272), ("llama3-405b", 516_096), ("opt-66b", 2_359_296)]
)
def test_caches_of_known_models(name: str, bytes_of_token: int) -> None:
    """The first two: Zhao et al., Insights into DeepSeek-V3, ISCA 2025, table 1. OPT-66B's 512 tokens are DistServe's 1.13 GB (in GiB)."""
    profile = model(name)
    job = job_of(profile, Cluster(2))
    plan = compiled(
        job,
        "serve",
        {"requests": 1, "prompt_tokens": 1, "output_tokens": 2, "step_time": "0s", "cache_transfer": "whole"},
    )
    assert sizes(plan["serve"]) == {bytes_of_token: 1}


@pytest.mark.parametrize(
    ("workers", "options", "named"),
    [
        (3, {}, "make 2"),
        (2, {"decode_experts": 3, "prefill": 0}, "make 3"),
        (5, {"decode_experts": 4}, "has no experts"),
    ],
)
def test_what_does_not_go_together_is_refused(workers: int, options: dict[str, Any], named: str) -> None:
    with pytest.raises(InputFault, match=named):
        served(service(workers), **options)


def test_a_device_without_a_known_memory_needs_the_time_of_a_step() -> None:
    with pytest.raises(InputFault, match="step_time: missing"):
        served(service(2, memory_bytes_per_s=None))
    check(served(service(2, memory_bytes_per_s=None), step_time="1ms"))


def test_memory_is_that_of_weights_and_caches() -> None:
    job, how = service(2), strategy("serve")
    options = {"requests": 10, "batch": 4, "prompt_tokens": 90, "output_tokens": 10}
    found = job_memory(job, how, how.options.model_validate(options))
    assert found.weights_bytes == 2 * job.profile.parameters
    assert found.activations_bytes == 4 * 100 * BLOCKS * CACHE_BYTES


@pytest.mark.parametrize(
    ("mixes", "options"),
    [
        (False, {"requests": 3, "output_tokens": 1}),
        (False, {"requests": 5, "output_tokens": 4, "batch": 2}),
        (False, {"requests": 9, "output_tokens": 7, "rate": 1e5}),
        (True, {"requests": 4, "prefill": 0, "decode_experts": 2, "output_tokens": 3}),
        (True, {"requests": 4, "output_tokens": 3}),
    ],
)
def test_a_plan_says_no_more_ops_than_it_makes(
    mixes: bool, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[int] = []
    monkeypatch.setattr(MostOps, "refuse", lambda _, of, ops, more=False: said.append(ops))
    plan = served(service(2, mixes=mixes), **options)
    assert 0 < max(said) <= len(plan.ops)


@pytest.mark.parametrize(
    "options",
    [
        {"requests": 1, "output_tokens": 10_000_000},
        {"requests": 100_000, "output_tokens": 10_000, "batch": 16},
    ],
)
def test_a_plan_that_is_too_large_is_refused_before_it_is_made(options: dict[str, Any]) -> None:
    began_s = time.process_time()
    with pytest.raises(TooManyOps):
        served(service(2), **options)
    assert time.process_time() - began_s < 60


def test_steps_of_a_timetable_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers that come one after the other have as many steps as tokens, and no full batches."""
    monkeypatch.setattr(plan_size, "MOST_OPS", 5000)
    with pytest.raises(TooManyOps):
        served(service(2), requests=300, output_tokens=30, rate=1e-3)
