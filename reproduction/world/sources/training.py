"""What scenarios of training share: times by operations and by kind of layer, rows of one GPU, and latencies of NCCL's
messages."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from gradwire.workloads.models import model
from gradwire.workloads.models.layer_times import Roof, layer_times
from gradwire.workloads.models.measured_shares import H100_PYTORCH
from gradwire.workloads.models.profile import Layer, LayerKind, Profile
from gradwire.workloads.models.resized import with_tokens
from reproduction.world.cells import Row, unknown

NCCL_LATENCIES = (
    "latencies of messages: NCCL, src/graph/tuning.cc (hwLat). Ring by Simple: 3.4 us by NVLink and 9.6 us by network up "
    "to NCCL 2.10, 14 us since; by LL: 0.6 us by NVLink"
)
GPUS = re.compile(r"(\d+) GPUs")
NODES = re.compile(r"(\d+) nodes?")


SINGLE_GPU = Path(__file__).parents[1] / "single_gpu.csv"
"""Throughputs of one V100 that others than the sources have printed."""
BERT_TOKENS = 128
"""Of BERT-Large's sequences there."""


@dataclass(frozen=True)
class OnOneGpu:
    """A row of `SINGLE_GPU`."""

    model: str
    precision: str
    framework: str
    samples_per_s: float
    container: str

    @property
    def profile(self) -> Profile:
        """The model, with as many tokens as it was trained on."""
        known = model(self.model)
        return with_tokens(known, BERT_TOKENS) if self.model.startswith("bert") else known

    @property
    def source(self) -> str:
        """What a time that follows from it is by."""
        return (
            f"by operations, from {self.model} {self.precision} on one V100 by DeepLearningExamples, {self.container}"
        )


@cache
def on_one_gpu() -> tuple[OnOneGpu, ...]:
    """All rows of `SINGLE_GPU`."""
    lines = [line for line in SINGLE_GPU.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    return tuple(
        OnOneGpu(row["model"], row["precision"], row["framework"], float(row["samples_per_s"]), row["container"])
        for row in csv.DictReader(lines)
    )


def single_gpu(name: str, precision: str, framework: str) -> OnOneGpu:
    """The row of a model and a precision: the framework's own, or PyTorch's where there is none."""
    rows = {row.framework: row for row in on_one_gpu() if (row.model, row.precision) == (name, precision)}
    return rows.get(framework, rows["PyTorch"])


def time_by_single_gpu_s(name: str, samples: int, known: OnOneGpu) -> float:
    """Seconds of a step, if operations take as long as in the row of one GPU."""
    return samples * _forward_flop(model(name)) / (known.samples_per_s * _forward_flop(known.profile))


def _forward_flop(profile: Profile) -> float:
    """Operations of a forward pass over one sample."""
    return sum(layer.flops for layer in profile.layers)


V100_FP32 = Roof(flops_per_s=15.7e12, memory_bytes_per_s=900e9 / 2)
"""Data sheet of the V100 SXM2. Numbers of 32 bits move at half the rate that tables of 16 bits count with."""


def time_by_kind_s(name: str, known: str, samples: int, known_s: float) -> float:
    """Seconds of a step on a V100 in FP32, of which one step of another model is known, if each kind of layer reaches
    the shares of the two rates that it reaches on an H100, times one factor, and grouped convolutions as `grouped_factor`
    says."""
    return known_s * _kernels_s(model(name), samples) / _kernels_s(model(known), samples)


WIDTH, WIDTHS = 4, {"resnext50": 4, "resnext101": 8}
"""Channels of a group in the model of `SINGLE_GPU`, and in those that are predicted."""


@cache
def grouped_factor() -> float:
    """How much longer grouped convolutions of `WIDTH` channels take in FP32 than their table has: with it, ResNeXt-101 32x4d
    takes as much longer than ResNet-50 as on one V100."""
    known, grouped = (single_gpu(name, "FP32", "PyTorch") for name in ("resnet50-torchvision", "resnext101-32x4d"))
    samples = 64  # of the ResNeXt's row
    wanted_s = sum(_layers_s(known.profile, samples)) * known.samples_per_s / grouped.samples_per_s
    times_s = _layers_s(grouped.profile, samples)
    middle_s = sum(seconds for layer, seconds in zip(grouped.profile.layers, times_s, strict=True) if _is_middle(layer))
    return (wanted_s - sum(times_s)) / middle_s + 1


def _kernels_s(profile: Profile, samples: int) -> float:
    """Seconds of a step's kernels. A group's kernel is taken to compute as many channels whatever the group has, so that
    of 8 channels half as much is in vain as of 4."""
    times_s = _layers_s(profile, samples)
    width = WIDTHS.get(profile.name)
    if width is None:
        return sum(times_s)
    factor = grouped_factor() * WIDTH / width
    return sum(
        seconds * (factor if _is_middle(layer) else 1.0) for layer, seconds in zip(profile.layers, times_s, strict=True)
    )


def _is_middle(layer: Layer) -> bool:
    """Whether a layer is the convolution of a unit that has groups, where a model has any."""
    return layer.kind is LayerKind.CONV and layer.name.endswith("/conv2")


def _layers_s(profile: Profile, samples: int) -> list[float]:
    forward, backward = layer_times(profile, samples, V100_FP32, H100_PYTORCH)
    return [there + back for there, back in zip(forward, backward, strict=True)]


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
