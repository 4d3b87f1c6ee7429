"""A part of a job by packets in the virtual-time kernel: valid, and as long as the whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import gradwire
from tests.shared.parts import tells

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("virtual_kernel")]

LAYERS = [
    {"name": f"l{number}", "kind": "conv", "size": [size], "forward": "0.2ms", "backward": "0.4ms"}
    for number, size in enumerate(("4MB", "1MB", "8MB"))
]


def ran(out: Path, strategy: dict[str, Any], part: dict[str, str] | None) -> gradwire.Run:
    scenario: dict[str, Any] = {
        "title": "a part",
        "cluster": {"workers": 8},
        "fabric": {"rate": "10gbit"},
        "model": {"name": "toy", "batch": 1, "layers": LAYERS},
        "strategy": strategy,
        "run": {"iterations": 1},
        **({"part": part} if part else {}),
    }
    run = gradwire.run(scenario, out=out, progress=False)
    assert run.valid
    return run


def time_s(run: gradwire.Run) -> float:
    (row,) = run.points.to_dict("records")
    return float(row["iteration_time_s"])


def test_a_part_takes_as_long_as_the_whole(tmp_path: Path) -> None:
    ring = {"name": "ddp", "options": {"bucket_cap": "5MiB"}}
    whole = ran(tmp_path / "whole", ring, None)
    part = ran(tmp_path / "part", ring, {"hosts": "h3-h5"})
    assert time_s(part) == pytest.approx(time_s(whole), rel=0.01)
    assert tells((tmp_path / "part" / "report.html").read_text(), "in part:", "h3 to h5", "of 8")


def test_servers_outside_answer_as_late_as_in_the_whole(tmp_path: Path) -> None:
    """They send whole tensors to eight workers, of which the part has three."""
    servers = {"name": "vanilla", "options": {}}
    (row,) = gradwire.estimate(
        {
            "title": "whole",
            "cluster": {"workers": 8},
            "fabric": {"rate": "10gbit"},
            "model": {"name": "toy", "batch": 1, "layers": LAYERS},
            "strategy": servers,
        }
    ).to_dict("records")
    part = ran(tmp_path / "part", servers, {"hosts": "h3-h5"})
    assert time_s(part) == pytest.approx(row["iteration_time_s"], rel=0.02)


def test_two_copies_of_each_class_take_as_long_as_all(tmp_path: Path) -> None:
    """Eight replicas of two stages, of which each worker is a share of four in a machine."""
    scenario: dict[str, Any] = {
        "title": "replicas",
        "cluster": {"workers": 64, "workers_per_host": 4, "nics_per_host": 4},
        "fabric": {"rate": "10gbit"},
        "costs": {"local_rate": {"value": "150GB/s", "source": "data sheet"}},
        "model": {"name": "bert-large", "device": "v100", "blocks": 2},
        "strategy": {"name": "megatron", "options": {"tensor": 4, "stages": 2, "microbatches": 2}},
        "run": {"iterations": 1},
    }
    (row,) = gradwire.estimate(scenario).to_dict("records")
    part = gradwire.run({**scenario, "part": {"copies": 2}}, out=tmp_path / "part", progress=False)
    assert part.valid
    assert time_s(part) == pytest.approx(row["iteration_time_s"], rel=0.01)
    assert tells((tmp_path / "part" / "report.html").read_text(), "in part:", "4 of 64", "workers")
