"""The Wireshark dissector, preceded by the names of one plan."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

import numpy as np

from gradwire.analysis.bounds import transfers
from gradwire.datatypes.fabric import Fabric
from gradwire.datatypes.plan import OpKind, Plan, Role

DISSECTOR = Path(__file__).with_name("gradwire.lua")


def dissector_text(plan: Plan, fabric: Fabric, endpoints: Collection[int]) -> str:
    """Lua source for Wireshark with the plan's tensors, chunks and ranks, and its messages from or to `endpoints`."""
    return "".join(f"{line}\n" for line in _names(plan, fabric, endpoints)) + "\n" + DISSECTOR.read_text()


def _names(plan: Plan, fabric: Fabric, endpoints: Collection[int]) -> Iterator[str]:
    hosts = fabric.endpoint_names()
    yield f"-- Names of plan {plan.digest()} ({lua_text(plan.name)})."
    yield "gradwire_names = {"
    yield "ranks = {"
    for rank, (role, host) in enumerate(zip(plan.rank_role.tolist(), plan.rank_host.tolist(), strict=True)):
        name = f"rank {rank} ({Role(role).name.lower()} on {hosts[host]})"
        yield f"[{rank}]={lua_text(name)},"
    yield "},"
    yield "tensors = {"
    yield from (f"[{tensor}]={lua_text(name)}," for tensor, name in enumerate(plan.tensors))
    yield "},"
    yield "-- chunk: tensor's slice, of how many"
    yield "chunks = {"
    yield from (f"[{chunk}]={{{slice_},{slices}}}," for chunk, (slice_, slices) in enumerate(slices_of(plan)))
    yield "},"
    yield "-- message: how it is combined, order in its send queue"
    yield "messages = {"
    yield from _messages(plan, endpoints)
    yield "}}"


def slices_of(plan: Plan) -> list[tuple[int, int]]:
    """For each chunk: the number of its slice, counted from 1, and the number of slices of its tensor."""
    counts = np.bincount(plan.chunk_tensor, minlength=len(plan.tensors))
    before: dict[int, int] = {}
    slices = []
    for tensor in plan.chunk_tensor.tolist():
        before[tensor] = before.get(tensor, 0) + 1
        slices.append((before[tensor], int(counts[tensor])))
    return slices


def _messages(plan: Plan, endpoints: Collection[int]) -> Iterator[str]:
    ops, moved = plan.ops, transfers(plan)
    here = np.isin(moved.src, list(endpoints)) | np.isin(moved.dst, list(endpoints))
    recvs = np.flatnonzero(ops.kind == OpKind.RECV)
    combine = np.zeros(len(ops), dtype=np.int64)
    combine[ops.message[recvs]] = ops.combine[recvs]
    for op in np.unique(moved.op[here]).tolist():
        yield f"[{op}]={{{combine[op]},{ops.order[op]}}},"


def lua_text(text: str) -> str:
    """A string literal of Lua; special characters are written as the numbers of their bytes."""
    plain = (chr(byte) if 32 <= byte < 127 and chr(byte) not in '"\\' else f"\\{byte:03d}" for byte in text.encode())
    return f'"{"".join(plain)}"'
