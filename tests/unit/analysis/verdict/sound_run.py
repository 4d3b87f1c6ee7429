"""A run as it should be, without a network: a log from interpreters, and the record that agents and ports would leave with it."""

from __future__ import annotations

from functools import lru_cache

from gradwire.analysis.iterations import iteration_times_s
from gradwire.datatypes.network_counts import BandCount, NetworkCounts
from gradwire.datatypes.plan import Plan, Role
from gradwire.datatypes.records import AgentSummary, OpLog, PointRecord
from gradwire.datatypes.wire.framing import Framing
from gradwire.network.fabric import Fabric, Topology
from gradwire.workloads.builder import PlanBuilder
from tests.shared.simulation import replay

RATE_BPS = 2e9
"""What three pushes at once need at the server's port, since the simulated network gives each of them 400 Mbit/s."""
FABRIC = Fabric(hosts=4, rate_bps=RATE_BPS)
LEAF_SPINE = Fabric(hosts=4, rate_bps=RATE_BPS, topology=Topology.LEAF_SPINE, leaves=2, spines=1)
FAT_TREE = Fabric(hosts=4, rate_bps=RATE_BPS, topology=Topology.FAT_TREE, leaves=1, spines=1, pods=2, cores=1)
"""Two leaves, two spines and a core, one above the other."""
CROSSED = {
    Topology.SINGLE_SWITCH: (),
    Topology.LEAF_SPINE: ("s1-eth3", "s3-eth2"),
    Topology.FAT_TREE: ("s1-eth3", "s3-eth2", "s5-eth2", "s4-eth1"),
}
"""Ports between switches on the way from the first two hosts to the last."""
SIZE_BYTES = 10_000_000
TOKEN_BYTES = 64
ITERATIONS = 3
WARMUP = 1


def pushes(compute_s: float = 0.010) -> Plan:
    """Worker i (hosts 0 to 2) pushes to the server on host 3, half in class 0 and half in class 1; the answer is a token."""
    builder = PlanBuilder("pushes")
    workers = [builder.rank(Role.WORKER, host) for host in range(3)]
    server = builder.rank(Role.SERVER, 3)
    answers = builder.queue(server)
    for worker in workers:
        queue = builder.queue(worker)
        compute = builder.compute(worker, compute_s)
        for traffic_class in (0, 1):
            push, pushed = builder.message(queue, server, SIZE_BYTES, traffic_class=traffic_class)
            builder.depend(push, compute)
        token, answered = builder.message(answers, worker, TOKEN_BYTES)
        builder.depend(token, pushed)
        builder.depend(compute, answered, lag=1)
        builder.iteration(worker, compute, compute)
    return builder.build(compute_s=compute_s, samples=96)


MESSAGES = 9 * ITERATIONS
PAYLOAD_BYTES = (6 * SIZE_BYTES + 3 * TOKEN_BYTES) * ITERATIONS
SENT_BYTES = PAYLOAD_BYTES + MESSAGES * Framing(workers=3).header_bytes


@lru_cache(maxsize=8)
def sound_log(iterations: int = ITERATIONS, compute_s: float = 0.010) -> OpLog:
    """The log of `pushes` on the simulated network."""
    return replay(pushes(compute_s), iterations)


def sound_time_s() -> float:
    """Mean of its measured iterations."""
    return float(iteration_times_s(pushes(), sound_log(), ITERATIONS)[WARMUP:].mean())


def frames(payload_bytes: int) -> int:
    """What ports count of as much payload in each iteration."""
    return round(payload_bytes * 1514 / 1448) * ITERATIONS


def sound_bands(fabric: Fabric) -> tuple[BandCount, ...]:
    """What ports count: each worker's host sends both classes, the switch passes three times as much on to the server's host."""
    counts: dict[tuple[str, int], int] = {}
    crossed = CROSSED[fabric.topology]
    for band in (1, 2):
        for host in ("h1", "h2", "h3"):
            counts[f"{host}-eth0", band] = frames(SIZE_BYTES)
        server_port = "s2-eth2" if crossed else "s1-eth4"
        counts[server_port, band] = 3 * frames(SIZE_BYTES)
        counts.update({(port, band): 2 * frames(SIZE_BYTES) for port in crossed})
    counts["h4-eth0", 0] = 3 * ITERATIONS * 66 * 1000
    limit_bytes, threshold_bytes = fabric.switch_queue_bytes if fabric.has_switch_queues else (0, 0)
    all_bytes = fabric.ecn_most_bytes or threshold_bytes
    at_switches = (limit_bytes, threshold_bytes, all_bytes)
    return tuple(
        BandCount(port, band, size, size // 1514, 0, 0, 0, *((0, 0, 0) if port.startswith("h") else at_switches))
        for (port, band), size in counts.items()
    )


def sound_record(fabric: Fabric = FABRIC) -> PointRecord:
    """The record of `pushes` on this fabric, all hosts in one agent."""
    agent = AgentSummary(
        (0, 1, 2, 3), MESSAGES, MESSAGES, SENT_BYTES, SENT_BYTES, lateness_ns_max=900, lateness_ns_p99=300
    )
    counts = NetworkCounts(sound_bands(fabric), 120_000, 0, upcalls=9, table_miss_packets=0)
    return PointRecord("virtual", ITERATIONS, WARMUP, (agent,), counts, 1.001, 0.0, "prio")
