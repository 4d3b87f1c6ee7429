"""The compiled agent's interpreter does the same as the one in Python: on a simulated network, the same log to the
nanosecond."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from contextlib import closing
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gradwire.agents.interpreter import Interpreter, Outgoing
from gradwire.datatypes.plan import Contributions, Plan
from gradwire.faults import InternalFault
from gradwire.workloads.job import Cluster, Costs, Job
from gradwire.workloads.models.profile import LayerKind
from tests.shared.examples import examples
from tests.shared.simulation import Simulation, Tamper, all_ranks
from tests.shared.small_jobs import choices, compiled, job_of, jobs, profile_of
from tests.unit.agents.compiled.driven import DrivenInterpreter

quick = settings(
    max_examples=examples(150),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
Row = tuple[int, int, int]


def simulated(plan: Plan, interpreter: Any, late_ns: int, apart_ns: int) -> tuple[Any, ...]:
    simulation = Simulation(plan, [interpreter], late_ns, apart_ns)
    log = simulation.run()
    rows = [getattr(log, name).tolist() for name in ("iteration", "op", "nominal_start_ns", "start_ns", "end_ns")]
    return rows, simulation.sent_order, list(interpreter.lateness_ns)


def assert_same(library: ctypes.CDLL, plan: Plan, iterations: int, late_ns: int = 0, apart_ns: int = 0) -> None:
    """Rows of the log in their order, messages in theirs, and how late timers were."""
    in_python = simulated(plan, Interpreter(plan, all_ranks(plan), iterations), late_ns, apart_ns)
    with closing(DrivenInterpreter(library, plan, all_ranks(plan), iterations)) as driven:
        assert simulated(plan, driven, late_ns, apart_ns) == in_python


@quick
@given(
    job=jobs,
    choice=choices,
    iterations=st.integers(1, 4),
    late_ns=st.sampled_from([0, 300]),
    apart_ns=st.sampled_from([0, 7]),
)
def test_random_jobs(
    library: ctypes.CDLL, job: Job, choice: tuple[str, Mapping[str, Any]], iterations: int, late_ns: int, apart_ns: int
) -> None:
    for plan in compiled(job, *choice).values():
        assert_same(library, plan, iterations, late_ns, apart_ns)


PROFILE = profile_of([(LayerKind.CONV, [250, 30]), (LayerKind.CONV, [400]), (LayerKind.FC, [1000, 100])])


@pytest.mark.parametrize(
    "name", ["tictac", "tictac-slicing", "p3", "p3-slicing", "kvstore", "ring", "ddp", "horovod", "butterfly"]
)
@pytest.mark.parametrize("workers", [2, 4])
def test_strategies_with_counted_queues_priorities_and_latencies(library: ctypes.CDLL, name: str, workers: int) -> None:
    costs = Costs(aggregation_bytes_per_s=1e6, message_latency_s=1e-5)
    for plan in compiled(job_of(PROFILE, Cluster(workers, workers), costs=costs), name, {}).values():
        assert_same(library, plan, 3, 300, 7)


def test_more_workers_than_a_word_has_bits(library: ctypes.CDLL) -> None:
    plan = compiled(job_of(PROFILE, Cluster(70, 1)), "ring", {})
    assert_same(library, next(iter(plan.values())), 2, 0, 7)


def nothing(message: Outgoing) -> Contributions:
    return Contributions(message.contributions.iteration, 0)


def everybody(message: Outgoing) -> Contributions:
    return Contributions(message.contributions.iteration, 0b1111)


def older(message: Outgoing) -> Contributions:
    return Contributions(message.contributions.iteration - 1, message.contributions.workers)


@pytest.mark.parametrize("tamper", [nothing, everybody, older])
@pytest.mark.parametrize("name", ["vanilla", "ring"])
def test_wrong_contributions_are_found_in_the_same_words(library: ctypes.CDLL, name: str, tamper: Tamper) -> None:
    plan = next(iter(compiled(job_of(PROFILE, Cluster(4, 2)), name, {}).values()))
    said = []
    with closing(DrivenInterpreter(library, plan, all_ranks(plan), 2)) as driven:
        for interpreter in (Interpreter(plan, all_ranks(plan), 2), driven):
            simulation = Simulation(plan, [interpreter], tamper=tamper)  # type: ignore[list-item]
            with pytest.raises(InternalFault) as raised:
                simulation.run()
            said.append(str(raised.value))
    assert said[0] == said[1]


def test_a_message_that_nobody_waits_for(library: ctypes.CDLL) -> None:
    plan = next(iter(compiled(job_of(PROFILE, Cluster(2, 2)), "ring", {}).values()))
    compute = int(np.flatnonzero(plan.ops.message < 0)[0])
    for message, iteration in ((compute, 0), (-1, 0), (10**9, 0), (int(plan.ops.message.max()), 2)):
        with closing(DrivenInterpreter(library, plan, all_ranks(plan), 2)) as driven:
            driven.start(0)
            with pytest.raises(InternalFault, match="no RECV waits"):
                driven.arrived(message, 0, iteration, Contributions(0, 1), 0, 10)
