"""A model, a device and a strategy as files of a user's own, and a scenario that names them."""

from __future__ import annotations

from pathlib import Path

MODEL = """\
name = "tiny"
batch = 8
source = "made up"

[[layers]]
name = "embedding"
kind = "embedding"
tensors = { words = [1000, 64] }
flops = "1 MFLOP"

[[layers]]
name = "head"
kind = "fc"
tensors = { weights = [64, 1000], bias = 1000 }
flops = "1 GMAC"
"""
DEVICE = """\
name = "my-gpu"
description = "a GPU of one's own"
memory = "24 GiB"

[peak]
rate = "100 TFLOP/s"
efficiency = 0.4
source = "measured"
"""
STRATEGY = """\
from dataclasses import replace

from gradwire.plugin import AllreduceOptions, Strategy, algorithm_schedule, backward_order, compile_buckets, fused


def compile_one(job, options):
    ring = algorithm_schedule(job.cluster, "ring")
    return compile_buckets(job, "one-bucket", [fused(backward_order(job))], ring, options)


STRATEGY = Strategy(
    name="one-bucket", summary="all at once", source="made up", options=AllreduceOptions, compile=compile_one, needs_servers=False
)
STRATEGIES = (STRATEGY,)
"""
SCENARIO = """\
title = "Files of one's own"
[cluster]
workers = 2
[fabric]
rate = "10gbit"
[model]
name = "../mine/tiny.toml"
device = "../mine/gpu.toml"
[strategy]
name = "one_bucket.py"
"""


def write_own_files(folder: Path) -> Path:
    """Writes all of them below a folder; returns the scenario."""
    files = {
        "mine/tiny.toml": MODEL,
        "mine/gpu.toml": DEVICE,
        "asked/one_bucket.py": STRATEGY,
        "asked/tiny.toml": SCENARIO,
    }
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return folder / "asked" / "tiny.toml"
