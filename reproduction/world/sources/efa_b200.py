"""All-reduces of nccl-tests on machines of 8 B200 with EFA."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gradwire.runs.ccl import TRANSPORTS
from reproduction.world.cells import Called, Cell, Row, Source, unknown
from reproduction.world.sources.collectives import busbw_GBps, size_of

NAME = "efa_b200"
SETTING = re.compile(r"(\d+) nodes of 8 B200, (\d+ \w+)")
GPUS = 8
FITTED = "4 nodes of 8 B200, 1 MiB"
"""Fixes what a message takes by EFA (`gradwire.runs.ccl.TRANSPORTS`)."""
LATENCY = f"{TRANSPORTS['efa'].crossing_s * 1e6:g}us"


def cell(row: Row) -> Cell:
    """The cell of a row. Raises InputFault for one of another form."""
    found = SETTING.fullmatch(row.setting)
    if found is None or row.what != "all-reduce":
        raise unknown(row)
    nodes, size = int(found[1]), found[2]
    options = (("machines", nodes), ("gpu", "b200"), ("version", "2.27"), ("transport", "efa"), ("latency", LATENCY))
    planned = Called(options, size, busbw_GBps(nodes * GPUS, size_of(size)))
    return Cell(planned, "time for a message" if row.setting == FITTED else "", series="all-reduce")


def further() -> Sequence[Row]:
    """Powers of four and of sixteen, from 1 MiB to 16 GiB, on 4 nodes."""
    sizes = ("1 MiB", "4 MiB", "16 MiB", "64 MiB", "256 MiB", "1 GiB", "4 GiB", "16 GiB")
    return [Row(NAME, "all-reduce", f"4 nodes of 8 B200, {size}", "busbw", "GB/s") for size in sizes]


EFA_B200 = Source(
    name=NAME,
    title="All-reduces on 4 machines of 8 B200",
    set_up="8 cards of 400 Gbit/s for each machine, NVLink 5, NCCL 2.27, all-reduce of nccl-tests.",
    not_emulated="EFA's protocol but for its latency, GPUDirect, PCI Express, NVLink SHARP but for its rate",
    constants=(
        "by `gradwire ccl`: the algorithm, protocol and chunks that NCCL 2.27 chooses, and its rates of NVLink and NVLS",
        f"{LATENCY.removesuffix('us')} us for a message by EFA on top of NCCL's table: fitted on 1 MiB",
    ),
    cell=cell,
    further=further,
)
