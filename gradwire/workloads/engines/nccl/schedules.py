"""Calls of NCCL as schedules, for any plan: what `chooser` takes and `pieces` divides, as messages between members.

`call_plan` has the same for one call alone, with one NIC of each machine for all. Here, members are those of any group,
each channel has its own connections and leaves a machine at another GPU, and every byte is followed by the checker.

- Ring: each channel goes through its loops one after the other: a member begins a loop when it has received all of the
  one before (`Schedule.after`). Within a loop, slices move on by themselves. Broadcasts and reductions follow an open
  ring, chunk by chunk.
- Tree: each chunk goes up its channel's tree and down again by itself, inside machines along a chain of GPUs and between
  them. Even channels have the first of two trees, odd ones the second.
- NVLS and NVLSTree: the head of a channel adds and copies for its machine. NVSwitch does that on the way; here, GPUs
  send to the head and it to them, at the rate at which that takes as long.
- PAT: in each step, twice as many parts to a member twice as far away.

Latencies of hops are those of NCCL's table, and pass while further messages follow (`Hops`). What a network takes comes
on top: of NCCL's latency between machines, one for an ideal network is a part.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from math import ceil

import numpy as np

from gradwire.datatypes.plan import Combine, Int64
from gradwire.workloads.engines.collectives import exchanges
from gradwire.workloads.engines.collectives.allreduces import (
    channelled_ring,
    climb,
    descend,
    order_of_channel,
    parents,
    parents_of_members,
    second_parents,
)
from gradwire.workloads.engines.collectives.choice import Layout
from gradwire.workloads.engines.collectives.schedule import PER_MEMBER, Collective, Hops, Row, Schedule, schedule_of
from gradwire.workloads.engines.nccl.chooser import (
    NVLS,
    NVLS_TREE,
    PAT,
    RING,
    TREE,
    choose,
)
from gradwire.workloads.engines.nccl.duration import WIRE, CallFacts, MachineNetwork
from gradwire.workloads.engines.nccl.options import Setup
from gradwire.workloads.engines.nccl.pieces import divide
from gradwire.workloads.engines.nccl.tables import NcclAlgorithm
from gradwire.workloads.units import size_text

FIRST_CHANNEL, CHANNELS_OF_ALGORITHM = 128, 128
"""Numbers of connections, behind those of other algorithms: each of NCCL's has its own."""
OPEN_RINGS = (Collective.BROADCAST, Collective.REDUCE)


@dataclass(frozen=True)
class _Shape:
    """All that decides a schedule apart from its times."""

    kind: Collective
    machines: tuple[int, ...]
    root: int
    algorithm: NcclAlgorithm
    #: Channels, of which each may be several of NCCL's, and what each goes through.
    lines: int
    loops: int
    slices: int
    #: Heads of NVLS.
    heads: int


@dataclass(frozen=True)
class NcclCall:
    """A call with what was chosen for it."""

    schedule: Schedule
    #: Algorithm, protocol, channels and chunks.
    words: str


def nccl_call(setup: Setup, kind: Collective, layout: Layout, root: int, size_bytes: int) -> NcclCall:
    """The schedule that NCCL takes. Calls that go alike have the same object.

    size_bytes: as the kind counts it (`Collective`). Raises InputFault where NCCL has no algorithm.
    """
    if layout.members == 1:
        return NcclCall(_alone(), "alone")
    comm = setup.communicator(layout)
    whole = size_bytes * layout.members if kind in PER_MEMBER else size_bytes
    choice = choose(comm, kind, whole)
    pieces = divide(comm, kind, choice.algorithm, choice.protocol, whole)
    call = CallFacts(comm, MachineNetwork(setup.nic_bytes_per_s, setup.message_latency_s), kind, choice, pieces, whole)
    shape, bundle, joined = _shape(call, layout, root, setup.most_messages)
    words = (
        f"{choice.algorithm.value}, {choice.protocol.value}, {_count(pieces.channels, 'channel')}, chunks of "
        f"{size_text(pieces.chunk_bytes)}"
    )
    if bundle > 1:
        words += f", {bundle} channels as one"
    if joined > 1:
        words += f", {joined} chunks as one"
    takes_turns = not setup.gpu_direct and setup.environment.sockets > 1
    return NcclCall(_timed(shape, _hops(setup, call, bundle), takes_turns), words)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' if number > 1 else ''}"


@cache
def _alone() -> Schedule:
    return schedule_of(1, 1, ())


def _hops(setup: Setup, call: CallFacts, bundle: int) -> Hops:
    """Returns the rates and latencies of a call's messages."""
    comm, choice, wire = call.comm, call.choice, WIRE[call.protocol]
    inside_s = call.hop_s
    if choice.algorithm in (NVLS, NVLS_TREE):
        # NCCL counts a hop once, to the switch and back.
        inside_s /= 2
        rate = min(_nvls_egress(call), setup.local_bytes_per_s)
    else:
        rate = min(call.inside * wire, setup.local_bytes_per_s / call.pieces.channels) * bundle
    return Hops(
        inside_s=inside_s,
        between_s=call.crossing_s,
        inside_bytes_per_s=rate if comm.gpus > 1 else float("inf"),
        wire=wire,
        base_s=call.base_s,
    )


def _nvls_egress(call: CallFacts) -> float:
    """The rate at which GPUs' messages to heads take as long as NVLS does, and those of heads to GPUs as well: they go in
    opposite directions, side by side."""
    gpus = call.comm.gpus
    return (gpus - 1) / gpus * call.size_bytes / call.nvls_s(call.size_bytes)


def _shape(call: CallFacts, layout: Layout, root: int, most: int) -> tuple[_Shape, int, int]:
    """The shape, how many channels are one in it, and how many chunks. Channels of one NIC carry in the same time, joined, what they
    carry side by side."""
    pieces, algorithm = call.pieces, call.algorithm
    heads = min(call.comm.searched.nvls.channels, call.comm.gpus) if algorithm in (NVLS, NVLS_TREE) else 1
    lines, loops = pieces.channels, pieces.loops
    slices = call.slices if algorithm is RING and call.kind not in OPEN_RINGS else 1
    least = {RING: call.comm.machine.nics, TREE: 2 * call.comm.machine.nics}.get(algorithm, 2 * heads)
    if algorithm is NVLS:
        least = lines = heads
    elif algorithm is PAT:
        least = lines = 1
    shape = _Shape(call.kind, layout.machines, root, algorithm, lines, loops, slices, heads)
    while _messages(shape) > most and shape.lines % 2 == 0 and shape.lines // 2 >= least:
        shape = replace(shape, lines=shape.lines // 2)
    joined = min(shape.loops, ceil(_messages(shape) / most))
    shape = replace(shape, loops=max(1, round(shape.loops / joined)))
    return shape, lines // shape.lines, joined


def _messages(shape: _Shape) -> int:
    """About how many messages a schedule has."""
    members, pieces = len(shape.machines), shape.lines * shape.loops * shape.slices
    if shape.algorithm is RING:
        steps = 1 if shape.kind in OPEN_RINGS else members - 1
        return pieces * members * steps * (2 if shape.kind is Collective.ALL_REDUCE else 1)
    if shape.algorithm is PAT:
        return pieces * members * (members - 1)
    return 2 * pieces * members


@cache
def _timed(shape: _Shape, hops: Hops, takes_turns: bool) -> Schedule:
    untimed = _untimed(shape)
    return replace(untimed, hops=hops, in_turn=_one_at_a_time(untimed, shape) if takes_turns else None)


@cache
def _untimed(shape: _Shape) -> Schedule:
    """The schedule of a shape, in pieces, with numbers of connections that nothing else uses.

    What leaves a member goes loop by loop.
    """
    around = shape.algorithm is RING and shape.kind not in OPEN_RINGS
    base = channelled_ring(shape.kind, shape.machines, shape.lines) if around else _BASES[shape.algorithm](shape)
    lines = np.zeros(len(base.rows), np.int64) if base.channel is None else base.channel
    first = FIRST_CHANNEL + CHANNELS_OF_ALGORITHM * list(NcclAlgorithm).index(shape.algorithm)
    pieces = shape.loops * shape.slices
    whole = replace(base, channel=first + lines).segmented(pieces)
    rows = whole.rows.copy()
    rows[:, 3] += np.tile(np.arange(pieces) // shape.slices, len(base.rows)) * base.steps
    return replace(whole, rows=rows, after=_loop_after_loop(base, lines, shape) if around else None)


def _loop_after_loop(base: Schedule, line: Int64, shape: _Shape) -> Int64 | None:
    """The first messages of a ring's loop wait for the last that came in the loop before."""
    if shape.loops == 1:
        return None
    pieces, slices = shape.loops * shape.slices, shape.slices
    first, last = np.flatnonzero(base.step == 0), np.flatnonzero(base.step == base.steps - 1)
    came = {(int(base.dst[row]), int(line[row])): int(row) for row in last}
    pairs = [
        (row * pieces + loop * slices + piece, came[int(base.src[row]), int(line[row])] * pieces + loop * slices - 1)
        for row in first.tolist()
        for loop in range(1, shape.loops)
        for piece in range(slices)
    ]
    return np.array(pairs, np.int64).reshape(-1, 2)


def _one_at_a_time(schedule: Schedule, shape: _Shape) -> Int64:
    """Pairs of messages between machines that follow one another on a connection: all sockets have taken the last part of
    one when the next one begins (`sendProxyProgress` of src/transport/net.cc tests the oldest request alone, and
    `ncclSocketTest` of src/transport/net_socket.cc divides a request among sockets when it is tested first)."""
    pieces = shape.loops * shape.slices
    machines = np.array(shape.machines, np.int64)
    between = np.flatnonzero(machines[schedule.src] != machines[schedule.dst])
    assert schedule.channel is not None
    keys = (schedule.channel[between], schedule.dst[between], schedule.src[between])
    order = between[np.lexsort((between % pieces, schedule.step[between], *keys))]
    ends = np.stack([schedule.src[order], schedule.dst[order], schedule.channel[order]])
    follows = (ends[:, 1:] == ends[:, :-1]).all(axis=0)
    return np.stack([order[1:][follows], order[:-1][follows]], axis=1)


def _open_ring(shape: _Shape) -> Schedule:
    rows: list[Row] = []
    number: list[int] = []
    for line in range(shape.lines):
        order = order_of_channel(shape.machines, line)
        start = order.index(shape.root)
        hops = list(pairwise([*order[start:], *order[:start]]))
        combine = Combine.COPY
        if shape.kind is Collective.REDUCE:
            hops, combine = [(far, near) for near, far in reversed(hops)], Combine.ADD
        rows += [(src, dst, line, step, combine, 0, 1) for step, (src, dst) in enumerate(hops)]
        number += [line] * len(hops)
    return _numbered(shape, rows, number)


def _by_machine(machines: Sequence[int]) -> list[list[int]]:
    found: list[list[int]] = [[] for _ in range(max(machines) + 1)]
    for member, machine in enumerate(machines):
        found[machine].append(member)
    return found


def _tree(shape: _Shape) -> Schedule:
    machines = _by_machine(shape.machines)
    gpus, pairs = len(machines[0]), max(1, shape.lines // 2)
    rows: list[Row] = []
    number: list[int] = []
    for line in range(shape.lines):
        # Each pair of trees leaves machines at another GPU, so that all NICs have as many.
        turn = line // 2 * max(1, gpus // pairs) % gpus
        chains = [[*machine[turn:], *machine[:turn]] for machine in machines]
        if line % 2:
            above = parents_of_members([chain[::-1] for chain in chains], second_parents(len(machines)))
        else:
            above = parents_of_members(chains, parents(len(machines)))
        of_line = [*climb(above, line), *descend(above, line)]
        rows += of_line
        number += [line] * len(of_line)
    return _numbered(shape, rows, number)


def _nvls(shape: _Shape) -> Schedule:
    """Returns the schedule of NVLS on one machine."""
    members = len(shape.machines)
    if shape.kind is not Collective.ALL_REDUCE:
        return exchanges.to_all(members, Combine.COPY if shape.kind is Collective.ALL_GATHER else Combine.ADD)
    rows: list[Row] = []
    number: list[int] = []
    for head in range(shape.heads):
        to_head, from_head = _to_head([range(members)], head, head), _from_head([range(members)], head, head, 1)
        rows += [*to_head, *from_head]
        number += [0] * (members - 1) + [1] * (members - 1)
    return replace(schedule_of(members, shape.heads, rows), channel=np.array(number, np.int64))


def _nvls_tree(shape: _Shape) -> Schedule:
    machines = _by_machine(shape.machines)
    rows: list[Row] = []
    number: list[int] = []
    for line in range(shape.lines):
        head = line % shape.heads
        above = (second_parents if line // shape.heads % 2 else parents)(len(machines))
        between = [*climb(above, line), *descend(above, line)]
        steps = max(row[3] for row in between) + 1
        to_head, from_head = list(_to_head(machines, head, line)), list(_from_head(machines, head, line, steps + 1))
        rows += to_head
        for src, dst, part, step, combine, phase, opens in between:
            rows.append((machines[src][head], machines[dst][head], part, step + 1, combine, phase, opens))
        rows += from_head
        # What goes to heads and from heads takes links of its own, and each channel its own connections between machines.
        number += [0] * len(to_head) + [2 + line] * len(between) + [1] * len(from_head)
    return _numbered(shape, rows, number)


def _to_head(machines: Sequence[Sequence[int]], head: int, part: int) -> Iterator[Row]:
    for machine in machines:
        for member in machine:
            if member != machine[head]:
                yield member, machine[head], part, 0, Combine.ADD, 0, 1


def _from_head(machines: Sequence[Sequence[int]], head: int, part: int, step: int) -> Iterator[Row]:
    for machine in machines:
        for member in machine:
            if member != machine[head]:
                yield machine[head], member, part, step, Combine.COPY, 0, 1


def _pat(shape: _Shape) -> Schedule:
    """Returns the schedule of PAT. In an all-gather, a member has the parts of those behind it, and hands them to one
    that lacks them; a reduce-scatter is the same backwards."""
    members = len(shape.machines)
    steps = (members - 1).bit_length()
    rows: list[Row] = []
    for step in range(steps):
        distance = 1 << step
        for member in range(members):
            for ahead in range(min(distance, members - distance)):
                here, there, part = member, (member - distance) % members, (member + ahead) % members
                if shape.kind is Collective.ALL_GATHER:
                    rows.append((here, there, part, step, Combine.COPY, 0, int(ahead == 0)))
                else:
                    rows.append((there, here, part, steps - 1 - step, Combine.ADD, 0, int(ahead == 0)))
    return schedule_of(members, members, rows)


def _numbered(shape: _Shape, rows: Sequence[Row], number: Sequence[int]) -> Schedule:
    whole = schedule_of(len(shape.machines), shape.lines, rows)
    return replace(whole, channel=np.array(number, np.int64))


_BASES = {RING: _open_ring, TREE: _tree, NVLS: _nvls, NVLS_TREE: _nvls_tree, PAT: _pat}
