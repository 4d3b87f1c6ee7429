"""Compute times: how long each layer of a model takes on a device, from printed single-GPU facts.

An iteration's time comes from a table of facts, each with its source, and is divided over the layers in proportion to
their FLOPs, which recurrent layers carry out at a lower rate. GPUs take less time a FLOP in wide, small layers: GradientFlow
measured 7.1 % of the backward time in the top 8 layers of AlexNet and 8.9 % in the top 20 of ResNet-50 (Fig. 13), where FLOPs
say 8.1 and about 16 %.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from vm.faults import InputFault
from workloads.models import model
from workloads.models.synthetic import PREFIX, base_name
from workloads.profile import LayerKind, Profile

TRAINING_PER_FORWARD = 3
"""A training step costs three forward passes: the backward pass computes two gradients, of inputs and of weights."""
RELATIVE_RATE = {LayerKind.LSTM: 1356 / 9900}
"""FLOP/s that layers of a kind reach, relative to others. A recurrent layer multiplies one token of each sample at a time: cuBLAS on a
Titan X (Pascal) reaches 1356 GFLOP/s for 32 rows by 2048 x 2048, and 9900 for 7000 rows (measured by openai-gemm, fp32)."""


@dataclass(frozen=True)
class ComputeTime:
    """Seconds of one iteration for each layer of a profile, the whole batch included.

    fitted_on: the printed cell that the time was inferred from, which then is no prediction; None for independent facts.
    """

    forward_s: tuple[float, ...]
    backward_s: tuple[float, ...]
    source: str
    fitted_on: str | None = None

    @property
    def iteration_s(self) -> float:
        """Seconds of a whole iteration without any communication."""
        return sum(self.forward_s) + sum(self.backward_s)


@dataclass(frozen=True)
class Fact:
    """A sourced time of one iteration of `model` with `batch` samples on one device.

    seconds: forward and backward together, or a pair where the source gives both.
    first_backward_free: the source leaves out the layer that the backward pass starts with.
    """

    model: str
    batch: int
    seconds: float | tuple[float, float]
    source: str
    fitted_on: str | None = None
    first_backward_free: bool = False


@dataclass(frozen=True)
class Device:
    """What is known of a device.

    alike: models without a fact of their own, by the model whose seconds per FLOP they take.
    flops_per_s, efficiency: peak rate and the share of it that training reaches, for models that have neither.
    """

    description: str
    facts: tuple[Fact, ...] = ()
    alike: Mapping[str, str] = field(default_factory=dict)
    flops_per_s: float | None = None
    efficiency: float = 0.0
    efficiency_source: str = ""


def _rate(name: str, batch: int, samples_per_s: float, source: str) -> Fact:
    return Fact(name, batch, batch / samples_per_s, f"{source}: {samples_per_s:g} samples/s")


def _by_peak(name: str, batch: int, samples_per_s: float, source: str, peak_ratio: float) -> Fact:
    """Another GPU's rate times the ratio of peak rates; about 10 % may be wrong with it, for memory is not in proportion."""
    return Fact(
        name,
        batch,
        batch / (samples_per_s * peak_ratio),
        f"{source}: {samples_per_s:.4g} samples/s, times {peak_ratio:.3g}, the ratio of peak rates",
    )


def _inferred(name: str, batch: int, seconds: float, cell: str) -> Fact:
    return Fact(name, batch, seconds, "inferred: no single-GPU time is printed", fitted_on=cell)


def _netops(name: str, forward_s: float, backward_s: float) -> Fact:
    """NetOps' Table 3 leaves out the first backward layer, as does its simulation."""
    return Fact(name, 32, (forward_s, backward_s), "NetOps Table 3", first_backward_free=True)


def _netops_slowest(name: str, forward_s: float, backward_s: float) -> Fact:
    """Backward pass such that a ring gains what NetOps' Table 6 prints; Table 3 has 0.296, 0.180 and 0.340 s.

    There the ring is bound by computation. VGG-16's ring agrees with Table 3 as it is.
    """
    return Fact(
        name,
        32,
        (forward_s, backward_s),
        "NetOps Table 3 (forward pass); backward pass inferred",
        fitted_on="NetOps Table 6, ring",
        first_backward_free=True,
    )


_TF_K80 = "TensorFlow benchmarks, May 2017, Google Compute Engine K80, 1 GPU, synthetic data"
_TF_P100 = "TensorFlow benchmarks, May 2017, DGX-1 P100, 1 GPU, synthetic data"
_TORCH_TITAN_X = "jcjohnson/cnn-benchmarks, Maxwell Titan X, cuDNN 5.1, batch 16"
_GF_IMPLIED = "GradientFlow Sec. 2.5 and Table 2, implied by throughput / speed-up ratio"
_SLIM_ALIKE = {
    "resnet50-slim": "resnet50",
    "resnet50-v2": "resnet50",
    "resnet101": "resnet50",
    "resnet101-v2": "resnet50",
    "resnet200": "resnet152-v2",
    "inception-v1": "inception-v3",
    "inception-v2": "inception-v3",
    "inception-v3-netops": "inception-v3",
    "vgg19": "vgg16",
    "vgg16-299": "vgg16",
}

DEVICES: dict[str, Device] = {
    "k40": Device(
        "NVIDIA Tesla K40c, Geryon's testbed. One time a model, inferred from the vanilla column of Table II",
        (
            _inferred("alexnet", 512, 0.846, "Geryon Table II, AlexNet, vanilla"),
            _inferred("vgg19", 64, 1.636, "Geryon Table II, VGG-19, vanilla"),
            _inferred("resnet50", 64, 0.882, "Geryon Table II, ResNet-50, vanilla"),
            _inferred("yolo-v1", 64, 2.650, "Geryon Table II, YOLO, vanilla"),
        ),
    ),
    "p4000": Device(
        "NVIDIA Quadro P4000, P3's testbed. No single-GPU times are printed: those of a P100, of the same architecture, at 5.3 of its "
        "10.6 TFLOP/s (data sheets). P3's Fig. 7 agrees: P3 stays linear down to 4 Gbit/s, which is 0.307 s an iteration of ResNet-50",
        (
            _by_peak("resnet50", 32, 195, _TF_P100, 5.3 / 10.6),
            _by_peak("inception-v3", 32, 128, _TF_P100, 5.3 / 10.6),
            _by_peak("vgg16", 32, 144, _TF_P100, 5.3 / 10.6),
        ),
        {
            "inception-v3-mxnet": "inception-v3",
            "inception-v3-netops": "inception-v3",
            "resnet50-slim": "resnet50",
            "vgg19": "vgg16",
        },
    ),
    "m60-half": Device(
        "One of the two GPUs of an NVIDIA Tesla M60, as in P3's AWS g3.4xlarge machines. No single-GPU times are printed: those of a "
        "Maxwell Titan X, of the same architecture, at 4.8 of its 6.6 TFLOP/s (2048 cores at 1.178 GHz, 3072 at 1.075 GHz)",
        (
            _by_peak("resnet50", 32, 16 / 0.15962, _TORCH_TITAN_X, 4.8 / 6.6),
            _by_peak("vgg19", 32, 16 / 0.22514, _TORCH_TITAN_X, 4.8 / 6.6),
        ),
    ),
    "k80-half": Device(
        "One of the two GPUs of an NVIDIA Tesla K80, as in TicTac's envG (Azure NC6)",
        (
            _rate("vgg16", 32, 35.4, _TF_K80),
            _rate("resnet50", 32, 49.5, _TF_K80),
            _rate("resnet50", 64, 51.9, _TF_K80),
            _rate("resnet152-v2", 32, 20.0, f"{_TF_K80} (ResNet-152)"),
            _rate("inception-v3", 32, 29.3, _TF_K80),
            _rate("inception-v3", 64, 30.5, _TF_K80),
            # tf_cnn_benchmarks' AlexNet has the layers of TF-slim's alexnet_v2.
            _rate("alexnet-v2", 512, 656, _TF_K80),
        ),
        _SLIM_ALIKE,
    ),
    "xeon-32": Device(
        "32 cores of Intel Broadwell (two Xeon E5-2686 v4 of an EC2 r4.16xlarge), as in TicTac's envC ('32 core'); for AVX, as "
        "TensorFlow is released since 1.6",
        (_rate("inception-v3", 32, 5.7, "TensorFlow performance guide (r1.2), training on CPU with AVX"),),
        dict.fromkeys((*_SLIM_ALIKE, "alexnet-v2", "resnet50", "resnet152-v2", "vgg16"), "inception-v3"),
    ),
    "pascal-gf": Device(
        "The Pascal GPU of GradientFlow's Cluster-P, fp32",
        (_rate("alexnet-bn", 128, 1670, "GradientFlow Fig. 6"), _rate("resnet50", 64, 172, "GradientFlow Fig. 6")),
        {"resnet50-gf": "resnet50"},
    ),
    "pascal-gf-pytorch": Device(
        "The Pascal GPU of GradientFlow's Cluster-P under PyTorch 0.4, fp32",
        (
            _rate("alexnet-bn", 128, 1475, "GradientFlow Sec. 2.3.3"),
            _rate("resnet50", 64, 167, "GradientFlow Sec. 2.3.3"),
        ),
        {"resnet50-gf": "resnet50"},
    ),
    "pascal-gf-mixed": Device(
        "The Pascal GPU of GradientFlow's Cluster-P, mixed precision",
        (
            _rate("alexnet-bn", 128, 1977, _GF_IMPLIED),
            _rate("resnet50", 64, 223, "GradientFlow Fig. 11"),
            _rate("resnet50", 128, 239.6, _GF_IMPLIED),
        ),
        {"resnet50-gf": "resnet50"},
    ),
    "volta-gf": Device(
        "The Volta GPU of GradientFlow's Cluster-V, fp32",
        (_rate("alexnet-bn", 128, 2900, "GradientFlow Fig. 11"), _rate("resnet50", 128, 301, "GradientFlow Fig. 11")),
        {"resnet50-gf": "resnet50"},
    ),
    "volta-gf-mixed": Device(
        "The Volta GPU of GradientFlow's Cluster-V, mixed precision",
        (_rate("alexnet-bn", 128, 3692, _GF_IMPLIED), _rate("resnet50", 128, 621, "GradientFlow Fig. 11")),
        {"resnet50-gf": "resnet50"},
    ),
    "ec2-netops": Device(
        "The GPU of NetOps' EC2 cluster (type not printed). The layer that starts the backward pass costs nothing there",
        (
            _netops("inception-v3-netops", 0.176, 0.296),
            _netops("vgg16-299", 0.169, 0.024),
            _netops("resnet101-netops", 0.176, 0.180),
            _netops("resnet200", 0.357, 0.340),
        ),
        {"inception-v3-with-head": "inception-v3-netops"},
    ),
    "ec2-netops-slowest": Device(
        "The GPU of NetOps' EC2 cluster as its simulation of 32 workers replays it: with a trace a worker (Sec. 5), of which "
        "a sum waits for the slowest. All workers take that long",
        (
            _netops_slowest("inception-v3-netops", 0.176, 0.410),
            _netops("vgg16-299", 0.169, 0.024),
            _netops_slowest("resnet101-netops", 0.176, 0.385),
            _netops_slowest("resnet200", 0.357, 0.434),
        ),
    ),
    "v100": Device(
        "NVIDIA V100 SXM2, fp16 tensor cores (data sheet: 125 TFLOP/s)",
        flops_per_s=125e12,
        efficiency=0.30,
        efficiency_source="Megatron-LM, Shoeybi et al. 2019: 39 TFLOP/s, 30 % of the peak",
    ),
    "a100": Device(
        "NVIDIA A100 SXM, bf16 dense (data sheet: 312 TFLOP/s)",
        flops_per_s=312e12,
        efficiency=0.44,
        efficiency_source="Narayanan et al. 2021, Table 1: 137 TFLOP/s a GPU for GPT 1.7 B, 44 % of the peak",
    ),
    "h100": Device(
        "NVIDIA H100 SXM, bf16 dense (data sheet: 989 TFLOP/s)",
        flops_per_s=989e12,
        efficiency=0.40,
        efficiency_source="The Llama 3 Herd of Models, 2024, Table 4: 38 to 43 % model-FLOPs utilisation",
    ),
}


def compute_time(
    profile: Profile,
    device: str,
    *,
    batch: int | None = None,
    iteration_s: float | None = None,
    forward_share: float = 1 / 3,
    forward_s: float | None = None,
    speedup: Mapping[LayerKind, float] | None = None,
) -> ComputeTime:
    """Seconds of each layer of `profile` on `device` for one iteration of `batch` samples (the profile's own by default).

    iteration_s: a time of the scenario's own, for this batch, that replaces what is known of the device.
    forward_share: the forward pass's share of the time, where the source does not give both; 1:2 as P3's P4000 shows.
    forward_s: the whole forward pass's time, for these samples, instead of that; the backward pass stays as it is.
    speedup: divides the times of a kind of layer (NetOps, Sec. 8.6, divides convolutions by 1 to 3).
    Raises InputFault for an unknown device, a model that it has no time for, or a number that makes no sense.
    """
    samples = profile.batch if batch is None else batch
    faster = speedup or {}
    _check(samples, iteration_s, forward_share, faster)
    if iteration_s is None:
        fact = _fact(profile, device, samples)
    else:
        fact = Fact(
            profile.name, samples, iteration_s, f"given by the scenario: {iteration_s:g} s for {samples} samples"
        )
    if isinstance(fact.seconds, tuple):
        forward, backward = fact.seconds
    else:
        forward, backward = fact.seconds * forward_share, fact.seconds * (1 - forward_share)
    if forward_s is not None:
        forward = forward_s
    return ComputeTime(
        _split(profile, forward, _forward_weights(profile), faster),
        _split(profile, backward, _backward_weights(profile, fact.first_backward_free), faster),
        fact.source,
        fact.fitted_on,
    )


def with_modules_of(base: ComputeTime, grown: Profile, added: ComputeTime) -> ComputeTime:
    """The times of a model with modules added (workloads/models/synthetic.py): its own layers take what `base` has for the model without
    them, and the modules what they take in `added`, the times of the whole model elsewhere.
    """
    forward_s, backward_s = iter(base.forward_s), iter(base.backward_s)
    is_added = [layer.name.startswith(PREFIX) for layer in grown.layers]
    return ComputeTime(
        tuple(new if mine else next(forward_s) for mine, new in zip(is_added, added.forward_s, strict=True)),
        tuple(new if mine else next(backward_s) for mine, new in zip(is_added, added.backward_s, strict=True)),
        f"{base.source}; modules: {added.source}",
        base.fitted_on,
    )


def _check(batch: int, iteration_s: float | None, forward_share: float, speedup: Mapping[LayerKind, float]) -> None:
    if batch < 1:
        raise InputFault(f"batch = {batch}: must be at least 1")
    if iteration_s is not None and iteration_s <= 0:
        raise InputFault(f"iteration time = {iteration_s} s: must be above 0")
    if not 0 < forward_share < 1:
        raise InputFault(f"forward_share = {forward_share}: must be above 0 and below 1 (a third is usual)")
    for kind, factor in speedup.items():
        if factor <= 0:
            raise InputFault(f"speedup of {kind} = {factor}: must be above 0 (2 halves its time)")


def _fact(profile: Profile, device: str, batch: int) -> Fact:
    """What is known of `profile` on `device`, as a fact for `batch` samples of this very profile."""
    if device not in DEVICES:
        near = difflib.get_close_matches(device, DEVICES, n=1, cutoff=0.0)[0]
        raise InputFault(f"device '{device}' is not known; did you mean '{near}'? {_known_for(profile)}")
    known = DEVICES[device]
    base = base_name(profile.name)
    for name in (base, known.alike.get(base)):
        facts = [fact for fact in known.facts if fact.model == name]
        if facts:
            nearest = min(facts, key=lambda fact: abs(math.log(fact.batch / batch)))
            return _transferred(nearest, profile, batch)
    if known.flops_per_s is None:
        models = sorted({fact.model for fact in known.facts} | set(known.alike))
        raise InputFault(
            f"device '{device}' has no time for model '{profile.name}', only for {', '.join(models)}. {_known_for(profile)}"
        )
    seconds = TRAINING_PER_FORWARD * profile.flops * batch / (known.flops_per_s * known.efficiency)
    return Fact(
        profile.name, batch, seconds, f"{known.efficiency:.0%} of {known.description}: {known.efficiency_source}"
    )


def devices_for(profile: Profile) -> list[str]:
    """Devices that have a time for a model: those with a fact of its own first, then by a kin's, then by their FLOP rate."""
    base = base_name(profile.name)
    own = [name for name, device in DEVICES.items() if any(fact.model == base for fact in device.facts)]
    kin = [name for name, device in DEVICES.items() if base in device.alike]
    rated = [name for name, device in DEVICES.items() if device.flops_per_s]
    return list(dict.fromkeys([*own, *kin, *rated]))


def _known_for(profile: Profile) -> str:
    """A sentence that says what would work for this model."""
    names = ", ".join(devices_for(profile))
    return f"Devices with a time for '{profile.name}': {names}; or give the iteration time in the scenario."


def _transferred(fact: Fact, profile: Profile, batch: int) -> Fact:
    """The fact for another batch size, at the same rate, and for a kin or extended model, at the same seconds per FLOP."""
    measured = model(fact.model)
    source = fact.source
    forward_ratio = backward_ratio = batch / fact.batch
    if batch != fact.batch:
        source += f", batch {fact.batch} scaled to {batch}"
    if profile.name != fact.model:
        free = fact.first_backward_free
        forward_ratio *= sum(_forward_weights(profile)) / sum(_forward_weights(measured))
        backward_ratio *= sum(_backward_weights(profile, free)) / sum(_backward_weights(measured, free))
        source += f", scaled by FLOPs from {fact.model}"
    seconds: float | tuple[float, float]
    if isinstance(fact.seconds, tuple):
        seconds = (fact.seconds[0] * forward_ratio, fact.seconds[1] * backward_ratio)
    else:
        seconds = fact.seconds * forward_ratio
    return replace(fact, model=profile.name, batch=batch, seconds=seconds, source=source)


def _forward_weights(profile: Profile) -> list[float]:
    """What the times of layers are in proportion to: their FLOPs, at the rate of their kind."""
    return [layer.flops / RELATIVE_RATE.get(layer.kind, 1.0) for layer in profile.layers]


def _backward_weights(profile: Profile, first_free: bool) -> list[float]:
    """The same in the backward pass; `first_free`: nothing before the first gradient costs anything."""
    last = profile.tensor_layer[-1]
    weights = _forward_weights(profile)
    return [0.0 if first_free and index >= last else weight for index, weight in enumerate(weights)]


def _split(
    profile: Profile, seconds: float, weights: list[float], speedup: Mapping[LayerKind, float]
) -> tuple[float, ...]:
    """`seconds` over the layers in proportion to `weights`, each then divided by its kind's speed-up."""
    total = sum(weights)
    return tuple(
        seconds * share / total / speedup.get(layer.kind, 1.0)
        for layer, share in zip(profile.layers, weights, strict=True)
    )
