"""A plan's connections are numbered the same way everywhere, and carry all that crosses the network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import given, settings

from gradwire.network.fabric import CONTROL_BAND
from gradwire.network.wire.flows import connection_of_send, connections_of
from gradwire.workloads.job import Cluster, Job
from gradwire.workloads.models.profile import LayerKind
from tests.shared.examples import examples
from tests.shared.small_jobs import choices, compiled, job_of, jobs, profile_of


@settings(max_examples=examples(25))
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


def test_one_connection_per_pair_and_class() -> None:
    """Two hosts, each a worker and a server: a worker asks and pushes (2), a server answers and ends (2), in each direction."""
    profile = profile_of([(LayerKind.CONV, [50]), (LayerKind.FC, [50])])
    job = job_of(profile, Cluster(2, 2))
    vanilla = connections_of(compiled(job, "vanilla", {})["vanilla"])
    assert len(vanilla) == 2 * 4
    assert sorted({c.band for c in vanilla}) == [CONTROL_BAND, 1]
    geryon = connections_of(compiled(job, "geryon", {})["coarse"])
    assert len(geryon) == 2 * 6
    assert sorted({c.band for c in geryon}) == [CONTROL_BAND, 1, 2]
