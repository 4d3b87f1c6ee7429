"""Plans of several groups and kinds of message: what is stated of each chunk is checked, and kept by the ledger that
agents have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

from gradwire.datatypes.plan import Combine, Contributions, Ledger, OpKind, Plan, Role
from gradwire.faults import InternalFault
from gradwire.workloads.builder import PlanBuilder
from gradwire.workloads.checker import PlanError, check
from tests.shared.parts import in_order
from tests.shared.simulation import replay
from tests.shared.small_jobs import dependencies, with_copies, with_dependencies, without_op

BYTES = 1000
LEFT, RIGHT = (0, 1), (2, 3)
"""Two groups of four workers."""


class _Iteration:
    """Four workers that begin, work with what has arrived, and end."""

    def __init__(self) -> None:
        self.builder = PlanBuilder("groups")
        ranks = [self.builder.rank(Role.WORKER, host) for host in range(4)]
        self.queues = [self.builder.queue(rank) for rank in ranks]
        self.begins, self.works, self.ends = ([self.builder.compute(rank) for rank in ranks] for _ in range(3))
        for rank in ranks:
            self.builder.depend(self.begins[rank], self.ends[rank], lag=1)
            self.builder.depend(self.works[rank], self.begins[rank])
            self.builder.depend(self.ends[rank], self.works[rank])
            self.builder.iteration(rank, self.begins[rank], self.ends[rank])

    def _chunk(self, name: str, contributors: Sequence[int], receivers: Sequence[int]) -> int:
        return self.builder.chunk(self.builder.tensor(name), BYTES, contributors, receivers)

    def reduce_to_first(self, group: Sequence[int]) -> None:
        """All add to the first of a group, which needs the sum in the next iteration: a part of a reduce-scatter."""
        chunk = self._chunk(f"gradient of {group}", group, group[:1])
        for rank in group:
            self.builder.produces(self.works[rank], chunk)
        self.builder.consumes(self.works[group[0]], chunk)
        for rank in group[1:]:
            send, recv = self.builder.message(self.queues[rank], group[0], BYTES, chunk=chunk, combine=Combine.ADD)
            self.builder.depend(send, self.works[rank])
            self.builder.depend(recv, self.works[group[0]])
            self.builder.depend(self.ends[group[0]], recv)
            self.builder.depend(self.ends[rank], send)

    def copy(self, name: str, src: int, receivers: Sequence[int]) -> None:
        """One rank's chunk goes to others in the same iteration: an allgather's part, or to one receiver, a
        point-to-point message."""
        chunk = self._chunk(name, [src], receivers)
        self.builder.produces(self.begins[src], chunk)
        for dst in receivers:
            self.builder.needs(self.works[dst], chunk)
            if dst != src:
                send, recv = self.builder.message(self.queues[src], dst, BYTES, chunk=chunk, combine=Combine.COPY)
                self.builder.depend(send, self.begins[src])
                self.builder.depend(recv, self.begins[dst])
                self.builder.depend(self.works[dst], recv)
                self.builder.depend(self.ends[src], send)

    def plan(self) -> Plan:
        return self.builder.build(0.0, 4)


def mixed() -> Plan:
    """A reduction in each group, an allgather's part in each, an all-to-all of the first group, and a message from
    group to group."""
    parts = _Iteration()
    for group in (LEFT, RIGHT):
        parts.reduce_to_first(group)
        parts.copy(f"parameters of {group}", group[1], group)
    for src, dst in permutations(LEFT, 2):
        parts.copy(f"tokens from {src} to {dst}", src, [dst])
    parts.copy("activations", 1, [3])
    return parts.plan()


def test_several_groups_and_kinds_of_message_are_one_plan() -> None:
    plan = mixed()
    check(plan)
    assert len(replay(plan, 3).op) == 3 * len(plan.ops)
    assert plan.contributors() == {0: 0b0011, 1: 0b0010, 2: 0b1100, 3: 0b1000, 4: 0b0001, 5: 0b0010, 6: 0b0010}


def test_each_op_is_needed() -> None:
    plan = mixed()
    for op in range(len(plan.ops)):
        with pytest.raises(PlanError):
            check(without_op(plan, op))


def test_a_message_comes_once() -> None:
    plan = mixed()
    for send in np.flatnonzero(plan.ops.kind == OpKind.SEND).tolist():
        recv = np.flatnonzero((plan.ops.kind == OpKind.RECV) & (plan.ops.message == send)).tolist()
        with pytest.raises(PlanError):
            check(with_copies(plan, [send, *recv]))


def needed_arrivals(plan: Plan) -> Iterator[tuple[int, int, int]]:
    """Dependencies on messages."""
    return (dep for dep in dependencies(plan) if plan.ops.kind[dep[1]] == OpKind.RECV)


def test_who_does_not_wait_for_what_it_needs_is_refused() -> None:
    plan = mixed()
    needed = list(needed_arrivals(plan))
    assert len(needed) == 2 + 2 + 2 + 1
    for dep in needed:
        with pytest.raises(PlanError, match="needs chunk"):
            check(with_dependencies(plan, [kept for kept in dependencies(plan) if kept != dep]))


def test_agents_find_that_something_needed_is_not_there() -> None:
    """Rank 3 waits for one message only, the activations."""
    plan = mixed()
    (dep,) = (arrival for arrival in needed_arrivals(plan) if plan.ops.rank[arrival[0]] == 3)
    with pytest.raises(InternalFault, match=in_order("this iteration", "holds", "iteration")):
        replay(with_dependencies(plan, [arrival for arrival in dependencies(plan) if arrival != dep]), 2)


def test_who_sends_before_it_has_anything_is_refused() -> None:
    """Without its dependency on the op that yields the chunk, a SEND may carry the iteration before."""
    plan = mixed()
    sends = np.flatnonzero(plan.ops.kind == OpKind.SEND).tolist()
    for send in sends:
        kept = [dep for dep in dependencies(plan) if dep[0] != send]
        rank = int(plan.ops.rank[send])
        earlier = int(plan.end_op[rank])
        with pytest.raises(PlanError):
            check(with_dependencies(plan, [*kept, (send, earlier, 1)]))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda plan: {"produces": plan.produces[1:]}, "needs chunk 0, but holds that of iteration -1"),
        (lambda plan: {"needs": plan.needs[1:]}, "worker rank 0 never needs chunk 1"),
        (lambda plan: {"consumes": plan.consumes[1:]}, "worker rank 0 never needs chunk 0"),
        (
            lambda plan: {"produces": np.vstack([plan.produces, [[plan.begin_op[3], 0]]])},
            "worker rank 3 contributes, though it is none of the contributors, to chunk 0",
        ),
        (lambda plan: {"chunk_contributors": plan.chunk_contributors[1:]}, "6 of 7 chunks have a set of workers"),
        (lambda plan: {"chunk_receivers": plan.chunk_receivers + 99}, "a chunk's receivers does not exist"),
        (lambda plan: {"set_rank": plan.set_rank + 9}, "a set of workers is empty, or has a rank that is not a worker"),
        (lambda plan: {"needs": plan.needs + np.array([0, 99])}, "a needed chunk does not exist"),
    ],
)
def test_what_is_stated_wrongly_is_refused(change: object, said: str) -> None:
    plan = mixed()
    assert callable(change)
    with pytest.raises(PlanError, match=said):
        check(replace(plan, **change(plan)))


def test_a_sum_over_another_group_is_not_the_chunk() -> None:
    """The gradients of ranks 0 and 1 do not make a chunk complete to which 2 and 3 are said to contribute."""
    plan = mixed()
    sets = {tuple(plan.set_ranks(number).tolist()): number for number in range(len(plan.set_start) - 1)}
    wrong = plan.chunk_contributors.copy()
    wrong[0] = sets[RIGHT]
    with pytest.raises(PlanError, match="needs chunk 0"):
        check(replace(plan, chunk_contributors=wrong))


def test_a_plan_with_groups_survives_its_file(tmp_path: Path) -> None:
    plan = mixed()
    plan.save(tmp_path / "plan.npz")
    again = Plan.load(tmp_path / "plan.npz")
    assert again.digest() == plan.digest()
    assert again.contributors() == plan.contributors()


def test_the_digest_knows_the_groups() -> None:
    plan = mixed()
    others = plan.chunk_receivers.copy()
    others[0] = -1
    assert replace(plan, chunk_receivers=others).digest() != plan.digest()
    assert replace(plan, needs=plan.needs[:-1]).digest() != plan.digest()


def test_the_ledger_counts_to_a_groups_contributors() -> None:
    ledger = Ledger(4, {7: 0b1100})
    ledger.produce(2, 7, 2, iteration=5)
    assert ledger.complete(2, 7) == -1
    assert ledger.arrive(2, 7, Combine.ADD, Contributions(5, 0b1000)) is None
    assert ledger.complete(2, 7) == 5
    assert ledger.outgoing(2, 7, Combine.COPY) == Contributions(5, 0b1100)
    assert ledger.arrive(3, 7, Combine.COPY, Contributions(5, 0b1111)) is not None
    ledger.produce(2, 8, 2, iteration=5)
    assert ledger.complete(2, 8) == -1
