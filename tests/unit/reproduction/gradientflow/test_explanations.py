"""Explanations of GradientFlow's claims say nothing where their premises do not hold."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reproduction.gradientflow import explanations, mpi
from reproduction.gradientflow.explanations import (
    fusion_waits_for_reports,
    masters_send_by_number_of_groups,
    not_the_networks,
    one_cell_has_cheap_steps,
    overlap_leaves_nothing_to_fuse,
    top_layers_are_overestimated,
    training_is_more_than_iterations,
)
from reproduction.gradientflow.mpi import (
    Asked,
    asked,
    baseline_makes_the_difference,
    few_messages_win_where_tensors_are_small,
    gloo_asks_for_a_slower_link,
    no_cost_of_messages_and_bytes,
    only_openmpi_is_out_of_place,
)
from reproduction.gradientflow.points import ALEXNET, RESNET, STEPS, Account
from tests.shared.premises import Case, check_case, check_coverage

OVERLAP = Account(0.5352, 0.534, 0.0012, 2142, 0.1768, 0.0158, 0.0225, 0.0)
FUSION = replace(OVERLAP, iteration_s=0.5369, tail_s=0.0029, messages=42)
NCCL = replace(OVERLAP, iteration_s=0.6, tail_s=0.2)
HOROVOD = replace(NCCL, messages=100, latency_s=0.01)
ASKS = {"p": Asked(-0.41, 2.75), "v": Asked(8.97, 3.65)}
ORDER = dict(zip(("nccl", "nccl+mp", "nccl+mp+overlap", "mpi", *STEPS[4:]), range(1, 7), strict=True))
CASES = [
    Case(
        not_the_networks,
        {
            "fused_ms": {ALEXNET: 93.4, RESNET: 233.4},
            "printed_fused_ms": {ALEXNET: 93.5, RESNET: 252.1},
            "bytes_ratio": 2.4,
            "tensors": 153,
        },
        [{"fused_ms": {ALEXNET: 80.0, RESNET: 233.4}}, {"fused_ms": {ALEXNET: 93.4, RESNET: 250.0}}],
    ),
    Case(
        fusion_waits_for_reports,
        {"nccl": NCCL, "horovod": HOROVOD},
        [{"horovod": replace(HOROVOD, messages=5000)}, {"horovod": replace(HOROVOD, tail_s=0.001)}],
    ),
    Case(
        top_layers_are_overestimated,
        {"share": 0.157, "printed": 0.089},
        [{"share": 0.05}],
    ),
    Case(
        one_cell_has_cheap_steps,
        {"step_us": 4.55, "printed_us": {"p": 2.9, "p, mixed precision": 3.9, "v": 4.4}},
        [{"printed_us": {"p": 3.8, "p, mixed precision": 3.9, "v": 4.4}}],
    ),
    Case(
        training_is_more_than_iterations,
        {"images_per_s": 1_655_000.0, "printed_per_s": 1_514_300.0, "epochs": 95.0, "printed_min": 1.5},
        [{"printed_min": 1.34}, {"images_per_s": 1_000_000.0}],
    ),
    Case(
        masters_send_by_number_of_groups,
        {"rings": [(4, 4, 4.0), (16, 4, 4.0), (32, 2, 2.0)]},
        [{"rings": [(4, 4, 1.0), (16, 4, 4.0)]}, {"rings": [(32, 2, 2.0)]}],
    ),
    Case(
        overlap_leaves_nothing_to_fuse,
        {"alone": OVERLAP, "fused": FUSION, "backward_s": 0.356, "printed_s": [0.609, 0.5535]},
        [{"fused": replace(FUSION, tail_s=0.0001)}, {"backward_s": 0.1}],
    ),
    Case(no_cost_of_messages_and_bytes, {"asks": ASKS}, [{"asks": {**ASKS, "p": ASKS["v"]}}]),
    Case(
        only_openmpi_is_out_of_place,
        {"throughputs": ORDER, "workers": 512, "tensors": 153},
        [{"throughputs": {**ORDER, "nccl": 7.0}}],
    ),
    Case(
        baseline_makes_the_difference,
        {"ahead_per_s": 239_800.0, "mpi_per_s": 94_000.0, "printed_mpi_per_s": 56_200.0, "printed": 4.3},
        [{"printed": 2.5}],
    ),
    Case(
        gloo_asks_for_a_slower_link,
        {"comm_ms": 596.0, "printed_ms": 2189.0, "asks": Asked(1.99, 8.77), "link_gbps": 56.0},
        [{"comm_ms": 3000.0}, {"asks": Asked(1.99, 3.0)}],
    ),
    Case(
        few_messages_win_where_tensors_are_small,
        {"times_ms": {64.0: (0.15, 0.32), 256.0: (0.57, 0.43)}, "workers": 32},
        [{"times_ms": {64.0: (0.5, 0.32), 256.0: (0.57, 0.43)}}],
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_an_explanation_rests_on_its_premises(case: Case) -> None:
    check_case(case)


def test_every_explanation_has_a_premise_that_was_broken() -> None:
    check_coverage([explanations, mpi], CASES)


def test_what_the_printed_times_ask_for_leads_back_to_them() -> None:
    """AlexNet's 26 allreduces of 243.6 MB in all, and ResNet-50's 153 of 102 MB."""
    for where in ("p", "v", "gloo"):
        cost = asked(where)
        for model, calls, megabytes in ((ALEXNET, 26, 243.6), (RESNET, 153, 102.0)):
            beyond_ms = calls * cost.call_ms + megabytes * cost.mb_ms
            assert beyond_ms == pytest.approx(mpi.printed_beyond_ms(where, model))
