"""Times of requests in words: what there is, and nothing of what there is not."""

from __future__ import annotations

from gradwire.analysis.report.request_words import estimated_requests, measured_requests
from gradwire.analysis.request_times import RequestSpread, RequestTimes

NETWORK = RequestTimes(
    1, RequestSpread(0.05, 0.08), RequestSpread(0.0046, 1.25), RequestSpread(0.002, 0.004), RequestSpread(2e-9, 0.001)
)
MEASURED = RequestTimes(
    2, RequestSpread(0.055, 0.08), RequestSpread(0.0046, 2.5), RequestSpread(0.002, 0.004), RequestSpread(1e-8, 0.002)
)
ALONE = RequestTimes(1, RequestSpread(0.04, 0.05), RequestSpread(0.004, 0.004), None, None)


def test_an_estimate_has_both_numbers_of_each_time() -> None:
    said = estimated_requests(NETWORK, ALONE)
    assert said.startswith("1 request,")
    assert "first token 50 ms (80 ms), by computation alone 40 ms (50 ms);" in said
    assert "between tokens 4.6 ms (1.25 s), by computation alone 4 ms (4 ms);" in said
    assert said.endswith("cache under way 2 ms (4 ms); of it behind the first token 0 ms (1 ms)")


def test_a_run_has_their_ratios_to_an_ideal_network() -> None:
    said = measured_requests(MEASURED, NETWORK, ALONE)
    assert said.startswith("2 requests,")
    assert "first token 55 ms (80 ms), x fluid 1.100 (1.000), by computation alone" in said
    assert said.endswith("behind the first token 0 ms (2 ms), x fluid – (2.000)")


def test_requests_without_caches_have_no_times_of_them() -> None:
    assert "cache" not in estimated_requests(RequestTimes(1, RequestSpread(1.0, 1.0), None, None, None), ALONE)
