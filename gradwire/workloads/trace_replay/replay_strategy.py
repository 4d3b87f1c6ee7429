"""The strategy `replay`: a recorded workload at its recorded scale, with collective algorithms of the user's choice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal, Self

from pydantic import Field, model_validator

from gradwire.datatypes.plan import Int64, Plan
from gradwire.faults import InputFault
from gradwire.workloads.engines.collectives.choice import ALGORITHMS, AUTO, PIECE_BYTES, adds_in_network
from gradwire.workloads.engines.collectives.collective_routes import ONLY, Routes, Rule, option_of, rule_of, rule_type
from gradwire.workloads.engines.collectives.in_network import Switches
from gradwire.workloads.engines.collectives.schedule import Collective
from gradwire.workloads.fields import SizeBytes
from gradwire.workloads.job import Job
from gradwire.workloads.strategy import Options, Strategy
from gradwire.workloads.trace_replay.compiler import compile_workload
from gradwire.workloads.trace_replay.fusion import fuse_calls
from gradwire.workloads.trace_replay.urgency import (
    MOST_CLASSES,
    classes_as_recorded,
    classes_by_need,
    recorded_priorities,
)
from gradwire.workloads.traces.workload import Workload

NAME = "replay"
DEFAULT_CLASSES = 4
"""Of calls that are divided by need."""
IN_RINGS = ("all_reduce", "all_gather", "reduce_scatter")


class ReplayOptions(Options):
    """The algorithm of each kind of collective (docs/collectives.md), and the calls that go first.

    Gathers, scatters and barriers have one algorithm only.
    """

    all_reduce: rule_type(Collective.ALL_REDUCE) = "ring"  # type: ignore[valid-type]
    """Of all-reduces."""
    all_gather: rule_type(Collective.ALL_GATHER) = "ring"  # type: ignore[valid-type]
    """Of all-gathers."""
    reduce_scatter: rule_type(Collective.REDUCE_SCATTER) = "ring"  # type: ignore[valid-type]
    """Of reduce-scatters."""
    all_to_all: rule_type(Collective.ALL_TO_ALL) = "direct"  # type: ignore[valid-type]
    """Of all-to-alls."""
    broadcast: rule_type(Collective.BROADCAST, Collective.REDUCE) = "tree"  # type: ignore[valid-type]
    """Of broadcasts and of reductions to one rank."""
    channels: int = Field(1, ge=1, le=64)
    """Rings that all-reduces, all-gathers and reduce-scatters by "ring" are divided among, each over separate
    connections."""
    piece: SizeBytes = Field(PIECE_BYTES, ge=1)
    """What a double tree, or the ring of a broadcast or reduction, passes on at a time."""
    fuse: SizeBytes | None = Field(None, ge=1)
    """Neighbouring all-reduces of a group are made one as long as they are not larger than this together, and none of
    them waits for another. None: each stays as it was recorded."""
    priorities: Literal["none", "recorded", "needed-first"] = "none"
    """Which calls the network serves first: all alike; by the priorities that the trace has (Chakra's
    `comm_priority`); or those first that something waits for soonest after their start, by the trace's own
    durations."""
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


def _classify(trace: Workload, options: ReplayOptions) -> tuple[Int64 | None, tuple[str, ...]]:
    """The class of each task's messages, and what to say of it; None for one class. Raises InputFault."""
    if options.priorities == "recorded":
        distinct = recorded_priorities(trace).tolist()
        shown = ", ".join(f"class {number}: {priority}" for number, priority in enumerate(distinct))
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
    trace = job.trace if options.fuse is None else fuse_calls(job.trace, options.fuse)
    classes, notes = _classify(trace, options)
    routes, adding = routes_of(options), adds_in_network_by(options)
    switches = Switches.of(job) if adding else None
    plan = compile_workload(trace, job.cluster, job.costs, routes, job.compute_s, job.samples, classes, switches)
    return {NAME: replace(plan, notes=(*job.trace.notes, *notes, *plan.notes))}


def rules_of(options: ReplayOptions) -> dict[Collective, Rule]:
    """The rule of each kind that has a choice."""
    return {
        kind: rule_of(getattr(options, option_of(kind)), ALGORITHMS[kind]) for kind in Collective if kind not in ONLY
    }


def adds_in_network_by(options: ReplayOptions) -> bool:
    """Whether switches have to add."""
    return any(adds_in_network(kind, rule.algorithms) for kind, rule in rules_of(options).items())


def routes_of(options: ReplayOptions) -> Routes:
    """What the options say. Raises InputFault for channels where nothing goes in rings."""
    rules = rules_of(options)
    named = {name for kind, rule in rules.items() if option_of(kind) in IN_RINGS for name in rule.algorithms}
    if options.channels > 1 and not named & {"ring", AUTO}:
        raise InputFault(
            f"strategy.options.channels = {options.channels}: nothing goes by ring; leave it out, "
            f"or set one of {', '.join(IN_RINGS)} to 'ring'"
        )
    return Routes(rules, options.piece, options.channels)


REPLAY = Strategy(
    name=NAME,
    summary="a recorded workload (model.trace), its collectives by the algorithms of the options",
    source="docs/traces.md",
    options=ReplayOptions,
    compile=compile_replay,
    classes=lambda options: options.needed_classes,
    aggregators=adds_in_network_by,
    needs_servers=False,
)
