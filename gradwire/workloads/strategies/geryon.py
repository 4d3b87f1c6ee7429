"""Geryon: two (or more) flows of different priority between each worker and server, so that the network itself
schedules.

Source: Geryon, sections III to V. The iteration: workloads/engines/parameter_server.py.

Partition and slicing (sections IV and V-B): tensors are cut by rows into a shard per server, and large shards into
slices. Urgency (section III): that of layer l of L (counted from 1, layers with parameters only) is 1 - l/L. Coarse
rule (III-B): convolutional layers are urgent, fully connected layers are not. Threshold rule (III-C): layers are
urgent if their urgency is above a threshold; thresholds are tried in turn during the first iterations and the fastest
is kept. It is meant for models "where the parameters of FC layers occupy only a small fraction of the total", such as
ResNet-50 with 8 %. With N priorities, N - 1 thresholds at equal steps divide the urgency range.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from pydantic import Field

from gradwire.datatypes.plan import Plan
from gradwire.workloads.engines.parameter_server import ClassOfLayer, compile_parameter_server
from gradwire.workloads.engines.placement import in_rows, whole_tensors
from gradwire.workloads.job import Job
from gradwire.workloads.models.profile import LayerKind, Profile
from gradwire.workloads.strategy import GRPC, Options, Strategy

SLICE_PARAMETERS = 1024 * 1024
"""Geryon's default slicing threshold, "1,024K" parameters (section V-B): slice counts 320, 440, 680 fit parameters,
not bytes."""
MOSTLY = 0.5
"""Share of the parameters. The paper's other models have at least 78 % in fully connected layers, so any limit between
fits them."""

Rule = Literal["paper", "coarse", "threshold", "search"]


class PartitionOptions(Options):
    """Options for how tensors are cut."""

    slice_parameters: int = Field(SLICE_PARAMETERS, ge=0)
    """Shards with more parameters are cut into slices; 0 slices none."""


class GeryonOptions(PartitionOptions):
    """Options for how tensors are cut, and for which layers are urgent."""

    partition: bool = True
    """Whether tensors are cut. Otherwise they stay whole and only the priorities of flows differ from vanilla (Fig.
    5)."""
    rule: Rule = "paper"
    """"coarse": convolutions high, fully connected layers low. "threshold": by urgency. "search": tries the coarse
    rule and each threshold. "paper": the search for models with few parameters in fully connected layers, the coarse
    rule for the others."""
    thresholds: tuple[Annotated[float, Field(ge=-1, le=1)], ...] = Field((0.25, 0.5, 0.75), min_length=1)
    """Urgencies, which are 0 to 1 (below 0: all layers are urgent). For "threshold", N of them make N + 1
    priorities."""


def urgencies(profile: Profile) -> dict[int, float]:
    """Urgency of each layer that has parameters, by layer index."""
    with_parameters = [index for index, layer in enumerate(profile.layers) if layer.tensors]
    return {index: 1 - (rank + 1) / len(with_parameters) for rank, index in enumerate(with_parameters)}


def suits_coarse_rule(profile: Profile) -> bool:
    """Returns whether fully connected layers hold most of the parameters, so that sending convolutions first delays
    them little."""
    return profile.share(lambda layer: layer.kind is LayerKind.FC) > MOSTLY


def coarse_rule(profile: Profile) -> ClassOfLayer:
    """Fully connected layers go low (class 1), everything else high (class 0)."""
    return lambda layer: 1 if profile.layers[layer].kind is LayerKind.FC else 0


def threshold_rule(profile: Profile, thresholds: Sequence[float]) -> ClassOfLayer:
    """Class k holds the layers whose urgency is above k of the thresholds counted from the highest; none above: the
    lowest class."""
    urgency = urgencies(profile)
    descending = sorted(thresholds, reverse=True)

    def class_of(layer: int) -> int:
        return next((k for k, threshold in enumerate(descending) if urgency[layer] > threshold), len(descending))

    return class_of


def candidate_rules(profile: Profile, options: GeryonOptions) -> Mapping[str, ClassOfLayer]:
    """The rules that a run tries, by label."""
    rule = options.rule
    if rule == "paper":
        rule = "coarse" if suits_coarse_rule(profile) else "search"
    if rule == "threshold":
        return {f"thresholds {options.thresholds}": threshold_rule(profile, options.thresholds)}
    rules = {"coarse": coarse_rule(profile)}
    if rule == "search":
        rules |= {f"threshold {value:g}": threshold_rule(profile, [value]) for value in options.thresholds}
    return rules


def compile_partition_slicing(job: Job, options: PartitionOptions) -> Mapping[str, Plan]:
    """Cut tensors in one traffic class."""
    pieces = in_rows(job.profile, job.cluster.servers, options.slice_parameters or None, job.cluster.workers)
    return {"partition-slicing": compile_parameter_server(job, pieces, "partition-slicing")}


def compile_geryon(job: Job, options: GeryonOptions) -> Mapping[str, Plan]:
    """A plan for each candidate rule."""
    pieces = whole_tensors(job.profile, job.cluster.servers)
    if options.partition:
        pieces = in_rows(job.profile, job.cluster.servers, options.slice_parameters or None, job.cluster.workers)
    rules = candidate_rules(job.profile, options)
    return {label: compile_parameter_server(job, pieces, f"geryon, {label}", rule) for label, rule in rules.items()}


def traffic_classes(options: GeryonOptions) -> int:
    """Returns the number of traffic classes: one more than thresholds, or two, high and low."""
    return len(options.thresholds) + 1 if options.rule == "threshold" else 2


STRATEGIES = (
    Strategy(
        name="partition-slicing",
        summary="vanilla, with tensors cut by rows into one shard per server, and large shards into slices",
        source="Geryon, sections IV and V-B",
        options=PartitionOptions,
        compile=compile_partition_slicing,
        senders=GRPC,
    ),
    Strategy(
        name="geryon",
        summary="partition and slicing, with flows of different priority for urgent and less urgent layers",
        source="Geryon, section III",
        options=GeryonOptions,
        compile=compile_geryon,
        classes=traffic_classes,
        senders=GRPC,
    ),
)
