"""The names that go in front of the Wireshark dissector; what the dissector makes of them is tested with tshark, end to end."""

from __future__ import annotations

import pytest

from gradwire.analysis.packets.captures import DISSECTOR, dissector_text, lua_text, slices_of
from gradwire.datatypes.plan import Combine, Plan, Role
from gradwire.network.fabric import Fabric
from gradwire.workloads.builder import PlanBuilder

FABRIC = Fabric(hosts=3, rate_bps=1e9)


def plan_of_slices() -> Plan:
    """A tensor in two slices and one whole, pushed by the workers on h1 and h2 to the server on h3."""
    builder = PlanBuilder("slices")
    server = builder.rank(Role.SERVER, 2)
    tensors = [builder.tensor("fc/weights"), builder.tensor('odd "name"\\')]
    chunks = [builder.chunk(tensors[0], 100), builder.chunk(tensors[0], 60), builder.chunk(tensors[1], 4)]
    for host in (0, 1):
        worker = builder.rank(Role.WORKER, host)
        queue = builder.queue(worker)
        compute = builder.compute(worker, 0.01)
        for order, chunk in enumerate(chunks):
            push, _ = builder.message(queue, server, 100, chunk=chunk, combine=Combine.ADD, order=10 - order)
            builder.depend(push, compute)
        builder.iteration(worker, compute, compute)
    return builder.build(compute_s=0.01, samples=1)


def test_tensors_slices_ranks_and_messages_are_named() -> None:
    plan = plan_of_slices()
    text = dissector_text(plan, FABRIC, [0])
    assert slices_of(plan) == [(1, 2), (2, 2), (1, 1)]
    assert '[0]="rank 0 (server on h3)",' in text
    assert '[1]="rank 1 (worker on h1)",' in text
    assert '[0]="fc/weights",' in text
    assert "[1]={2,2}," in text
    sends = [op for op in range(len(plan.ops)) if plan.ops.message[op] == op]
    named = [op for op in sends if f"[{op}]={{3,{plan.ops.order[op]}}}," in text]
    assert named == [op for op in sends if plan.ops.rank[op] == 1]  # those of h2 do not pass h1's port
    assert text.endswith(DISSECTOR.read_text())
    assert plan.digest() in text


@pytest.mark.parametrize(
    ("text", "literal"),
    [
        ("conv1/weights", '"conv1/weights"'),
        ('a "b"', '"a \\034b\\034"'),
        ("back\\slash", '"back\\092slash"'),
        ("line\nend", '"line\\010end"'),
        ("Größe", '"Gr\\195\\182\\195\\159e"'),
    ],
)
def test_a_lua_string_says_the_same(text: str, literal: str) -> None:
    assert lua_text(text) == literal
