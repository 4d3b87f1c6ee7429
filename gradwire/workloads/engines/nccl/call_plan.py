"""A call of NCCL as a plan: the messages of the channels of one NIC of each machine, with all that they wait for.

NICs carry as much as each other and nothing of each other, so that one of each machine stands for all. Ranks of a
machine are on one host, whose port is that NIC. `duration` gives the same times without a plan, in no time; the second
engine replays the plan on a network, which may be any.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from gradwire.datatypes.plan import Plan, Role
from gradwire.faults import InputFault
from gradwire.workloads.builder import PlanBuilder
from gradwire.workloads.engines.collectives.allreduces import NONE, parents, second_parents
from gradwire.workloads.engines.collectives.schedule import Collective
from gradwire.workloads.engines.nccl.chooser import NVLS_TREE, PAT, RING, TREE
from gradwire.workloads.engines.nccl.duration import WIRE, CallFacts

MOST_OPS = 400_000
"""Larger plans take minutes to build and to replay."""
FIRST_STREAM = 4
"""The first of a rank's streams on which the latencies of hops pass."""
SLOT_STREAMS = 1 << 20
"""The first of the streams on which slots of connections are waited for: behind all others."""
NVLS_STREAMS = 1 << 24
"""The streams on which NVLS adds, and then copies, pieces: behind all others."""
STREAMS = 61
"""Streams that messages which follow one another take in turn, so that their latencies pass at the same time. A prime,
which shares no factor with the number of GPUs: the messages of one rank take all of them."""


def steps_of(call: CallFacts) -> int:
    """Steps of a ring's loop."""
    return (2 if call.kind is Collective.ALL_REDUCE else 1) * (call.comm.ranks - 1)


def ops_of(call: CallFacts) -> int:
    """About how many ops the plan of a call has."""
    channels, loops = round(call.channels_of_a_nic), call.pieces.loops
    if _is_chain(call):
        return (5 if call.by_lines else 3) * channels * loops * call.comm.ranks
    if call.algorithm is RING:
        return (5 if call.by_lines else 3) * channels * loops * call.slices * call.comm.ranks * steps_of(call)
    ranks = call.comm.machines if call.algorithm is NVLS_TREE else call.comm.ranks
    return (10 if call.by_lines else 6) * channels * loops * ranks


def has_plan(call: CallFacts) -> bool:
    """Returns whether a call can be compiled to a plan: there are plans of rings, chains and trees between machines, and
    of trees on one."""
    return call.algorithm is TREE or (call.comm.machines > 1 and call.algorithm is not PAT)


def _is_chain(call: CallFacts) -> bool:
    """Returns whether a call's ring is open: that of a broadcast, and that of a reduction, which is the same
    backwards."""
    return call.algorithm is RING and call.kind in (Collective.BROADCAST, Collective.REDUCE)


def compile_call(call: CallFacts) -> Plan:
    """The plan of a call. Raises InputFault where there is none, or it is too large."""
    if not has_plan(call) or ops_of(call) > MOST_OPS:
        raise InputFault(
            f"{call.kind.value} of {call.size_bytes} bytes by {call.algorithm.value}: "
            f"{'has no plan' if not has_plan(call) else f'its plan has about {ops_of(call):,} ops, {MOST_OPS:,} at most'}"
        )
    if _is_chain(call):
        return _ChainPlan(call).build()
    return (_RingPlan(call) if call.algorithm is RING else _TreePlan(call)).build()


@dataclass
class _Lane:
    """A send queue of one rank to another."""

    queue: int
    dst: int
    #: Time before the network has a message; inside a machine, its time on the GPU's links.
    latency_s: float
    is_inside: bool
    #: The queue of first lines, where a chunk is passed on line by line, and the SEND of the last message.
    lines: int | None = None
    last: int | None = None
    #: The sender, between machines, its SENDs, and the first of the streams on which its slots are waited for.
    src: int = 0
    sent: list[int] = field(default_factory=list)
    slot_stream: int = 0


@dataclass(frozen=True)
class _Come:
    """Ops at which a message has come: its first line, for a GPU of the same machine that passes lines on, and all of it."""

    first: int
    whole: int


class _CallPlan:
    def __init__(self, call: CallFacts, gpus: int) -> None:
        self.call, self.gpus = call, gpus
        self.ranks = call.comm.machines * gpus
        self.builder = PlanBuilder(f"{call.kind.value} by {call.algorithm.value}")
        for rank in range(self.ranks):
            self.builder.rank(Role.WORKER, rank // gpus)
        self._messages = 0
        self._lanes_made = 0
        self.begun = [self.builder.compute(rank) for rank in range(self.ranks)]
        self.ended = [self.builder.compute(rank) for rank in range(self.ranks)]
        for rank in range(self.ranks):
            self.builder.depend(self.ended[rank], self.begun[rank])
            self.builder.iteration(rank, self.begun[rank], self.ended[rank])

    @property
    def channels(self) -> int:
        """Channels of the NIC."""
        return round(self.call.channels_of_a_nic)

    def lane(self, src: int, dst: int, data: float) -> _Lane:
        """A queue for messages of so many bytes of data."""
        call, inside = self.call, src // self.gpus == dst // self.gpus
        queue = self.builder.queue(src)
        # On the line, bursts already take what the host takes for full ones.
        latency_s = data / call.inside if inside else max(0.0, call.bursts_s(1, data) - data / call.between)
        self._lanes_made += 1
        return _Lane(
            queue,
            dst,
            latency_s,
            inside,
            self.builder.queue(src) if inside and call.by_lines else None,
            src=src,
            slot_stream=SLOT_STREAMS + self._lanes_made * call.pieces.slots,
        )

    def send(self, lane: _Lane, data: float) -> tuple[int, int]:
        """A message with so much data; its SEND and its RECV."""
        size_bytes = max(1, round(data * WIRE[self.call.protocol]))
        return self.builder.message(lane.queue, lane.dst, size_bytes, traffic_class=0, latency_s=lane.latency_s)

    def passed(self, lane: _Lane, data: float, after: list[int], stream: int) -> tuple[int, _Come]:
        """A message after some ops: its SEND, and when it has taken effect. Inside of a machine, that is a hop's latency
        after its last byte, and by lines, of its first line as well."""
        before = lane.last
        sent, received = self.send(lane, data)
        lane.last = sent
        self.builder.depend(sent, *after)
        if not lane.is_inside:
            self._after_a_slot(lane, sent)
            return sent, _Come(received, received)
        whole = self._a_hop_after(lane.dst, received, stream)
        if lane.lines is None:
            return sent, _Come(whole, whole)
        begun, line = self.builder.message(lane.lines, lane.dst, 1, traffic_class=0)
        self.builder.depend(begun, *after, *([] if before is None else [before]))
        return sent, _Come(self._a_hop_after(lane.dst, line, stream), whole)

    def _after_a_slot(self, lane: _Lane, sent: int) -> None:
        """A message to another machine takes the slot of the one that left so many messages before."""
        slot_s, slots = self.call.slot_s, self.call.pieces.slots
        if not slot_s:
            return
        if len(lane.sent) >= slots:
            stream = lane.slot_stream + len(lane.sent) % slots
            free = self.builder.compute(lane.src, slot_s, lane=stream)
            self.builder.depend(free, lane.sent[-slots])
            self.builder.depend(sent, free)
        lane.sent.append(sent)

    def _a_hop_after(self, rank: int, received: int, stream: int) -> int:
        self._messages += 1
        lane = FIRST_STREAM + stream * STREAMS + self._messages % STREAMS
        come = self.builder.compute(rank, self.call.hop_s, lane=lane)
        self.builder.depend(come, received)
        return come

    @staticmethod
    def needed(come: _Come, lane: _Lane) -> int:
        """Returns the op that a message on a lane waits for, of the two of a message that has come: its first line
        inside a machine, and the whole message between machines."""
        return come.first if lane.is_inside else come.whole

    def build(self) -> Plan:
        """Builds the plan."""
        for channel in range(self.channels):
            self._add(channel)
        return self.builder.build(0.0, 1)

    def _add(self, channel: int) -> None:
        raise NotImplementedError


class _RingPlan(_CallPlan):
    def __init__(self, call: CallFacts) -> None:
        super().__init__(call, call.comm.gpus)

    def _add(self, channel: int) -> None:
        call, depend = self.call, self.builder.depend
        ranks, slices = range(self.ranks), range(call.slices)
        data = call.size_bytes / (call.pieces.channels * call.pieces.loops * self.ranks * call.slices)
        lanes = [self.lane(rank, (rank + 1) % self.ranks, data) for rank in ranks]
        start: list[list[int]] = [[begun] for begun in self.begun]
        for _ in range(call.pieces.loops):
            ready: list[list[list[int]]] = [[start[rank] for _ in slices] for rank in ranks]
            last = [0 for _ in ranks]
            come: list[list[_Come]] = []
            for _ in range(steps_of(call)):
                come = [[_Come(0, 0) for _ in slices] for _ in ranks]
                for rank in ranks:
                    for piece in slices:
                        last[rank], come[lanes[rank].dst][piece] = self.passed(
                            lanes[rank], data, ready[rank][piece], channel
                        )
                ready = [[[self.needed(come[rank][piece], lanes[rank])] for piece in slices] for rank in ranks]
            start = [[last[rank], *(come[rank][piece].whole for piece in slices)] for rank in ranks]
        for rank in ranks:
            depend(self.ended[rank], *start[rank])


class _ChainPlan(_CallPlan):
    """The plan of a chain from the first GPU to the last."""

    def __init__(self, call: CallFacts) -> None:
        super().__init__(call, call.comm.gpus)

    def _add(self, channel: int) -> None:
        data, depend = self.call.data_of_a_piece, self.builder.depend
        lanes = [self.lane(rank, rank + 1, data) for rank in range(self.ranks - 1)]
        for _ in range(self.call.pieces.loops):
            come = _Come(self.begun[0], self.begun[0])
            for rank, lane in enumerate(lanes):
                sent, come = self.passed(lane, data, [self.needed(come, lane)], channel)
                depend(self.ended[rank], sent)
                depend(self.ended[rank + 1], come.whole)


class _TreePlan(_CallPlan):
    """A tree of machines; inside, a chain of GPUs, or NVLS, which is one rank a machine: it adds a piece before the tree
    and copies it after."""

    def __init__(self, call: CallFacts) -> None:
        super().__init__(call, 1 if call.algorithm is NVLS_TREE else call.comm.gpus)

    def _above(self, channel: int) -> list[int]:
        """Returns the parent of each rank in a channel's tree. The GPUs of a machine are a chain, whose first one has
        its parent on the machine above."""
        count, gpus = self.call.comm.machines, self.gpus
        machines = parents(count) if channel % 2 == 0 else second_parents(count)
        above = [NONE] * self.ranks
        for machine, parent in enumerate(machines):
            chain = list(range(machine * gpus, (machine + 1) * gpus))
            if channel % 2:
                chain.reverse()
            head = NONE if parent == NONE else parent * gpus + (gpus - 1 if channel % 2 else 0)
            above[chain[0]] = head
            for before, rank in pairwise(chain):
                above[rank] = before
        return above

    def _lanes(self, above: list[int], data: float) -> tuple[dict[int, _Lane], dict[int, _Lane]]:
        """Returns, by rank, the queue up to its parent, and the one down from there.

        What a GPU sends inside of its machine takes turns, up and down, as its links have both to carry.
        """
        inside: dict[int, int] = {}
        up: dict[int, _Lane] = {}
        down: dict[int, _Lane] = {}
        for rank, parent in enumerate(above):
            if parent == NONE:
                continue
            up[rank], down[rank] = self.lane(rank, parent, data), self.lane(parent, rank, data)
            if rank // self.gpus == parent // self.gpus:
                for one, sender in ((up[rank], rank), (down[rank], parent)):
                    one.queue = inside.setdefault(sender, one.queue)
        return up, down

    def build(self) -> Plan:
        """Builds the plan, loop by loop, in which order NVLS takes the pieces of all channels."""
        for _ in zip(*(self._loops(channel) for channel in range(self.channels)), strict=True):
            pass
        return self.builder.build(0.0, 1)

    def _loops(self, channel: int) -> Iterator[None]:
        above, depend = self._above(channel), self.builder.depend
        data = self.call.data_of_a_piece
        up, down = self._lanes(above, data)
        stream = 2 * channel
        order = list(_from_the_root(above))
        for _ in range(self.call.pieces.loops):
            sums: dict[int, list[_Come]] = {rank: [self._added(rank)] for rank in order}
            for rank in reversed(order):
                if rank in up:
                    sent, come = self.passed(
                        up[rank], data, [self.needed(each, up[rank]) for each in sums[rank]], stream
                    )
                    depend(self.ended[rank], sent)
                    sums[above[rank]].append(come)
            sums = {order[0]: sums[order[0]]}
            for rank in order[1:]:
                ready = [self.needed(each, down[rank]) for each in sums[above[rank]]]
                sent, come = self.passed(down[rank], data, ready, stream + 1)
                depend(self.ended[above[rank]], sent)
                sums[rank] = [come]
            for rank in order:
                depend(self.ended[rank], *self._copied(rank, [each.whole for each in sums[rank]]))
            yield

    def _added(self, rank: int) -> _Come:
        """The op at which a rank has a piece to pass on: at once, or when NVLS has added it."""
        begun = self.begun[rank]
        if self.call.algorithm is NVLS_TREE:
            begun = self.builder.compute(rank, self._nvls_piece_s, lane=NVLS_STREAMS)
            self.builder.depend(begun, self.begun[rank])
        return _Come(begun, begun)

    def _copied(self, rank: int, come: list[int]) -> list[int]:
        """The ops at which a machine has a piece that has come to its rank: with NVLS, when it is copied."""
        if self.call.algorithm is not NVLS_TREE:
            return come
        copied = self.builder.compute(rank, self._nvls_piece_s, lane=NVLS_STREAMS + 1)
        self.builder.depend(copied, *come)
        return [copied]

    @property
    def _nvls_piece_s(self) -> float:
        """Adding and copying go in opposite directions of links: each takes as long as both side by side."""
        return self.call.nvls_s(self.call.size_bytes / (self.call.pieces.loops * self.channels))


def _from_the_root(above: list[int]) -> Iterator[int]:
    below: dict[int, list[int]] = {}
    for rank, parent in enumerate(above):
        below.setdefault(parent, []).append(rank)
    waiting = list(below[NONE])
    while waiting:
        rank = waiting.pop(0)
        yield rank
        waiting += below.get(rank, [])
