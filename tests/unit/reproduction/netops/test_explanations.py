"""Explanations of NetOps' claims say nothing where their premises do not hold."""

from __future__ import annotations

import pytest

from reproduction.netops import explanations, mechanism_explanations
from reproduction.netops.explanations import (
    last_worker_passes_alone,
    one_layer_more,
    paper_filters_its_traces,
    passes_overlap,
    printed_with_one_digit,
    same_count_fits_the_others,
    second_fullest,
    size_in_the_same_table,
    times_ask_for_more,
    two_hold_everything,
)
from reproduction.netops.mechanism_explanations import (
    distribution_is_hidden,
    forward_pass_grows_faster,
    gradients_outlast_the_pass,
    ingress_outlasts_the_pass,
    modules_gain_little_more,
    ring_keeps_up,
    rounds_follow_the_pass,
    sums_of_known_parts,
)
from reproduction.netops.points import (
    BASELINE,
    BOTH,
    BUTTERFLY,
    INCEPTION,
    RESNET_101,
    RESNET_200,
    RING,
    VGG,
)
from tests.shared.premises import Case, check_case, check_coverage

LAYERS = {"inception-v3": 21.0, "vgg-16": 22.0, "resnet-101": 101.0, "resnet-200": 200.0}
COUNTED = {**LAYERS, "inception-v3": 20.0, "vgg-16": 21.0}
CASES = [
    Case(one_layer_more, {"counted": COUNTED, "printed": LAYERS}, [{"counted": LAYERS}]),
    Case(paper_filters_its_traces, {"size_gbit": 0.762, "printed_gbit": 0.715}, [{"size_gbit": 0.7}]),
    Case(size_in_the_same_table, {"parameters": 205_466_408, "size_gbit": 6.58}, [{"parameters": 190_000_000}]),
    Case(
        same_count_fits_the_others,
        {"flops": 1.44e10, "convolution_flops": 1.43e10, "over_printed": {"vgg-16": 1.02, "resnet-200": 0.97}},
        [{"over_printed": {"vgg-16": 1.2, "resnet-200": 0.97}}],
    ),
    Case(printed_with_one_digit, {"share": 0.000334, "printed": 0.0003}, [{"share": 0.000384}]),
    Case(
        second_fullest,
        {"of_servers": [0.5468, 0.4518, 0.0007, 0.0007], "printed": 0.451},
        [{"of_servers": [0.451, 0.40, 0.1, 0.049]}],
    ),
    Case(
        two_hold_everything,
        {"of_servers": [0.5468, 0.4518, 0.0007, 0.0007]},
        [{"of_servers": [0.5, 0.4, 0.05, 0.05]}],
    ),
    Case(
        times_ask_for_more,
        {"share": 0.328, "printed_share": 0.22, "eight_s": 2.29, "one_s": 7.15},
        [{"eight_s": 1.5}],
    ),
    Case(
        passes_overlap,
        {"distance_s": {INCEPTION: 0.08, VGG: 0.66}, "backward_s": {INCEPTION: 0.41, VGG: 0.02}},
        [{"backward_s": {INCEPTION: 0.05, VGG: 0.02}}],
    ),
    Case(
        last_worker_passes_alone,
        {
            "alone_s": {INCEPTION: 0.58, VGG: 0.13},
            "block_s": {INCEPTION: 0.82, VGG: 2.30},
            "aggregated_s": {INCEPTION: 0.66, VGG: 2.25},
        },
        [{"alone_s": {INCEPTION: 0.1, VGG: 0.13}}],
    ),
    Case(
        rounds_follow_the_pass,
        {"left_s": {BUTTERFLY: 0.017, RING: 0.001}, "took_s": {BUTTERFLY: 0.214, RING: 0.198}},
        [{"left_s": {BUTTERFLY: 0.002, RING: 0.001}}],
    ),
    Case(
        sums_of_known_parts,
        {
            "took_s": {RING: 0.568, BOTH: 0.751},
            "forward_s": 0.169,
            "size_s": 0.263,
            "largest_s": 0.217,
            "printed_s": {RING: 0.684, BOTH: 0.765},
        },
        [{"took_s": {RING: 0.4, BOTH: 0.751}}, {"printed_s": {RING: 0.684, BOTH: 1.2}}],
    ),
    Case(
        forward_pass_grows_faster,
        {
            "forward_s": {RESNET_101: 0.119, RESNET_200: 0.274},
            "took_s": {RESNET_101: 2.02, RESNET_200: 3.04},
            "printed_gain": {RESNET_101: 1.79, RESNET_200: 1.85},
            "baseline_s": 5.56,
            "twice_s": 5.30,
        },
        [
            {"forward_s": {RESNET_101: 0.119, RESNET_200: 0.119}},
            {"printed_gain": {RESNET_101: 1.2, RESNET_200: 1.85}},
        ],
    ),
    Case(
        distribution_is_hidden,
        {
            "took_s": {RING: 0.2978, BOTH: 0.2905},
            "last_copy_s": 0.066,
            "forward_end_s": 0.169,
            "forward_s": 0.169,
            "turns_s": 0.127,
            "slower_size_s": 0.263,
            "slower_s": {RING: 0.683, BOTH: 0.752},
        },
        [
            {"last_copy_s": 0.2},
            {"took_s": {RING: 0.4, BOTH: 0.2905}},
            {"slower_s": {RING: 0.8, BOTH: 0.752}},
        ],
    ),
    Case(
        modules_gain_little_more,
        {"step_s": {BASELINE: 0.177, BOTH: 0.051}, "compute_s": 0.051, "work": 0.11, "now": 3.35},
        [{"compute_s": 0.02}, {"now": 2.0}],
    ),
    Case(
        gradients_outlast_the_pass,
        {"by_modules": {25: (0.86, 0.42), 60: (1.5, 0.2), 125: (2.67, 0.02)}},
        [{"by_modules": {25: (0.86, 0.02), 60: (1.5, 0.2), 125: (2.67, 0.42)}}],
    ),
    Case(
        ingress_outlasts_the_pass,
        {"backward_s": 0.86, "late_s": 0.42, "ingress_s": 1.27, "workers": 32},
        [{"backward_s": 1.5}],
    ),
    Case(
        ring_keeps_up,
        {"factor": 2, "took_s": {RING: 0.5, BOTH: 0.49}, "sentences": {RING: "compute.", BOTH: "compute."}},
        [{"took_s": {RING: 0.6, BOTH: 0.49}}],
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_an_explanation_rests_on_its_premises(case: Case) -> None:
    check_case(case)


def test_every_explanation_has_a_premise_that_was_broken() -> None:
    check_coverage([explanations, mechanism_explanations], CASES)
