"""The closed form of a ring's times is what following all steps gives."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradwire.analysis.by_class.ring_times import RingLines, ring_times
from gradwire.analysis.fluid.estimate import Buffered, Departure
from gradwire.datatypes.class_plans import RingCall, RingSequence
from tests.shared.examples import examples

UNNOTICED_NS = 1e-12
"""A latency that makes ranks follow step by step, and that no op of whole nanoseconds has."""


def lines_of(ranks: int, latency_ns: float = 0.0) -> RingLines:
    return RingLines(np.full(ranks, 0.125), np.full(ranks, latency_ns), np.zeros(ranks), np.zeros(ranks))


@st.composite
def sequences(draw: st.DrawFn) -> RingSequence:
    """Up to 12 ranks that are ready at different times, and calls of 0 to 40 values."""
    ranks = draw(st.integers(2, 12))
    calls = []
    for _ in range(draw(st.integers(1, 4))):
        values = draw(st.integers(0, 40))
        ready_ns = np.array(draw(st.lists(st.integers(0, 900), min_size=ranks, max_size=ranks)), np.float64)
        part_bytes = (values // ranks + (np.arange(ranks) < values % ranks)) * 4
        calls.append(RingCall(ready_ns, part_bytes))
    hosts = np.arange(ranks, dtype=np.int64)
    return RingSequence("made up", ranks, hosts, 1, tuple(calls), np.full(1, 500.0), 0.0, 0.0, 1e9, 5e-7, 1)


@given(sequences(), st.sampled_from([Departure(), Buffered(7), Buffered(1000)]))
@settings(max_examples=examples(150))
def test_at_once_as_step_by_step(sequence: RingSequence, rule: Departure | Buffered) -> None:
    at_once = ring_times(sequence, lines_of(sequence.ranks), rule)
    followed = ring_times(sequence, lines_of(sequence.ranks, UNNOTICED_NS), rule)
    both = min(at_once.needed, followed.needed)
    np.testing.assert_allclose(at_once.iterations_s[:both], followed.iterations_s[:both], rtol=1e-12)


def test_a_late_rank_is_waited_for_around_the_ring() -> None:
    """Its small part waits for what it sends itself: 98 ns late, less 32 for each of three small parts, after four large ones."""
    call = RingCall(np.array([0.0, 0.0, 98.0]), np.array([44, 40, 40]))
    sequence = RingSequence("late", 3, np.arange(3), 1, (call,), np.full(1, 500.0), 0.0, 0.0, 1e9, 5e-7, 1)
    assert ring_times(sequence, lines_of(3), Departure()).iterations_s[1] == pytest.approx(1410e-9, rel=1e-12)


def test_a_ring_of_thousands_takes_its_closed_form() -> None:
    ranks, part_bytes = 4096, 1000
    call = RingCall(np.zeros(1), np.full(ranks, part_bytes))
    sequence = RingSequence("even", ranks, np.arange(ranks), 1, (call,), np.zeros(1), 0.0, 0.0, 1e9, 0.0, 1)
    times = ring_times(sequence, lines_of(ranks), Departure())
    assert times.iteration_s == pytest.approx(2 * (ranks - 1) * part_bytes / 0.125 / 1e9, rel=1e-12)
