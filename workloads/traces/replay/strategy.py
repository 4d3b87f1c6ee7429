"""The strategy `replay`: a recorded workload at its recorded scale, with the collective algorithms that the user chose."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from gradwire.faults import InputFault
from gradwire.workloads.engines.collectives.choice import ALGORITHMS, AUTO, PIECE_BYTES
from gradwire.workloads.engines.collectives.contract import Collective
from gradwire.workloads.engines.collectives.rules import rule_of, rule_type
from gradwire.workloads.job import Job
from gradwire.workloads.plan import Plan
from gradwire.workloads.scenario.fields import SizeBytes
from gradwire.workloads.strategy import Options, Strategy
from gradwire.workloads.traces.replay.compiler import compile_workload
from gradwire.workloads.traces.replay.fusion import fused
from gradwire.workloads.traces.replay.routes import ONLY, Routes, option_of

NAME = "replay"
IN_RINGS = ("all_reduce", "all_gather", "reduce_scatter")


class ReplayOptions(Options):
    """By which algorithm each kind of collective goes (docs/collectives.md). Gathers, scatters and barriers have only one."""

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
    """Rings that all-reduces, all-gathers and reduce-scatters by "ring" are divided among, each over connections of its own."""
    piece: SizeBytes = Field(PIECE_BYTES, ge=1)
    """What a double tree, or the ring of a broadcast or reduction, passes on at a time."""
    fuse: SizeBytes | None = Field(None, ge=1)
    """Neighbouring all-reduces of a group are made one as long as they are not larger than this together, and none of them waits for
    another. None: each stays as it was recorded."""


def compile_replay(job: Job, options: ReplayOptions) -> Mapping[str, Plan]:
    """The plan of the job's trace. Raises InputFault without one."""
    if job.trace is None:
        raise InputFault("strategy.name = 'replay': there is nothing to replay: give model.trace, or another strategy")
    trace = job.trace if options.fuse is None else fused(job.trace, options.fuse)
    return {NAME: compile_workload(trace, job.cluster, job.costs, routes_of(options), job.compute_s, job.samples)}


def routes_of(options: ReplayOptions) -> Routes:
    """What the options say. Raises InputFault for channels where nothing goes in rings."""
    rules = {
        kind: rule_of(getattr(options, option_of(kind)), ALGORITHMS[kind]) for kind in Collective if kind not in ONLY
    }
    named = {name for kind, rule in rules.items() if option_of(kind) in IN_RINGS for name in rule.algorithms}
    if options.channels > 1 and not named & {"ring", AUTO}:
        raise InputFault(
            f"strategy.options.channels = {options.channels}: nothing goes by ring; leave it out, or set one of {', '.join(IN_RINGS)} to 'ring'"
        )
    return Routes(rules, options.piece, options.channels)


REPLAY = Strategy(
    name=NAME,
    summary="a recorded workload (model.trace), its collectives by the algorithms of the options",
    source="docs/traces.md",
    options=ReplayOptions,
    compile=compile_replay,
    needs_servers=False,
)
