"""What a strategy is to the rest of gradwire: a name, its options, and the function that compiles it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict

from gradwire.datatypes.plan import Plan
from gradwire.faults import InputFault
from gradwire.workloads.job import Cluster, Job
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
"""Weights, gradients and momentum of a parameter in fp32: the least that training keeps. Adam keeps 16, and
activations come on top."""


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
    #: What each of its allreduces asks of a cluster, from which a small cluster can stand in for a large one; None if
    #: unknown.
    load: Callable[[Cluster, Any], Load] | None = None
    #: Bytes of weights, gradients and momentum that a worker keeps for each of the model's parameters, in fp32.
    state_bytes: Callable[[Cluster, Any], float] = whole_state
    #: When the senders of its system take a message for sent.
    senders: Senders = AS_THEY_LEAVE

    def __post_init__(self) -> None:
        """Raises InputFault for a field of another kind, with what would be right: strategies are also written by
        users."""
        for field, (is_right, right) in KINDS.items():
            value = getattr(self, field)
            if not is_right(value):
                raise InputFault(f"Strategy({field}={value!r}): must be {right}")


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip()) and value.isprintable()


KINDS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    **dict.fromkeys(("name", "summary", "source"), (_is_text, "a line of text")),
    "compile": (callable, "a function of a job and options that returns plans by their labels"),
    "options": (
        lambda value: isinstance(value, type) and issubclass(value, Options),
        "a class derived from gradwire.plugin's Options",
    ),
    "classes": (callable, "a function of the options, like classes=lambda options: 2"),
    "needs_servers": (lambda value: isinstance(value, bool), "True or False"),
    "aggregators": (callable, "a function of the options, like aggregators=lambda options: True"),
    "load": (lambda value: value is None or callable(value), "a function of a cluster and options, or None"),
    "senders": (lambda value: isinstance(value, Senders), "a Senders: when its system takes a message for sent"),
    "state_bytes": (callable, "a function of a cluster and options, like state_bytes=lambda cluster, options: 16"),
}
"""Of what kind the fields of a Strategy are, and what to say of one that is not."""
