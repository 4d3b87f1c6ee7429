"""Jobs on fabrics with support of the network, and the bytes that their plans put on each link by the rules of the switches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from gradwire.controller.rules import Hop
from gradwire.controller.switch_flows import switch_rules, trace, trace_group
from gradwire.datatypes.plan import Plan
from gradwire.network.fabric import Fabric, MulticastGroup, Topology, dscp_of_band
from gradwire.workloads.job import Cluster, Job
from gradwire.workloads.models.profile import LayerKind
from tests.shared.small_jobs import job_of, profile_of


def with_groups(fabric: Fabric, plan: Plan) -> Fabric:
    """The fabric with the groups of a plan."""
    return replace(fabric, groups=tuple(MulticastGroup(*tree) for tree in plan.multicasts()))


def link_bytes(plan: Plan, fabric: Fabric) -> Counter[tuple[str, int]]:
    """Bytes of chunks that each switch port sends, and that each endpoint's own port does (its name, port 0)."""
    fabric = with_groups(fabric, plan)
    rules, ops = switch_rules(fabric), plan.ops
    bytes_of: Counter[tuple[str, int]] = Counter()
    for send in np.flatnonzero(plan.is_remote() & (ops.chunk >= 0)).tolist():
        source, dscp = int(plan.rank_host[ops.rank[send]]), dscp_of_band(1)
        if ops.group[send]:
            hops = trace_group(fabric, rules, group_of(plan, fabric, send), dscp)
        else:
            hops = list(_path(fabric, trace(fabric, rules, source, int(plan.rank_host[ops.peer[send]]), dscp)))
        bytes_of[fabric.endpoint_names()[source], 0] += int(ops.size_bytes[send])
        for hop in hops:
            bytes_of[hop.switch, hop.output_port] += int(ops.size_bytes[send])
    return bytes_of


def group_of(plan: Plan, fabric: Fabric, send: int) -> int:
    """Index of a group SEND's group in the fabric."""
    group = plan.ops.peer[send]
    ranks = plan.group_rank[plan.group_start[group] : plan.group_start[group + 1]]
    members = tuple(np.unique(plan.rank_host[ranks]).tolist())
    return fabric.groups.index(MulticastGroup(int(plan.rank_host[plan.ops.rank[send]]), members))


def _path(fabric: Fabric, hops: list[Hop]) -> Iterator[Hop]:
    assert hops, "lost at the first switch"
    yield from hops


LAYERS = st.lists(
    st.tuples(st.sampled_from([LayerKind.CONV, LayerKind.FC]), st.lists(st.integers(1, 300), max_size=2)),
    min_size=1,
    max_size=4,
).filter(lambda layers: any(sizes for _, sizes in layers))


@st.composite
def supported_jobs(draw: st.DrawFn) -> Job:
    """Jobs with a fabric, a single switch or a leaf/spine, that has aggregators."""
    workers, servers, colocated = draw(st.integers(1, 6)), draw(st.integers(1, 3)), draw(st.booleans())
    cluster = Cluster(workers, servers, colocated)
    leaves = draw(st.sampled_from([n for n in (1, 2, 3) if cluster.hosts % n == 0]))
    fabric = Fabric(cluster.hosts, 1e9, classes=1, aggregators=True, seed=draw(st.integers(0, 5)))
    if draw(st.booleans()):
        fabric = replace(fabric, topology=Topology.LEAF_SPINE, leaves=leaves, spines=draw(st.integers(1, 3)))
    return replace(job_of(profile_of(draw(LAYERS)), cluster, seed=fabric.seed), fabric=fabric)
