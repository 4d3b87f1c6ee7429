"""All-reduces of nccl-tests on machines of 8 B200 with EFA; and those of ultrascale on machines of 8 H100."""

from __future__ import annotations

import re
from collections.abc import Sequence

from reproduction.world.cells import By, Cell, Planned, Row, Source, unknown
from reproduction.world.sources.collectives import busbw_GBps, call_settings, size_of
from reproduction.world.sources.training import NCCL_LATENCIES

NAME = "efa_b200"
SETTING = re.compile(r"(\d+) nodes of 8 B200, (\d+ \w+)")
GPUS = 8


def cell(row: Row) -> Cell:
    """The cell of a row. Raises InputFault for one of another form."""
    found = SETTING.fullmatch(row.setting)
    if found is None or row.what != "all-reduce":
        raise unknown(row)
    nodes, size_bytes = int(found[1]), size_of(found[2])
    settings = (*call_settings(nodes, GPUS, size_bytes, GPUS), f"strategy.options.channels={GPUS if nodes > 1 else 1}")
    value = busbw_GBps(nodes * GPUS, size_bytes)
    return Cell(Planned("efa-call", settings, value, by=By.ESTIMATE), series="all-reduce")


def further() -> Sequence[Row]:
    """Powers of four and of sixteen, from 1 MiB to 16 GiB, on 4 nodes."""
    sizes = ("1 MiB", "4 MiB", "16 MiB", "64 MiB", "256 MiB", "1 GiB", "4 GiB", "16 GiB")
    return [Row(NAME, "all-reduce", f"4 nodes of 8 B200, {size}", "busbw", "GB/s") for size in sizes]


EFA_B200 = Source(
    name=NAME,
    title="All-reduces on 4 machines of 8 B200",
    set_up="8 cards of 400 Gbit/s for each machine, NVLink 5, NCCL 2.27, all-reduce of nccl-tests.",
    not_emulated="EFA's protocol and GPUDirect (an ideal network stands in: 12.8 Tbit/s are beyond the virtual clock), "
    "NCCL's choice of algorithm and protocol by size, NVLink SHARP",
    constants=(
        "a ring for each card at all sizes: NCCL's choice by size is not in gradwire",
        "NVLink 900 GB/s in each direction: data sheet of the B200",
        NCCL_LATENCIES,
    ),
    cell=cell,
    further=further,
)
