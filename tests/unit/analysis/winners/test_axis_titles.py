"""Axes of maps in words."""

from __future__ import annotations

import pytest

from gradwire.analysis.winners.winner_map import Axis


@pytest.mark.parametrize(
    ("key", "title"),
    [
        ("fabric.rate", "Line rate of each host"),
        ("costs.message_latency.value", "Software latency of a message"),
        ("strategy.options.bucket_cap", "Bucket cap"),
        ("costs.call_latency.value", "Call latency"),
    ],
)
def test_a_key_in_words(key: str, title: str) -> None:
    assert Axis(key, ("1", "2"), (1.0, 2.0)).title == title
