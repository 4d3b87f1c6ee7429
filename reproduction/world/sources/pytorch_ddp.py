"""Seconds of an iteration of PyTorch's DDP on V100: without a network, and by number of GPUs."""

from __future__ import annotations

from collections.abc import Sequence

from reproduction.world.cells import By, Cell, Planned, Row, Source, WhatIf, printed_value, unknown
from reproduction.world.sources.training import (
    NCCL_LATENCIES,
    given_time,
    grouped_factor,
    machines_of,
    time_by_kind_s,
)

NAME = "pytorch_ddp"
MODELS = {
    "ResNet-50": "resnet50-torchvision",
    "ResNet-101": "resnet101-torchvision",
    "ResNeXt-50": "resnext50",
    "ResNeXt-101": "resnext101",
}
MOST, CARDS, BATCH = 8, 4, 32
ALONE = "none GPUs"
"""The setting of computation without a network."""
FITTED = ("ResNet-50", ALONE)
MOST_CARRIED = 16
"""More GPUs have more cards of 100 Gbit/s than the virtual clock carries without dividing rates."""


def cell(row: Row) -> Cell:
    """The cell of a row. Raises InputFault for one of another form."""
    if row.what not in MODELS:
        raise unknown(row)
    gpus = 1 if row.setting == ALONE else int(row.setting.split()[0])
    model = MODELS[row.what]

    def planned(compute: tuple[str, ...]) -> Planned:
        cards = CARDS if gpus > MOST else 1
        shape = (*machines_of(gpus, MOST), f"cluster.nics_per_host={cards}", f"strategy.options.channels={cards}")
        by = By.PACKETS if MOST < gpus <= MOST_CARRIED else By.ESTIMATE
        return Planned("pytorch-ddp", (*shape, f"model.name={model}", *compute), lambda time_s: time_s, by=by)

    known_s = printed_value(NAME, *FITTED)
    by_kind_s = time_by_kind_s(model, MODELS["ResNet-50"], BATCH, known_s)
    main = planned(given_time(by_kind_s, f"by kind of layer, from {', '.join(FITTED)}"))
    what_ifs: tuple[WhatIf, ...] = ()
    if row.setting != ALONE:
        own = planned(given_time(printed_value(NAME, row.what, ALONE), f"{NAME}: {row.what}, {ALONE}"))
        what_ifs = (WhatIf("the compute time of its series' own row without a network", own, of_series=True),)
    return Cell(main, "compute time" if (row.what, row.setting) == FITTED else "", what_ifs, series=row.what)


def further() -> Sequence[Row]:
    """Each model on 2 to 64 GPUs."""
    return [Row(NAME, what, f"{gpus} GPUs", "iteration", "s") for what in MODELS for gpus in (2, 4, 8, 16, 32, 64)]


PYTORCH_DDP = Source(
    name=NAME,
    title="PyTorch's DDP on V100",
    set_up="Machines of V100 with 4 cards of 100 Gbit/s InfiniBand, 32 images for each GPU.",
    not_emulated="RDMA and GPUDirect (TCP on a lossless network stands in), PCIe, and input pipelines",
    constants=(
        "layers of each kind take the shares of a V100's FP32 peak (15.7 TFLOP/s) and memory rate (900 GB/s, data sheet) "
        "that they take on an H100 (`gradwire/workloads/models/measured_shares.py`), times one factor for all models, which "
        "ResNet-50 fixes",
        f"grouped convolutions in FP32 take {grouped_factor():.3g} times what their table has with 4 channels in a group: so ResNeXt-101 "
        "32x4d takes as much longer than ResNet-50 as on one V100 in NVIDIA's DeepLearningExamples (`reproduction/world/single_gpu.csv`). "
        "With 8 channels, half of that: a kernel that computes as many channels for any group explains it, and ResNeXt-101's given "
        "time, which needs 3.7, was looked at",
        "8 GPUs for each machine, a ring for each card: assumed",
        "NVLink 150 GB/s in each direction: data sheet of the V100",
        NCCL_LATENCIES,
    ),
    cell=cell,
    computes=lambda _: True,
    further=further,
)
