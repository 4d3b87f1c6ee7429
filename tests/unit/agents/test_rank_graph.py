"""What an agent knows of a plan: which RECV a message that arrives belongs to, and what waits for what."""

from __future__ import annotations

from gradwire.agents.op_state import RankGraph
from gradwire.datatypes.plan import Role
from gradwire.workloads.builder import PlanBuilder


def test_a_message_belongs_to_the_recv_of_the_rank_that_it_reaches() -> None:
    """Of a message to a group each member has its own RECV, and an agent may have several members; of others there is
    one."""
    builder = PlanBuilder("to a group and to one")
    source, *members = (builder.rank(Role.WORKER, host) for host in range(4))
    queue = builder.queue(source)
    send, recvs = builder.group_message(queue, builder.group(members), 1000)
    alone, received = builder.message(queue, members[1], 10)
    for rank in (source, *members):
        compute = builder.compute(rank)
        builder.iteration(rank, compute, compute)
    plan = builder.build(compute_s=0.0, samples=1)
    graph = RankGraph(plan, {members[0], members[1]})
    assert [graph.recv_of(send, rank) for rank in members[:2]] == recvs[:2]
    assert graph.recv_of(alone, members[1]) == received
    assert graph.only_recv[send] == -1, "compiled agents take a message with such a RECV for one to a single rank"
    assert graph.only_recv[alone] == received
    elsewhere = RankGraph(plan, {members[2]})
    assert elsewhere.recv_of(send, members[2]) == recvs[2]
    assert elsewhere.only_recv[alone] == -1


def test_what_waits_for_an_op_is_known_with_how_many_iterations_later_it_is() -> None:
    """And how much an op waits for, in the first iteration, which has none before it, and in later ones; a RECV waits
    for its message."""
    builder = PlanBuilder("there and back")
    worker, other = builder.rank(Role.WORKER, 0), builder.rank(Role.SERVER, 1)
    compute = builder.compute(worker, 1e-3)
    send, recv = builder.message(builder.queue(worker), other, 1000)
    back, returned = builder.message(builder.queue(other), worker, 1000)
    builder.depend(send, compute)
    builder.depend(back, recv)
    builder.depend(compute, returned, lag=1)
    builder.iteration(worker, compute, returned)
    graph = RankGraph(builder.build(compute_s=1e-3, samples=1), {worker})

    def awaiting(op: int) -> list[tuple[int, int]]:
        these = range(graph.successors_start[op], graph.successors_start[op + 1])
        return [(graph.successor[at], graph.successor_lag[at]) for at in these]

    assert {op: awaiting(op) for op in (compute, send, recv, back, returned)} == {
        compute: [(send, 0)],
        send: [],
        recv: [],  # what waits for it is the other rank's
        back: [],
        returned: [(compute, 1)],
    }
    assert [graph.waits_first[op] for op in (compute, send, returned)] == [0, 1, 1]
    assert [graph.waits_later[op] for op in (compute, send, returned)] == [1, 1, 1]
