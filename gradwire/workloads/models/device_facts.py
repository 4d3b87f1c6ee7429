"""Devices, and printed facts of how long models take on them, each with its source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from gradwire.workloads.models.data_sheets import DATA_SHEETS, GIB, DataSheet
from gradwire.workloads.models.layer_times import Roof, Shares, WorkKind
from gradwire.workloads.models.measured_shares import H100_PYTORCH


@dataclass(frozen=True)
class Fact:
    """A sourced time of one iteration of `model` with `batch` samples on one device."""

    model: str
    batch: int
    #: Time of the forward and backward passes together, or of each if the source gives both.
    seconds: float | tuple[float, float]
    source: str
    #: The printed cell that the time was inferred from, if any.
    fitted_on: str | None = None
    #: Whether the source leaves out the layer that the backward pass starts with.
    first_backward_free: bool = False


class ByKind(StrEnum):
    """The models without a fact whose times are those of their layers' kinds (workloads/models/layer_times.py)."""

    #: Those whose FLOPs are mostly convolutions. A share of the peak is of transformers' whole trainings, which take more
    #: time than their kernels: optimisers, activations computed anew, waiting.
    CONVOLUTIONAL = "convolutional"
    ALL = "all"


@dataclass(frozen=True)
class Device:
    """A device and how fast it trains models."""

    description: str
    facts: tuple[Fact, ...] = ()
    #: For models without a fact, the model whose seconds per FLOP they take.
    alike: Mapping[str, str] = field(default_factory=dict)
    #: Peak rate, for models that have neither a fact nor an alike model.
    flops_per_s: float | None = None
    #: Share of the peak rate that training reaches, for models that do not go by kind of layer.
    efficiency: float = 0.0
    efficiency_source: str = ""
    #: Memory of one device as sold, by its data sheet; the larger size if there are two. None if the source does not
    #: name the device.
    memory_bytes: float | None = None
    #: Rate of its link to the other devices of a machine, in each direction. None where the source does not name it.
    link_bytes_per_s: float | None = None
    #: Rate of its memory, of its data sheet. With it, models without a fact take what `shares` says of their layers.
    memory_bytes_per_s: float | None = None
    #: Shares of the two rates that layers of each kind reach.
    shares: Shares | None = None
    #: Models whose layers' times come from `shares`.
    by_kind: ByKind = ByKind.CONVOLUTIONAL

    @property
    def roof(self) -> Roof | None:
        """The limits of layers by kind; None for a device whose layers all reach one share of the peak."""
        if self.flops_per_s is None or self.memory_bytes_per_s is None:
            return None
        return Roof(self.flops_per_s, self.memory_bytes_per_s)


def _rate(name: str, batch: int, samples_per_s: float, source: str) -> Fact:
    return Fact(name, batch, batch / samples_per_s, f"{source}: {samples_per_s:g} samples/s")


def _by_peak(name: str, batch: int, samples_per_s: float, source: str, peak_ratio: float) -> Fact:
    """Scales another GPU's rate by the ratio of peak rates.

    The result may be off by about 10 %, because memory does not scale in proportion.
    """
    return Fact(
        name,
        batch,
        batch / (samples_per_s * peak_ratio),
        f"{source}: {samples_per_s:.4g} samples/s, times {peak_ratio:.3g}, the ratio of peak rates",
    )


def _infer(name: str, batch: int, seconds: float, cell: str) -> Fact:
    return Fact(name, batch, seconds, "inferred: no single-GPU time is printed", fitted_on=cell)


def _netops(name: str, forward_s: float, backward_s: float) -> Fact:
    """A fact of NetOps' Table 3, which leaves out the first backward layer, as does NetOps' simulation."""
    return Fact(name, 32, (forward_s, backward_s), "NetOps Table 3", first_backward_free=True)


def _netops_slowest(name: str, forward_s: float, backward_s: float) -> Fact:
    """A fact whose backward pass makes a ring gain what NetOps' Table 6 prints; Table 3 has 0.296, 0.180 and 0.340 s.

    The ring is bound by computation there. VGG-16's ring agrees with Table 3 as it is.
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

_LISTED: dict[str, Device] = {
    "k40": Device(
        "NVIDIA Tesla K40c, Geryon's testbed. One time per model, inferred from the vanilla column of Table II",
        (
            _infer("alexnet", 512, 0.846, "Geryon Table II, AlexNet, vanilla"),
            _infer("vgg19", 64, 1.636, "Geryon Table II, VGG-19, vanilla"),
            _infer("resnet50", 64, 0.882, "Geryon Table II, ResNet-50, vanilla"),
            _infer("yolo-v1", 64, 2.650, "Geryon Table II, YOLO, vanilla"),
        ),
        memory_bytes=12 * GIB,
    ),
    "p4000": Device(
        "NVIDIA Quadro P4000, P3's testbed. No single-GPU times are printed: those of a P100, of the same "
        "architecture, at 5.3 of its "
        "10.6 TFLOP/s (data sheets). P3's Fig. 7 agrees: P3 stays linear down to 4 Gbit/s, which is 0.307 s per "
        "iteration of ResNet-50",
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
        memory_bytes=8 * GIB,
    ),
    "m60-half": Device(
        "One of the two GPUs of an NVIDIA Tesla M60, as in P3's AWS g3.4xlarge machines. No single-GPU times are "
        "printed: those of a "
        "Maxwell Titan X, of the same architecture, at 4.8 of its 6.6 TFLOP/s (2048 cores at 1.178 GHz, 3072 at 1.075 "
        "GHz)",
        (
            _by_peak("resnet50", 32, 16 / 0.15962, _TORCH_TITAN_X, 4.8 / 6.6),
            _by_peak("vgg19", 32, 16 / 0.22514, _TORCH_TITAN_X, 4.8 / 6.6),
        ),
        memory_bytes=8 * GIB,
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
        memory_bytes=12 * GIB,
    ),
    "xeon-32": Device(
        "32 cores of Intel Broadwell (two Xeon E5-2686 v4 of an EC2 r4.16xlarge), as in TicTac's envC ('32 core'); "
        "for AVX, as "
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
        "The GPU of NetOps' EC2 cluster (type not printed). The layer that starts the backward pass costs nothing "
        "there",
        (
            _netops("inception-v3-netops", 0.176, 0.296),
            _netops("vgg16-299", 0.169, 0.024),
            _netops("resnet101-netops", 0.176, 0.180),
            _netops("resnet200", 0.357, 0.340),
        ),
        {"inception-v3-with-head": "inception-v3-netops"},
    ),
    "ec2-netops-slowest": Device(
        "The GPU of NetOps' EC2 cluster as its simulation of 32 workers replays it: with one trace per worker (Sec. "
        "5), of which "
        "a sum waits for the slowest. All workers take that long",
        (
            _netops_slowest("inception-v3-netops", 0.176, 0.410),
            _netops("vgg16-299", 0.169, 0.024),
            _netops_slowest("resnet101-netops", 0.176, 0.385),
            _netops_slowest("resnet200", 0.357, 0.434),
        ),
    ),
}

_FACTS: Mapping[str, tuple[Fact, ...]] = {
    "p100": (
        _rate("resnet50", 32, 195, _TF_P100),
        _rate("inception-v3", 32, 128, _TF_P100),
        _rate("vgg16", 32, 144, _TF_P100),
    ),
}
"""Times of single GPUs with a data sheet."""


def _rated(sheet: DataSheet) -> Device:
    """The device, on which convolutional models without a fact go by kind of layer."""
    return Device(
        sheet.description,
        _FACTS.get(sheet.name, ()),
        flops_per_s=sheet.flops_per_s,
        efficiency=sheet.share.efficiency,
        efficiency_source=sheet.share.source,
        memory_bytes=sheet.memory_bytes,
        link_bytes_per_s=sheet.link_bytes_per_s,
        memory_bytes_per_s=sheet.memory_bytes_per_s,
        shares=H100_PYTORCH,
    )


def _kernels_of(device: Device) -> Device:
    """The device with times by kind of layer for all models, and the share of large matrix products where FLOPs alone are
    known. Convolutional models take the same as on the device itself."""
    return replace(
        device,
        description=f"{device.description}. Its kernels alone, by kind of layer, without what a training adds: waiting "
        f"for the host, an optimiser, activations computed anew",
        efficiency=H100_PYTORCH.products[WorkKind.PRODUCT][-1].backward,
        efficiency_source=f"large matrix products, {H100_PYTORCH.source}",
        by_kind=ByKind.ALL,
    )


BY_KERNELS = ("v100", "a100", "h100", "h200", "b200")
"""Those on which all models may go by kind of layer."""
_RATED = {sheet.name: _rated(sheet) for sheet in DATA_SHEETS}
DEVICES: dict[str, Device] = _LISTED | _RATED | {f"{name}-kernels": _kernels_of(_RATED[name]) for name in BY_KERNELS}
