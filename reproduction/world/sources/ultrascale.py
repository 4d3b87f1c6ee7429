"""Training and all-reduces on machines of 8 H100 with 32 cards of 100 Gbit/s."""

from __future__ import annotations

from collections.abc import Sequence

from reproduction.world.cells import By, Cell, Planned, Row, Source, Unexpressed
from reproduction.world.sources.collectives import busbw_GBps, call_settings
from reproduction.world.sources.training import NCCL_LATENCIES, NODES, number_in

NAME = "ultrascale"
GPUS = 8
SIZE_BYTES = 4 << 30
"""The set-up prints no size: one at which latencies no longer count."""
NO_MODEL = (
    "the size of the model and of its batch are not part of the set-up, and both decide how a rate falls with the "
    "number of GPUs"
)


def cell(row: Row) -> Cell:
    """The cell of a row. Raises InputFault for one of another form."""
    if row.what != "all-reduce":
        return Cell(Unexpressed(NO_MODEL))
    nodes = number_in(row, NODES)
    settings = (*call_settings(nodes, GPUS, SIZE_BYTES, GPUS), f"strategy.options.channels={GPUS if nodes > 1 else 1}")
    planned = Planned("ultrascale-call", settings, busbw_GBps(nodes * GPUS, SIZE_BYTES), by=By.ESTIMATE)
    return Cell(planned, series="all-reduce")


def further() -> Sequence[Row]:
    """All-reduces on 2 to 16 machines."""
    return [Row(NAME, "all-reduce", f"{nodes} nodes", "busbw", "GB/s") for nodes in (1, 2, 4, 8, 16)]


ULTRASCALE = Source(
    name=NAME,
    title="Machines of 8 H100 with 32 cards of 100 Gbit/s",
    set_up="H100, 32 cards of 100 Gbit/s for each machine (EFA); data and tensor parallel runs, and all-reduces.",
    not_emulated="EFA's protocol and GPUDirect (an ideal network stands in), NVLink SHARP, and what else is on the "
    "cluster's network",
    constants=(
        "four cards of 100 Gbit/s are one of 400 Gbit/s, a ring for each; 4 GiB, for no size is printed",
        "NVLink 450 GB/s in each direction: data sheet of the H100",
        NCCL_LATENCIES,
    ),
    cell=cell,
    further=further,
)
