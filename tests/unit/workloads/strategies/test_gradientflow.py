"""GradientFlow's backends: its closed form, what is fused, and what sparse communication sends."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradwire.analysis.bounds import critical_path_s
from gradwire.datatypes.plan import OpKind
from gradwire.workloads.engines.allreduce_buckets import Gradient, buffer_fused, by_cycle, lazily_fused
from gradwire.workloads.engines.allreduce_plan import READING_LANE
from gradwire.workloads.job import Cluster, Costs
from gradwire.workloads.models import model
from gradwire.workloads.models.profile import LayerKind
from gradwire.workloads.strategies.gradientflow import CscOptions, pool_chunks, select_chunks, share_at
from tests.shared.simulation import replay, times
from tests.shared.small_allreduces import FABRIC, GOODPUT_BYTES_PER_S, first_send_ns, one_tensor, plan_of, sent_bytes
from tests.shared.small_jobs import job_of, profile_of


@pytest.mark.parametrize("workers", [2, 5, 16])
@pytest.mark.parametrize("wire", ["fp32", "fp16"])
def test_gradientflows_closed_form_is_the_critical_path(workers: int, wire: str) -> None:
    """T = compute + n 2 (N - 1) alpha + 2 (N - 1) / N K / B, the model of GradientFlow's NCCL columns."""
    alpha_s, sizes = 4.4e-6, [workers * 1000, workers * 70, workers * 20_000]
    job = job_of(
        profile_of([(LayerKind.FC, [size]) for size in sizes]), Cluster(workers), costs=Costs(message_latency_s=alpha_s)
    )
    plan = plan_of(job, "layer-allreduce", {"overlap": False, "wire": wire})
    hops = 2 * (workers - 1)
    size_bytes = sum(sizes) * (4 if wire == "fp32" else 2)
    expected_s = job.compute_s + 3 * hops * alpha_s + hops / workers * size_bytes / GOODPUT_BYTES_PER_S
    assert critical_path_s(plan, FABRIC) == pytest.approx(expected_s, rel=1e-6)


def test_lazy_allreduce_pays_the_latency_once() -> None:
    job = one_tensor(800, 8, costs=Costs(message_latency_s=1e-3), layers=3)
    plan = plan_of(job, "lazy-allreduce", {"threshold_bytes": 1 << 20})
    expected_s = job.compute_s + 14 * 1e-3 + 14 / 8 * 9600 / GOODPUT_BYTES_PER_S
    assert critical_path_s(plan, FABRIC) == pytest.approx(expected_s, rel=1e-6)


def test_a_cycle_a_copy_and_a_conversion_delay_the_first_message() -> None:
    """Gradients of layers 2, 1, 0 come at 12, 16, 18 ms: a cycle of 17 ms finds two of them, 800 bytes, at 17 ms."""
    job = one_tensor(100, 2, layers=3, costs=Costs(copy_bytes_per_s=8e5))
    assert first_send_ns(plan_of(job, "horovod", {"cycle_s": 17e-3})) == 18_000_000
    assert first_send_ns(plan_of(job, "horovod", {"cycle_s": 0, "buffer_bytes": 400})) == 12_000_000
    halved = {"cycle_s": 17e-3, "wire": "fp16", "conversion_rate_bytes_per_s": 1.6e6}
    assert first_send_ns(plan_of(job, "horovod", halved)) == 18_000_000


@pytest.mark.parametrize(
    ("overlap", "free_ns", "read_ns"), [(True, 12_000_000, 12_200_000), (False, 18_000_000, 18_600_000)]
)
def test_the_first_rank_reads_a_report_of_every_rank_for_every_tensor(
    overlap: bool, free_ns: int, read_ns: int
) -> None:
    """3 tensors of 4 ranks at 50 us a report are 0.6 ms, after the whole backward pass at 18 ms; a third, after the
    first tensor at 12."""
    job = one_tensor(100, 4, layers=3)
    options = {"cycle_s": 0, "overlap": overlap, "buffer_bytes": 400}
    assert first_send_ns(plan_of(job, "horovod", options)) == free_ns
    assert first_send_ns(plan_of(job, "horovod", {**options, "report_s": 50e-6})) == read_ns


def test_reading_takes_one_cycle_after_the_other_and_delays_no_cycle() -> None:
    """Cycles at 15 and 20 ms find one and two gradients (12; 16 and 18 ms), each read in 6 ms: from 15 to 21, and from
    21 to 33."""
    job = one_tensor(100, 2, layers=3)
    plan = plan_of(job, "horovod", {"cycle_s": 5e-3, "report_s": 3e-3})
    when = times(replay(plan, 1))
    reading = (plan.ops.lane == READING_LANE) & (plan.ops.kind == OpKind.COMPUTE) & (plan.ops.rank == 0)
    ends_ns = [when[0, op][2] for op in np.flatnonzero(reading).tolist()]
    assert sorted(ends_ns) == [21_000_000, 33_000_000]


def test_a_cluster_that_stands_for_another_reads_the_others_reports() -> None:
    job = replace(one_tensor(100, 4), stands_for=Cluster(128))
    assert first_send_ns(plan_of(job, "horovod", {"report_s": 1e-6, "overlap": False})) == 3_000_000 + 128_000


def test_reports_of_a_cycles_tensors_follow_the_cycle() -> None:
    """A cycle of 17 ms finds the first two gradients: 17 ms and two times two reports."""
    job = one_tensor(100, 2, layers=3)
    assert first_send_ns(plan_of(job, "horovod", {"cycle_s": 17e-3, "report_s": 1e-4})) == 17_400_000


@given(sizes=st.lists(st.integers(1, 100), min_size=1, max_size=30), threshold=st.integers(0, 300))
def test_lazy_fusion_waits_until_the_threshold_is_exceeded(sizes: list[int], threshold: int) -> None:
    gradients = [Gradient(str(i), size, 0) for i, size in enumerate(sizes)]
    groups = lazily_fused(gradients, threshold)
    assert [gradient for group in groups for gradient in group] == gradients
    totals = [sum(gradient.values for gradient in group) for group in groups]
    assert all(total > threshold for total in totals[:-1])
    assert all(total - group[-1].values <= threshold for total, group in zip(totals, groups, strict=True))


@given(sizes=st.lists(st.integers(1, 100), min_size=1, max_size=30), buffer=st.integers(1, 300))
def test_a_fusion_buffer_is_filled_in_order(sizes: list[int], buffer: int) -> None:
    gradients = [Gradient(str(i), size, 0) for i, size in enumerate(sizes)]
    groups = buffer_fused(gradients, buffer)
    assert [gradient for group in groups for gradient in group] == gradients
    totals = [sum(gradient.values for gradient in group) for group in groups]
    assert all(total <= buffer or len(group) == 1 for total, group in zip(totals, groups, strict=True))
    assert all(total + after[0].values > buffer for total, after in zip(totals, groups[1:], strict=False))


def test_cycles_take_what_is_ready_when_they_come() -> None:
    """Gradients at 12, 16 and 18 ms: cycles of 4 ms come just with the first two and 2 ms after the third."""
    job = one_tensor(10, 2, layers=3)
    gradients = [Gradient(str(layer), 10, layer) for layer in (2, 1, 0)]
    cycles = by_cycle(job, gradients, 4e-3)
    assert [(hold.layer, [g.layer for g in group]) for hold, group in cycles] == [(2, [2]), (1, [1]), (0, [0])]
    assert [hold.delay_s for hold, _ in cycles] == pytest.approx([0, 0, 2e-3], abs=1e-12)
    ((hold, group),) = by_cycle(job, gradients, 0.5)
    assert hold.layer == 0
    assert hold.delay_s == pytest.approx(0.482)
    assert group == gradients


@given(sizes=st.lists(st.integers(1, 100), min_size=1, max_size=20), chunk=st.integers(1, 150))
def test_the_pool_is_cut_evenly_and_a_chunk_is_filled_by_its_last_gradient(sizes: list[int], chunk: int) -> None:
    gradients = [Gradient(str(i), size, len(sizes) - 1 - i) for i, size in enumerate(sizes)]
    chunks = pool_chunks(gradients, chunk)
    assert [c.values for c in chunks[:-1]] == [chunk] * (len(chunks) - 1)
    assert sum(c.values for c in chunks) == sum(sizes)
    layer_of = [g.layer for g in gradients for _ in range(g.values)]
    filled = np.cumsum([c.values for c in chunks]) - 1
    assert [c.layer for c in chunks] == [layer_of[last] for last in filled.tolist()]


def test_resnet50_has_as_many_chunks_as_the_paper_says() -> None:
    assert len(pool_chunks([Gradient("pool", 25_500_000, 0)], 32_000)) == 797
    assert len(pool_chunks([Gradient("pool", model("resnet50").parameters, 0)], 32_000)) == pytest.approx(797, abs=3)


def test_the_share_of_chunks_falls_through_the_warm_up() -> None:
    assert share_at(CscOptions()) == 0.15
    assert [share_at(CscOptions(share=0.2, warmup_iterations=4, iteration=i)) for i in range(6)] == pytest.approx(
        [1, 0.8, 0.6, 0.4, 0.2, 0.2]
    )
    assert len(select_chunks(1903, 0.15, 1)) == 285
    assert select_chunks(100, 0.1, 1) == select_chunks(100, 0.1, 1) != select_chunks(100, 0.1, 2)
    assert select_chunks(5, 0.01, 1)


def test_csc_sends_the_selected_chunks_and_a_number_for_each_chunk() -> None:
    job = one_tensor(1600, 4, layers=2)
    plan = plan_of(job, "csc", {"chunk_values": 100, "share": 0.25, "threshold_bytes": 0})
    assert plan.tensors[-1] == "L1 norms"
    assert plan.chunk_bytes.sum() == 8 * 400 + 32 * 4
    assert sent_bytes(plan).tolist() == [2 * 3 * (8 * 400 + 32 * 4) // 4] * 4
