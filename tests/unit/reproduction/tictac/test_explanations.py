"""Explanations of TicTac's claims say nothing where their premises do not hold."""

from __future__ import annotations

import pytest

from reproduction.tictac import explanations
from reproduction.tictac.explanations import (
    Load,
    Straggling,
    beyond_the_threshold,
    equal_machines,
    few_large_tensors,
    order_is_free,
    orders_too_random,
)
from tests.shared.premises import Case, check_case, check_coverage

LOADS = [Load("small", 0.2, 1.16), Load("middle", 1.1, 1.91), Load("large", 4.5, 1.22)]
STRAGGLING = [
    Straggling("alexnet-v2", 11, 0.204, 0.52),
    Straggling("vgg16", 21, 0.119, 0.74),
    Straggling("inception-v1", 129, 0.05, 0.15),
    Straggling("resnet101", 247, 0.06, 0.05),
]
CASES = [
    Case(
        orders_too_random,
        {
            "workload_name": "vgg16 with 2 workers",
            "efficiency": {"tic": 0.95, "random": 0.5},
            "gain_over_printed": 1.1,
        },
        [{"gain_over_printed": 0.9}, {"efficiency": {"tic": 0.95, "random": 0.8}}],
    ),
    Case(order_is_free, {"gains": [1.0, 1.3, 1.1]}, [{"gains": [0.95, 1.3]}]),
    Case(
        beyond_the_threshold,
        {"loads": LOADS, "rate_gbps": 28.0},
        [{"loads": [*LOADS[:2], Load("large", 4.5, 1.8)]}],
    ),
    Case(
        equal_machines,
        {"mean_before": 0.086, "largest_before": 0.339, "mean_after": 0.0004},
        [{"mean_after": 0.05}, {"largest_before": 0.6}],
    ),
    Case(
        few_large_tensors,
        {"straggling": STRAGGLING},
        [{"straggling": [*STRAGGLING[:3], Straggling("resnet101", 247, 0.3, 0.05)]}],
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_an_explanation_rests_on_its_premises(case: Case) -> None:
    check_case(case)


def test_every_explanation_has_a_premise_that_was_broken() -> None:
    check_coverage([explanations], CASES)
