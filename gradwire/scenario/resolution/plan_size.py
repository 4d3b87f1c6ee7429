"""How many workers a plan with all ranks may have."""

from __future__ import annotations

from gradwire.faults import InputFault
from gradwire.workloads.fields import MOST_WORKERS
from gradwire.workloads.job import Cluster


def refuse_thousands(cluster: Cluster) -> None:
    """Raises InputFault for more workers than a plan with an op for each of them can have."""
    if cluster.workers > MOST_WORKERS:
        raise InputFault(
            f"cluster.workers = {cluster.workers}: a plan with all ranks, which runs need, has at most {MOST_WORKERS:,} workers: "
            "`gradwire estimate` answers for more (docs/thousands.md), and cluster.stands_for lets a few run for all"
        )
