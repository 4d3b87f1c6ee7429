"""Checks that the jobs of a plan from a file are jobs of that plan, so that later uses of a job stay within its ranks
and ops."""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from gradwire.datatypes.plan import Plan, PlanJob
from gradwire.datatypes.plan_of_job import plan_of_job
from gradwire.workloads.checker import check_references

LONGEST_S = 1e9
"""An iteration of thirty years."""


def refuse_unsound_jobs(plan: Plan) -> None:
    """Raises ValueError for jobs that do not divide the plan's ranks and ops among them. Its references must be sound.

    PlanError for one that has references to other jobs.
    """
    if not plan.jobs:
        return
    ranks = ops = 0
    for job in plan.jobs:
        _refuse_types(job)
        if (job.first_rank, job.first_op) != (ranks, ops) or min(job.ranks, job.ops, job.iterations) < 1:
            raise ValueError("its jobs do not follow one another")
        if job.delays < 0 or job.samples < 0 or not 0 <= job.compute_s <= LONGEST_S:
            raise ValueError("its jobs' numbers are out of range")
        ranks, ops = ranks + job.ranks, job.end_op
    if (ranks, ops) != (len(plan.rank_role), len(plan.ops)) or len({job.name for job in plan.jobs}) < len(plan.jobs):
        raise ValueError("its jobs do not have its ranks and ops")
    if any(
        len(sets) != len(plan.chunk_bytes) or (sets < 0).any()
        for sets in (plan.chunk_contributors, plan.chunk_receivers)
    ):
        raise ValueError("its chunks are not each one job's")
    for job in plan.jobs:
        _refuse_strangers(plan, job)
        check_references(plan_of_job(plan, job))


def _refuse_types(job: PlanJob) -> None:
    for each in fields(job):
        value = getattr(job, each.name)
        wanted = str if each.name == "name" else (int, float) if each.name == "compute_s" else int
        if not isinstance(value, wanted) or isinstance(value, bool):
            raise ValueError(f"{each.name} of a job is {value!r:.60}")


def _refuse_strangers(plan: Plan, job: PlanJob) -> None:
    """The job's ops are at its ranks, and each of its workers begins and ends an iteration among them."""
    own = plan.ops.rank[job.first_op : job.end_op]
    if (own < job.first_rank).any() or (own >= job.first_rank + job.ranks).any():
        raise ValueError("an op is at another job's rank")
    last = job.first_op + (job.iterations - 1) * job.ops
    workers = np.flatnonzero((plan.workers >= job.first_rank) & (plan.workers < job.first_rank + job.ranks))
    begins, ends = plan.begin_op[workers], plan.end_op[workers]
    of_job = (begins >= job.first_op) & (begins < job.end_op) & (ends >= last) & (ends < last + job.ops)
    if not len(workers) or not of_job.all():
        raise ValueError("a worker's iteration begins or ends at another job's op")
