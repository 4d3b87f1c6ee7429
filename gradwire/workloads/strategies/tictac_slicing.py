"""Slices in forward order, enforced at the servers: end-host scheduling, which Geryon compares itself with.

Source: Geryon, section V-D; TicTac, section 5.1. Tensors are cut as in Geryon, and the slices for each (server,
worker) pair leave in forward order (workloads/engines/ordered_transfers.py). Workers compute in a chain, as in
Geryon's other contenders.
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from gradwire.datatypes.plan import Plan
from gradwire.workloads.engines.ordered_transfers import compile_ordered
from gradwire.workloads.engines.placement import in_rows
from gradwire.workloads.engines.worker import add_passes
from gradwire.workloads.fields import DurationS
from gradwire.workloads.job import Job
from gradwire.workloads.strategies.geryon import PartitionOptions
from gradwire.workloads.strategy import GRPC, Strategy


class TictacSlicingOptions(PartitionOptions):
    """Geryon's slices, and what scheduling them costs."""

    scheduling_cost_per_slice: DurationS = Field(0.0, ge=0)
    """Time that a channel's scheduler takes before it hands a slice over. Geryon's Fig. 10 shows up to 800 ms per
    iteration with slices of at most 256K parameters: 9.52 ms for each of the 84 that VGG-19 has on a channel of 8
    servers here. More slices need more threads, whose coordination costs more; the paper gives no other time."""


def compile_tictac_slicing(job: Job, options: TictacSlicingOptions) -> Mapping[str, Plan]:
    """Geryon's partition and slicing, with the slices of each pair in forward order."""
    pieces = in_rows(job.profile, job.cluster.servers, options.slice_parameters or None, job.cluster.workers)
    forward = [list(range(len(pieces)))] * job.cluster.workers
    plan = compile_ordered(
        job, pieces, forward, "tictac-slicing", add=add_passes, cost_s=options.scheduling_cost_per_slice
    )
    return {"tictac-slicing": plan}


STRATEGIES = (
    Strategy(
        name="tictac-slicing",
        summary="partition and slicing, with the order of slices enforced at the servers alone",
        source="Geryon, section V-D; TicTac, section 5.1",
        options=TictacSlicingOptions,
        compile=compile_tictac_slicing,
        senders=GRPC,
    ),
)
