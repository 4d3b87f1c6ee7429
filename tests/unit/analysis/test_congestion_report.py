"""What a report says of drops, marks, windows and queues."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gradwire.analysis.congestion_report import congestion_lines, queue_uses
from gradwire.datatypes.records import QueueLengths
from tests.shared.parts import tells
from tests.unit.analysis.verdict.sound_run import FABRIC, sound_record
from tests.unit.analysis.verdict.test_congestion_check import MARKING, counted
from tests.unit.analysis.verdict.test_every_check import controlled

QUEUES = QueueLengths(
    ("s1-eth1", "s1-eth4"),
    np.array([-100, 0, 100, 200, 300]),
    np.array([[0, 9000], [0, 0], [0, 1000], [0, 3000], [0, 0]]),
    np.zeros((5, 2), np.int64),
)


def test_a_lossless_network_has_nothing_to_tell() -> None:
    assert list(congestion_lines(FABRIC, sound_record())) == []


def test_drops_and_marks_are_told_by_port() -> None:
    record = counted(MARKING, drops=12, again=12, marks=3400, above_threshold=3400, arrivals=3388)
    dropped, marked = congestion_lines(MARKING, record)
    assert tells(dropped, "dropped", "100,000 bytes", "12 at h4 in (s1-eth4)")
    assert tells(marked, "marked", "30,000 bytes", "3,400 at h4 in (s1-eth4)")


def test_knobs_that_had_nothing_to_do_are_named() -> None:
    buffer, marks = congestion_lines(MARKING, counted(MARKING))
    assert tells(buffer, "100,000 bytes", "fabric.buffer had no")
    assert tells(marks, "30,000 bytes", "fabric.ecn had no")


def test_windows_are_told_where_a_control_was_asked_for() -> None:
    (line,) = congestion_lines(FABRIC, controlled("bbr"))
    assert tells(line, "bbr:", "10 to 40", "0 segments")


def test_queues_are_told_over_the_replay_and_empty_ones_are_not() -> None:
    (line,) = congestion_lines(FABRIC, sound_record(), QUEUES)
    assert tells(line, "h4 in (s1-eth4)", "1,000 bytes", "2,940 for 99 %", "3,000 at most", "4 readings")


def test_a_queue_can_be_looked_at_over_some_of_the_time() -> None:
    longest, empty = queue_uses(QUEUES, np.array([[100e-9, 200e-9]]))
    assert (longest.port, longest.mean_bytes, longest.most_bytes, longest.readings) == ("s1-eth4", 2000, 3000, 2)
    assert longest.p99_bytes == pytest.approx(2980)
    assert (empty.port, empty.most_bytes) == ("s1-eth1", 0)
    assert queue_uses(QUEUES, np.array([[1.0, 2.0]])) == []


def test_queues_are_kept_as_they_are(tmp_path: Path) -> None:
    QUEUES.save(tmp_path / "queues.npz")
    kept = QueueLengths.load(tmp_path / "queues.npz")
    assert kept.ports == QUEUES.ports
    assert np.array_equal(kept.time_ns, QUEUES.time_ns)
    assert np.array_equal(kept.waiting_bytes, QUEUES.waiting_bytes)
