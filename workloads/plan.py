"""The plan as frozen data: a small task graph per rank and iteration, held in columns. Imports nothing but numpy and the standard library.

One plan describes one iteration; agents replay it as often as asked. An operation (op) is a row of `Ops`. Its dependencies are ops
of the same rank, in the same iteration (lag 0) or in the one before (lag 1). Data crosses ranks only by messages: a SEND and the RECV
that names it.

Data is cut into chunks (a tensor, a shard or a slice of one). A worker's backward pass produces its own contribution to a
chunk; messages carry sets of contributions; a chunk is complete when it holds every worker's contribution exactly once.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, fields
from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]
UInt8 = npt.NDArray[np.uint8]


class OpKind(IntEnum):
    """What an op does."""

    COMPUTE = 1
    """Takes `duration_ns` of the rank's serial stream `lane`."""
    SEND = 2
    """Hands `size_bytes` to the network through the rank's send queue `lane`, `duration_ns` (software latency) after its turn came."""
    RECV = 3
    """Ends when the last byte of its message has arrived and its own dependencies are done."""
    REDUCE = 4
    """Adds `size_bytes` into a chunk: takes `duration_ns` of the rank's serial stream `lane`, beside computation."""


class Role(IntEnum):
    """What a rank is."""

    WORKER = 1
    SERVER = 2
    AGGREGATOR = 3
    """Sits on a switch and adds what passes through (in-network aggregation)."""


class Combine(IntEnum):
    """What a RECV does with the contributions that its message carries."""

    CONTROL = 1
    """Nothing: the message is a request or a token."""
    COPY = 2
    """They replace what the rank held of the chunk."""
    ADD = 3
    """They are added to what the rank holds of the chunk; both must be disjoint."""


class Discipline(IntEnum):
    """How a send queue picks the next of the ops that are ready."""

    FIFO = 1
    """In the order in which they became ready; `order` decides among those that became ready at the same time."""
    PRIORITY = 2
    """The lowest `order` first (P3's worker and server queues)."""
    COUNTER = 3
    """Strictly by `order`: nothing is sent before its predecessor (TicTac's enforcement)."""


CONTROL_CLASS = -1
"""Traffic class of requests and tokens: the band that pure ACKs use."""


@dataclass(frozen=True)
class Ops:
    """Columns of all ops, one row each.

    kind: OpKind. rank: rank that carries it out. duration_ns, size_bytes: see OpKind. lane: index into the rank's streams
    (COMPUTE, REDUCE) or into `Plan.queues` (SEND), -1 for RECV. chunk: index into the chunks, -1 for control messages.
    peer: the other rank of a SEND or RECV, or the multicast group of a group SEND (see `group`), else -1. group: 1 where `peer`
    of a SEND is a group. message: the op index of the SEND, for both ends, else -1. traffic_class: 0 is the most urgent,
    CONTROL_CLASS for control. order: see Discipline; for COMPUTE it decides among those ready at the same time, for REDUCE the
    lowest of those that wait goes first.
    combine: Combine of a RECV, else 0. layer: layer of the model that the op belongs to, -1 for none.
    """

    kind: UInt8
    rank: Int32
    duration_ns: Int64
    size_bytes: Int64
    lane: Int32
    chunk: Int32
    peer: Int32
    group: UInt8
    message: Int64
    traffic_class: npt.NDArray[np.int8]
    order: Int64
    combine: UInt8
    layer: Int32

    def __len__(self) -> int:
        """Number of ops."""
        return len(self.kind)


OP_DTYPES: dict[str, Any] = {
    "kind": np.uint8,
    "rank": np.int32,
    "duration_ns": np.int64,
    "size_bytes": np.int64,
    "lane": np.int32,
    "chunk": np.int32,
    "peer": np.int32,
    "group": np.uint8,
    "message": np.int64,
    "traffic_class": np.int8,
    "order": np.int64,
    "combine": np.uint8,
    "layer": np.int32,
}


@dataclass(frozen=True)
class Plan:
    """A compiled strategy.

    rank_role, rank_host: role and host index of each rank; ranks on one host exchange messages without the network.
    queue_rank, queue_discipline: the send queues; a queue serves one op at a time.
    chunk_bytes, chunk_tensor: size of each chunk and the tensor that it is cut from. tensors: their names.
    dep_start, dep_op, dep_lag: op i waits for dep_op[dep_start[i]:dep_start[i + 1]], each of this (lag 0) or the last (lag 1) iteration.
    produces: pairs (op, chunk): when the op ends, its rank holds just its own contribution to the chunk; a rank that is no worker
    holds the whole chunk then: parameters that come from outside the job, to which no worker may contribute.
    consumes: pairs (op, chunk): when the op starts, its rank must hold the complete chunk of the iteration before.
    begin_op, end_op: for each worker (in rank order) the ops whose start and end delimit its iteration.
    group_start, group_rank: members of each multicast group.
    compute_s: what one worker computes in an iteration, alone and undisturbed (forward and backward).
    samples: samples that all workers together process in an iteration.
    """

    name: str
    rank_role: UInt8
    rank_host: Int32
    queue_rank: Int32
    queue_discipline: UInt8
    chunk_bytes: Int64
    chunk_tensor: Int32
    tensors: tuple[str, ...]
    ops: Ops
    dep_start: Int64
    dep_op: Int64
    dep_lag: UInt8
    produces: Int64
    consumes: Int64
    begin_op: Int64
    end_op: Int64
    group_start: Int64
    group_rank: Int32
    compute_s: float
    samples: int
    notes: tuple[str, ...] = field(default=())

    @property
    def workers(self) -> Int64:
        """Ranks that are workers."""
        return np.flatnonzero(self.rank_role == Role.WORKER).astype(np.int64)

    @property
    def hosts(self) -> int:
        """Number of hosts that the plan needs."""
        return int(self.rank_host.max()) + 1

    def is_remote(self) -> npt.NDArray[np.bool_]:
        """Of each op: whether it is a SEND that crosses the network (group sends always do)."""
        ops = self.ops
        sends = ops.kind == OpKind.SEND
        unicast = sends & (ops.group == 0)
        remote: npt.NDArray[np.bool_] = sends.copy()
        remote[unicast] = self.rank_host[ops.rank[unicast]] != self.rank_host[ops.peer[unicast]]
        return remote

    def multicasts(self) -> list[tuple[int, tuple[int, ...]]]:
        """Sending host and receiving hosts (sorted) of every group message, each combination once: what switches must copy for."""
        ops = self.ops
        sends = np.flatnonzero(ops.group == 1)
        wanted = set()
        for rank, group in set(zip(ops.rank[sends].tolist(), ops.peer[sends].tolist(), strict=True)):
            members = self.group_rank[self.group_start[group] : self.group_start[group + 1]]
            wanted.add((int(self.rank_host[rank]), tuple(np.unique(self.rank_host[members]).tolist())))
        return sorted(wanted)

    def digest(self) -> str:
        """Hash of everything in the plan: equal for equal scenarios and seeds."""
        sha = hashlib.sha256()
        for key, array in self._arrays().items():
            sha.update(key.encode())
            sha.update(np.ascontiguousarray(array).tobytes())
        sha.update(json.dumps(self._scalars(), sort_keys=True).encode())
        return sha.hexdigest()[:16]

    def _arrays(self) -> dict[str, npt.NDArray[Any]]:
        own = {f.name: getattr(self, f.name) for f in fields(self) if isinstance(getattr(self, f.name), np.ndarray)}
        return {**own, **{f"ops.{f.name}": getattr(self.ops, f.name) for f in fields(self.ops)}}

    def _scalars(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "tensors": list(self.tensors),
            "compute_s": self.compute_s,
            "samples": self.samples,
            "notes": list(self.notes),
        }

    def save(self, path: Path) -> None:
        """Writes the plan to an .npz file."""
        scalars = np.frombuffer(json.dumps(self._scalars()).encode(), dtype=np.uint8)
        arrays: dict[str, Any] = self._arrays()
        with path.open("wb") as file:
            np.savez(file, scalars=scalars, **arrays)

    @staticmethod
    def load(path: Path) -> Plan:
        """Reads what `save` wrote."""
        with np.load(path) as stored:
            arrays = {key: stored[key] for key in stored.files}
        scalars = json.loads(arrays.pop("scalars").tobytes().decode())
        ops = Ops(**{key.removeprefix("ops."): value for key, value in arrays.items() if key.startswith("ops.")})
        own: dict[str, Any] = {key: value for key, value in arrays.items() if not key.startswith("ops.")}
        tuples: dict[str, Any] = {"tensors": tuple(scalars.pop("tensors")), "notes": tuple(scalars.pop("notes"))}
        return Plan(ops=ops, **own, **tuples, **scalars)


@dataclass(frozen=True)
class Contributions:
    """Whose gradients (bit w is worker w) of which iteration a message carries or a rank has summed."""

    iteration: int
    workers: int


class Ledger:
    """What every rank holds of every chunk: the sum under way, and the last complete value beside it.

    The two are apart because a server still hands out the parameters of one iteration while gradients of the next arrive.
    The checker and the agents keep the same ledger: one symbolically, the other from the headers of real messages.
    """

    def __init__(self, workers: int) -> None:
        self._all = (1 << workers) - 1
        self._sum: dict[tuple[int, int], Contributions] = {}
        self._complete: dict[tuple[int, int], int] = {}

    def produce(self, rank: int, chunk: int, worker: int | None, iteration: int) -> None:
        """Worker number `worker` (at `rank`) has its own gradient of the chunk: a new sum starts with it; None: it has the whole."""
        self._store(rank, chunk, Contributions(iteration, self._all if worker is None else 1 << worker))

    def outgoing(self, rank: int, chunk: int, combine: Combine) -> Contributions:
        """What a message carries that the receiver will ADD (the sum so far) or COPY (the last complete value)."""
        if combine == Combine.COPY:
            return Contributions(self.complete(rank, chunk), self._all)
        return self._sum.get((rank, chunk), Contributions(-1, 0))

    def arrive(self, rank: int, chunk: int, combine: Combine, arrived: Contributions) -> str | None:
        """Takes in a message's contributions; returns what is wrong with them, or None.

        Contributions to a newer iteration start a new sum.
        """
        if combine == Combine.COPY:
            if arrived.workers != self._all:
                return f"{arrived} is to be copied, but is not complete"
            self._complete[rank, chunk] = arrived.iteration
            return None
        held = self._sum.get((rank, chunk), Contributions(-1, 0))
        if not arrived.workers:
            return f"{arrived} contributes nothing"
        if arrived.iteration > held.iteration:
            self._store(rank, chunk, arrived)
        elif arrived.iteration < held.iteration or arrived.workers & held.workers:
            return f"{arrived} on top of {held} would count twice or too late"
        else:
            self._store(rank, chunk, Contributions(held.iteration, held.workers | arrived.workers))
        return None

    def complete(self, rank: int, chunk: int) -> int:
        """The latest iteration of which the rank holds every worker's contribution; -1: the initial parameters."""
        return self._complete.get((rank, chunk), -1)

    def _store(self, rank: int, chunk: int, total: Contributions) -> None:
        self._sum[rank, chunk] = total
        if total.workers == self._all:
            self._complete[rank, chunk] = total.iteration
