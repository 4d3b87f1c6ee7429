"""How many rings a collective of all workers is divided among: as many as asked, or one for each NIC of a machine.

A single ring leaves a machine by one NIC, whatever the machine has. NCCL's search finds at least a channel for each NIC
that GPUs reach (src/graph/search.cc), so that is what strategies on NCCL take unless they are told otherwise.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gradwire.faults import InputFault
from gradwire.workloads.engines.collectives.choice import AUTO
from gradwire.workloads.engines.parallel.group_collectives import RING
from gradwire.workloads.job import Cluster

MOST_RINGS = 64
RingCount = Annotated[int | None, Field(ge=1, le=MOST_RINGS)]


def rings_of(asked: int | None, algorithm: str, cluster: Cluster) -> int:
    """Returns the rings of collectives of all workers. Raises InputFault where rings are asked for and there are none.

    asked: `strategy.options.channels`.
    """
    if algorithm not in (RING, AUTO) and asked is not None and asked > 1:
        raise InputFault(
            f"strategy.options.channels = {asked}: divides rings, and strategy.options.algorithm is '{algorithm}'; "
            "leave it out, or take 'ring'"
        )
    if asked is not None:
        return asked
    return cluster.rings if algorithm == RING else 1
