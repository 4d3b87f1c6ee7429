"""Multicast: switches' groups, sequence numbers and repair without a socket, and the plans that use it."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradwire.agents.multicast_protocol import DatagramContent, Delivered, ReceiveWindow, SendWindow
from gradwire.controller.switch_flows import switch_rules, trace_group
from gradwire.datatypes.plan import Contributions, OpKind, Plan, Role
from gradwire.datatypes.wire.framing import Framing, Header
from gradwire.faults import InputFault, InternalFault
from gradwire.network.fabric import Fabric, MulticastGroup, Topology, dscp_of_band
from gradwire.network.wire.datagrams import FIRST, PROBE, DatagramSizes, Status
from gradwire.network.wire.flows import multicast_flows_of
from gradwire.workloads.builder import PlanBuilder
from gradwire.workloads.checker import PlanError, check
from gradwire.workloads.job import BYTES_PER_PARAMETER, Cluster, Job
from gradwire.workloads.models.profile import LayerKind
from tests.shared.examples import examples
from tests.shared.fabric_links import link_bytes, supported_jobs, with_groups
from tests.shared.small_jobs import compiled, dependencies, job_of, profile_of, with_cell, with_dependencies, without_op

LEAF_SPINE = Fabric(12, 1e9, Topology.LEAF_SPINE, leaves=3, spines=2)
FRAMING = Framing(8)
SHAPE = DatagramSizes(size_bytes=116, piece_bytes=100, burst=8)
WINDOW_BYTES = 3200


@st.composite
def grouped(draw: st.DrawFn) -> Fabric:
    """A fabric with one group."""
    leaves, per_leaf, spines = draw(st.integers(1, 4)), draw(st.integers(1, 4)), draw(st.integers(1, 3))
    hosts = leaves * per_leaf
    source = draw(st.integers(0, hosts - 1))
    others = [host for host in range(hosts) if host != source]
    members = tuple(sorted(draw(st.sets(st.sampled_from(others), min_size=1)))) if others else ()
    fabric = Fabric(
        hosts, 1e9, Topology.LEAF_SPINE, leaves=leaves, spines=spines, classes=2, seed=draw(st.integers(0, 99))
    )
    return replace(fabric, groups=(MulticastGroup(source, members),) if members else ())


@settings(max_examples=examples(60))
@given(fabric=grouped(), band=st.integers(0, 2))
def test_every_member_gets_one_copy_and_no_link_carries_two(fabric: Fabric, band: int) -> None:
    if not fabric.groups:
        return
    (group,) = fabric.groups
    hops = trace_group(fabric, switch_rules(fabric), 0, dscp_of_band(band))
    assert {hop.band for hop in hops} == {band}
    links = Counter((hop.switch, hop.output_port) for hop in hops)
    assert set(links.values()) == {1}
    ends = {(link.b.device, link.b.number): link.a.device for link in fabric.links()[: fabric.hosts]}
    reached = sorted(ends[link] for link in links if link in ends)
    assert reached == sorted(fabric.host_names()[member] for member in group.members)
    far = {fabric.leaf_of(member) for member in group.members} - {fabric.leaf_of(group.source)}
    assert len(links) - len(reached) == (1 + len(far) if far else 0)


def test_groups_use_both_spines_and_the_seed_decides() -> None:
    """Up-links of the source's leaf: the one copy of each group, spread."""
    groups = tuple(MulticastGroup(0, (member, 11)) for member in range(1, 11))
    used = []
    for seed in (1, 2):
        fabric = replace(LEAF_SPINE, groups=groups, seed=seed)
        rules = switch_rules(fabric)
        hops = [hop for group in range(10) for hop in trace_group(fabric, rules, group, dscp_of_band(1))]
        used.append([hop.switch for hop in hops if hop.switch in fabric.spine_names()])
    assert set(used[0]) == set(LEAF_SPINE.spine_names())
    assert used[0] != used[1]


def test_a_fabric_without_groups_has_the_rules_that_it_always_had() -> None:
    """IGMP reports are dropped by a rule only where somebody joins."""
    plain, joined = switch_rules(LEAF_SPINE), switch_rules(replace(LEAF_SPINE, groups=(MulticastGroup(0, (5,)),)))
    assert not any(switch.groups for switch in plain)
    reports = [
        sum(rule.match is not None and rule.match.destination_ip == "224.0.0.22" for rule in s.flows) for s in joined
    ]
    assert reports == [1, 1, 1, 0, 0]
    for before, after in zip(plain, joined, strict=True):
        assert set(before.flows) <= set(after.flows)


@pytest.mark.parametrize("group", [MulticastGroup(0, ()), MulticastGroup(0, (0, 1)), MulticastGroup(0, (12,))])
def test_impossible_groups_are_rejected(group: MulticastGroup) -> None:
    with pytest.raises(InputFault, match="other hosts"):
        replace(LEAF_SPINE, groups=(group,))


def test_a_fabric_with_groups_and_aggregators_survives_json() -> None:
    fabric = replace(LEAF_SPINE, aggregators=True, groups=(MulticastGroup(0, (1, 7)), MulticastGroup(3, (2,))))
    assert Fabric.from_json(fabric.to_json()) == fabric


def test_bursts_are_no_longer_than_the_grain_of_preemption() -> None:
    assert DatagramSizes.of(Fabric(2, 1e9)) == DatagramSizes(1472, 1456, 44)
    assert DatagramSizes.of(Fabric(2, 1e9, gso_bytes=1514)).burst == 1
    assert DatagramSizes.of(Fabric(2, 1e9, mtu_bytes=9000)).burst == 7


def test_reports_survive_packing_and_noise_does_not() -> None:
    status = Status(3, 7, 1 << 40, ((5, 9), (11, 12)))
    assert Status.unpack(status.pack()) == status
    for broken in (b"", status.pack()[:-1], status.pack() + b"x"):
        with pytest.raises(InternalFault, match="multicast report"):
            Status.unpack(broken)


class Wire:
    """A sender, its members, and a wire that loses what `loses` says."""

    def __init__(self, members: int, seed: int, loss: float) -> None:
        self.random = random.Random(seed)
        self.loss = loss
        self.sender = SendWindow(tuple(range(members)), SHAPE, WINDOW_BYTES, patience_ns=1000)
        self.members = [ReceiveWindow(0, member, SHAPE, FRAMING, WINDOW_BYTES) for member in range(members)]
        self.delivered: list[list[Header]] = [[] for _ in range(members)]
        self.now_ns = 0
        self.ahead = 0

    def begin(self, message: int, size_bytes: int) -> None:
        header = Header(0, message, 0, 1, 0, 0, size_bytes, Contributions(0, 255))
        self.sender.begin(FRAMING.pack(header), size_bytes)

    def loses(self) -> bool:
        return self.random.random() < self.loss

    def to(self, member: int, piece: DatagramContent, count: int, flags: int) -> None:
        head = piece.head.ljust(FRAMING.header_bytes, b"\0")
        flags |= FIRST if piece.head else 0
        messages, status = self.members[member].take(piece.sequence, count, flags, head, self.now_ns)
        self.delivered[member] += [message.header for message in messages]
        if status is not None and not self.loses():
            for missing in self.sender.report(Status.unpack(status.pack()), self.now_ns):
                if not self.loses():
                    self.to(member, self.sender.piece(missing), 1, 0)

    def multicast(self, sequence: int, count: int, flags: int = 0) -> None:
        """Packet by packet where some are lost, else whole bursts."""
        size = 1 if self.loss else count
        for piece in [self.sender.piece(first) for first in range(sequence, sequence + count, size)]:
            for member in range(len(self.members)):
                if not self.loses():
                    self.to(member, piece, size, flags)

    def run(self, *, until_quiet: bool) -> int:
        """Until all is sent, or every member has everything; returns the number of probes."""
        probes = 0
        while self.sender.unsent or (until_quiet and not self.sender.is_quiet):
            pieces = self.sender.burst(self.now_ns, SHAPE.burst)
            if pieces:
                count = pieces[-1].sequence - pieces[0].sequence + 1
                self.sender.sent(count)
                self.multicast(pieces[0].sequence, count)
                self.ahead = max(self.ahead, self.sender.next - min(m.cumulative for m in self.members))
                continue
            deadline_ns = self.sender.deadline_ns()
            assert deadline_ns is not None
            self.now_ns = max(self.now_ns, deadline_ns)
            probe = self.sender.probe(self.now_ns)
            assert probe is not None
            probes += 1
            self.multicast(probe.sequence, 1, PROBE)
        return probes


@settings(max_examples=examples(60))
@given(
    sizes=st.lists(st.integers(0, 6000), min_size=1, max_size=6),
    members=st.integers(1, 4),
    seed=st.integers(0, 999),
    loss=st.sampled_from([0.0, 0.01, 0.2, 0.5]),
)
def test_every_message_arrives_once_and_in_order_whatever_is_lost(
    sizes: list[int], members: int, seed: int, loss: float
) -> None:
    wire, probes = Wire(members, seed, loss), 0
    for message, size_bytes in enumerate(sizes):
        wire.begin(message, size_bytes)
        probes += wire.run(until_quiet=False)
    probes += wire.run(until_quiet=True)
    for delivered in wire.delivered:
        assert [(header.message, header.size_bytes) for header in delivered] == list(enumerate(sizes))
    assert wire.ahead <= WINDOW_BYTES // SHAPE.piece_bytes
    if not loss:
        assert (probes, wire.sender.repairs) == (0, 0)


def member() -> ReceiveWindow:
    return ReceiveWindow(4, 9, SHAPE, FRAMING, WINDOW_BYTES)


def head_of(size_bytes: int) -> bytes:
    return FRAMING.pack(Header(0, 5, 0, 1, 0, 0, size_bytes, Contributions(0, 255)))


def test_a_gap_is_reported_at_once_and_once() -> None:
    window = member()
    assert window.take(0, 2, FIRST, head_of(950), 10) == ([], None)
    assert window.take(4, 1, 0, b"", 20)[1] == Status(4, 9, 2, ((2, 4),))
    assert window.take(5, 1, 0, b"", 30) == ([], None)
    assert window.take(9, 1, PROBE, b"", 40)[1] == Status(4, 9, 2, ((2, 4), (6, 9)))
    assert window.take(3, 1, 0, b"", 50) == ([], None)
    assert window.take(2, 1, 0, b"", 60) == ([], Status(4, 9, 6, ()))
    delivered, status = window.take(6, 3, 0, b"", 70)
    assert [(message.header.message, message.start_ns) for message in delivered] == [(5, 10)]
    assert status == Status(4, 9, 10, ())


def test_duplicates_change_nothing() -> None:
    window = member()
    assert window.take(0, 2, FIRST, head_of(120), 1)[0] == [Delivered(FRAMING.unpack(head_of(120)), 1)]
    assert window.take(0, 1, FIRST, head_of(120), 2) == ([], None)
    assert window.cumulative == 2


def test_a_report_of_what_was_never_sent_is_a_bug() -> None:
    sender = SendWindow((1,), SHAPE, WINDOW_BYTES, 1000)
    for wrong in (Status(0, 1, 1, ()), Status(0, 2, 0, ())):
        with pytest.raises(InternalFault, match="cannot be"):
            sender.report(wrong, 0)


def test_probes_come_ever_more_rarely_until_something_is_heard() -> None:
    sender = SendWindow((1,), SHAPE, WINDOW_BYTES, 1000)
    sender.begin(head_of(0), 0)
    sender.burst(50, 1)
    sender.sent(1)
    assert sender.deadline_ns() == 1050
    assert sender.probe(1049) is None
    assert sender.probe(1050) is not None
    assert sender.deadline_ns() == 3050
    assert sender.report(Status(0, 1, 0, ((0, 1),)), 1060) == [0]
    sender.report(Status(0, 1, 1, ()), 1070)
    assert sender.is_quiet
    assert sender.deadline_ns() is None


def multicast_plan(options: dict[str, object] | None = None, cluster: Cluster | None = None) -> Plan:
    profile = profile_of([(LayerKind.CONV, [10, 20]), (LayerKind.FC, [300])])
    job = job_of(profile, cluster or Cluster(3, 2, colocated=False))
    return compiled(job, "multicast-ps", options or {})["multicast-ps"]


@settings(max_examples=examples(30))
@given(job=supported_jobs(), barrier=st.booleans(), message_parameters=st.sampled_from([0, 40]))
def test_one_copy_of_each_parameter_on_each_link(job: Job, barrier: bool, message_parameters: int) -> None:
    """Down: one copy to every host but the server's own. Up: W copies reach the server."""
    assert job.fabric is not None
    options = {"barrier": barrier, "message_parameters": message_parameters, "placement": "split"}
    plan = compiled(job, "multicast-ps", options)["multicast-ps"]
    check(plan)
    sends = plan.ops.group == 1
    held = np.bincount(plan.rank_host[plan.ops.rank[sends]], plan.ops.size_bytes[sends], plan.hosts).astype(int)
    down_only = only_multicast(plan)
    bytes_of = link_bytes(down_only, job.fabric)
    for host, name in enumerate(job.fabric.host_names()):
        assert bytes_of[name, 0] == (held[host] if host < len(held) else 0)
        link = job.fabric.links()[host]
        worker_here = host < job.cluster.worker_hosts
        expected = sum(held) - (held[host] if host < len(held) else 0) if worker_here else 0
        assert bytes_of[link.b.device, link.b.number] == expected
    for link in job.fabric.links()[job.fabric.hosts :]:
        for end in (link.a, link.b):
            assert bytes_of[end.device, end.number] <= sum(held)


def only_multicast(plan: Plan) -> Plan:
    """The plan with its unicast messages made control messages, so that only multicast counts."""
    chunk = np.where(plan.ops.group[np.maximum(plan.ops.message, 0)] == 1, plan.ops.chunk, -1).astype(np.int32)
    return replace(plan, ops=replace(plan.ops, chunk=chunk))


@settings(max_examples=examples(30))
@given(job=supported_jobs(), even=st.booleans())
def test_the_rings_second_phase_brings_every_worker_all_but_its_own_part(job: Job, even: bool) -> None:
    job = replace(
        job, cluster=Cluster(job.cluster.hosts), fabric=replace(job.fabric, aggregators=False) if job.fabric else None
    )
    plan = compiled(job, "ring-multicast", {"even": even, "message_parameters": 50})["ring-multicast"]
    check(plan)
    ops, workers = plan.ops, len(plan.workers)
    if workers == 1:
        assert not plan.is_remote().any()
        return
    model_bytes = job.profile.parameters * BYTES_PER_PARAMETER
    owned = np.bincount(ops.rank[ops.group == 1], ops.size_bytes[ops.group == 1], workers)
    assert owned.sum() == model_bytes
    received = (ops.kind == OpKind.RECV) & (ops.group[np.maximum(ops.message, 0)] == 1)
    first_ring = (ops.kind == OpKind.SEND) & (ops.group == 0)
    for worker in range(workers):
        assert ops.size_bytes[received & (ops.rank == worker)].sum() == model_bytes - owned[worker]
        assert ops.size_bytes[first_ring & (ops.rank == worker)].sum() == model_bytes - owned[worker]


def recvs_of_groups(plan: Plan) -> list[int]:
    ops = plan.ops
    return np.flatnonzero((ops.kind == OpKind.RECV) & (ops.group[np.maximum(ops.message, 0)] == 1)).tolist()


def test_broken_multicast_plans_are_rejected() -> None:
    plan = multicast_plan()
    sends = np.flatnonzero(plan.ops.group == 1).tolist()
    for op in (*sends, *recvs_of_groups(plan)):
        with pytest.raises(PlanError):
            check(without_op(plan, op))
    for op in sends:
        with pytest.raises(PlanError, match="receive it instead"):
            check(astray(plan, op))
        with pytest.raises(PlanError):
            check(with_dependencies(plan, [dep for dep in dependencies(plan) if dep[0] != op]))
    for op in recvs_of_groups(plan):
        with pytest.raises(PlanError):
            check(with_dependencies(plan, [dep for dep in dependencies(plan) if dep[1] != op]))


def astray(plan: Plan, send: int) -> Plan:
    """One member's RECV of a message is another rank's."""
    recv = next(op for op in recvs_of_groups(plan) if plan.ops.message[op] == send)
    server = int(np.flatnonzero(plan.rank_role == Role.SERVER)[-1])
    moved = with_cell(plan, "rank", recv, server)
    return with_dependencies(moved, [dep for dep in dependencies(plan) if recv not in dep[:2]])


def test_a_member_beside_the_sender_is_rejected() -> None:
    builder = PlanBuilder("beside")
    ranks = [builder.rank(Role.SERVER, host) for host in (0, 0, 1)]
    builder.group_message(builder.queue(ranks[0]), builder.group(ranks[1:]), 8)
    with pytest.raises(PlanError, match="own host"):
        check(builder.build(0.0, 0))


def test_flows_are_one_a_queue_group_and_class() -> None:
    plan = multicast_plan()
    flows = multicast_flows_of(plan)
    assert [(flow.number, flow.src_host, sorted(flow.ranks)) for flow in flows] == [
        (0, 3, [0, 1, 2]),
        (1, 4, [0, 1, 2]),
    ]
    assert plan.multicasts() == [(3, (0, 1, 2)), (4, (0, 1, 2))]
    assert with_groups(Fabric(5, 1e9), plan).groups == (MulticastGroup(3, (0, 1, 2)), MulticastGroup(4, (0, 1, 2)))


def test_a_worker_beside_its_server_is_no_member() -> None:
    plan = multicast_plan(cluster=Cluster(3, 3))
    assert plan.multicasts() == [(0, (1, 2)), (1, (0, 2)), (2, (0, 1))][: len(plan.multicasts())]
