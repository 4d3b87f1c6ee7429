"""What scenarios of training share: times by operations, and latencies of NCCL's messages."""

from __future__ import annotations

import csv
import re
from pathlib import Path

from gradwire.workloads.models import model
from gradwire.workloads.models.compute_times import TRAINING_PER_FORWARD
from gradwire.workloads.models.layer_times import Roof, layer_times
from gradwire.workloads.models.measured_shares import H100_PYTORCH
from reproduction.world.cells import Row, unknown

NCCL_LATENCIES = (
    "latencies of messages: NCCL, src/graph/tuning.cc (hwLat). Ring by Simple: 3.4 us by NVLink and 9.6 us by network up "
    "to NCCL 2.10, 14 us since; by LL: 0.6 us by NVLink"
)
GPUS = re.compile(r"(\d+) GPUs")
NODES = re.compile(r"(\d+) nodes?")


def training_flop(name: str, samples: int) -> float:
    """Operations of a training step over so many samples: three forward passes."""
    return TRAINING_PER_FORWARD * samples * sum(layer.flops for layer in model(name).layers)


def time_by_operations_s(name: str, samples: int, known: str, known_samples: int, known_s: float) -> float:
    """Seconds of a step on a device of which one step of another model is known, if operations take equally long."""
    return known_s * training_flop(name, samples) / training_flop(known, known_samples)


COMPILED = Path(__file__).parents[3] / "benchmarks" / "measured" / "h100_compiled.csv"
"""Rows of `python3 -m benchmarks.gpu.time_compiled`."""


def fused_share(name: str, samples: int) -> float:
    """Of the time of a model's kernels, what they take where normalisations, ReLUs and additions are fused: as timed on
    an H100 with torch.compile, over the time without."""
    lines = [line for line in COMPILED.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    row = next(row for row in csv.DictReader(lines) if (row["model"], row["batch"]) == (name, str(samples)))
    return float(row["compiled_kernels_s"]) / float(row["kernels_s"])


V100_FP32 = Roof(flops_per_s=15.7e12, memory_bytes_per_s=900e9 / 2)
"""Data sheet of the V100 SXM2. Numbers of 32 bits move at half the rate that tables of 16 bits count with."""


def time_by_kind_s(name: str, known: str, samples: int, known_s: float) -> float:
    """Seconds of a step on a V100 in FP32, of which one step of another model is known, if each kind of layer reaches
    the shares of the two rates that it reaches on an H100, times one factor."""
    return known_s * _kernels_s(name, samples) / _kernels_s(known, samples)


def _kernels_s(name: str, samples: int) -> float:
    forward, backward = layer_times(model(name), samples, V100_FP32, H100_PYTORCH)
    return sum(forward) + sum(backward)


def number_in(row: Row, pattern: re.Pattern[str]) -> int:
    """The number that a row's setting names. Raises InputFault where it names none."""
    found = pattern.search(row.setting)
    if found is None:
        raise unknown(row)
    return int(found[1])


def machines_of(gpus: int, most: int) -> tuple[str, ...]:
    """Settings for so many GPUs in machines of `most`."""
    return f"cluster.workers={gpus}", f"cluster.workers_per_host={min(gpus, most)}"


def given_time(seconds: float, source: str) -> tuple[str, ...]:
    """Settings for the time of a step."""
    return f"model.iteration_time={seconds * 1e3:.6g}ms", f"model.iteration_time_source={source}"
