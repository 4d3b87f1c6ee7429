"""All-reduces of nccl-tests on machines of 8 B200 with EFA."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gradwire.runs.ccl import TRANSPORTS
from reproduction.world.cells import Called, Cell, Row, Source, WhatIf, unknown
from reproduction.world.sources.collectives import busbw_GBps, size_of

NAME = "efa_b200"
SETTING = re.compile(r"(\d+) nodes of 8 B200, (\d+ \w+)")
GPUS = 8
FITTED = "4 nodes of 8 B200, 1 MiB"
"""Fixes what a message takes by EFA (`gradwire.runs.ccl.TRANSPORTS`)."""
PLUGINS_CHOICE = "NCCL_ALGO=Ring NCCL_PROTO=LL128"
PLUGINS_FIRST_BYTES, PLUGINS_LAST_BYTES = 18_350_080, 133_693_440
"""On 4 nodes, the plugin without which NCCL has no EFA takes these for all-reduces from the first of these sizes to the
second: aws-ofi-nccl 1.17.0, src/tuner/nccl_ofi_regions.cpp, `region_init_internal_p6`. Up to the first it takes Tree with
LL128, and from 435,159,040 bytes on Ring with Simple, as NCCL does. Which release the source had is not said; before
1.17, Tree with LL128 went to 64 MiB and Ring with LL128 to 536 MiB."""
LATENCY = f"{TRANSPORTS['efa'].crossing_s * 1e6:g}us"


def cell(row: Row) -> Cell:
    """The cell of a row. Raises InputFault for one of another form."""
    found = SETTING.fullmatch(row.setting)
    if found is None or row.what != "all-reduce":
        raise unknown(row)
    nodes, size = int(found[1]), found[2]
    options = (("machines", nodes), ("gpu", "b200"), ("version", "2.27"), ("transport", "efa"), ("latency", LATENCY))
    planned = Called(options, size, busbw_GBps(nodes * GPUS, size_of(size)))
    what_ifs: tuple[WhatIf, ...] = ()
    if nodes == 4 and PLUGINS_FIRST_BYTES < size_of(size) <= PLUGINS_LAST_BYTES:
        by_plugin = Called((*options, ("variables", PLUGINS_CHOICE)), size, busbw_GBps(nodes * GPUS, size_of(size)))
        what_ifs = (WhatIf("Ring and LL128, as the plugin of this cloud chooses since its release 1.17", by_plugin),)
    fitted = "time for a message" if row.setting == FITTED else ""
    return Cell(planned, fitted, what_ifs, series="all-reduce")


def further() -> Sequence[Row]:
    """Powers of four and of sixteen, from 1 MiB to 16 GiB, on 4 nodes."""
    sizes = ("1 MiB", "4 MiB", "16 MiB", "64 MiB", "256 MiB", "1 GiB", "4 GiB", "16 GiB")
    return [Row(NAME, "all-reduce", f"4 nodes of 8 B200, {size}", "busbw", "GB/s") for size in sizes]


EXAMINED = (
    "**Which algorithm 64 MiB take.** NCCL reaches EFA by a plugin (aws-ofi-nccl), which also chooses in NCCL's place on three "
    "machines and more. By its tables (src/tuner/nccl_ofi_regions.cpp) 32 B200 have Ring with LL128 for 64 MiB since its "
    "release 1.17: 155.9 GB/s, printed 156.7. Its releases 1.15 and 1.16 have the border of Tree with LL128 there: 227.7. The "
    "sizes it sets for chunks of NVLS leave those of NVLSTree as they are for 64 MiB.",
    "**LL and LL128 by lines.** GPUs of a machine pass each line on as it comes. With whole chunks passed on, Ring with "
    "LL128 would have 134.8 GB/s, and the row of 1 MiB 5.31 (now 5.45).",
)
"""By `gradwire ccl` with `--env`."""

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
    examined=EXAMINED,
)
