"""Training and all-reduces on machines of 8 H100 with 32 cards of 100 Gbit/s."""

from __future__ import annotations

from collections.abc import Sequence

from gradwire.workloads.engines.nccl.efa_plugin import CROSSING_S
from gradwire.workloads.engines.nccl.tables import Gpu
from reproduction.world.cells import Called, Cell, Row, Source, Unexpressed
from reproduction.world.sources.collectives import busbw_GBps, size_of
from reproduction.world.sources.training import NODES, number_in

NAME = "ultrascale"
GPUS = 8
SIZE = "4 GiB"
"""The set-up prints no size: one at which latencies no longer count."""
FITTED = "4 nodes"
HOST_RATE = "160.4GB/s"
"""What a machine carries each way, fitted on `FITTED`."""
LATENCY = f"{CROSSING_S[Gpu.HOPPER] * 1e6:g}us"
NO_MODEL = (
    "the size of the model and of its batch are not part of the set-up, and both decide how a rate falls with the "
    "number of GPUs"
)


def cell(row: Row) -> Cell:
    """The cell of a row. Raises InputFault for one of another form."""
    if row.what != "all-reduce":
        return Cell(Unexpressed(NO_MODEL))
    nodes = number_in(row, NODES)
    options = (("machines", nodes), ("transport", "efa"), ("latency", LATENCY), ("machine_rate", HOST_RATE))
    planned = Called(options, SIZE, busbw_GBps(nodes * GPUS, size_of(SIZE)))
    return Cell(planned, "host's rate" if row.setting == FITTED else "", series="all-reduce")


def further() -> Sequence[Row]:
    """All-reduces on 2 to 16 machines."""
    return [Row(NAME, "all-reduce", f"{nodes} nodes", "busbw", "GB/s") for nodes in (1, 2, 4, 8, 16)]


ULTRASCALE = Source(
    name=NAME,
    title="Machines of 8 H100 with 32 cards of 100 Gbit/s",
    set_up="H100, 32 cards of 100 Gbit/s for each machine (EFA); data and tensor parallel runs, and all-reduces.",
    not_emulated="EFA's protocol but for its latency, GPUDirect, PCI Express, NVLink SHARP but for its rate, and what else is "
    "on the cluster's network",
    constants=(
        f"a machine carries {HOST_RATE.removesuffix('GB/s')} GB/s each way: fitted on 4 nodes",
        "by `gradwire ccl`: the algorithm, protocol and chunks that NCCL 2.22 chooses (no version is printed) with the plugin of "
        f"its time (aws-ofi-nccl 1.13, without its tuner); four cards of 100 Gbit/s are one of 400 Gbit/s; {SIZE}, for no size is printed",
        f"{LATENCY.removesuffix('us')} us for a message by EFA on top of NCCL's table: fitted on a "
        "public log of 8 bytes on two such machines (docs/ccl.md)",
    ),
    cell=cell,
    computes=lambda what: what != "all-reduce",
    further=further,
)
