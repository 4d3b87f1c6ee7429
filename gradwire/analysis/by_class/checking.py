"""Checks that a plan of classes is a plan of all ranks: each message that some rank sends is received by one, and once.

What is proven of all ranks follows from the classes by one assumption: copies do the same, each with the copies that
`Peers` names. Then it is enough that each SEND of a class has one RECV, at the class that it goes to, and that the copies
which it goes to are all copies of that class, equally often. In addition, the receivers of all messages of some ranks are
computed once more, one by one, from their numbers alone.

Which data messages carry is not in a plan of classes. That gradients reach all ranks is what the checker proves of plans
with all ranks (workloads/checker.py); tests hold the traffic between each two ranks of plans of classes to theirs.
"""

from __future__ import annotations

import numpy as np

from gradwire.datatypes.class_plans import ClassPlan, Peers
from gradwire.datatypes.plan import Int64, OpKind
from gradwire.faults import InternalFault

DRAWN_RANKS = 64
"""Ranks whose messages are followed one by one."""
SEED = 0
"""Decides which: the same ones of all plans of a size."""


def check_classes(classes: ClassPlan) -> None:
    """Raises InternalFault for a plan of classes that is not one of all ranks."""
    members = classes.members
    if not np.array_equal(np.sort(members, axis=None), np.arange(members.size)):
        raise _fault(classes, "its classes do not have each rank once")
    pairs = _matched(classes)
    for sender, peer, number in pairs:
        _expect_all_copies(classes, sender, peer, classes.peers[number])
    drawn = np.random.default_rng(SEED).choice(members.size, min(DRAWN_RANKS, members.size), replace=False)
    place = np.empty((members.size, 2), np.int64)
    place[members.ravel()] = np.indices(members.shape).reshape(2, -1).T
    of_class: dict[int, list[tuple[int, int]]] = {}
    for sender, peer, number in pairs:
        of_class.setdefault(sender, []).append((peer, number))
    for rank in drawn.tolist():
        _follow(classes, rank, place, of_class.get(int(place[rank, 0]), []))


def _matched(classes: ClassPlan) -> list[tuple[int, int, int]]:
    """The sending class, the receiving one and the kind of receivers of SENDs, each once. Raises InternalFault where a SEND
    has not one RECV of its size."""
    ops = classes.plan.ops
    sends, recvs = (np.flatnonzero(ops.kind == kind) for kind in (OpKind.SEND, OpKind.RECV))
    if not np.array_equal(np.sort(ops.message[recvs]), sends):
        raise _fault(classes, "some SENDs of a class have not one RECV each")
    sent = ops.message[recvs]
    alike = (
        (ops.rank[recvs] == ops.peer[sent])
        & (ops.peer[recvs] == ops.rank[sent])
        & (ops.size_bytes[recvs] == ops.size_bytes[sent])
    )
    if not alike.all():
        wrong = int(recvs[np.argmin(alike)])
        raise _fault(classes, f"op {wrong} does not receive what the class that it names sends")
    found = classes.sent()
    return list(zip(found.sender.tolist(), found.peer.tolist(), found.kind.tolist(), strict=True))


def _expect_all_copies(classes: ClassPlan, sender: int, peer: int, peers: Peers) -> None:
    """Raises InternalFault unless the messages of all copies of a class go to all copies of the other one, equally
    often, and none to its own sender."""
    receivers = classes.receivers(peer, peers)
    expected = np.repeat(np.sort(classes.members[peer]), peers.messages)
    if not np.array_equal(np.sort(receivers), expected):
        raise _fault(classes, f"messages of class {sender} reach some copies of class {peer} more often than others")
    stays = np.tile(classes.members[sender], peers.messages) == receivers
    if stays.any() and peers != Peers():
        raise _fault(classes, f"some ranks of class {sender} send to themselves")


def _follow(classes: ClassPlan, rank: int, place: Int64, sent: list[tuple[int, int]]) -> None:
    """Raises InternalFault unless each message of this rank goes to the rank that its number says, and no two to the
    same one. sent: the receiving class and the kind of receivers of its messages."""
    members, copies = classes.members, classes.members.shape[1]
    copy = int(place[rank, 1])
    for peer, number in sent:
        peers = classes.peers[number]
        around = peers.around or copies
        first, position = copy - copy % around, copy % around
        receivers = classes.receivers(peer, peers)[copy::copies]
        for message in range(peers.messages):
            there = position ^ peers.flip if peers.flip else (position + peers.further + message) % around
            if receivers[message] != members[peer, first + there]:
                raise _fault(classes, f"a message of rank {rank} does not go to rank {members[peer, first + there]}")
        if len(set(receivers.tolist())) != peers.messages:
            raise _fault(classes, f"rank {rank} sends a message to one rank twice where it should reach several")


def _fault(classes: ClassPlan, what: str) -> InternalFault:
    return InternalFault(
        f"the plan of '{classes.plan.name}' by classes is wrong: {what}; report this with the scenario"
    )
