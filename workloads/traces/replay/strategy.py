"""The strategy `replay`: a recorded workload at its recorded scale, with the collective algorithms that the user chose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal, Self

from pydantic import Field, model_validator

from gradwire.faults import InputFault
from gradwire.workloads.job import Job
from gradwire.workloads.plan import Int64, Plan
from gradwire.workloads.strategy import Options, Strategy
from gradwire.workloads.traces.replay.compiler import compile_workload
from gradwire.workloads.traces.replay.routes import AllReduce, Rooted, Spread
from gradwire.workloads.traces.replay.urgency import (
    MOST_CLASSES,
    classes_as_recorded,
    classes_by_need,
    recorded_priorities,
)
from gradwire.workloads.traces.workload import Kind, Workload

NAME = "replay"
DEFAULT_CLASSES = 4
"""Of calls that are divided by need."""


class ReplayOptions(Options):
    """By which algorithm each kind of collective goes, and which calls go first. All-to-alls, gathers, scatters and barriers have one
    algorithm only."""

    all_reduce: AllReduce = "ring"
    """Of all-reduces."""
    all_gather: Spread = "ring"
    """Of all-gathers."""
    reduce_scatter: Spread = "ring"
    """Of reduce-scatters."""
    broadcast: Rooted = "tree"
    """Of broadcasts and of reductions to one rank: along a binomial tree, or directly between the root and each other rank."""
    priorities: Literal["none", "recorded", "needed-first"] = "none"
    """Which calls the network serves first: all alike; by the priorities that the trace has (Chakra's `comm_priority`); or those first
    that something waits for soonest after their start, by the trace's own durations."""
    classes: int | None = Field(None, ge=2, le=MOST_CLASSES)
    """With priorities = "needed-first": traffic classes, among which calls are divided evenly; 4 by default."""

    @model_validator(mode="after")
    def _classes_have_an_effect(self) -> Self:
        if self.classes is not None and self.priorities != "needed-first":
            raise ValueError(f"classes = {self.classes}: needs priorities = 'needed-first'")
        return self

    @property
    def needed_classes(self) -> int:
        """Classes that the options alone ask for; recorded priorities need as many as the trace has (`classes_of`)."""
        return (self.classes or DEFAULT_CLASSES) if self.priorities == "needed-first" else 1


def classes_of(trace: Workload, options: Options) -> int:
    """Traffic classes that a trace needs from the fabric. Raises InputFault where it has no priorities, or too many."""
    if not isinstance(options, ReplayOptions):
        return 1
    if options.priorities == "recorded":
        return len(recorded_priorities(trace))
    return options.needed_classes


def _classified(trace: Workload, options: ReplayOptions) -> tuple[Int64 | None, tuple[str, ...]]:
    """The class of each task's messages, and what to say of it; None for one class. Raises InputFault."""
    if options.priorities == "recorded":
        distinct = recorded_priorities(trace).tolist()
        shown = ", ".join(f"class {place}: {priority}" for place, priority in enumerate(distinct))
        return classes_as_recorded(trace), (f"priorities as recorded, the larger first: {shown}",)
    if options.priorities == "needed-first":
        count = options.needed_classes
        return classes_by_need(trace, count), (
            f"priorities by need: calls in order of their slack, evenly in {count} classes",
        )
    return None, ()


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
    classes, told = _classified(job.trace, options)
    plan = compile_workload(job.trace, job.cluster, job.costs, algorithms, job.compute_s, job.samples, classes)
    return {NAME: replace(plan, notes=(*plan.notes, *job.trace.notes, *told))}


REPLAY = Strategy(
    name=NAME,
    summary="a recorded workload (model.trace), its collectives by the algorithms of the options",
    source="docs/traces.md",
    options=ReplayOptions,
    compile=compile_replay,
    classes=lambda options: options.needed_classes,
    needs_servers=False,
)
