"""The interface of a strategy to the rest of gradwire: a name, its options, and the function that compiles it.

A strategy also says when the senders of the system that it comes from take a message for sent, so that their queue
continues with the next one (`Strategy.senders`). What a scenario sets takes precedence: transport.send_ends and
transport.unsent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict

from gradwire.datatypes.class_plans import ClassPlan, Folding, RingSequence
from gradwire.datatypes.plan import Plan
from gradwire.faults import InputFault
from gradwire.workloads.job import Cluster, Job
from gradwire.workloads.stand_in import AllreduceLoad

UNSENT_BYTES = 1 << 20
"""The most bytes that wait unsent for a connection if no source says how many: several messages of most plans."""


@dataclass(frozen=True)
class Senders:
    """The rule by which a message's SEND ends, so that its queue continues."""

    #: Most bytes that may wait unsent in a connection's socket when the SEND ends; None: it ends when its last byte
    #: has left the host.
    unsent_bytes: int | None
    #: The system whose senders do so, and the evidence for it.
    source: str

    @property
    def rule(self) -> str:
        """The rule in the words of transport.send_ends."""
        return "departure" if self.unsent_bytes is None else "buffered"


AS_THEY_LEAVE = Senders(
    None,
    "collectives: what a rank sends next waits for what it has received, and seldom for its own last message to "
    "leave. So sent, plans take "
    "within 1 % of what Gloo and PyTorch's DDP take (docs/trust/exactness.md, real programs against plans)",
)
"""Senders of allreduces and all other exchanges step by step, and of strategies that say nothing."""
SIMULATED = Senders(
    None,
    "NetOps, section 6: a simulator, in which a message takes its bytes over the rate of the line, and the next one "
    "follows it",
)
"""Senders of NetOps' strategies, which no system was built for."""
GRPC = Senders(
    UNSENT_BYTES,
    "TensorFlow hands tensors to gRPC, where a message is sent when outgoing flow control has accepted its bytes "
    "(grpc_op_type, GRPC_OP_SEND_MESSAGE), and not when they have left",
)
"""Senders of TensorFlow's parameter servers."""
PS_LITE = Senders(
    UNSENT_BYTES,
    "MXNet's ps-lite sends by ZeroMQ, where a message that was sent is queued on a socket and need not have reached "
    "the network (zmq_msg_send(3)); up to 1,000 may wait for a peer (ZMQ_SNDHWM)",
)
"""Senders of MXNet's KVStore."""
ONE_SLICE_BYTES = 256_000
"""A slice of P3's 50,000 parameters has 200 kB, and a socket takes its last byte when less than this waits."""
P3_CONSUMER = Senders(
    ONE_SLICE_BYTES,
    "P3, section 4.2: one thread sends with blocking calls. In the public code ps-lite's sockets hold one message "
    "(ZMQ_SNDHWM = 1), so that a call blocks while one slice waits",
)
"""Senders of P3: its worker and server threads."""


class Options(BaseModel):
    """Base of every strategy's options. Rejects unknown keys; on its own, it is for strategies that have no options.

    The text below an option is what users are shown of it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, use_attribute_docstrings=True)


def one_class(_: object) -> int:
    """The number of traffic classes of strategies that do not use priorities in the network."""
    return 1


def no_aggregators(_: object) -> bool:
    """The answer of strategies in which switches add nothing."""
    return False


STATE_BYTES = 12
"""Weights, gradients and momentum of a parameter in fp32: the least that training keeps."""
ADAM_BYTES = 16
"""The same with Adam's second moment; with mixed precision, weights and gradients in 16 bits and fp32 weights beside them, it is as much
(Rajbhandari et al., ZeRO, SC 2020, section 3.1)."""


def whole_state(_cluster: Cluster, _options: object) -> float:
    """Returns the bytes that a worker with all of the model keeps for each parameter."""
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
    #: Whether it trains a model, so that its iterations can be ranked beside those of others.
    trains: bool = True
    #: Whether every switch has an aggregator, given its options.
    aggregators: Callable[[Any], bool] = no_aggregators
    #: The load of each of its allreduces on a cluster, by which a small cluster can stand in for a large one; None if
    #: unknown.
    load: Callable[[Cluster, Any], AllreduceLoad] | None = None
    #: Bytes of weights, gradients and momentum that a worker keeps for each of the model's parameters, in fp32.
    state_bytes: Callable[[Cluster, Any], float] = whole_state
    #: When the senders of its system take a message for sent.
    senders: Senders = AS_THEY_LEAVE
    #: Compiles one rank of each class of ranks, for estimates of thousands (docs/thousands.md); raises NotByClass where
    #: its options leave no classes. None: it has no classes.
    by_class: Callable[[Job, Any, Folding], ClassPlan | RingSequence] | None = None

    def __post_init__(self) -> None:
        """Raises InputFault for a field of another kind, with what would be right: strategies are also written by
        users."""
        for field, (is_right, right) in KINDS.items():
            value = getattr(self, field)
            if not is_right(value):
                raise InputFault(f"Strategy({field}={value!r}): must be {right}")


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip()) and value.isprintable()


KINDS: Mapping[str, tuple[Callable[[object], bool], str]] = {
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
    "by_class": (lambda value: value is None or callable(value), "a function of a job, options and a folding, or None"),
    "senders": (lambda value: isinstance(value, Senders), "a Senders: when its system takes a message for sent"),
    "state_bytes": (callable, "a function of a cluster and options, like state_bytes=lambda cluster, options: 16"),
}
"""Checks of the fields of a Strategy: whether a value is of the right kind, and the words for a right one."""
