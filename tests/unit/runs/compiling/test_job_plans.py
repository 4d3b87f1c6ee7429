"""Scenarios of several jobs, as they are compiled and estimated, and what is refused."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from gradwire.faults import InputFault
from gradwire.runs.compiling.job_plans import near_ratio, plans_of_jobs, relative_times_of
from gradwire.runs.estimation import estimate_points, without_effect
from gradwire.runs.planned import refuse_misfits
from gradwire.scenario.loading import Scenario, scenario_of
from gradwire.scenario.resolution.planned_faults import planned_faults
from gradwire.workloads.checker import check
from tests.shared.parts import tells

LAYER = {"name": "only", "size": ["40MB"], "forward": "10ms", "backward": "24ms"}
JOB: dict[str, Any] = {
    "model": {"name": "toy", "layers": [LAYER]},
    "strategy": {"name": "ring"},
    "cluster": {"workers": 2},
}
RACKS = {"rate": "10gbit", "topology": "leaf-spine", "leaves": 2, "spines": 1, "oversubscription": 2}


def two_jobs(second: dict[str, Any] | None = None, **more: Any) -> Scenario:
    jobs = {"a": {**JOB, "hosts": ["h1", "h3"]}, "b": {**JOB, "hosts": ["h2", "h4"], **(second or {})}}
    return scenario_of(copy.deepcopy({"title": "Two", "fabric": RACKS, "job": jobs, **more}))


def times(scenario: Scenario) -> list[tuple[str, float, float]]:
    """Job, and its time in seconds and over its time alone."""
    rows = estimate_points(scenario.points, 1, "departure")
    return [(r.parameters["job"], r.iteration_time_s, r.iteration_time_s / (r.alone_time_s or 0)) for r in rows]


def compile_all(second: dict[str, Any], more: dict[str, Any]) -> None:
    scenario = two_jobs(second, **more)
    refuse_misfits(scenario.points)
    plans_of_jobs(scenario.points[0].resolved)


def test_a_shifted_start_interleaves_phases() -> None:
    together, apart = times(two_jobs()), times(two_jobs({"start": "34ms"}))
    assert [job for job, *_ in together] == ["a", "b"]
    assert [ratio for *_, ratio in together] == pytest.approx([1.5, 1.5], rel=0.01)
    assert [ratio for *_, ratio in apart] == pytest.approx([1.0, 1.0], rel=0.01)


def test_a_priority_keeps_the_other_job_away() -> None:
    (_, _, first), (_, _, second) = times(two_jobs({"priority": 1}))
    assert first == pytest.approx(1.0, rel=0.01)
    assert second >= 1.0


def test_a_faster_job_has_several_iterations_in_one_of_the_plan() -> None:
    small = {"name": "toy", "layers": [{**LAYER, "size": ["10MB"], "forward": "2ms", "backward": "5ms"}]}
    point = two_jobs({"model": small}).points[0].resolved
    (plan,) = plans_of_jobs(point).values()
    slow, fast = plan.jobs
    assert slow.iterations < fast.iterations
    check(plan, relative_times_of(point, plan))


def test_a_job_that_gets_little_beside_another_has_as_many_iterations_as_both_can_be_measured_with() -> None:
    """The urgent one leaves a fiftieth of the link, so it ends its iterations before the other's first one has ended."""
    urgent = {"name": "toy", "layers": [{**LAYER, "forward": "0.3ms", "backward": "0.4ms"}]}
    jobs = {"a": {**JOB, "hosts": ["h1", "h3"], "priority": 1}, "b": {**JOB, "hosts": ["h2", "h4"], "model": urgent}}
    scenario = scenario_of(copy.deepcopy({"title": "Two", "fabric": RACKS, "job": jobs}))
    (plan,) = plans_of_jobs(scenario.points[0].resolved).values()
    starved, first = plan.jobs
    assert first.iterations > 20 * starved.iterations


def test_iterations_are_in_the_smallest_ratio_that_is_near() -> None:
    assert near_ratio([1.0, 1.02]) == [1, 1]
    assert near_ratio([1.0, 1.5]) == [2, 3]
    assert near_ratio([1.0, 7.1, 1.0]) == [1, 7, 1]


@pytest.mark.parametrize(
    ("second", "more", "said"),
    [
        ({"hosts": ["h2", "h99"]}, {}, "job.b.hosts: no host is called 'h99'"),
        ({"hosts": ["h1", "h4"]}, {}, "job.b.hosts: h1: job 'a' has it"),
        ({"start": "10s"}, {}, "job.b.start = 10 s: must be at most"),
        ({"strategy": {"name": "rings"}}, {}, "job.b.strategy.name: .*rings"),
        ({"colour": 1}, {}, "job.b.colour"),
        ({}, {"model": {"name": "other", "layers": [LAYER]}}, "leave out \\[model\\]"),
        ({}, {"fault": {"x": {"kind": "link-down", "link": "h9"}}}, "fault.x.link = 'h9': no link is called"),
        (
            {},
            {"fault": {"x": {"kind": "dead-worker", "worker": 0}}},
            "fault.x.job: missing; say whose worker it is: a, b",
        ),
        (
            {},
            {"fault": {"x": {"kind": "dead-worker", "worker": 2, "job": "b"}}},
            "worker = 2: workers of job b are 0 to 1",
        ),
        ({}, {"fault": {"x": {"kind": "dead-worker", "worker": 0, "job": "c"}}}, "job = 'c': jobs are a, b"),
        ({}, {"fault": {"x": {"kind": "link-down", "link": "h1", "job": "a"}}}, "fault.x.job: has no effect"),
        ({}, {"program": {"x": {"command": "true", "hosts": ["h99"]}}}, "program.x.hosts: no host is called 'h99'"),
    ],
)
def test_what_does_not_fit_together_is_refused(second: dict[str, Any], more: dict[str, Any], said: str) -> None:
    with pytest.raises(InputFault, match=said):
        compile_all(second, more)


def test_a_worker_of_a_job_is_numbered_after_those_of_the_jobs_before() -> None:
    slow = {"kind": "slow-worker", "job": "b", "worker": 1, "factor": 2}
    point = two_jobs(fault={"slow": slow}).points[0]
    (planned,) = planned_faults(point.section.fault, point.resolved.fabric, point.resolved.workers_of_jobs)
    assert planned.worker == 3
    assert tells(planned.what, "worker 1", "job b", "2 times")


def test_programs_and_tenants_have_hosts_and_classes_beside_the_jobs() -> None:
    probe = {"command": "true", "hosts": ["h6"], "traffic_class": 2}
    tenant = {"kind": "tenant", "source": "h1", "destination": "h8", "rate": "1gbit"}
    racks = {**RACKS, "oversubscription": 4}
    fabric = two_jobs(program={"probe": probe}, fault={"other": tenant}, fabric=racks).points[0].resolved.fabric
    assert (fabric.hosts, fabric.classes, fabric.faulty) == (8, 3, False)


def test_a_network_is_as_large_as_all_jobs_need_where_one_job_would_not_fill_its_leaves() -> None:
    racks = {**RACKS, "leaves": 3}
    second = {"hosts": ["h2", "h4", "h9"], "cluster": {"workers": 3}}
    point = two_jobs(second, fabric=racks).points[0].resolved
    assert point.fabric.hosts == 9
    compile_all(second, {"fabric": racks})


def test_jobs_whose_connections_are_hashed_are_alone_on_the_same_ways() -> None:
    """One of two spines is five times as slow; each job has one connection each way, and which spine it takes is luck."""
    racks = {**RACKS, "spines": 2, "routing": "ecmp", "link": {"leaf*-spine2": {"rate": "2gbit"}}}
    ratios = [ratio for seed in range(1, 7) for *_, ratio in times(two_jobs(fabric=racks, run={"seed": seed}))]
    assert min(ratios) > 0.999
    assert max(ratios) < 2.01


def test_faults_and_programs_leave_plan_and_estimate_as_they_are() -> None:
    program = {"x": {"command": "true", "hosts": ["h1"]}}
    both = two_jobs(program=program, fault={"cut": {"kind": "link-down", "link": "h1"}})
    (plan,), (same,) = (plans_of_jobs(each.points[0].resolved).values() for each in (two_jobs(), both))
    assert plan.digest() == same.digest()
    assert times(both) == times(two_jobs())
    assert [line.partition(":")[0].split()[-1] for line in without_effect(both.points)] == ["programs", "faults"]
