"""What a strategy is to the rest of gradwire: a name, its options, and the function that compiles it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict

from gradwire.workloads.job import Cluster, Job
from gradwire.workloads.plan import Plan
from gradwire.workloads.senders import AS_THEY_LEAVE, Senders
from gradwire.workloads.stand_in import Load


class Options(BaseModel):
    """Base of every strategy's options. Rejects unknown keys; on its own, it is for strategies that have no options.

    The text below an option is what users are shown of it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, use_attribute_docstrings=True)


def one_class(_: Any) -> int:
    """The number of traffic classes of strategies that do not use priorities in the network."""
    return 1


def no_aggregators(_: Any) -> bool:
    """Of strategies in which switches add nothing."""
    return False


STATE_BYTES = 12
"""Weights, gradients and momentum of a parameter in fp32: the least that training keeps. Adam keeps 16, and activations come on top."""


def whole_state(_cluster: Cluster, _options: Any) -> float:
    """What a worker with all of the model keeps of each parameter."""
    return STATE_BYTES


@dataclass(frozen=True, kw_only=True)
class Strategy:
    """A communication strategy, as the catalogue and plug-ins declare it."""

    #: Name in scenario files.
    name: str
    #: One line that says what it does.
    summary: str
    #: Paper and section.
    source: str
    #: Compiles a job with these options to candidate plans by label. Of several, the run keeps the fastest.
    compile: Callable[[Job, Any], Mapping[str, Plan]]
    #: Pydantic class of its options.
    options: type[Options] = Options
    #: Number of traffic classes that it needs from the fabric, given its options.
    classes: Callable[[Any], int] = one_class
    #: Whether the cluster has parameter servers.
    needs_servers: bool = True
    #: Whether every switch has an aggregator, given its options.
    aggregators: Callable[[Any], bool] = no_aggregators
    #: What each of its allreduces asks of a cluster, from which a small cluster can stand in for a large one; None if unknown.
    load: Callable[[Cluster, Any], Load] | None = None
    #: Bytes of weights, gradients and momentum that a worker keeps for each of the model's parameters, in fp32.
    state_bytes: Callable[[Cluster, Any], float] = whole_state
    #: When the senders of its system take a message for sent.
    senders: Senders = AS_THEY_LEAVE
