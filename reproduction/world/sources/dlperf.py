"""Frameworks' containers on machines of 8 V100: samples per second by number of GPUs."""

from __future__ import annotations

import re
from collections.abc import Sequence

from reproduction.world.cells import By, Cell, Planned, Row, Source, WhatIf, load_given, unknown
from reproduction.world.sources.training import (
    GPUS,
    NCCL_LATENCIES,
    given_time,
    machines_of,
    number_in,
    single_gpu,
    time_by_single_gpu_s,
)

NAME = "dlperf"
MOST = 8
"""GPUs of a machine."""
WHAT = re.compile(
    r"(?P<model>ResNet-50|BERT base)(?: v1\.5)? (?P<precision>FP32|AMP) b(?P<batch>\d+), (?P<framework>[\w ]+)"
)
MODELS = {"ResNet-50": "resnet50-torchvision", "BERT base": "bert-base"}
KNOWN = {"ResNet-50": "resnet50-torchvision", "BERT base": "bert-large"}
"""The model of `single_gpu.csv` by which a model's operations take their time."""
FUSED = ("MXNet", "TF1")
"""Frameworks whose containers train with Horovod."""


def nearest(what: str, gpus: int) -> tuple[int, float] | None:
    """Of the same program, the given row that says how fast its kernels are: the largest with fewer GPUs, or else the
    smallest with more."""
    if (below := largest_below(what, gpus)) is not None:
        return below
    rows = [row for row in load_given() if (row.source, row.what) == (NAME, what)]
    above = sorted((number_in(row, GPUS), row.printed) for row in rows if row.printed and number_in(row, GPUS) > gpus)
    return above[0] if above else None


def largest_below(what: str, gpus: int) -> tuple[int, float] | None:
    """Of the same program, the number of GPUs and the samples per second of the given row with the most GPUs below
    `gpus`; None where there is none.

    What the inside of a full machine costs beyond computation is not emulated, and part of such a row's time.
    """
    rows = [row for row in load_given() if (row.source, row.what) == (NAME, what)]
    known = {number_in(row, GPUS): row.printed for row in rows}
    below = max((count for count in known if count < gpus), default=None)
    printed = None if below is None else known[below]
    return None if below is None or printed is None else (below, printed)


def cell(row: Row) -> Cell:
    """The cell of a row. Raises InputFault for one of another form."""
    found = WHAT.fullmatch(row.what)
    if found is None:
        raise unknown(row)
    gpus, batch, model = number_in(row, GPUS), int(found["batch"]), MODELS[found["model"]]
    is_mixed = found["precision"] == "AMP"

    def planned(compute: tuple[str, ...]) -> Planned:
        name = "horovod" if found["framework"].endswith(FUSED) else "ddp"
        wire = ("strategy.options.wire=fp16",) if is_mixed else ()
        what = (f"model.name={model}", f"model.batch={batch}", f"strategy.name={name}", *wire)
        # Inside a machine there are no packets.
        by = By.ESTIMATE if gpus <= MOST else By.PACKETS
        return Planned(NAME, (*machines_of(gpus, MOST), *what, *compute), lambda time_s: gpus * batch / time_s, by=by)

    framework = found["framework"].removeprefix("NGC ")
    known = single_gpu(KNOWN[found["model"]], found["precision"], framework)
    main = planned(given_time(time_by_single_gpu_s(model, batch, known), known.source))
    what_ifs: tuple[WhatIf, ...] = ()
    if (other := nearest(row.what, gpus)) is not None:
        count, throughput = other
        own = planned(given_time(count * batch / throughput, f"{NAME}: {row.what}, {count} GPUs"))
        text = f"the compute time of its series' own row of {count} GPU{'s' if count > 1 else ''}"
        what_ifs = (WhatIf(text, own, of_series=True),)
    return Cell(main, what_ifs=what_ifs, series=row.what)


def further() -> Sequence[Row]:
    """Each program on 1, 8, 16 and 32 GPUs."""
    programs = dict.fromkeys(row.what for row in load_given() if row.source == NAME)
    return [Row(NAME, what, f"{n} GPUs", "throughput", "samples/s") for what in programs for n in (1, 8, 16, 32)]


DLPERF = Source(
    name=NAME,
    title="Frameworks' containers on 4 machines of 8 V100",
    set_up="4 machines of 8 V100-SXM2 (16 GB), one EDR card of 100 Gbit/s for each machine, NCCL 2.6 to 2.7.",
    not_emulated="RDMA and GPUDirect (TCP on a lossless network stands in), PCIe, input pipelines, optimizers, and "
    "what a framework spends on each operation",
    constants=(
        "operations take as long as on one V100 of 16 GB in NVIDIA's DeepLearningExamples (`reproduction/world/single_gpu.csv` names "
        "container, file and commit): of ResNet-50 in ResNet-50, of BERT base in BERT-Large with 128 tokens; MXNet's own rows for "
        "its ResNet-50, PyTorch's for all else. No number is fitted, but which rows to take was decided with their errors known: those "
        "of a V100 of 32 GB would make PyTorch's BERT 16 % (FP32) and 33 % (AMP) too fast",
        "BERT base on 128 tokens: with 512, its FP32 rates would be beyond the card's peak",
        "NVLink 150 GB/s in each direction: data sheet of the V100",
        NCCL_LATENCIES,
        "gradients of AMP in 16 bits; DDP's buckets for PyTorch and OneFlow, Horovod's buffer for MXNet and TensorFlow: "
        "assumed",
    ),
    cell=cell,
    computes=lambda _: True,
    further=further,
)
