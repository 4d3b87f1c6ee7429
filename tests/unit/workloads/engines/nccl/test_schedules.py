"""Calls of NCCL in plans: every algorithm and protocol leaves everybody with the sum, sends what it should, and waits
for what NCCL waits for."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from gradwire.analysis.fluid.estimate import estimate
from gradwire.datatypes.plan import OpKind, Plan
from gradwire.faults import InputFault
from gradwire.network.fabric import Fabric
from gradwire.workloads.checker import check
from gradwire.workloads.engines.collectives.choice import Layout
from gradwire.workloads.engines.nccl.options import NcclOptions, setup_of
from gradwire.workloads.job import Cluster, Costs, Job
from gradwire.workloads.models.profile import LayerKind
from gradwire.workloads.trace_replay.single_call import CallOptions, compile_call
from tests.shared.parts import tells
from tests.shared.small_jobs import compiled, job_of, profile_of

MIB = 1 << 20
SMALL = profile_of([(LayerKind.FC, [4_000]), (LayerKind.FC, [70_000, 3]), (LayerKind.FC, [900])])


def job(machines: int, gpus: int, nics: int = 1, costs: Costs | None = None, rate_bps: float = 200e9) -> Job:
    cluster = Cluster(machines * gpus, workers_per_host=gpus, nics_per_host=nics)
    return replace(job_of(SMALL, cluster, costs=costs or Costs()), rate_bps=rate_bps)


def call(of: Job, size: int, collective: str = "all-reduce", **nccl: object) -> Plan:
    options = CallOptions.model_validate(
        {"size": f"{size}B", "algorithm": "nccl", "collective": collective, "nccl": nccl, "barrier": False}
    )
    idle = replace(of.compute, forward_s=(0.0,) * 3, backward_s=(0.0,) * 3)
    (plan,) = compile_call(replace(of, compute=idle), options).values()
    return plan


def crossing_bytes(plan: Plan) -> np.ndarray:
    """Bytes that each machine sends to others."""
    ops = plan.ops
    sends = np.flatnonzero((ops.kind == OpKind.SEND) & plan.is_remote())
    host = plan.rank_host[ops.rank[sends]]
    return np.bincount(host, ops.size_bytes[sends], plan.rank_host.max() + 1)


CASES = [
    (machines, gpus, collective, algorithm, protocol)
    for machines, gpus in ((1, 4), (2, 4), (3, 2), (4, 1), (5, 3))
    for collective, algorithms in (
        ("all-reduce", ("Ring", "Tree", "NVLS", "NVLSTree")),
        ("all-gather", ("Ring", "NVLS", "PAT")),
        ("reduce-scatter", ("Ring", "NVLS", "PAT")),
        ("broadcast", ("Ring",)),
        ("reduce", ("Ring",)),
    )
    for algorithm in algorithms
    for protocol in ("LL", "LL128", "Simple")
    if (protocol == "Simple" or algorithm in ("Ring", "Tree"))
    and (algorithm != "NVLS" or machines == 1)
    and (algorithm != "NVLSTree" or (machines > 1 and gpus > 2))
    and (algorithm != "PAT" or gpus == 1)
]


@pytest.mark.parametrize(
    ("size", "machines", "gpus", "collective", "algorithm", "protocol"),
    [
        *((20, *case) for case in CASES),
        # `make test` tries every second one: each collective, algorithm and protocol is among them.
        *(
            pytest.param(3 * MIB + 4, *case, marks=[pytest.mark.long] if number % 2 and case[3] != "PAT" else [])
            for number, case in enumerate(CASES)
        ),
    ],
)
def test_everybody_gets_the_sum(
    machines: int, gpus: int, collective: str, algorithm: str, protocol: str, size: int
) -> None:
    plan = call(
        job(machines, gpus), size, collective, version="2.24", env={"NCCL_ALGO": algorithm, "NCCL_PROTO": protocol}
    )
    check(plan)
    (note,) = plan.notes
    assert f"by nccl ({algorithm}, {protocol}, " in note


@pytest.mark.parametrize(("protocol", "wire"), [("Simple", 1.0), ("LL", 2.0), ("LL128", 16 / 15)])
def test_protocols_send_what_they_store(protocol: str, wire: float) -> None:
    plan = call(job(4, 1), 8 * MIB, env={"NCCL_ALGO": "Ring", "NCCL_PROTO": protocol})
    assert crossing_bytes(plan) == pytest.approx([wire * 2 * 3 / 4 * 8 * MIB] * 4, rel=1e-3)


@pytest.mark.parametrize("algorithm", ["Ring", "Tree", "NVLSTree"])
def test_every_nic_carries_as_much(algorithm: str) -> None:
    plan = call(job(4, 8, nics=8), 64 * MIB, env={"NCCL_ALGO": algorithm, "NCCL_PROTO": "Simple"})
    ops, cluster = plan.ops, Cluster(32, workers_per_host=8, nics_per_host=8)
    sends = np.flatnonzero((ops.kind == OpKind.SEND) & plan.is_remote())
    port = np.array([cluster.worker_port(rank) for rank in range(32)])[ops.rank[sends]]
    by_port = np.bincount(port, ops.size_bytes[sends], 32).reshape(4, 8)
    assert by_port.max(axis=1) == pytest.approx(by_port.min(axis=1), rel=0.01)


@pytest.mark.parametrize("collective", ["all-reduce", "broadcast", "reduce"])
def test_over_several_sockets_a_slice_waits_until_all_of_the_last_one_has_been_taken(collective: str) -> None:
    sockets = {"NCCL_SOCKET_NTHREADS": 2, "NCCL_NSOCKS_PERTHREAD": 4}
    env = {"NCCL_ALGO": "Ring", "NCCL_PROTO": "Simple"}
    plan = call(job(4, 1), 32 * MIB, collective, transport="tcp", env=env | sockets)
    check(plan)
    ops = plan.ops
    waits = np.repeat(np.arange(len(ops)), np.diff(plan.dep_start))
    is_send = ops.kind == OpKind.SEND
    pairs = is_send[waits] & is_send[plan.dep_op]
    later, earlier = waits[pairs], plan.dep_op[pairs]
    # Each connection's sends are one chain: all but its first one wait for one other of the same connection.
    assert len(set(later.tolist())) == len(set(earlier.tolist())) == len(later)
    assert (ops.lane[later] == ops.lane[earlier]).all()
    assert len(later) == is_send.sum() - len(np.unique(ops.lane[is_send]))
    one = call(job(4, 1), 32 * MIB, collective, transport="tcp", env=env)
    assert len(one.dep_op) == len(plan.dep_op) - len(later)


def test_workers_send_nothing_in_a_pause() -> None:
    options = CallOptions.model_validate({"size": "1MiB", "collective": "broadcast", "pause": "20ms"})
    (plan,) = compile_call(job(2, 1), options).values()
    check(plan)
    fabric = Fabric(2, 200e9)
    without = options.model_copy(update={"pause": 0.0})
    (other,) = compile_call(job(2, 1), without).values()
    assert estimate(plan, fabric).iteration_s == pytest.approx(20e-3 + estimate(other, fabric).iteration_s)


def test_a_ring_begins_a_loop_when_the_one_before_has_come() -> None:
    # Two channels of two loops: 2 MiB chunks of 4 ranks are 8 MiB in a loop.
    plan = call(job(4, 1), 32 * MIB, env={"NCCL_ALGO": "Ring", "NCCL_PROTO": "Simple"})
    assert tells(plan.notes[0], "2 channels", "2MiB")
    ops = plan.ops
    sends = np.flatnonzero((ops.kind == OpKind.SEND) & (ops.rank == 0))
    waits = np.diff(plan.dep_start)[sends]
    # 6 steps of 2 slices, 2 loops, 2 channels.
    assert len(sends) == 48
    # The first step of the second loop waits for its start, and for the last slice of the first loop.
    assert sorted(waits.tolist()).count(2) == 4


@pytest.mark.parametrize(("size", "least_s", "most_s"), [(8, 3.99e-3, 4.01e-3), (64 * MIB, 1e-3, 4.01e-3)])
def test_latencies_overlap(size: int, least_s: float, most_s: float) -> None:
    """A tree's pieces follow one another, however long each takes to arrive: 1 ms more passes for each hop up and down a
    tree of four machines, two each, and not once for each of 128 pieces. It is less where a piece would wait anyway."""
    fabric, env = Fabric(hosts=4, rate_bps=200e9), {"NCCL_ALGO": "Tree"}
    plans = [call(job(4, 1, costs=Costs(message_latency_s=late_s)), size, env=env) for late_s in (1e-3, 0.0)]
    slow_s, fast_s = (estimate(plan, fabric, most_iterations=1).iteration_s for plan in plans)
    assert least_s < slow_s - fast_s < most_s


def test_large_calls_have_fewer_messages_that_say_so() -> None:
    of = job(3, 8)
    plan = call(of, 1 << 30, transport="tcp", env={"NCCL_ALGO": "Ring"})
    assert tells(plan.notes[0], "16 channels", "2MiB", "4 channels as one")
    whole = call(of, 1 << 30, transport="tcp", most_messages=1_000_000, env={"NCCL_ALGO": "Ring"})
    assert "as one" not in whole.notes[0]
    assert crossing_bytes(plan) == pytest.approx(crossing_bytes(whole), rel=1e-6)
    fabric = Fabric(hosts=3, rate_bps=200e9)
    times = [estimate(each, fabric, most_iterations=1).iteration_s for each in (plan, whole)]
    assert times[0] == pytest.approx(times[1], rel=0.01)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("ddp", {"bucket_cap": "100kB", "first_bucket_cap": "2kB"}),
        ("fsdp", {}),
        ("zero1", {"bucket_parameters": 5_000}),
        ("zero2", {"bucket_parameters": 5_000, "sum_by": "all-reduce"}),
        ("diloco", {"inner_steps": 2}),
    ],
)
@pytest.mark.parametrize(("machines", "gpus"), [(2, 2), (3, 1)])
@pytest.mark.parametrize("protocol", ["LL", "Simple"])
def test_strategies_go_by_nccl(name: str, options: dict[str, object], machines: int, gpus: int, protocol: str) -> None:
    asked = {**options, "algorithm": "nccl", "nccl": {"gpu": "v100", "env": {"NCCL_PROTO": protocol}}}
    for plan in compiled(job(machines, gpus), name, asked).values():
        check(plan)
        assert any(re.search(rf"nccl \((Ring|Tree), {protocol}", note) for note in plan.notes)


def test_the_rate_of_a_nic_decides_unless_it_is_said() -> None:
    fast, slow = (call(job(4, 1, rate_bps=rate), 256_000, gpu="v100").notes for rate in (200e9, 1e9))
    assert fast != slow
    assert call(job(4, 1, rate_bps=200e9), 256_000, gpu="v100", nic="1gbit").notes == slow


def test_what_cannot_be_is_refused() -> None:
    setup = setup_of(job(2, 2), NcclOptions())
    with pytest.raises(InputFault, match="members on every"):
        setup.communicator(Layout((0, 0, 1)))
    with pytest.raises(ValueError, match="NCCL_ALGOS: not"):
        CallOptions.model_validate({"nccl": {"env": {"NCCL_ALGOS": "Ring"}}})
    with pytest.raises(ValueError, match=r"NCCL 2\.9: "):
        CallOptions.model_validate({"nccl": {"version": "2.9"}})
    with pytest.raises(InputFault, match="of all workers"):
        compiled(job(2, 2), "fsdp", {"algorithm": "nccl", "shard": 2})
