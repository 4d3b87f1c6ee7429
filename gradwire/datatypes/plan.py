"""The plan as frozen data: a small task graph per rank and iteration, held in columns. Imports nothing but numpy and the standard library.

A plan describes one iteration, which agents replay as often as asked. An operation (op) is a row of `Ops`. It depends on ops of the same
rank, in the same iteration (lag 0) or the previous one (lag 1). Data moves between ranks only in messages: a SEND and the RECV that names
it.

Data is cut into chunks: a tensor, a shard or a slice of one. A worker's backward pass produces its own contribution to a chunk, messages
carry sets of contributions, and a chunk is complete when it holds every worker's contribution exactly once.

A chunk may also belong to a group: then it has its own contributors and receivers, and is complete with all its contributors'. What is
otherwise many kinds of collective is thereby one rule. Of a reduce-scatter's part, all are contributors and one is the receiver; of an
allgather's part, it is the other way round; of an allreduce, both are the group; of an all-to-all or a point-to-point message, both are one
rank. A receiver needs a chunk of the iteration before (`consumes`, as gradients are) or of the same one (`needs`, as activations and
gathered parameters are).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import IntEnum
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gradwire.array_files import ArrayColumn, lengths_in, read_arrays
from gradwire.strict_json import parse_json

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]
UInt8 = npt.NDArray[np.uint8]


class OpKind(IntEnum):
    """The kinds of ops."""

    COMPUTE = 1
    """Occupies the rank's serial stream `lane` for `duration_ns`."""
    SEND = 2
    """Hands `size_bytes` to the network through the rank's send queue `lane`, `duration_ns` (software latency) after its turn comes."""
    RECV = 3
    """Ends when the last byte of its message has arrived and its own dependencies are done."""
    REDUCE = 4
    """Adds `size_bytes` into a chunk: occupies the rank's serial stream `lane` for `duration_ns`, in parallel with computation."""


class Role(IntEnum):
    """The roles of ranks."""

    WORKER = 1
    SERVER = 2
    AGGREGATOR = 3
    """Sits on a switch and adds what passes through (in-network aggregation)."""


class Combine(IntEnum):
    """The ways in which a RECV treats the contributions that its message carries."""

    CONTROL = 1
    """They change nothing: the message is a request or a token."""
    COPY = 2
    """They replace those that the rank holds of the chunk."""
    ADD = 3
    """They are added to those that the rank holds of the chunk. The two sets must be disjoint."""


class Discipline(IntEnum):
    """The rules by which a send queue picks the next op among those that are ready."""

    FIFO = 1
    """In the order in which they became ready; `order` breaks ties."""
    PRIORITY = 2
    """The lowest `order` first (P3's worker and server queues)."""
    COUNTER = 3
    """Strictly by `order`: no op is sent before its predecessor (TicTac's enforcement)."""


class Moment(IntEnum):
    """The moments of a request to a model that is served."""

    ARRIVED = 1
    """The request is there."""
    SENT = 2
    """The first keys and values of its prompt are computed, and sent."""
    CACHED = 3
    """All of them, and its first token, are where it is decoded."""
    TOKEN = 4
    """The next of its tokens is there."""


FULL_SPEED = 1000
"""Full speed of computation, in thousandths."""
CONTROL_CLASS = -1
"""Traffic class of requests and tokens: the band that pure ACKs use."""
LATENCY_LANE = 64
"""Streams from this one on, behind those that traces may use, are for latencies: time passes, and nothing computes."""


@dataclass(frozen=True)
class Ops:
    """Columns of all ops, one row per op."""

    #: An OpKind.
    kind: UInt8
    #: The rank that carries the op out.
    rank: Int32
    #: See OpKind.
    duration_ns: Int64
    #: See OpKind.
    size_bytes: Int64
    #: The rank's stream (COMPUTE, REDUCE) or the index of the send queue (SEND); -1 for a RECV.
    lane: Int32
    #: Index of the chunk; -1 for control messages.
    chunk: Int32
    #: The other rank of a SEND or RECV, or the multicast group of a group SEND (see `group`); otherwise -1.
    peer: Int32
    #: 1 for a SEND whose `peer` is a multicast group.
    group: UInt8
    #: Op number of the SEND, at both ends of a message; otherwise -1.
    message: Int64
    #: 0 is the most urgent; CONTROL_CLASS for control messages.
    traffic_class: npt.NDArray[np.int8]
    #: For a SEND, see Discipline. For a COMPUTE it breaks ties among ops ready at the same time. Of several REDUCEs
    #: that wait, the one with the lowest order goes first.
    order: Int64
    #: The Combine of a RECV; otherwise 0.
    combine: UInt8
    #: Layer of the model that the op belongs to; -1 for none.
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


OF_GROUPS = ("needs", "chunk_contributors", "chunk_receivers", "set_start", "set_rank")
"""Columns that only plans with groups have."""
FILE_COLUMNS: dict[str, ArrayColumn] = {
    "scalars": ArrayColumn("u1"),
    **{name: ArrayColumn("u1") for name in ("rank_role", "queue_discipline", "dep_lag")},
    **{name: ArrayColumn("i4") for name in ("rank_host", "queue_rank", "chunk_tensor", "group_rank")},
    **{name: ArrayColumn("i8") for name in ("chunk_bytes", "dep_start", "dep_op", "begin_op", "end_op", "group_start")},
    **{name: ArrayColumn("i8", (2,)) for name in ("produces", "consumes")},
    **{name: ArrayColumn("i8", (2,) if name == "needs" else (), optional=True) for name in OF_GROUPS},
    "moments": ArrayColumn("i8", (4,), optional=True),
    **{f"ops.{name}": ArrayColumn(np.dtype(dtype).str) for name, dtype in OP_DTYPES.items()},
}
"""The columns of a plan's file: those of the plan and of its ops. The rest is JSON."""
MOST_FILE_BYTES = 2 << 30
"""The largest size of a plan's file: 8,000,000 ops, the most that a builder makes (workloads/builder.py), with 12 dependencies each."""


@dataclass(frozen=True)
class PlanJob:
    """One of several jobs that a plan has side by side. Its ranks and its ops follow one another, and no op depends on another job's."""

    name: str
    first_rank: int
    ranks: int
    first_op: int
    #: Ops of one of its iterations. Op i of its iteration n, counted from 0 within the plan's, is first_op + n * ops + i.
    ops: int
    #: Iterations of the job in one of the plan.
    iterations: int
    #: Time that one worker computes in an iteration of the job, alone and undisturbed.
    compute_s: float
    #: Samples that its workers together process in one of its iterations.
    samples: int
    #: Ops behind those of its iterations, which hold its first one back (workloads/combined_plans.py).
    delays: int = 0

    @property
    def end_op(self) -> int:
        """The op behind its last one."""
        return self.first_op + self.iterations * self.ops + self.delays


@dataclass(frozen=True)
class Plan:
    """A compiled strategy, or those of several jobs side by side."""

    name: str
    #: Role of each rank.
    rank_role: UInt8
    #: Host index of each rank. Ranks on one host, or on the NICs of one machine, exchange messages without the network.
    rank_host: Int32
    #: Rank of each send queue. A queue serves one op at a time.
    queue_rank: Int32
    #: Discipline of each send queue.
    queue_discipline: UInt8
    #: Size of each chunk.
    chunk_bytes: Int64
    #: Index of the tensor that each chunk is cut from.
    chunk_tensor: Int32
    #: Names of the tensors.
    tensors: tuple[str, ...]
    ops: Ops
    #: Op i waits for dep_op[dep_start[i]:dep_start[i + 1]].
    dep_start: Int64
    dep_op: Int64
    #: For each of `dep_op`: 0 for this iteration, 1 for the previous one.
    dep_lag: UInt8
    #: Pairs (op, chunk): when the op ends, its rank holds only its own contribution to the chunk. A rank that is not a
    #: worker holds the whole chunk then: parameters that come from outside the job, to which no worker may contribute.
    produces: Int64
    #: Pairs (op, chunk): when the op starts, its rank must hold the complete chunk of the previous iteration.
    consumes: Int64
    #: For each worker, in rank order, the op whose start begins its iteration.
    begin_op: Int64
    #: For each worker, in rank order, the op whose end concludes its iteration.
    end_op: Int64
    #: Multicast group i has the members group_rank[group_start[i]:group_start[i + 1]].
    group_start: Int64
    group_rank: Int32
    #: Time that one worker computes in an iteration, forward and backward, alone and undisturbed.
    compute_s: float
    #: Samples that all workers together process in an iteration.
    samples: int
    notes: tuple[str, ...] = field(default=())
    #: Pairs (op, chunk): when the op starts, its rank must hold the complete chunk of this iteration.
    needs: Int64 = field(default_factory=lambda: np.zeros((0, 2), np.int64))
    #: For each chunk, the set of workers that contribute to it; -1 for all workers. Empty if all chunks are everybody's.
    chunk_contributors: Int64 = field(default_factory=lambda: np.zeros(0, np.int64))
    #: For each chunk, the set of workers that receive it, as above.
    chunk_receivers: Int64 = field(default_factory=lambda: np.zeros(0, np.int64))
    #: Set i has the ranks set_rank[set_start[i]:set_start[i + 1]].
    set_start: Int64 = field(default_factory=lambda: np.zeros(0, np.int64))
    set_rank: Int64 = field(default_factory=lambda: np.zeros(0, np.int64))
    #: Rows (op, Moment, request, nanoseconds): when the op ends, a request to a model that is served has come so far, and by computation
    #: alone it would have so long after the first arrival. A request's tokens follow one another.
    moments: Int64 = field(default_factory=lambda: np.zeros((0, 4), np.int64))
    #: Consecutive hosts of `rank_host` that are NICs of one machine.
    nics_per_host: int = 1
    #: The jobs, if the plan has several.
    jobs: tuple[PlanJob, ...] = ()
    #: Speed at which a worker computes while a tensor is under way at its rank (rank_transfers.py), as a share of its speed otherwise.
    speed_while_communicating: float = 1.0
    #: Number of the first connection, where the plan is that of one job out of several: those before it are of other jobs.
    first_connection: int = 0

    @property
    def workers(self) -> Int64:
        """Ranks that are workers."""
        return np.flatnonzero(self.rank_role == Role.WORKER).astype(np.int64)

    @property
    def speed_permille(self) -> int:
        """`speed_while_communicating` in thousandths, for agents count in whole numbers."""
        return max(1, round(self.speed_while_communicating * FULL_SPEED))

    @property
    def hosts(self) -> int:
        """Number of hosts that the plan needs."""
        return int(self.rank_host.max()) + 1

    def set_ranks(self, number: int) -> Int64:
        """The ranks of a set of `chunk_contributors` or `chunk_receivers`."""
        return self.workers if number < 0 else self.set_rank[self.set_start[number] : self.set_start[number + 1]]

    def contributors(self) -> dict[int, int]:
        """Returns the contributors of each chunk that has its own, as bits like those of `Contributions`."""
        number = {int(rank): place for place, rank in enumerate(self.workers)}
        bits = {
            one: sum(1 << number[rank] for rank in self.set_ranks(one).tolist())
            for one in np.unique(self.chunk_contributors).tolist()
            if one >= 0
        }
        return {chunk: bits[one] for chunk, one in enumerate(self.chunk_contributors.tolist()) if one >= 0}

    def is_remote(self) -> npt.NDArray[np.bool_]:
        """Returns, for each op, whether it is a SEND that crosses the network; SENDs to groups always do."""
        ops = self.ops
        sends = ops.kind == OpKind.SEND
        unicast = sends & (ops.group == 0)
        remote: npt.NDArray[np.bool_] = sends.copy()
        machine = self.rank_host // self.nics_per_host
        remote[unicast] = machine[ops.rank[unicast]] != machine[ops.peer[unicast]]
        return remote

    def connection_keys(self) -> npt.NDArray[np.int32]:
        """Returns the (send queue, receiving rank, traffic class) of each TCP connection, in the order of their numbers."""
        ops, sends = self.ops, np.flatnonzero(self.is_remote() & (self.ops.group == 0))
        columns = np.column_stack([ops.lane[sends], ops.peer[sends], ops.traffic_class[sends]])
        keys: npt.NDArray[np.int32] = np.unique(columns, axis=0)
        return keys

    def multicasts(self) -> list[tuple[int, tuple[int, ...]]]:
        """Sending host and sorted receiving hosts of the group messages, each combination once. Switches must copy for all of them."""
        ops = self.ops
        sends = np.flatnonzero(ops.group == 1)
        combinations = set()
        for rank, group in set(zip(ops.rank[sends].tolist(), ops.peer[sends].tolist(), strict=True)):
            members = self.group_rank[self.group_start[group] : self.group_start[group + 1]]
            combinations.add((int(self.rank_host[rank]), tuple(np.unique(self.rank_host[members]).tolist())))
        return sorted(combinations)

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
        # A plan without groups, or without requests, has the digest that it had before there were any.
        own = {name: array for name, array in own.items() if name not in (*OF_GROUPS, "moments") or len(array)}
        return {**own, **{f"ops.{f.name}": getattr(self.ops, f.name) for f in fields(self.ops)}}

    def _scalars(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "tensors": list(self.tensors),
            "compute_s": self.compute_s,
            "samples": self.samples,
            "notes": list(self.notes),
            # Plans of machines with one NIC have the digest that they had before there were others.
            **({"nics_per_host": self.nics_per_host} if self.nics_per_host > 1 else {}),
            **({"first_connection": self.first_connection} if self.first_connection else {}),
            **({"jobs": [asdict(job) for job in self.jobs]} if self.jobs else {}),
            **(
                {"speed_while_communicating": self.speed_while_communicating}
                if self.speed_while_communicating != 1.0
                else {}
            ),
        }

    def save(self, path: Path) -> None:
        """Writes the plan to an .npz file."""
        scalars = np.frombuffer(json.dumps(self._scalars()).encode(), dtype=np.uint8)
        arrays: dict[str, Any] = self._arrays()
        with path.open("wb") as file:
            np.savez(file, scalars=scalars, **arrays)

    @staticmethod
    def load(path: Path) -> Plan:
        """Reads what `save` wrote. What numbers refer to is not looked for: that is the checker's (workloads/checker.py).

        Raises OSError, or ValueError and others for what is not a plan's file.
        """
        arrays: dict[str, npt.NDArray[Any]] = read_arrays(path, FILE_COLUMNS, most=MOST_FILE_BYTES)
        scalars: Any = parse_json(arrays.pop("scalars").tobytes().decode())
        ops = Ops(**{key.removeprefix("ops."): value for key, value in arrays.items() if key.startswith("ops.")})
        own: dict[str, Any] = {key: value for key, value in arrays.items() if not key.startswith("ops.")}
        tuples: dict[str, Any] = {"tensors": tuple(scalars.pop("tensors")), "notes": tuple(scalars.pop("notes"))}
        tuples["jobs"] = tuple(PlanJob(**job) for job in scalars.pop("jobs", ()))
        return Plan(ops=ops, **own, **tuples, **scalars)

    @staticmethod
    def ops_in(path: Path) -> int:
        """Returns the number of ops that a plan's file claims to have. Raises what `load` raises."""
        return lengths_in(path, FILE_COLUMNS)["ops.kind"]


class Contributions(NamedTuple):
    """The contributions to a chunk that a message carries or a rank has summed."""

    iteration: int
    #: Whose gradients they are: bit w stands for worker w.
    workers: int


def contradiction(combine: Combine, arrived: Contributions, total: Contributions) -> str:
    """Returns the reason why arrived contributions do not add up with a sum, in words."""
    if combine == Combine.COPY:
        return f"{arrived} is to be copied, but is not complete"
    if not arrived.workers:
        return f"{arrived} contributes nothing"
    return f"{arrived} on top of {total} would count twice or too late"


class Ledger:
    """The contributions that every rank holds of every chunk: the sum under way, and the last complete value.

    The two are kept apart because a server still hands out the parameters of one iteration while gradients of the next arrive. The checker
    and the agents keep the same ledger, the checker symbolically and the agents from the headers of real messages.
    """

    def __init__(self, workers: int, contributors: Mapping[int, int] | None = None) -> None:
        """contributors: the bits that make a chunk complete, for chunks that need others than all workers'."""
        self._all = (1 << workers) - 1
        self._contributors = contributors or {}
        self._sum: dict[tuple[int, int], Contributions] = {}
        self._complete: dict[tuple[int, int], int] = {}

    def produce(self, rank: int, chunk: int, worker: int | None, iteration: int) -> None:
        """Starts a new sum with the gradient of worker number `worker`, at `rank`. With None, the rank has the whole chunk."""
        self._store(rank, chunk, Contributions(iteration, self._whole(chunk) if worker is None else 1 << worker))

    def outgoing(self, rank: int, chunk: int, combine: Combine) -> Contributions:
        """Contributions that a message carries: the sum so far if the receiver will ADD, the last complete value if it will COPY."""
        if combine == Combine.COPY:
            return Contributions(self.complete(rank, chunk), self._whole(chunk))
        return self._sum.get((rank, chunk), Contributions(-1, 0))

    def arrive(self, rank: int, chunk: int, combine: Combine, arrived: Contributions) -> str | None:
        """Takes in a message's contributions; returns what is wrong with them, or None.

        Contributions to a newer iteration than the rank's sum start a new sum.
        """
        total = self._sum.get((rank, chunk), Contributions(-1, 0))
        if combine == Combine.COPY:
            if arrived.workers != self._whole(chunk):
                return contradiction(combine, arrived, total)
            self._complete[rank, chunk] = arrived.iteration
        elif not arrived.workers:
            return contradiction(combine, arrived, total)
        elif arrived.iteration > total.iteration:
            self._store(rank, chunk, arrived)
        elif arrived.iteration < total.iteration or arrived.workers & total.workers:
            return contradiction(combine, arrived, total)
        else:
            self._store(rank, chunk, Contributions(total.iteration, total.workers | arrived.workers))
        return None

    def complete(self, rank: int, chunk: int) -> int:
        """The latest iteration of which the rank holds every contributor's contribution; -1 stands for the initial parameters."""
        return self._complete.get((rank, chunk), -1)

    def _whole(self, chunk: int) -> int:
        return self._contributors.get(chunk, self._all)

    def _store(self, rank: int, chunk: int, total: Contributions) -> None:
        self._sum[rank, chunk] = total
        if total.workers == self._whole(chunk):
            self._complete[rank, chunk] = total.iteration
