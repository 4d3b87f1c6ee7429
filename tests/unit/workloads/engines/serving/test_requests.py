"""Requests: drawn at a rate, and read from traces."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gradwire.faults import InputFault
from gradwire.workloads.engines.serving.requests import Request, drawn_requests, recorded_requests


def test_even_arrivals_are_as_far_apart() -> None:
    assert [each.arrival_s for each in drawn_requests(4, 10.0, "even", (5, 6), 1)] == pytest.approx([0, 0.1, 0.2, 0.3])


def test_arrivals_of_a_poisson_process_have_its_mean_and_its_variance_and_follow_from_the_seed() -> None:
    drawn = drawn_requests(20_000, 50.0, "poisson", (5, 6), 3)
    between = np.diff([each.arrival_s for each in drawn])
    assert between.mean() == pytest.approx(0.02, rel=0.03)
    assert between.std() == pytest.approx(0.02, rel=0.03)
    assert drawn == drawn_requests(20_000, 50.0, "poisson", (5, 6), 3)
    assert drawn != drawn_requests(20_000, 50.0, "poisson", (5, 6), 4)


def test_without_a_rate_all_arrive_at_once() -> None:
    assert drawn_requests(2, None, "poisson", (5, 6), 1) == [Request(0.0, 5, 6)] * 2


@pytest.mark.parametrize(
    "text",
    [
        "arrival_s,prompt_tokens,output_tokens\n12.5,30,4\n10,7,9\n11,1,1\n",
        "TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 18:17:05.5000000,30,4\r\n2023-11-16 18:17:03,7,9\r\n"
        "2023-11-16 18:17:04+00:00,1,1\r\n",
    ],
)
def test_a_trace_is_read_in_the_order_of_its_times(tmp_path: Path, text: str) -> None:
    path = tmp_path / "requests.csv"
    path.write_text(text, newline="")
    assert recorded_requests(path, 2) == [Request(0.0, 7, 9), Request(1.0, 1, 1)]
    assert recorded_requests(path, 9)[-1] == Request(2.5, 30, 4)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("a,b\n1,2\n", "the columns"),
        ("arrival_s,prompt_tokens,output_tokens\n", "must have a request"),
        ("arrival_s,prompt_tokens,output_tokens\n0,5,6\nsoon,5,6\n", "line 3: arrival_s = 'soon'"),
        ("arrival_s,prompt_tokens,output_tokens\nnan,5,6\n", "line 2: arrival_s"),
        ("arrival_s,prompt_tokens,output_tokens\n1e300,5,6\n", "line 2: arrival_s"),
        ("arrival_s,prompt_tokens,output_tokens\n0,0,6\n", "line 2: prompt_tokens = '0'"),
        ("arrival_s,prompt_tokens,output_tokens\n0,5,99999999\n", "line 2: output_tokens"),
        ("arrival_s,prompt_tokens,output_tokens\n0,5\n", "requests"),
    ],
)
def test_what_is_not_such_a_trace_is_refused_by_its_line(tmp_path: Path, text: str, named: str) -> None:
    path = tmp_path / "requests.csv"
    path.write_text(text)
    with pytest.raises(InputFault, match=named):
        recorded_requests(path, 9)


def test_a_trace_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputFault, match="missing"):
        recorded_requests(tmp_path / "missing.csv", 9)
