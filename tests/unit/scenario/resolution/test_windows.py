"""The buffers that a point's sockets have, and what is said before a run of those that do not fill its paths."""

from __future__ import annotations

from typing import Any

import pytest

from gradwire.scenario.loading import Point, resolve
from gradwire.scenario.resolution.compilation import ResolvedPoint
from gradwire.scenario.resolution.windows import crowded_memory, small_windows

BASE: dict[str, Any] = {
    "title": "far apart",
    "cluster": {"workers": 3},
    "fabric": {"rate": "25gbit"},
    "model": {"name": "one-layer", "layers": [{"name": "fc", "size": ["1MB"], "forward": "1ms", "backward": "1ms"}]},
    "strategy": {"name": "ring"},
}
MIB = 1 << 20


def point(delay: str = "", **transport: str) -> Point:
    faults = {f"far{host}": {"kind": "delay", "link": f"h{host}", "delay": delay} for host in (1, 2, 3) if delay}
    (found,) = resolve({**BASE, "transport": transport, "fault": faults}, "test.toml", "test").points
    return found


def of(wanted: Point) -> ResolvedPoint:
    return ResolvedPoint(wanted.section)


@pytest.mark.parametrize(
    ("wanted", "buffer_bytes"),
    [
        (point(), 4 * MIB),
        (point(buffer="256KiB"), MIB // 4),
        (point("1us"), 4 * MIB),
        (point("1ms"), 36 * MIB),
        (point("1ms", buffer="4MiB"), 4 * MIB),
    ],
    ids=["default", "asked for", "near", "far", "far, and asked for"],
)
def test_the_buffer_follows_the_longest_round_trip_unless_it_is_asked_for(wanted: Point, buffer_bytes: int) -> None:
    assert of(wanted).buffer_bytes == buffer_bytes


def said(wanted: Point) -> str:
    return small_windows(wanted.section, of(wanted).fabric)


def test_a_buffer_that_does_not_fill_the_path_is_warned_of_with_one_that_would() -> None:
    assert said(point("1ms", buffer="4MiB")) == (
        "transport.buffer = 4MiB is too little for the links' delays: the longest round trip holds 12.5 MB at the line's rate (rate x "
        "round trip), so sockets' windows may limit connections, and not links. 36MiB would do, which is what it is when left out"
    )


@pytest.mark.parametrize("wanted", [point(), point(buffer="64KiB"), point("1ms"), point("1ms", buffer="36MiB")])
def test_nothing_is_said_of_buffers_that_do(wanted: Point) -> None:
    assert said(wanted) == ""


def test_what_no_window_of_tcp_holds_is_said_whatever_the_buffer() -> None:
    text = said(point("200ms"))
    assert text.startswith("the longest round trip holds 2,500 MB at the line's rate")
    assert "no window of TCP is larger than 1GiB" in text


def test_sockets_that_together_may_hold_more_than_the_memory_are_told() -> None:
    far = point("10ms")
    assert crowded_memory(far.section, of(far).fabric, connections=100) == ""
    text = crowded_memory(far.section, of(far).fabric, connections=1000)
    assert text.startswith(
        "1,000 connections whose buffers have 358MiB each (transport.buffer) may together hold bursts that take"
    )
    assert "run.memory_mb = 3,072" in text
