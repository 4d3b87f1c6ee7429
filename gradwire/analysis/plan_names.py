"""Readable names of a plan's ranks, ops and messages: "fc6/weights/2 -> rank 3"."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from gradwire.analysis.request_times import Bools, arrival_ops
from gradwire.datatypes.message_parts import carried_chunks
from gradwire.datatypes.plan import LATENCY_LANE, Int64, OpKind, Plan, Role

ROLE_NAMES = {Role.WORKER: "rank", Role.SERVER: "server", Role.AGGREGATOR: "aggregator"}


class PlanNames:
    """Names of one plan's parts. A worker is named after its rank; servers and aggregators are numbered separately."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        of_tensor: dict[int, int] = {}
        self._chunk_number: list[int] = []
        for tensor in plan.chunk_tensor.tolist():
            self._chunk_number.append(of_tensor.get(tensor, 0))
            of_tensor[tensor] = of_tensor.get(tensor, 0) + 1
        self._chunks_of = of_tensor
        counts = dict.fromkeys(Role, 0)
        self._ranks: list[str] = []
        for rank, value in enumerate(plan.rank_role.tolist()):
            role = Role(value)
            self._ranks.append(f"{ROLE_NAMES[role]} {rank if role is Role.WORKER else counts[role]}")
            counts[role] += 1

    def rank(self, rank: int) -> str:
        """Name of a rank: "rank 3", "server 1"."""
        return self._ranks[rank]

    def process(self, rank: int) -> str:
        """Name of a rank with its location."""
        role = Role(int(self._plan.rank_role[rank]))
        if role is Role.AGGREGATOR:
            return f"rank {rank}: {self._ranks[rank]}, on a switch"
        prefix = "" if role is Role.WORKER else f"rank {rank}: "
        return f"{prefix}{self._ranks[rank]} on {host_name(int(self._plan.rank_host[rank]))}"

    def chunk(self, chunk: int) -> str:
        """Name of a chunk: its tensor, with a number if the tensor has several chunks; for no chunk, see `tensor`."""
        if chunk < 0:
            return self._without_chunk
        tensor = int(self._plan.chunk_tensor[chunk])
        name = self._plan.tensors[tensor]
        return f"{name}/{self._chunk_number[chunk]}" if self._chunks_of[tensor] > 1 else name

    def tensor(self, op: int) -> str:
        """Name of the tensor that a message carries a part of, or "control";
        "message" in plans whose messages carry no tensors at all."""
        chunk = self.chunk_of(op)
        return self._without_chunk if chunk < 0 else self._plan.tensors[int(self._plan.chunk_tensor[chunk])]

    def chunk_of(self, op: int) -> int:
        """The chunk that an op is about, which a part of a message shares with the message; -1 for none."""
        return int(self._chunk_of_op[op])

    @cached_property
    def _chunk_of_op(self) -> Int64:
        return carried_chunks(self._plan)

    @cached_property
    def _arrivals(self) -> Bools:
        return arrival_ops(self._plan)

    @property
    def _without_chunk(self) -> str:
        return "control" if len(self._plan.chunk_bytes) else "message"

    def receiver(self, send: int) -> str:
        """Receiver of a SEND: a rank, or the size of its multicast group ("3 ranks")."""
        plan, peer = self._plan, int(self._plan.ops.peer[send])
        if not plan.ops.group[send]:
            return self.rank(peer)
        return f"{int(plan.group_start[peer + 1] - plan.group_start[peer])} ranks"

    def message(self, op: int) -> str:
        """Name of the message of a SEND or RECV: "fc6/weights/2 -> rank 3"."""
        send = int(self._plan.ops.message[op])
        return f"{self.chunk(self.chunk_of(send))} -> {self.receiver(send)}"

    def op(self, op: int) -> str:
        """Name of any op, without its rank."""
        ops = self._plan.ops
        kind = OpKind(int(ops.kind[op]))
        if kind in (OpKind.SEND, OpKind.RECV):
            return self.message(op)
        if kind is OpKind.REDUCE:
            return f"add {self.chunk(int(ops.chunk[op]))}"
        if ops.layer[op] >= 0:
            return f"{'backward' if self._is_backward[op] else 'forward'} {self.layer(int(ops.layer[op]))}"
        if op in self._boundaries:
            return self._boundaries[op]
        if self._arrivals[op]:
            return "requests"
        return "latency" if ops.lane[op] >= LATENCY_LANE else f"stream {int(ops.lane[op])}"

    def layer(self, layer: int) -> str:
        """Name of a layer, taken from the tensors sent for it; layers without any have only a number."""
        return self._layers.get(layer, f"layer {layer}")

    @cached_property
    def _boundaries(self) -> dict[int, str]:
        begins = dict.fromkeys(self._plan.begin_op.tolist(), "begin")
        return {**begins, **dict.fromkeys(self._plan.end_op.tolist(), "end")}

    @cached_property
    def _layers(self) -> dict[int, str]:
        ops = self._plan.ops
        named = np.flatnonzero((ops.kind == OpKind.SEND) & (ops.chunk >= 0) & (ops.layer >= 0))
        _, first = np.unique(ops.layer[named], return_index=True)
        layers = {}
        for send in named[first].tolist():
            # A fused bucket ("fc8/weights to fc6/biases") belongs to the layer of its last tensor.
            tensor = self.tensor(send).rpartition(" to ")[2]
            if "/" in tensor:
                layers[int(ops.layer[send])] = tensor.rpartition("/")[0]
        return layers

    @cached_property
    def _is_backward(self) -> np.typing.NDArray[np.bool_]:
        """Whether each op is the second in which its rank computes a layer, shape (ops,): backward follows
        forward."""
        ops = self._plan.ops
        passes = np.flatnonzero((ops.kind == OpKind.COMPUTE) & (ops.lane == 0) & (ops.layer >= 0))
        layers = int(ops.layer.max(initial=0)) + 1
        _, first = np.unique(ops.rank[passes].astype(np.int64) * layers + ops.layer[passes], return_index=True)
        is_backward = np.zeros(len(ops), np.bool_)
        is_backward[passes] = True
        is_backward[passes[first]] = False
        return is_backward


def host_name(host: int) -> str:
    """Name of a host in the fabric."""
    return f"h{host + 1}"
