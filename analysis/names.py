"""What ranks, ops and messages of a plan are called, for people: "fc6/weights/2 -> rank 3"."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from gradwire.workloads.plan import OpKind, Plan, Role

ROLE_NAMES = {Role.WORKER: "rank", Role.SERVER: "server", Role.AGGREGATOR: "aggregator"}


class Names:
    """Names of one plan's parts. A worker is called by its rank; servers and aggregators are counted by themselves."""

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
        """A rank: "rank 3", "server 1"."""
        return self._ranks[rank]

    def process(self, rank: int) -> str:
        """A rank and where it runs."""
        role = Role(int(self._plan.rank_role[rank]))
        if role is Role.AGGREGATOR:
            return f"rank {rank}: {self._ranks[rank]}, on a switch"
        own = "" if role is Role.WORKER else f"rank {rank}: "
        return f"{own}{self._ranks[rank]} on {host_name(int(self._plan.rank_host[rank]))}"

    def chunk(self, chunk: int) -> str:
        """A chunk: its tensor, with its number if the tensor is cut into several; "control" for none."""
        if chunk < 0:
            return "control"
        tensor = int(self._plan.chunk_tensor[chunk])
        name = self._plan.tensors[tensor]
        return f"{name}/{self._chunk_number[chunk]}" if self._chunks_of[tensor] > 1 else name

    def tensor(self, op: int) -> str:
        """The tensor that a message carries a part of, or "control"."""
        chunk = int(self._plan.ops.chunk[op])
        return "control" if chunk < 0 else self._plan.tensors[int(self._plan.chunk_tensor[chunk])]

    def receiver(self, send: int) -> str:
        """To whom a SEND goes: one rank, or so many of a multicast group."""
        plan, peer = self._plan, int(self._plan.ops.peer[send])
        if not plan.ops.group[send]:
            return self.rank(peer)
        return f"{int(plan.group_start[peer + 1] - plan.group_start[peer])} ranks"

    def message(self, op: int) -> str:
        """The message of a SEND or RECV: "fc6/weights/2 -> rank 3"."""
        send = int(self._plan.ops.message[op])
        return f"{self.chunk(int(self._plan.ops.chunk[send]))} -> {self.receiver(send)}"

    def op(self, op: int) -> str:
        """Any op, without its rank."""
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
        return f"stream {int(ops.lane[op])}"

    def layer(self, layer: int) -> str:
        """A layer, by the tensors that travel for it; a plan has no names for layers without any."""
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
        found = {}
        for send in named[first].tolist():
            # A fused bucket ("fc8/weights to fc6/biases") belongs to the layer of its last tensor.
            tensor = self.tensor(send).rpartition(" to ")[2]
            if "/" in tensor:
                found[int(ops.layer[send])] = tensor.rpartition("/")[0]
        return found

    @cached_property
    def _is_backward(self) -> np.typing.NDArray[np.bool_]:
        """Of each op: whether its rank computes its layer a second time with it: backward follows forward."""
        ops = self._plan.ops
        passes = np.flatnonzero((ops.kind == OpKind.COMPUTE) & (ops.lane == 0) & (ops.layer >= 0))
        layers = int(ops.layer.max(initial=0)) + 1
        _, first = np.unique(ops.rank[passes].astype(np.int64) * layers + ops.layer[passes], return_index=True)
        found = np.zeros(len(ops), np.bool_)
        found[passes] = True
        found[passes[first]] = False
        return found


def host_name(host: int) -> str:
    """A host, as the fabric calls it."""
    return f"h{host + 1}"
