"""All-reduces of nccl-tests on machines of 8 B200 with EFA."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gradwire.workloads.engines.nccl.efa_plugin import CROSSING_S
from gradwire.workloads.engines.nccl.tables import Gpu
from reproduction.world.cells import Called, Cell, Row, Source, unknown
from reproduction.world.sources.collectives import busbw_GBps, size_of

NAME = "efa_b200"
SETTING = re.compile(r"(\d+) nodes of 8 B200, (\d+ \w+)")
GPUS = 8
FITTED = "4 nodes of 8 B200, 1 MiB"
"""Fixes what a message takes by EFA (`gradwire.workloads.engines.nccl.efa_plugin.CROSSING_S`)."""
LATENCY = f"{CROSSING_S[Gpu.BLACKWELL] * 1e6:g}us"


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


EXAMINED = (
    "**Which release of the plugin.** NCCL reaches EFA by aws-ofi-nccl alone, whose tuner chooses in NCCL's place on three "
    "machines and more. The source does not say its release. Release 1.15 (June 2025, for NCCL 2.26.6) is the first with "
    "P6-B200, 1.16 (June to August 2025) supports NCCL 2.27.5 to 2.27.7, and 1.17 (September 2025) NCCL 2.28.3: "
    "RELEASENOTES.md. NCCL 2.27.3 to 2.27.7 are of May to July 2025, 2.28.3 of September. So 1.16 is taken.",
    "**Which algorithm 64 MiB take.** By the tables of 1.15 and 1.16, Tree with LL128; NCCL alone takes the same, as it counts "
    "the 35 us that the plugin reports for a message, with Simple twice. By those of 1.17, Ring with LL128: 139.5 GB/s. "
    "Without the plugin, NCCL would take NVLSTree: 180.7.",
    "**Slots of a connection.** NCCL has eight slices under way on a connection, and the next waits until one is known to have "
    "come. The word of it is taken to need the 35 us that the plugin reports. Without this limit, Tree with LL128 would "
    "have 205.5 GB/s at 64 MiB, and with a word that needs as long as a message, 137.7.",
    "**Against the plugin's own borders**, which its makers measured. For 32 B200, 1.16 goes from Tree to Ring (LL128) at 67 MB, "
    "and from LL128 to Simple at 562 MB. Here both take as long at 93 and 967 MB, and without slots at 155 and 229 MB.",
    "**LL and LL128 by lines.** GPUs of a machine pass each line on as it comes. With whole chunks passed on, the row of 1 MiB "
    "would have 3 % less.",
)
"""By `gradwire ccl` with `--plugin`, `--env` and, in Python, other `Wires.back_s`."""

EFA_B200 = Source(
    name=NAME,
    title="All-reduces on 4 machines of 8 B200",
    set_up="8 cards of 400 Gbit/s for each machine, NVLink 5, NCCL 2.27, all-reduce of nccl-tests.",
    not_emulated="EFA's protocol but for its latency, GPUDirect, PCI Express, NVLink SHARP but for its rate",
    constants=(
        "by `gradwire ccl`: the algorithm, protocol and chunks of NCCL 2.27 and of the plugin that supports it (aws-ofi-nccl "
        "1.16), and NCCL's rates of NVLink and NVLS",
        "eight slices under way on a connection (`NCCL_STEPS`), and 35 us until a sender knows that one has come: what the "
        "plugin reports for a message on this machine (src/platform-aws.cpp)",
        f"{LATENCY.removesuffix('us')} us for a message by EFA on top of NCCL's table: fitted on 1 MiB",
    ),
    cell=cell,
    further=further,
    examined=EXAMINED,
)
