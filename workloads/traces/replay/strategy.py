"""The strategy `replay`: a recorded workload at its recorded scale, with the collective algorithms that the user chose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gradwire.faults import InputFault
from gradwire.workloads.job import Job
from gradwire.workloads.plan import Plan
from gradwire.workloads.strategy import Options, Strategy
from gradwire.workloads.traces.replay.compiler import compile_workload
from gradwire.workloads.traces.replay.routes import AllReduce, Rooted, Spread
from gradwire.workloads.traces.workload import Kind

NAME = "replay"


class ReplayOptions(Options):
    """By which algorithm each kind of collective goes. The others (all-to-alls, gathers, scatters, barriers) have only one."""

    all_reduce: AllReduce = "ring"
    """Of all-reduces."""
    all_gather: Spread = "ring"
    """Of all-gathers."""
    reduce_scatter: Spread = "ring"
    """Of reduce-scatters."""
    broadcast: Rooted = "tree"
    """Of broadcasts and of reductions to one rank: along a binomial tree, or directly between the root and each other rank."""


def compile_replay(job: Job, options: ReplayOptions) -> Mapping[str, Plan]:
    """The plan of the job's trace. Raises InputFault without one."""
    if job.trace is None:
        raise InputFault("strategy.name = 'replay': there is nothing to replay: give model.trace, or another strategy")
    algorithms: dict[Kind, str] = {
        Kind.ALL_REDUCE: options.all_reduce,
        Kind.ALL_GATHER: options.all_gather,
        Kind.REDUCE_SCATTER: options.reduce_scatter,
        Kind.BROADCAST: options.broadcast,
        Kind.REDUCE: options.broadcast,
    }
    plan = compile_workload(job.trace, job.cluster, job.costs, algorithms, job.compute_s, job.samples)
    return {NAME: replace(plan, notes=(*plan.notes, *job.trace.notes))}


REPLAY = Strategy(
    name=NAME,
    summary="a recorded workload (model.trace), its collectives by the algorithms of the options",
    source="docs/traces.md",
    options=ReplayOptions,
    compile=compile_replay,
    needs_servers=False,
)
