"""Geryon's three contenders as they can be named in a scenario: vanilla, partition-slicing, geryon."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from gradwire.workloads.engines.placement import in_rows, whole_tensors
from gradwire.workloads.engines.tensorflow import ClassOfLayer, compile_parameter_server
from gradwire.workloads.job import Job
from gradwire.workloads.plan import Plan
from gradwire.workloads.strategies.geryon import coarse_rule, suits_coarse_rule, threshold_rule
from gradwire.workloads.strategies.strategy import Options, Strategy

SLICE_PARAMETERS = 1024 * 1024
"""Geryon's default slicing threshold, "1,024K" parameters (section V-B): slice counts 320, 440, 680 fit parameters, not bytes."""


class VanillaOptions(Options):
    """Vanilla has nothing to choose."""


class PartitionOptions(Options):
    """slice_parameters: shards with more parameters are sliced; 0 slices none."""

    slice_parameters: int = Field(SLICE_PARAMETERS, ge=0)


class GeryonOptions(PartitionOptions):
    """rule: 'coarse' (convolutions high, fully connected low), 'threshold', 'search' (tries the coarse rule and each threshold), or
    'paper': the search for models with few parameters in fully connected layers, and the coarse rule for the others.

    thresholds: urgencies, which are 0 to 1 (below 0: all layers are urgent); for 'threshold', N of them make N + 1 priorities.
    partition: whether tensors are cut; without, they stay whole and only the flows' priorities differ from vanilla (Fig. 5).
    """

    partition: bool = True
    rule: Literal["paper", "coarse", "threshold", "search"] = "paper"
    thresholds: tuple[Annotated[float, Field(ge=-1, le=1)], ...] = Field((0.25, 0.5, 0.75), min_length=1)


def _one_class(_: int) -> int:
    return 0


def _vanilla(job: Job, _: VanillaOptions) -> Mapping[str, Plan]:
    pieces = whole_tensors(job.profile, job.cluster.servers)
    return {"vanilla": compile_parameter_server(job, pieces, _one_class, "vanilla")}


def _partition_slicing(job: Job, options: PartitionOptions) -> Mapping[str, Plan]:
    pieces = in_rows(job.profile, job.cluster.servers, options.slice_parameters or None)
    return {"partition-slicing": compile_parameter_server(job, pieces, _one_class, "partition-slicing")}


def _geryon(job: Job, options: GeryonOptions) -> Mapping[str, Plan]:
    pieces = whole_tensors(job.profile, job.cluster.servers)
    if options.partition:
        pieces = in_rows(job.profile, job.cluster.servers, options.slice_parameters or None)
    rule = options.rule
    if rule == "paper":
        rule = "coarse" if suits_coarse_rule(job.profile) else "search"
    rules: dict[str, ClassOfLayer] = {}
    if rule in ("coarse", "search"):
        rules["coarse"] = coarse_rule(job.profile)
    if rule == "threshold":
        rules[f"thresholds {options.thresholds}"] = threshold_rule(job.profile, list(options.thresholds))
    if rule == "search":
        rules |= {f"threshold {value:g}": threshold_rule(job.profile, [value]) for value in options.thresholds}
    return {label: compile_parameter_server(job, pieces, rule, f"geryon, {label}") for label, rule in rules.items()}


def _geryon_classes(options: GeryonOptions) -> int:
    return len(options.thresholds) + 1 if options.rule == "threshold" else 2


STRATEGIES = (
    Strategy(
        "vanilla",
        "TensorFlow's parameter server: whole tensors round robin, random pull order, global barrier",
        "Geryon, section V-A (baseline); TicTac, section 2; NetOps, section 3",
        VanillaOptions,
        _vanilla,
        classes=lambda _: 1,
    ),
    Strategy(
        "partition-slicing",
        "vanilla, with tensors cut by rows into a shard a server, and large shards into slices",
        "Geryon, sections IV and V-B",
        PartitionOptions,
        _partition_slicing,
        classes=lambda _: 1,
    ),
    Strategy(
        "geryon",
        "partition and slicing, with flows of different priority for urgent and less urgent layers",
        "Geryon, section III",
        GeryonOptions,
        _geryon,
        classes=_geryon_classes,
    ),
)
