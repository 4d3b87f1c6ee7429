"""Swift and NSCC in the virtual-time kernel: queues in front of a receiver are as long as their theory says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradwire
from gradwire.runs.stored.stored_run import StoredRun

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("virtual_kernel")]

RATE_BPS = 40e9
FRAME_BYTES = 4214
"""With preamble, FCS and gap, of the MTU below."""
SENDERS = 4
BASE_US = 8.0
"""A round trip over two links of 2 us."""


def run(folder: Path, fabric: dict[str, Any], congestion: str) -> tuple[float, int]:
    """Workers push 10 MB each to a server: how long packets wait for it in the median of the time in which some do, in us, and marks."""
    wanted = {
        "title": "incast",
        "cluster": {"workers": SENDERS, "servers": 1, "colocated": False},
        "fabric": {"rate": "40gbit", "mtu_bytes": 4176, "delay": "2us", **fabric},
        "transport": {"congestion": congestion},
        "model": {"name": "toy", "layers": [{"name": "fc", "size": ["10MB"], "forward": "1ms", "backward": "1ms"}]},
        "strategy": {"name": "kvstore"},
        "run": {"warmup": 1, "iterations": 1, "queue_sample": "50us"},
    }
    done = gradwire.run(wanted, out=folder, progress=False)
    assert done.points.iloc[0]["verdict"] == "valid"
    stored = StoredRun(next((folder / "points").iterdir()))
    queues = stored.queues()
    assert queues is not None
    waiting = queues.waiting_bytes[:, queues.ports.index(f"s1-eth{SENDERS + 1}")]
    return float(np.median(waiting[waiting > FRAME_BYTES])) * 8 / RATE_BPS * 1e6, sum(
        band.marks for band in stored.record().counts.bands
    )


def swift_queue_us() -> float:
    """The round trip at which Swift's target (section 3.5 of its paper) is that of a flow's share, less that of an empty network."""
    target_us = BASE_US + 25
    for _ in range(100):
        window = target_us * 1e-6 * RATE_BPS / 8 / FRAME_BYTES / SENDERS
        target_us = BASE_US + 25 + 100 * (window**-0.5 - 0.1) / (0.1**-0.5 - 0.1)
    return target_us - BASE_US


def test_swift_keeps_the_queue_at_its_target(tmp_path: Path) -> None:
    queue_us, marks = run(tmp_path, {"buffer": "4MB"}, "swift")
    assert queue_us == pytest.approx(swift_queue_us(), rel=0.1)
    assert marks == 0


def test_a_scenario_sets_the_queue_that_swift_keeps(tmp_path: Path) -> None:
    sysctls = {"net.ipv4.tcp_swift_queue_us": 60, "net.ipv4.tcp_swift_scaling_us": 0}
    queue_us, _ = run(tmp_path, {"buffer": "4MB", "host": {"all": {"sysctl": sysctls}}}, "swift")
    assert queue_us == pytest.approx(60, rel=0.1)


def test_nscc_keeps_a_round_trip_where_marks_begin_below(tmp_path: Path) -> None:
    queue_us, marks = run(tmp_path, {"ecn": "20KB"}, "nscc")
    assert queue_us == pytest.approx(BASE_US, rel=0.2)
    assert marks > 0
