"""Jobs whose ranks are few classes: what the estimate of thousands of ranks needs of a plan, without an op for each
rank.

Ranks are of one class if they do the same, with peers of the same classes: then one rank of each class stands for all.
A `ClassPlan` is a plan of such ranks. Each class has as many ranks, its copies, and which copy of another class a
message goes to follows from the copy that sends it (`Peers`). A `RingSequence` is for jobs whose ranks differ by the sizes of
their messages alone: collectives around one ring, one after the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gradwire.datatypes.plan import Int64, OpKind, Plan

Float64 = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Folding:
    """The way in which a job's ranks are folded into classes."""

    #: Neighbours of which each is a class, where a strategy has one ring of all ranks: a multiple of a machine's
    #: workers, and a divisor of all.
    neighbours: int
    #: Whether links add nothing to the time that bytes take on the line.
    undelayed: bool = True


class NotByClass(Exception):
    """Raised for a job without classes of ranks, or without any that fare alike on a fabric. Says why in words that
    follow "because"."""


class Peers(NamedTuple):
    """The copies of a class that a message of another class goes to."""

    #: The receiver is the copy that is so many further, counted around.
    further: int = 0
    #: Copies that are counted around together, one such ring behind the other; a divisor of all. 0: all of them.
    around: int = 0
    #: Messages that the op stands for, of one size and at one time: to that copy, the next one, and so on.
    messages: int = 1
    #: Instead: the receiver is the copy whose number in its ring differs in these bits; 0 for none.
    flip: int = 0


class Sent(NamedTuple):
    """The SENDs between classes: each combination of sender, receiver and kind of receivers once, and the combination
    of each SEND."""

    sender: Int64
    peer: Int64
    #: Kind of receivers.
    kind: Int64
    #: SENDs of the plan, and the combination of each.
    sends: Int64
    of_send: Int64


@dataclass(frozen=True)
class ClassPlan:
    """A plan with one rank for each class."""

    #: The plan, whose ranks stand for the classes. A RECV's message is the SEND of the class that sends to it.
    plan: Plan
    #: The ranks of each class, shape (classes, copies).
    members: Int64
    #: Host of the fabric of each rank of the job.
    host_of_rank: Int64
    #: Kinds of receivers, and that of each SEND; 0 for other ops.
    peers: tuple[Peers, ...]
    peers_of: Int64
    #: How the plan differs from that of all ranks, as a sentence without its full stop; "" if nothing is left out.
    left_out: str = ""

    @property
    def ranks(self) -> int:
        """Ranks of the job."""
        return int(self.members.size)

    def sent(self) -> Sent:
        """Returns the SENDs between classes, grouped by sender, receiver and kind of receivers."""
        ops, classes, kinds = self.plan.ops, len(self.members), len(self.peers)
        sends = np.flatnonzero(ops.kind == OpKind.SEND)
        keys = (ops.rank[sends].astype(np.int64) * classes + ops.peer[sends]) * kinds + self.peers_of[sends]
        found, of_send = np.unique(keys, return_inverse=True)
        pairs, kind = np.divmod(found, kinds)
        sender, peer = np.divmod(pairs, classes)
        return Sent(sender, peer, kind, sends, of_send.reshape(-1))

    def receivers(self, of_class: int, peers: Peers) -> Int64:
        """The ranks that the copies of some class send to, if their receivers are of this class: message by message, and
        in each of them copy by copy."""
        copies = self.members.shape[1]
        by_ring = self.members[of_class].reshape(-1, peers.around or copies)
        if peers.flip:
            flipped: Int64 = by_ring[:, np.arange(by_ring.shape[1]) ^ peers.flip].ravel()
            return flipped
        receivers = [np.roll(by_ring, -(peers.further + number), axis=1).ravel() for number in range(peers.messages)]
        return np.concatenate(receivers)


@dataclass(frozen=True)
class RingCall:
    """One all-reduce around a ring of all ranks."""

    #: When it may start at a rank, counted from the start of the rank's iteration: one time for all, or one for each.
    ready_ns: Float64
    #: Bytes of each part, as many as ranks; larger ones come first, and those without bytes are not sent.
    part_bytes: Int64
    #: Time that the call takes before its first message.
    latency_ns: float = 0.0


@dataclass(frozen=True)
class RingSequence:
    """Iterations of all-reduces around one ring, one after the other, while computation continues undisturbed.

    A rank's next iteration starts when it has computed and all calls are over there.
    """

    name: str
    ranks: int
    #: Host of the fabric of each rank.
    host_of_rank: Int64
    #: NICs of each machine, which are hosts of the fabric one behind the other.
    nics_per_host: int
    calls: tuple[RingCall, ...]
    #: When a rank has computed, counted from the start of its iteration: one time for all, or one for each.
    computed_ns: Float64
    #: Software latency of a message to another machine, and inside one.
    latency_s: float
    local_latency_s: float
    #: Rate of a machine's own link.
    local_bytes_per_s: float
    compute_s: float
    samples: int
