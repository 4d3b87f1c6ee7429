"""One iteration of a run as torch.profiler writes profiles (Kineto's JSON), one file per rank, for tools that read
these.

Computations and additions are kernels on a stream each. A message is a `record_param_comms` on the host at either end,
with the arguments that PyTorch records of sends and receives, and a kernel of NCCL's name on a stream of its
connection. A collective appears as the messages that it is made of: a plan knows nothing else. What a kernel waited
for is not in such profiles.

What readers need (learnt from HolisticTraceAnalysis, hta/common/trace_file.py, trace_parser.py, trace.py, types.py):
`"rank": N` with a space in it; durations of kernels on the streams of their arguments, in whole microseconds, as it
cuts fractions off both ends; for each kernel, a call of the runtime with the same `correlation`, within the step
`ProfilerStep#N` on the host; and names of communication that begin with "nccl". `gradwire import` takes a message's
bytes from the arguments, and what belongs together from the order of calls: receives are on the host in the order in
which their sends began.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gradwire.analysis.logged import MISSING, LoggedOps
from gradwire.analysis.plan_names import PlanNames
from gradwire.datatypes.plan import OpKind, Plan
from gradwire.datatypes.records import Int64, OpLog
from gradwire.documents import Document
from gradwire.faults import InputFault
from gradwire.files import replacing

GROUP = "0"
"""Name of PyTorch's default process group."""
SLOT_US = 2
"""Microseconds that a call on the host takes; its kernel is launched after the first of them."""
COMPUTE_STREAM, COMMUNICATION_STREAM = 7, 100
"""The first streams of either. PyTorch's default stream of CUDA is 7 in profiles."""
DEVICE_NAME = "gradwire"
KERNEL_NAME = "ncclDevKernel_SendRecv(gradwire)"
HOST_THREAD = 1
OWN = "gradwire"
"""Key that no other writer has, by which an import knows that messages are whole and waits are missing."""
Event = dict[str, object]


def write_kineto(folder: Path, plan: Plan, log: OpLog, iteration: int, about: str) -> list[Path]:
    """Writes `rankN.json.gz` for each rank of an iteration; returns the files.

    about: what run it is of. Raises InputFault for a plan with multicast messages, which PyTorch has no call for, and
    for an iteration that the log lacks a part of.
    """
    if (plan.ops.group == 1).any():
        raise InputFault("PyTorch has no call for a message to several ranks, which this strategy sends")
    iterations = _Iteration(plan, log, iteration)
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for rank in range(len(plan.rank_role)):
        path = folder / f"rank{rank}.json.gz"
        document = {**_head(rank, len(plan.rank_role), about), "traceEvents": list(iterations.events(rank))}
        with replacing(path) as partial, gzip.open(partial, "wt", compresslevel=5) as file:
            json.dump(document, file)
        files.append(path)
    return files


def _head(rank: int, ranks: int, about: str) -> Document:
    """Fields of a profile that come before its events."""
    group: Document = {
        "pg_name": GROUP,
        "pg_desc": "default_pg",
        "backend_config": "cuda:nccl",
        "pg_size": ranks,
        "ranks": list(range(ranks)),
    }
    return {
        "schemaVersion": 1,
        "traceName": about,
        OWN: about,
        "deviceProperties": [{"id": 0, "name": DEVICE_NAME}],
        "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": ranks, "pg_count": 1, "pg_config": [group]},
        "baseTimeNanoseconds": 0,
        "displayTimeUnit": "ms",
    }


@dataclass(frozen=True)
class _Call:
    """An op with its place on the host, in whole microseconds."""

    op: int
    host_us: int
    begin_us: int
    end_us: int


class _Iteration:
    """The ops of one iteration with their times from the beginning of its first."""

    def __init__(self, plan: Plan, log: OpLog, iteration: int) -> None:
        self._plan, self._names, self._number = plan, PlanNames(plan), iteration
        rows = int((log.iteration == iteration).sum())
        if rows != len(plan.ops):
            raise InputFault(f"iteration {iteration}: the run has logged {rows} of its {len(plan.ops)} ops")
        logged = LoggedOps.of(plan, log)
        begin, end = logged.start[iteration], logged.end[iteration]
        if (end == MISSING).any():
            raise InputFault(f"iteration {iteration}: the log lacks the ends of some of its ops")
        timed = np.isin(plan.ops.kind, [OpKind.COMPUTE, OpKind.REDUCE])
        # A timer's own time is exact, and when the agent acted on it is later by chance.
        begin, end = np.where(timed, logged.nominal[iteration], begin), np.where(timed, logged.finish[iteration], end)
        self._first_ns = int(begin.min())
        self._begin_ns, self._end_ns = begin, np.maximum(begin, end)
        is_message = np.isin(plan.ops.kind, [OpKind.SEND, OpKind.RECV])
        self._of_rank = plan.ops.rank
        self._shown = is_message | (plan.ops.duration_ns > 0)
        #: Receives stand in the order of their sends, so that both ends count the same message as the same one.
        self._turn_op: Int64 = np.where(is_message, plan.ops.message, np.arange(len(plan.ops)))
        self._turn_ns: Int64 = begin[self._turn_op]
        self._streams: dict[tuple[int, ...], int] = {}

    def _us(self, time_ns: int) -> int:
        return round((time_ns - self._first_ns) / 1e3)

    def events(self, rank: int) -> Iterator[Event]:
        """The events of a rank, with the names of its tracks."""
        calls = self._calls(rank)
        begin_us = min((call.host_us for call in calls), default=0) - 1
        end_us = max((max(call.end_us, call.host_us + SLOT_US) for call in calls), default=0) + 1
        yield _meta("process_name", rank, 0, name=self._names.process(rank))
        yield _meta("process_labels", rank, 0, labels="CPU")
        yield _event("user_annotation", f"ProfilerStep#{self._number}", rank, HOST_THREAD, begin_us, end_us - begin_us)
        for number, call in enumerate(calls, start=1):
            yield from self._of_call(rank, number, call)

    def _calls(self, rank: int) -> list[_Call]:
        """A rank's ops in the order in which its host launches them: each before
        its kernel begins, and none at the same time."""
        ops = np.flatnonzero((self._of_rank == rank) & self._shown)
        ops = ops[np.lexsort((ops, self._turn_op[ops], self._turn_ns[ops]))]
        calls: list[_Call] = []
        next_us: int | None = None
        for op in reversed(ops.tolist()):
            begin_us, end_us = self._us(int(self._begin_ns[op])), self._us(int(self._end_ns[op]))
            next_us = (begin_us if next_us is None else min(begin_us, next_us)) - SLOT_US
            calls.append(_Call(op, next_us, begin_us, end_us))
        return calls[::-1]

    def _of_call(self, rank: int, correlation: int, call: _Call) -> Iterator[Event]:
        """The call on the host, and the kernel that it launches."""
        kind = OpKind(int(self._plan.ops.kind[call.op]))
        is_message = kind in (OpKind.SEND, OpKind.RECV)
        if is_message:
            said = {"correlation": correlation, **self._said(kind, call.op)}
            yield _event(
                "cpu_op", "record_param_comms", rank, HOST_THREAD, call.host_us, SLOT_US, **self._said(kind, call.op)
            )
        else:
            said = {"correlation": correlation}
        launch = "cudaLaunchKernelExC" if is_message else "cudaLaunchKernel"
        yield _event("cuda_runtime", launch, rank, HOST_THREAD, call.host_us + 1, 1, cbid=0, correlation=correlation)
        stream = self._stream(kind, call.op)
        name = KERNEL_NAME if is_message else self._names.op(call.op)
        arguments = {**said, "device": 0, "context": 1, "stream": stream, "gradwire": self._names.op(call.op)}
        yield _event("kernel", name, rank, stream, call.begin_us, call.end_us - call.begin_us, **arguments)

    def _stream(self, kind: OpKind, op: int) -> int:
        """A computation's stream; of messages, one for each send queue, and each that is received from."""
        ops = self._plan.ops
        if kind in (OpKind.COMPUTE, OpKind.REDUCE):
            return COMPUTE_STREAM + int(ops.lane[op])
        key = (int(ops.rank[op]), int(kind), int(ops.lane[ops.message[op]]), int(ops.traffic_class[op]))
        return self._streams.setdefault(key, COMMUNICATION_STREAM + len(self._streams))

    def _said(self, kind: OpKind, op: int) -> dict[str, object]:
        """Arguments that PyTorch records of a message (saveNcclMeta in torch/csrc/profiler/util.cpp)."""
        ops, ranks = self._plan.ops, len(self._plan.rank_role)
        size, rank, peer = int(ops.size_bytes[op]), int(ops.rank[op]), int(ops.peer[op])
        sends = kind is OpKind.SEND
        return {
            "Collective name": "send" if sends else "recv",
            "dtype": "Byte",
            "In msg nelems": size,
            "Out msg nelems": size,
            "Group size": ranks,
            "Process Group Name": GROUP,
            "Process Group Description": "default_pg",
            "Src Rank": rank if sends else peer,
            "Dst Rank": peer if sends else rank,
            "Message": int(ops.message[op]),
        }


def _event(category: str, name: str, pid: int, tid: int, ts: int, dur: int, **arguments: object) -> Event:
    return {"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": arguments}


def _meta(kind: str, pid: int, tid: int, **arguments: object) -> Event:
    return {"ph": "M", "name": kind, "pid": pid, "tid": tid, "ts": 0, "args": arguments}
