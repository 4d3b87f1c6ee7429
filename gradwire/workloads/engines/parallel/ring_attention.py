"""Context parallelism: workers that divide a sample's tokens hand keys and values around a ring while they attend to
those that they have.

Sources: Liu, Zaharia and Abbeel, Ring Attention with Blockwise Transformers for Near-Infinite Context, 2023;
Megatron-LM's `--context-parallel-size`. Of N workers, each has an N-th of the tokens, and attends to its own keys and
values first, then to those of the worker before it, and so on: N slices of equal time. A block of keys and values goes
from each worker to the next, and on from there as soon as it has arrived, during computation. In the backward
pass they go around once more, and behind them the gradients of each block, to which every worker adds its own when its
slice is over, until they are at the block's owner.

Assumed: tokens are dealt so that causal masks leave all slices as long (Megatron-LM gives each worker two pieces, one
from either end).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from gradwire.datatypes.plan import Combine, Int64
from gradwire.faults import InputFault
from gradwire.workloads.builder import PlanBuilder
from gradwire.workloads.job import Costs
from gradwire.workloads.models.profile import Profile

CORE = "/attend"
"""Ending of the names of layers in which tokens look at one another: their scores, and the sums that they weigh."""
QKV, PROJECTION = "/qkv", "/proj"
"""Endings of the names of layers that yield queries, keys and values, and that project the sums."""


def key_value_values(profile: Profile, activation_values: int) -> int:
    """Values that the keys and values of one sample have in a block, where its activations have so many.

    Raises InputFault for attention whose keys and values are not separate products.
    """
    products = next((layer for layer in profile.layers if layer.name.endswith(QKV)), None)
    projection = next((layer for layer in profile.layers if layer.name.endswith(PROJECTION)), None)
    core = any(layer.name.endswith(CORE) for layer in profile.layers)
    if products is None or projection is None or not (core and products.tensors[0].rows):
        raise InputFault(
            f"model.name = '{profile.name}': has no layers of queries, keys and values from which to tell what "
            "strategy.options.context "
            "exchanges; take a transformer without latent attention, such as llama3-8b, or context = 1"
        )
    width = products.tensors[0].rows
    # A bias has a row for each feature, and is no larger than that.
    features = sum(tensor.parameters for tensor in products.tensors if tensor.parameters > tensor.rows) // width
    # The projection reads as many features as there are of queries.
    return (features - projection.tensors[0].rows) * activation_values // width


@dataclass(frozen=True)
class Turn:
    """One pass of attention's core through the workers of a group, in the order of the ring."""

    members: Sequence[int]
    #: For each member, the op after which its keys and values are there, and its slices in order.
    ready: Sequence[int]
    slices: Sequence[Sequence[int]]


@dataclass
class Rings:
    """Adds what goes around. size_bytes: of a worker's keys and values."""

    builder: PlanBuilder
    costs: Costs
    hosts: Int64
    size_bytes: int
    _queues: dict[tuple[int, Combine], int] = field(default_factory=dict)

    def hand_on(self, turn: Turn, name: str) -> None:
        """Keys and values, each block from its owner to all others; a slice waits for its block."""
        builder, members, count = self.builder, turn.members, len(turn.members)
        tensor = builder.tensor(name)
        for first, owner in enumerate(members):
            chunk = builder.chunk(tensor, self.size_bytes, [owner], members)
            builder.produces(turn.ready[first], chunk)
            builder.needs(turn.slices[first][0], chunk)
            after = turn.ready[first]
            for step in range(1, count):
                source, target = (first + step - 1) % count, (first + step) % count
                after = self._send(members[source], members[target], chunk, Combine.COPY, [after])
                builder.depend(turn.slices[target][step], after)
                builder.needs(turn.slices[target][step], chunk)

    def add_up(self, turn: Turn, name: str) -> list[tuple[int, int]]:
        """Gradients of keys and values, each block's on its way to the owner; returns the message and the chunk that
        each member awaits."""
        builder, members, count = self.builder, turn.members, len(turn.members)
        tensor = builder.tensor(name)
        awaited = []
        for first, owner in enumerate(members):
            chunk = builder.chunk(tensor, self.size_bytes, members, [owner])
            slices = [turn.slices[(first + step) % count][step] for step in range(count)]
            for op in slices:
                builder.produces(op, chunk)
            before: list[int] = []
            for step in range(1, count):
                source, target = (first + step) % count, (first + step + 1) % count
                arrived = self._send(members[source], members[target], chunk, Combine.ADD, [slices[step], *before])
                builder.depend(arrived, slices[(step + 1) % count])
                before = [arrived]
            awaited.append((before[0], chunk))
        return awaited

    def _send(self, src: int, dst: int, chunk: int, how: Combine, after: Sequence[int]) -> int:
        """A message on the sender's flow of its kind; returns its RECV."""
        if (src, how) not in self._queues:
            self._queues[src, how] = self.builder.queue(src)
        inside = self.hosts[src] == self.hosts[dst]
        send, recv = self.builder.message(
            self._queues[src, how],
            dst,
            self.size_bytes,
            chunk=chunk,
            combine=how,
            traffic_class=0,
            latency_s=self.costs.message_s(self.size_bytes, inside=inside),
        )
        self.builder.depend(send, *after)
        return recv
