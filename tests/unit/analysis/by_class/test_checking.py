"""Plans of classes are checked, and what ranks send each other is what plans with all ranks have."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gradwire.analysis.by_class.checking import check_classes
from gradwire.datatypes.class_plans import ClassPlan, Peers
from gradwire.datatypes.plan import Int64, OpKind
from gradwire.faults import InternalFault
from tests.unit.analysis.by_class.points import compiled_classes, resolved_point, whole_plan
from tests.unit.analysis.by_class.test_neighbouring_replicas import ATTENDING, MIXTURE, SHARDED
from tests.unit.analysis.by_class.test_pairs import EVEN
from tests.unit.analysis.by_class.test_same_times import RAILS, TRANSFORMER

DIVIDED = {"stages": 2, "microbatches": 4, "replica_batch": 4}


def compiled(strategy: str, neighbours: int, model: Any, options: dict[str, Any], **tables: Any) -> ClassPlan:
    point = resolved_point(strategy, 32, model=model, options=options, **{k: dict(v) for k, v in tables.items()})
    classes = compiled_classes(point, neighbours)
    assert isinstance(classes, ClassPlan)
    return classes


@pytest.mark.parametrize(
    ("strategy", "neighbours", "model", "options", "tables"),
    [
        ("fsdp", 1, TRANSFORMER, {}, {}),
        ("zero2", 4, TRANSFORMER, {"bucket_parameters": 5_000_000}, RAILS),
        ("halving-doubling", 4, EVEN, {}, {}),
        ("double-tree", 1, EVEN, {}, {}),
        ("megatron", 1, TRANSFORMER, {**DIVIDED, "tensor": 2, "sequence_parallel": True}, {}),
        ("megatron", 8, TRANSFORMER, {**DIVIDED, **SHARDED, "tensor": 2, "sequence_parallel": True}, RAILS),
        ("megatron", 4, MIXTURE, {**DIVIDED, "experts": 8, "tensor": 2}, RAILS),
        ("megatron", 1, MIXTURE, {"experts": 8}, {}),
        ("megatron", 4, ATTENDING, {**DIVIDED, "context": 4}, RAILS),
    ],
    ids=str,
)
def test_all_ranks_send_what_plans_with_all_ranks_say(
    strategy: str, neighbours: int, model: Any, options: dict[str, Any], tables: dict[str, Any]
) -> None:
    classes = compiled(strategy, neighbours, model, options, **tables)
    check_classes(classes)
    point = resolved_point(strategy, 32, model=model, options=options, **{k: dict(v) for k, v in tables.items()})
    ops, host = whole_plan(point).ops, classes.host_of_rank // classes.plan.nics_per_host
    sends = np.flatnonzero(ops.kind == OpKind.SEND)
    pairs, place = np.unique(ops.rank[sends].astype(np.int64) * 32 + ops.peer[sends], return_inverse=True)
    whole = dict(zip(pairs.tolist(), np.bincount(place, ops.size_bytes[sends]).tolist(), strict=True))
    expected = {pair: size for pair, size in whole.items() if host[pair // 32] != host[pair % 32]}
    src, dst, size_bytes = traffic(classes)
    found = dict(zip((src * 32 + dst).tolist(), size_bytes.tolist(), strict=True))
    assert {pair: size for pair, size in found.items() if host[pair // 32] != host[pair % 32]} == expected


def traffic(classes: ClassPlan) -> tuple[Int64, Int64, Int64]:
    """Sender, receiver and bytes of what each rank sends each other one in an iteration, ascending by ranks. What stays
    with a rank stands for messages inside its machine and is left out."""
    ops, size = classes.plan.ops, classes.members.size
    sends = np.flatnonzero(ops.kind == OpKind.SEND)
    pair, amount = [], []
    keys = (ops.rank[sends].astype(np.int64) * len(classes.members) + ops.peer[sends]) * len(classes.peers)
    distinct, key = np.unique(keys + classes.peers_of[sends], return_inverse=True)
    of_key = np.bincount(key, ops.size_bytes[sends], len(distinct)).astype(np.int64)
    for number, size_bytes in zip(distinct.tolist(), of_key.tolist(), strict=True):
        ranks, peers = divmod(number, len(classes.peers))
        sender, peer = divmod(ranks, len(classes.members))
        receivers = classes.receivers(peer, classes.peers[peers])
        senders = np.tile(classes.members[sender], classes.peers[peers].messages)
        pair.append(senders * size + receivers)
        amount.append(np.full(len(senders), size_bytes))
    pairs, place = np.unique(np.concatenate(pair), return_inverse=True)
    total = np.bincount(place, np.concatenate(amount), len(pairs)).astype(np.int64)
    src, dst = np.divmod(pairs, size)
    apart = src != dst
    return src[apart], dst[apart], total[apart]


def wrong(classes: ClassPlan, what: str) -> ClassPlan:
    """The plan with a mistake."""
    ops = classes.plan.ops
    if what == "members":
        members = classes.members.copy()
        members[0, 0] = members[0, 1]
        return replace(classes, members=members)
    if what == "size":
        sizes = ops.size_bytes.copy()
        sizes[np.flatnonzero(ops.kind == OpKind.RECV)[0]] += 4
        return replace(classes, plan=replace(classes.plan, ops=replace(ops, size_bytes=sizes)))
    if what == "receiver":
        messages = ops.message.copy()
        first, second = np.flatnonzero(ops.kind == OpKind.RECV)[:2]
        messages[first] = messages[second]
        return replace(classes, plan=replace(classes.plan, ops=replace(ops, message=messages)))
    peers = {"to itself": Peers(0, 32), "twice": Peers(1, 32, 33)}[what]
    return replace(classes, peers=(Peers(), *[peers] * (len(classes.peers) - 1)))


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("members", "each rank once"),
        ("size", "does not receive"),
        ("receiver", "one RECV each"),
        ("to itself", "to themselves"),
        ("twice", "to themselves|twice"),
    ],
)
def test_mistakes_are_found(what: str, said: str) -> None:
    classes = compiled("fsdp", 1, TRANSFORMER, {})
    check_classes(classes)
    with pytest.raises(InternalFault, match=said):
        check_classes(wrong(classes, what))
