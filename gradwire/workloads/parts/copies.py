"""A part of a job whose ranks are classes: a few copies of each, which exchange with one another what they exchange with
all in the whole.

In a plan of classes (gradwire/datatypes/class_plans.py), copies do the same at the same time, and each sends to copies that
follow from its number. So a copy's surroundings are copies like it, and the part is closed like a ring: what its last copy
sends to the next one goes to the first. Each rank sends and receives as many messages of the same sizes from as many
others at its port as in the whole, in as many steps, and what is slow holds up its neighbours.

Messages between ranks that one rank stands for (a tensor group inside a machine) are the time that they take. Messages
carry no contributions, since not all ranks that contribute are there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from gradwire.datatypes.class_plans import ClassPlan, Peers
from gradwire.datatypes.plan import LATENCY_LANE, OP_DTYPES, Combine, Int64, OpKind, Ops, Plan, Role
from gradwire.faults import InputFault
from gradwire.workloads.engines.allreduce_transfers import turns
from gradwire.workloads.parts.causes import NOTHING
from gradwire.workloads.parts.cutting import told_apart, without_chunks
from gradwire.workloads.plan_size import MOST_OPS

LEAST_COPIES = 2
"""A copy would send to itself otherwise."""


@dataclass(frozen=True)
class PartByCopies:
    """The plan of some copies of each class, and which of the whole's ranks they are."""

    plan: Plan
    #: Ranks of the whole, one for each of the plan's.
    ranks: Int64
    #: Copies of each class that messages go around, here and in the whole.
    copies: int
    whole_copies: int
    #: How many further ranks of the whole, which do the same, are not there with each copy: other shares of a product.
    shares: int


def part_by_copies(classes: ClassPlan, copies: int, *, keep_shares: bool) -> PartByCopies:
    """So many copies of each class. Raises InputFault where so few, or so many, cannot stand for all.

    keep_shares: where copies form several rings that do not meet, such as the shares of a tensor group, whether there are
    copies of each ring, because they share ports, or of one.
    """
    around = _around(classes)
    if reason := _defect(classes, copies):
        possible = next(fewest_copies(classes), None)
        instead = "no number can stand for all: name hosts (part.hosts)" if possible is None else f"take {possible}"
        raise InputFault(f"part.copies = {copies}: {reason}; {instead}, or leave out [part]")
    rings = classes.members.shape[1] // around
    kept_rings = rings if keep_shares else 1
    kept = (np.arange(kept_rings)[:, None] * around + np.arange(copies)).ravel()
    members = classes.members[:, kept]
    return PartByCopies(_Copies(classes, members, copies).build(), members.ravel(), copies, around, rings // kept_rings)


def fewest_copies(classes: ClassPlan) -> Iterator[int]:
    """Numbers of copies that can stand for all, ascending."""
    return (copies for copies in range(LEAST_COPIES, _around(classes)) if not _defect(classes, copies))


def _around(classes: ClassPlan) -> int:
    """Copies in the largest ring: of the whole, or of each share."""
    copies = classes.members.shape[1]
    return max((peers.around or copies for peers in classes.peers if _goes_far(peers)), default=copies)


def _goes_far(peers: Peers) -> bool:
    return bool(peers.further or peers.flip or peers.messages > 1)


def _defect(classes: ClassPlan, copies: int) -> str:
    """Returns the reason why so many copies cannot stand for all; "" if they can."""
    around = _around(classes)
    if copies >= around:
        return f"there are {around:,} copies of each class"
    for peers in filter(_goes_far, classes.peers):
        own = peers.around or classes.members.shape[1]
        if peers.flip:
            return "pairs of copies exchange messages, and with fewer of them they would be others"
        if own < around:
            if copies % own:
                return f"groups of {own} copies exchange messages, and it is not a multiple of that"
            continue
        further = (peers.further + np.arange(peers.messages)) % copies
        if not further.all() or len(set(further.tolist())) < peers.messages:
            return "some copies would send to themselves, or twice to one"
    return ""


class _Copies:
    """The part under construction. Ops of one copy of all classes follow one another, copy by copy; an op of the classes'
    plan that stands for several messages is as many."""

    def __init__(self, classes: ClassPlan, members: Int64, copies: int) -> None:
        """Raises InputFault for more ops than a plan can have."""
        self.classes, self.members, self.copies = classes, members, copies
        ops = classes.plan.ops
        messages = np.array([peers.messages for peers in classes.peers], np.int64)
        is_send, is_recv = ops.kind == OpKind.SEND, ops.kind == OpKind.RECV
        #: Kind of receivers of each op's message, at both ends.
        self.kind = classes.peers_of.copy()
        self.kind[is_recv] = classes.peers_of[ops.message[is_recv]]
        self.times = np.where(is_send | is_recv, messages[self.kind], 1)
        self.kept = members.shape[1]
        count = int(self.times.sum()) * self.kept
        if count > MOST_OPS:
            raise InputFault(
                f"part.copies = {copies}: the plan of the part would have {count:,} ops, and may have {MOST_OPS:,}: take fewer "
                "copies, fewer workers (cluster.workers), or fewer messages (strategy.options)"
            )
        #: The class op of each op of a copy, and which of its messages it is.
        self.of = np.repeat(np.arange(len(ops)), self.times)
        self.first = np.cumsum(self.times) - self.times
        self.number = np.arange(len(self.of)) - self.first[self.of]

    def build(self) -> Plan:
        """Puts all together."""
        plan, kept = self.classes.plan, self.kept
        copy = np.repeat(np.arange(kept), len(self.of))
        of, number = np.tile(self.of, kept), np.tile(self.number, kept)
        columns = {name: getattr(plan.ops, name)[of].astype(np.int64) for name in OP_DTYPES}
        is_send, is_recv = columns["kind"] == OpKind.SEND, columns["kind"] == OpKind.RECV
        stays = self._stays()[of]
        class_rank, class_peer = columns["rank"], columns["peer"]
        columns["rank"] = class_rank * kept + copy
        sends, recvs = np.flatnonzero(is_send), np.flatnonzero(is_recv)
        peer_copy = np.zeros(len(of), np.int64)
        peer_copy[sends] = self._other(copy[sends], number[sends], self.kind[of[sends]], 1)
        peer_copy[recvs] = self._other(copy[recvs], number[recvs], self.kind[of[recvs]], -1)
        columns["peer"] = np.where(is_send | is_recv, class_peer * kept + peer_copy, NOTHING)
        # Both ends of a message have the same number among those that the class's op stands for.
        columns["message"][sends] = sends
        sent = plan.ops.message[of[recvs]]
        columns["message"][recvs] = peer_copy[recvs] * len(self.of) + self.first[sent] + number[recvs]
        queue_rank, queue_discipline = self._queues(columns, is_send, number, copy)
        columns["combine"] = np.where(is_recv, int(Combine.CONTROL), 0)
        columns["chunk"] = np.full(len(of), NOTHING)
        _make_times(columns, stays & (is_send | is_recv))
        columns["order"] = told_apart(columns["order"], columns["kind"] == OpKind.SEND)
        target, source, lag = self._waits(np.flatnonzero(stays & is_recv))
        by_target = np.argsort(target, kind="stable")
        return replace(
            plan,
            rank_role=np.full(self.members.size, int(Role.WORKER), np.uint8),
            queue_rank=queue_rank.astype(np.int32),
            queue_discipline=queue_discipline,
            ops=Ops(**{name: column.astype(OP_DTYPES[name]) for name, column in columns.items()}),
            dep_start=np.concatenate([[0], np.cumsum(np.bincount(target, minlength=len(of)))]).astype(np.int64),
            dep_op=source[by_target].astype(np.int64),
            dep_lag=lag[by_target].astype(np.uint8),
            begin_op=self._of_copies(plan.begin_op),
            end_op=self._of_copies(plan.end_op),
            **without_chunks(),
        )

    def _stays(self) -> npt.NDArray[np.bool_]:
        """Returns, for each class op, whether its message goes to the rank itself."""
        ops = self.classes.plan.ops
        near = np.array([not _goes_far(peers) for peers in self.classes.peers])
        stays: npt.NDArray[np.bool_] = (ops.peer == ops.rank) & near[self.kind]
        return stays

    def _other(self, copy: Int64, number: Int64, kind: Int64, way: int) -> Int64:
        """The copy at the other end of messages: the receiver's (way 1), or the sender's (way -1)."""
        peers = self.classes.peers
        around = np.array([self._group(each) for each in peers], np.int64)[kind]
        further = np.array([each.further for each in peers], np.int64)[kind] + number
        position = copy % around
        other: Int64 = copy - position + (position + way * further) % around
        return other

    def _group(self, peers: Peers) -> int:
        own = peers.around or self.classes.members.shape[1]
        return min(own, self.copies)

    def _queues(
        self, columns: dict[str, Int64], is_send: npt.NDArray[np.bool_], number: Int64, copy: Int64
    ) -> tuple[Int64, npt.NDArray[np.uint8]]:
        """Gives each copy queues like its class's, and messages that leave at one time queues for each of them."""
        plan = self.classes.plan
        sends = np.flatnonzero(is_send)
        most = int(self.times.max(initial=1))
        keys = (columns["lane"][sends] * most + number[sends]) * self.kept + copy[sends]
        found, lane = np.unique(keys, return_inverse=True)
        columns["lane"][sends] = lane.reshape(-1)
        rest, of_copy = np.divmod(found, self.kept)
        queue = rest // most
        return plan.queue_rank[queue].astype(np.int64) * self.kept + of_copy, plan.queue_discipline[queue]

    def _waits(self, stayed: Int64) -> tuple[Int64, Int64, Int64]:
        """Returns all dependencies as columns: the waiting op, the op that it waits for, and the lag. They are those of
        the class ops, for each op that these stand for, and those of the RECVs `stayed`, which wait for their SENDs."""
        plan = self.classes.plan
        waiting = np.repeat(np.arange(len(plan.ops)), np.diff(plan.dep_start))
        pairs = self.times[waiting] * self.times[plan.dep_op]
        edge = np.repeat(np.arange(len(waiting)), pairs)
        place = np.arange(len(edge)) - np.repeat(np.cumsum(pairs) - pairs, pairs)
        on = plan.dep_op[edge]
        target = self.first[waiting[edge]] + place // self.times[on]
        source = self.first[on] + place % self.times[on]
        shift = np.repeat(np.arange(self.kept) * len(self.of), len(target))
        copy, own = np.divmod(stayed, len(self.of))
        begun = copy * len(self.of) + self.first[plan.ops.message[self.of[own]]]
        return (
            np.concatenate([np.tile(target, self.kept) + shift, stayed]),
            np.concatenate([np.tile(source, self.kept) + shift, begun]),
            np.concatenate([np.tile(plan.dep_lag[edge].astype(np.int64), self.kept), np.zeros(len(stayed), np.int64)]),
        )

    def _of_copies(self, class_ops: Int64) -> Int64:
        """Returns these ops, one of each class, at all ranks in their order."""
        in_copies: Int64 = (self.first[class_ops][:, None] + np.arange(self.kept) * len(self.of)).ravel()
        return in_copies


def _make_times(columns: dict[str, Int64], chosen: npt.NDArray[np.bool_]) -> None:
    """Turns messages from a rank to itself into ops that only take time: SENDs of a queue pass one after the other, and
    RECVs take no time."""
    ops = np.flatnonzero(chosen)
    is_send = columns["kind"][ops] == OpKind.SEND
    sends, recvs = ops[is_send], ops[~is_send]
    rank = columns["rank"][sends]
    # Streams of a rank: one for each of these queues, and behind them one for each RECV.
    queues, number = np.unique(columns["lane"][sends], return_inverse=True)
    of_queue = np.zeros(len(queues), np.int64)
    of_queue[number.reshape(-1)] = rank
    columns["lane"][sends] = LATENCY_LANE + turns(of_queue)[number.reshape(-1)]
    columns["lane"][recvs] = LATENCY_LANE + len(queues) + turns(columns["rank"][recvs])
    columns["kind"][ops] = int(OpKind.COMPUTE)
    for name, value in {
        "size_bytes": 0,
        "peer": NOTHING,
        "message": NOTHING,
        "traffic_class": NOTHING,
        "combine": 0,
    }.items():
        columns[name][ops] = value
