"""Frameworks' containers on machines of 8 V100: samples per second by number of GPUs."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gradwire.workloads.models import model as model_of
from gradwire.workloads.models.compute_times import compute_time
from reproduction.world.cells import By, Cell, Planned, Row, Source, WhatIf, load_given, printed_value, unknown
from reproduction.world.sources.training import (
    GPUS,
    NCCL_LATENCIES,
    fused_share,
    given_time,
    machines_of,
    number_in,
    time_by_operations_s,
)

NAME = "dlperf"
MOST = 8
"""GPUs of a machine."""
WHAT = re.compile(
    r"(?P<model>ResNet-50|BERT base)(?: v1\.5)? (?P<precision>FP32|AMP) b(?P<batch>\d+), (?P<framework>[\w ]+)"
)
MODELS = {"ResNet-50": "resnet50-torchvision", "BERT base": "bert-base"}
FITTED = ("ResNet-50 v1.5 FP32 b128, NGC PyTorch", "1 GPUs")
"""The first row of the source: it fixes how long operations in FP32 take."""
FUSED = ("MXNet", "TF1")
"""Frameworks whose containers train with Horovod."""
DEVICE = "v100"
"""On it, image models go by kind of layer, and others by a share of the peak."""


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
    is_fused = is_mixed and found["model"] == "ResNet-50" and found["framework"].endswith("MXNet")

    def planned(compute: tuple[str, ...]) -> Planned:
        name = "horovod" if found["framework"].endswith(FUSED) else "ddp"
        wire = ("strategy.options.wire=fp16",) if is_mixed else ()
        what = (f"model.name={model}", f"model.batch={batch}", f"strategy.name={name}", *wire)
        # Inside a machine there are no packets.
        by = By.ESTIMATE if gpus <= MOST else By.PACKETS
        return Planned(NAME, (*machines_of(gpus, MOST), *what, *compute), lambda time_s: gpus * batch / time_s, by=by)

    known_s = 128 / printed_value(NAME, *FITTED)
    by_operations_s = time_by_operations_s(model, batch, MODELS["ResNet-50"], 128, known_s)
    main = planned(() if is_mixed else given_time(by_operations_s, f"by operations, from {', '.join(FITTED)}"))
    what_ifs: tuple[WhatIf, ...] = ()
    if is_fused:
        fused_s = fused_share(model, batch) * compute_time(model_of(model), DEVICE, batch=batch).iteration_s
        fused = planned(given_time(fused_s, f"{DEVICE}, fused as by torch.compile"))
        what_ifs = (WhatIf("normalisations, ReLUs and additions fused, as torch.compile does", fused),)
    if (row.what, row.setting) != FITTED and (other := nearest(row.what, gpus)) is not None:
        count, throughput = other
        own = planned(given_time(count * batch / throughput, f"{NAME}: {row.what}, {count} GPUs"))
        text = f"the compute time of its series' own row of {count} GPU{'s' if count > 1 else ''}"
        what_ifs = (*what_ifs, WhatIf(text, own, of_series=True))
    fitted = "compute time" if (row.what, row.setting) == FITTED else ""
    return Cell(main, fitted, what_ifs, series=row.what)


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
        "FP32: operations take as long as in ResNet-50 with NGC PyTorch on 1 GPU, which is fitted, in all models and "
        "frameworks; AMP: BERT by device v100, 37.5 TFLOP/s, ResNet-50 by the same device, layers by kind as with "
        "PyTorch's kernels, which are not fused (`gradwire devices`); neither is fitted",
        "what fusing gains in MXNet: ResNet-50's kernels with torch.compile over those without, timed on an H100 "
        "(`benchmarks/measured/h100_compiled.csv`)",
        "BERT base on 128 tokens: with 512, its FP32 rates would be beyond the card's peak",
        "NVLink 150 GB/s in each direction: data sheet of the V100",
        NCCL_LATENCIES,
        "gradients of AMP in 16 bits; DDP's buckets for PyTorch and OneFlow, Horovod's buffer for MXNet and TensorFlow: "
        "assumed",
    ),
    cell=cell,
    further=further,
)
