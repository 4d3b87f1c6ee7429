"""Explanations of Geryon's claims say nothing where their premises do not hold."""

from __future__ import annotations

import pytest

from reproduction.geryon import explanations
from reproduction.geryon.explanations import (
    end_hosts_do_well,
    forward_pass_hides_turns,
    slices_gain_little,
    slices_of_two_kinds,
    small_difference_sets_the_rate,
    table_4_rests_on_slower_gpus,
    turns_run_beside,
)
from tests.shared.premises import Case, check_case, check_coverage

K1024, K512, K256 = 1048576, 524288, 262144
CASES = [
    Case(
        slices_gain_little,
        {"exposed_s": 0.0004, "iteration_s": 1.88, "orders": 5, "fc_share": 0.86},
        [{"exposed_s": 0.1}, {"fc_share": 0.4}],
    ),
    Case(
        slices_of_two_kinds,
        {"tensors": 38, "small": 208, "large": 120, "halvings": 0, "printed": [320.0, 440.0, 680.0]},
        [{"printed": [320.0, 440.0, 600.0]}, {"large": 240}],
    ),
    Case(
        table_4_rests_on_slower_gpus,
        {"single_gpu_s": 1.735, "compute_s": 1.636, "over_printed": 1.1},
        [{"over_printed": 0.9}],
    ),
    Case(turns_run_beside, {"waited_ms": 231.0, "scheduled_ms": 800.0}, [{"waited_ms": 700.0}]),
    Case(
        end_hosts_do_well,
        {
            "geryon_ms": {K1024: 66.0, K512: 66.0, K256: 64.0},
            "tictac_ms": {K1024: 86.0, K512: 69.0, K256: 231.0},
            "scheduled_ms": {K1024: 390.0, K512: 524.0, K256: 800.0},
            "turn": "9.52ms",
            "imbalance": 1.015,
        },
        [
            {"imbalance": 1.4},
            {"tictac_ms": {K1024: 380.0, K512: 69.0, K256: 231.0}},
            {"tictac_ms": {K1024: 86.0, K512: 69.0, K256: 60.0}},
        ],
    ),
    Case(
        forward_pass_hides_turns,
        {"forward_ms": 603.0, "waited_ms": 231.0, "scheduled_ms": 800.0, "pull_ms": 400.0, "increase_ms": 450.0},
        [{"waited_ms": 500.0}, {"increase_ms": 700.0}],
    ),
    Case(
        small_difference_sets_the_rate,
        {"pull_s": 0.61, "forward_s": 0.545, "model_gbit": 4.597, "rate_gbps": 8.0},
        [{"forward_s": 0.3}],
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_an_explanation_rests_on_its_premises(case: Case) -> None:
    check_case(case)


def test_every_explanation_has_a_premise_that_was_broken() -> None:
    check_coverage([explanations], CASES)
