"""Machines of `gradwire ccl` as a function from a size to its row: those on which NCCL runs, and a machine of MI300X, on
which RCCL does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from gradwire.faults import InputFault
from gradwire.runs.ccl import MOST_REPLAYED_OPS, Row, grain_bytes, row_of
from gradwire.runs.ccl_machines import MI300X, CclOptions, TestedCall, set_up
from gradwire.workloads.engines.nccl import rccl
from gradwire.workloads.engines.nccl.grouped import GroupedCall

RowMaker = Callable[[int, int, int], Row]
"""Makes the row of a size, for elements of a width; trees of up to so many ops are replayed. Raises InputFault."""


@dataclass(frozen=True)
class CallMachines:
    """The machines on which a collective is tested."""

    ranks: int
    kind: TestedCall
    #: What the reader of the table is told.
    notes: list[str]
    make: RowMaker

    def row(self, size_bytes: int, width: int, most_ops: int = MOST_REPLAYED_OPS) -> Row:
        """Returns the row of a size, rounded down to whole elements. Raises InputFault for less than one."""
        return self.make(size_bytes, width, most_ops)

    def is_whole(self, size_bytes: int, width: int) -> bool:
        """Returns whether a size has an element for each rank."""
        return size_bytes >= grain_bytes(self.kind, self.ranks, width)

    def rows(self, sizes: Sequence[int], width: int) -> Iterator[Row]:
        """Yields the rows of sizes; those of less than an element for each rank are left out."""
        yield from (self.row(size, width) for size in sizes if self.is_whole(size, width))


def call_machines(given: CclOptions, kind: TestedCall) -> CallMachines:
    """The machines that options name. Raises InputFault for what is wrong or not known."""
    if given.gpu == MI300X:
        return _of_rccl(given, kind)
    comm, wires, notes = set_up(given, kind)
    return CallMachines(
        comm.ranks, kind, notes, lambda size, width, most_ops: row_of(comm, wires, kind, size, width, most_ops)
    )


def _of_rccl(given: CclOptions, kind: TestedCall) -> CallMachines:
    if isinstance(kind, GroupedCall):
        raise InputFault(
            f"{kind.value} on {MI300X}: of RCCL, only collectives are known here, and no sends and receives"
        )
    if (given.machines, given.gpus) != (1, rccl.GPUS):
        raise InputFault(
            f"--gpu {MI300X} with --machines {given.machines} --gpus {given.gpus}: RCCL is known here on one machine of "
            f"{rccl.GPUS} alone (--machines 1)"
        )
    for option, value in (("--nccl", given.version), ("--nvlink", given.links), ("--env", given.variables)):
        if value not in (None, ()):
            raise InputFault(f"{option}: {MI300X} has RCCL, of which this model has version 2.21.5 as it is by default")

    def make(size_bytes: int, width: int, _: int) -> Row:
        grain = grain_bytes(kind, rccl.GPUS, width)
        size = size_bytes // grain * grain
        if size == 0:
            raise InputFault(f"{size_bytes} bytes: less than one element of {width} bytes for each rank")
        choice = rccl.choose(kind, size)
        return Row(
            size_bytes=size,
            count=size // grain,
            time_s=choice.time_us / 1e6,
            ranks=rccl.GPUS,
            kind=kind,
            algorithm=choice.algorithm.value,
            protocol=choice.protocol.value,
            channels=None,
            chunk_bytes=None,
            by="closed form",
            nic_bytes_per_s=0.0,
        )

    notes = [
        f"RCCL 2.21.5, {rccl.GPUS} {MI300X}, each joined to the others by a link of xGMI; latencies are those of RCCL's source",
        f"links: {rccl.LINKS} x {rccl.XGMI_GB_PER_S:g} GB/s, of which {rccl.LINKS_SHARE:.0%} are reached, fitted to 8 GiB",
        "RCCL with MSCCL or MSCCL++ takes their algorithms below some 8 MiB, which are faster and not in this model",
    ]
    return CallMachines(rccl.GPUS, kind, notes, make)
