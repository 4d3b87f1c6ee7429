"""PyTorch's DDP: the buckets of recorded traces, their order, and what they put on the wire."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradwire.datatypes.plan import Combine, OpKind
from gradwire.workloads.checker import check
from gradwire.workloads.engines.allreduce_buckets import Gradient, cap_filled
from gradwire.workloads.job import Cluster, Job
from gradwire.workloads.models import model
from gradwire.workloads.models.compute_times import compute_time
from gradwire.workloads.models.profile import LayerKind
from gradwire.workloads.strategies.ddp import DdpOptions, ddp_buckets
from tests.shared.simulation import replay, times
from tests.shared.small_allreduces import first_send_ns, one_tensor, plan_of, sent_bytes
from tests.shared.small_jobs import job_of, profile_of

RECORDED = [2_049_000, 7_875_584, 6_563_840, 6_637_568, 2_431_040]
"""Elements of the five allreduces of an iteration of torchvision's resnet50 under DDP, alike in two recorded traces:
facebookresearch/HolisticTraceAnalysis, tests/data/nccl_parser_config, and facebookresearch/param,
et_replay/tests/inputs."""


def resnet50(workers: int) -> Job:
    profile = model("resnet50-torchvision")
    return Job(profile, compute_time(profile, "v100"), Cluster(workers), profile.batch)


def test_resnet50_has_the_buckets_of_recorded_traces() -> None:
    assert [bucket.values for bucket in ddp_buckets(resnet50(2), DdpOptions())] == RECORDED
    assert sum(RECORDED) == model("resnet50-torchvision").parameters


def test_tensorflows_order_gives_other_buckets() -> None:
    """It creates the shortcut of a unit before its convolutions, so that the same tensors fill buckets in another
    order."""
    profile = model("resnet50")
    job = Job(profile, compute_time(profile, "v100"), Cluster(2), profile.batch)
    values = [bucket.values for bucket in ddp_buckets(job, DdpOptions())]
    assert values[:2] == RECORDED[:2]
    assert values != RECORDED
    assert sum(values) == sum(RECORDED)


def test_a_trace_of_two_ranks_is_the_plan_of_two_workers() -> None:
    """Around a ring of two, each worker sends each half of a bucket once to be added and once to be copied: 4 bytes
    per value in all."""
    plan = plan_of(resnet50(2), "ddp")
    check(plan)
    ops = plan.ops
    assert sent_bytes(plan).tolist() == [4 * sum(RECORDED)] * 2
    sends = (ops.kind == OpKind.SEND) & (ops.chunk >= 0) & (ops.rank == 0)
    by_bucket = np.bincount(plan.chunk_tensor[ops.chunk[sends]], ops.size_bytes[sends])
    assert by_bucket.tolist() == [4 * values for values in RECORDED]
    assert set(ops.combine[ops.kind == OpKind.RECV].tolist()) == {Combine.ADD, Combine.COPY}


@given(
    sizes=st.lists(st.integers(1, 100), min_size=1, max_size=30), first_cap=st.integers(1, 300), cap=st.integers(1, 300)
)
def test_the_tensor_that_reaches_the_cap_closes_the_bucket(sizes: list[int], first_cap: int, cap: int) -> None:
    gradients = [Gradient(str(i), size, 0) for i, size in enumerate(sizes)]
    groups = cap_filled(gradients, first_cap, cap)
    assert [gradient for group in groups for gradient in group] == gradients
    caps = [first_cap, *[cap] * (len(groups) - 1)]
    for group, limit in zip(groups, caps, strict=True):
        assert sum(gradient.values for gradient in group[:-1]) < limit
    for group, limit in zip(groups[:-1], caps, strict=False):
        assert sum(gradient.values for gradient in group) >= limit


def test_a_cap_that_is_reached_exactly_closes_the_bucket() -> None:
    """PyTorch 2.2 puts tensors of 1 MiB, 2 KiB, 1 MiB, 2 KiB, 1 MiB and 2 KiB with caps of 1 MiB into buckets of 1, 2,
    2 and 1."""
    mib, kib2 = (1 << 20) // 4, 2048 // 4
    gradients = [Gradient(str(i), size, 0) for i, size in enumerate([mib, kib2] * 3)]
    assert [len(group) for group in cap_filled(gradients, mib, mib)] == [1, 2, 2, 1]


def test_the_first_bucket_leaves_while_the_backward_pass_goes_on() -> None:
    """The last layer's gradient is there after a forward pass of 6 ms and 6 ms of the backward pass; the whole pass
    ends at 18 ms."""
    job = one_tensor(100, 2, layers=3)
    assert first_send_ns(plan_of(job, "ddp", {"first_bucket_cap": "400B"})) == 12_000_000
    assert first_send_ns(plan_of(job, "ddp", {"first_bucket_cap": "401B"})) == 16_000_000
    assert first_send_ns(plan_of(job, "ddp", {"first_bucket_cap": "400B", "overlap": False})) == 18_000_000


def test_buckets_go_one_after_the_other_in_backward_order() -> None:
    job = job_of(profile_of([(LayerKind.FC, [4000])] * 4), Cluster(3))
    plan = plan_of(job, "ddp", {"first_bucket_cap": "1B", "bucket_cap": "1B"})
    when = times(replay(plan, 1))
    sends = np.flatnonzero((plan.ops.kind == OpKind.SEND) & (plan.ops.chunk >= 0) & (plan.ops.rank == 0))
    first_ns: dict[str, int] = {}
    last_ns: dict[str, int] = {}
    for op in sends.tolist():
        bucket = plan.tensors[plan.chunk_tensor[plan.ops.chunk[op]]]
        _, start, end = when[0, op]
        first_ns[bucket] = min(first_ns.get(bucket, start), start)
        last_ns[bucket] = max(last_ns.get(bucket, end), end)
    order = sorted(first_ns, key=lambda bucket: first_ns[bucket])
    assert order == [f"layer{layer}/0" for layer in (3, 2, 1, 0)]
    assert all(last_ns[one] <= first_ns[next_one] for one, next_one in pairwise(order))


@pytest.mark.parametrize(("wire", "width"), [("fp32", 4), ("bf16", 2)])
def test_the_wires_format_halves_the_bytes_and_moves_no_tensor_to_another_bucket(wire: str, width: int) -> None:
    job = one_tensor(1200, 4, layers=3)
    options = {"first_bucket_cap": "4800B", "bucket_cap": "9600B", "wire": wire}
    assert [bucket.values for bucket in ddp_buckets(job, DdpOptions.model_validate(options))] == [1200, 2400]
    assert sent_bytes(plan_of(job, "ddp", options)).tolist() == [2 * 3 * 900 * width] * 4
