"""Explanations of P3's claims say nothing where their premises do not hold."""

from __future__ import annotations

import numpy as np
import pytest

from reproduction.p3 import explanations
from reproduction.p3.explanations import (
    flat_top,
    longest_run,
    nothing_to_send,
    printed_gain_is_on_the_curve,
    servers_are_the_limit,
    workers_run_in_step,
)
from tests.shared.premises import Case, check_case, check_coverage

SHARES = {"compute": 0.63, "aggregation": 0.36, "network": 0.01}
CASES = [
    Case(
        printed_gain_is_on_the_curve,
        {"gains": [(2.0, 1.08), (12.0, 1.91), (60.0, 1.37)], "printed": 1.66},
        [{"printed": 2.5}],
    ),
    Case(
        servers_are_the_limit,
        {"model": "sockeye", "rate": "60gbit", "kept": 0.96, "shares": SHARES, "sentence": "63% is compute."},
        [{"kept": 0.2}, {"shares": {**SHARES, "network": 0.3}}],
    ),
    Case(
        flat_top,
        {"curves": {"resnet50": [(10_000.0, 376.6), (50_000.0, 377.1), (500_000.0, 300.8)]}},
        [{"curves": {"resnet50": [(10_000.0, 376.6), (50_000.0, 320.0), (500_000.0, 300.8)]}}],
    ),
    Case(
        nothing_to_send,
        {"left": 0.51, "gap_ms": 100.0, "in_gaps": 1.0, "compute": 0.98},
        [{"in_gaps": 0.5}, {"compute": 0.4}],
    ),
    Case(
        workers_run_in_step,
        {
            "others_share": 0.62,
            "overlap": 0.85,
            "overlap_apart": {"kvstore": 0.7, "p3": 0.81},
            "gains": [1.21, 1.14],
        },
        [{"others_share": 0.3}, {"overlap_apart": {"kvstore": 0.9, "p3": 0.9}}],
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_an_explanation_rests_on_its_premises(case: Case) -> None:
    check_case(case)


def test_every_explanation_has_a_premise_that_was_broken() -> None:
    check_coverage([explanations], CASES)


@pytest.mark.parametrize(("marks", "longest"), [("", 0), ("--", 0), ("#", 1), ("##-###-#", 3), ("-####", 4)])
def test_the_longest_run(marks: str, longest: int) -> None:
    assert longest_run(np.array([mark == "#" for mark in marks], dtype=bool)) == longest
