"""Times of requests to a model that is served, in words."""

from __future__ import annotations

from gradwire.analysis.findings.findings import RequestsServed
from gradwire.analysis.report.value_words import MOST_NAMED, ValueWords
from gradwire.analysis.request_times import RequestSpread, RequestTimes

WHAT = (
    ("time to first token", "first_token"),
    ("between tokens", "between_tokens"),
    ("cache under way", "cache"),
    ("of it behind the first token", "behind"),
)


LEAST_S = 1e-6
"""Shorter times are those of tokens that say that something is there."""


def estimated_requests(network: RequestTimes, alone: RequestTimes) -> str:
    """Says what an estimate has of requests, on the network and by computation alone."""
    parts = [
        f"{what} {_spread(spread)}{_alone(name, alone)}"
        for what, name in WHAT
        if (spread := _of(network, name)) is not None
    ]
    return f"{_count(network)}, median (99th percentile): {'; '.join(parts)}"


def measured_requests(measured: RequestTimes, ideal: RequestTimes, alone: RequestTimes) -> str:
    """Says what a run has of requests, how much longer that is than on an ideal network, and by computation alone."""
    parts = [
        f"{what} {_spread(spread)}, x fluid {_ratios(spread, _of(ideal, name))}{_alone(name, alone)}"
        for what, name in WHAT
        if (spread := _of(measured, name)) is not None
    ]
    return f"{_count(measured)}, median (99th percentile): {'; '.join(parts)}"


def served_words(found: RequestsServed, words: ValueWords) -> str:
    """Says how long first and later tokens take at each setting, or at those between which the longest ones lie."""
    at = [(each.where, each.observed.requests) for each in found.at if each.observed.requests is not None]
    if len(at) > MOST_NAMED:
        at.sort(key=lambda each: _longest_s(each[1]))
        at = [at[0], at[-1]]
        begins = f"of {len(found.at)} settings, requests wait least {{}} and most {{}}"
    else:
        begins = ""
    parts = [(words.at([where]) if where else "", _tokens(times)) for where, times in at]
    if begins:
        return begins.format(*(f"{where} ({tokens})" for where, tokens in parts))
    return (
        "; ".join(" ".join(filter(None, (where, tokens))) for where, tokens in parts)
        + ": medians, and 99th percentiles"
    )


def _tokens(times: RequestTimes) -> str:
    said = [
        f"{what} {_spread(spread)}"
        for what, spread in (("first tokens take", times.first_token), ("later ones", times.between_tokens))
        if spread is not None
    ]
    return " and ".join(said)


def _longest_s(times: RequestTimes) -> float:
    return sum(spread.tail_s for spread in (times.first_token, times.between_tokens) if spread is not None)


def _of(times: RequestTimes, name: str) -> RequestSpread | None:
    spread: RequestSpread | None = getattr(times, name)
    return spread


def _count(times: RequestTimes) -> str:
    return f"{times.requests} request{'s' if times.requests > 1 else ''}"


def _alone(name: str, alone: RequestTimes) -> str:
    """Words for the same time by computation alone; "" if there is none."""
    spread = _of(alone, name)
    return "" if spread is None else f", by computation alone {_spread(spread)}"


def _spread(spread: RequestSpread) -> str:
    return f"{_duration(spread.median_s)} ({_duration(spread.tail_s)})"


def _ratios(spread: RequestSpread, ideal: RequestSpread | None) -> str:
    if ideal is None:
        return "–"
    median, tail = (
        f"{a / b:.3f}" if b >= LEAST_S else "–"
        for a, b in ((spread.median_s, ideal.median_s), (spread.tail_s, ideal.tail_s))
    )
    return f"{median} ({tail})"


def _duration(time_s: float) -> str:
    if time_s < LEAST_S:
        return "0 ms"
    return f"{time_s:.4g} s" if time_s >= 1 else f"{time_s * 1e3:.4g} ms"
