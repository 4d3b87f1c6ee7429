"""DCQCN with marks by RED in the virtual-time kernel: it cuts rates, and ports are paused less than without it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import gradwire
from tests.end_to_end.networks.test_lossless import pauses_of

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("virtual_kernel")]

RED: dict[str, Any] = {"fabric": {"ecn": {}}, "transport": {"congestion": "dcqcn"}}
"""Marks as in DCQCN's paper, and its reaction point."""


def run(folder: Path, added: dict[str, Any]) -> tuple[int, int]:
    """Four workers push 5 MB to a server past 1 MB of memory: pauses, and packets that were marked."""
    wanted = {
        "title": "incast",
        "cluster": {"workers": 4, "servers": 1, "colocated": False},
        "fabric": {"rate": "40gbit", "mtu_bytes": 4200, "lossless": {"buffer": "1MB"}, **added.get("fabric", {})},
        "transport": added.get("transport", {}),
        "model": {"name": "toy", "layers": [{"name": "fc", "size": ["5MB"], "forward": "1ms", "backward": "1ms"}]},
        "strategy": {"name": "kvstore"},
        "run": {"warmup": 1, "iterations": 2},
    }
    done = gradwire.run(wanted, out=folder, progress=False)
    assert done.points.iloc[0]["verdict"] == "valid"
    state, stored = pauses_of(folder)
    return sum(count.pauses for count in state.counts), sum(band.marks for band in stored.record().counts.bands)


def test_ports_are_paused_less_where_rates_follow_marks(tmp_path: Path) -> None:
    without, unmarked = run(tmp_path / "without", {})
    paused, marked = run(tmp_path / "with", RED)
    assert unmarked == 0
    assert marked > 0
    assert paused < without / 2
