"""Explanations of TicTac's claims say nothing where their premises do not hold."""

from __future__ import annotations

import pytest

from reproduction.tictac import explanations
from reproduction.tictac.explanations import (
    Load,
    Straggling,
    as_much_as_can_be,
    beyond_the_threshold,
    busy_link,
    equal_machines,
    more_random_than_counted,
    order_is_free,
)
from tests.shared.premises import Case, check_case, check_coverage

LOADS = [Load("small", 0.2, 1.16), Load("middle", 1.1, 1.91), Load("large", 4.5, 1.22)]
STRAGGLING = [
    Straggling("alexnet-v2", 11, 0.24, 0.34),
    Straggling("vgg16", 21, 0.18, 0.29),
    Straggling("resnet50-slim", 128, 0.23, 0.33),
    Straggling("inception-v1", 129, 0.05, 0.11),
    Straggling("resnet101", 247, 0.16, 0.27),
]
BY_LAYERS = [Straggling(m.model, m.layers, m.layers / 1000, m.layers / 2000) for m in STRAGGLING]
CASES = [
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
        as_much_as_can_be,
        {"straggling": STRAGGLING},
        [{"straggling": [*STRAGGLING[:3], Straggling("inception-v1", 129, 0.3, 0.11)]}, {"straggling": BY_LAYERS}],
    ),
    Case(
        more_random_than_counted,
        {"unharmed": 0.6, "slow": 0.77, "slowest": 0.625},
        [{"unharmed": 0.0}, {"slow": 0.6}, {"slowest": 0.5}],
    ),
    Case(
        busy_link,
        {"what": "vgg16 in training", "ratio": 2.5, "spread": 1.0, "gain_of_it": 1.0, "other_gains": [1.07, 1.5]},
        [{"ratio": 1.5}, {"spread": 1.1}, {"gain_of_it": 1.1}, {"other_gains": [1.0, 1.5]}],
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_an_explanation_rests_on_its_premises(case: Case) -> None:
    check_case(case)


def test_every_explanation_has_a_premise_that_was_broken() -> None:
    check_coverage([explanations], CASES)
