"""What scenarios of training share: times by operations, and latencies of NCCL's messages."""

from __future__ import annotations

import re

from gradwire.workloads.models import model
from gradwire.workloads.models.compute_times import TRAINING_PER_FORWARD
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
