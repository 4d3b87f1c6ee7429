"""A Dask cluster of worker processes, as on several machines."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from distributed import Client, LocalCluster
from distributed.security import Security


@contextmanager
def worker_processes(count: int) -> Iterator[Client]:
    """A client of a cluster with so many workers of one thread, which speak to each other by TLS."""
    with (
        LocalCluster(
            n_workers=count,
            threads_per_worker=1,
            memory_limit=0,
            dashboard_address=None,
            security=Security.temporary(),
            silence_logs=logging.CRITICAL,
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client
