"""Headers come back as they went, and what is no header is refused; connections are numbered the same way everywhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradwire.agents.connections import CONTROL_BAND, connection_of_send, connections_of
from gradwire.agents.wire.framing import Framing, Header
from gradwire.faults import InternalFault
from gradwire.workloads.job import Cluster, Job
from gradwire.workloads.models.profile import LayerKind
from gradwire.workloads.plan import Contributions
from tests.shared.small_jobs import choices, compiled, job_of, jobs, profile_of

int32 = st.integers(-(2**31), 2**31 - 1)
uint32 = st.integers(0, 2**32 - 1)


@st.composite
def framed(draw: st.DrawFn) -> tuple[int, Header]:
    workers = draw(st.integers(1, 200))
    contributions = Contributions(draw(int32), draw(st.integers(0, (1 << workers) - 1)))
    sizes = st.integers(0, 2**63 - 1)
    fields = draw(uint32), draw(sizes), draw(int32), draw(int32), draw(int32), draw(int32), draw(sizes)
    return workers, Header(*fields, contributions)


@settings(max_examples=80, deadline=None)
@given(framed())
def test_round_trip(case: tuple[int, Header]) -> None:
    workers, header = case
    framing = Framing(workers)
    data = framing.pack(header)
    assert len(data) == framing.header_bytes == 48 + (workers + 7) // 8
    assert framing.unpack(data) == header
    assert framing.unpack(memoryview(data)) == header


HEADER = Header(1, 2, 3, 4, 5, 6, 7, Contributions(0, 0b101))


def test_layout_on_the_wire() -> None:
    """The written format, byte by byte."""
    data = Framing(9).pack(HEADER)
    assert data[:8] == b"GWIR\x01\x00\x00\x02"
    assert [int.from_bytes(data[at : at + 4], "big") for at in (8, 12, 24, 28, 32, 36)] == [1, 0, 3, 4, 5, 6]
    assert [int.from_bytes(data[at : at + 8], "big") for at in (16, 40)] == [2, 7]
    assert data[48:] == b"\x05\x00"


@pytest.mark.parametrize("at", [0, 3, 4, 7])
def test_what_is_no_header_of_this_plan_is_refused(at: int) -> None:
    data = bytearray(Framing(9).pack(HEADER))
    data[at] ^= 0x20
    with pytest.raises(InternalFault, match="lost its framing"):
        Framing(9).unpack(bytes(data))
    with pytest.raises(InternalFault, match="mask of 2 bytes"):
        Framing(17).unpack(Framing(9).pack(HEADER))


@settings(max_examples=25, deadline=None)
@given(job=jobs, choice=choices)
def test_connections_carry_every_remote_send(job: Job, choice: tuple[str, Mapping[str, Any]]) -> None:
    plan = next(iter(compiled(job, *choice).values()))
    connections = connections_of(plan)
    assert [c.number for c in connections] == list(range(len(connections)))
    assert connections == connections_of(plan)
    assert len({(c.queue, c.dst, c.traffic_class) for c in connections}) == len(connections)
    used = connection_of_send(plan, connections)
    assert sorted(used) == plan.is_remote().nonzero()[0].tolist()
    assert set(used.values()) == set(range(len(connections)))
    for send, number in used.items():
        connection = connections[number]
        assert (connection.src, connection.dst) == (plan.ops.rank[send], plan.ops.peer[send])
        assert connection.traffic_class == plan.ops.traffic_class[send]
        assert connection.src_host == plan.rank_host[connection.src] != connection.dst_host


def test_a_connection_a_pair_and_class() -> None:
    """Two hosts, each a worker and a server: a worker asks and pushes (2), a server answers and ends (2), in each direction."""
    profile = profile_of([(LayerKind.CONV, [50]), (LayerKind.FC, [50])])
    job = job_of(profile, Cluster(2, 2))
    vanilla = connections_of(compiled(job, "vanilla", {})["vanilla"])
    assert len(vanilla) == 2 * 4
    assert sorted({c.band for c in vanilla}) == [CONTROL_BAND, 1]
    geryon = connections_of(compiled(job, "geryon", {})["coarse"])
    assert len(geryon) == 2 * 6
    assert sorted({c.band for c in geryon}) == [CONTROL_BAND, 1, 2]
