"""A Dask cluster within one process: scheduler, worker and client are threads that hand each other objects in memory.

Nothing listens. A scheduler runs any code for whoever reaches it, and every user of a machine reaches its ports: so there is none to reach,
rather than one with a secret. Dask also has each scheduler and worker serve HTTP, and that too is left out.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from distributed import Client, Scheduler, SpecCluster, Worker

from gradwire.vm.owners import temporary_folder

PROTOCOL = "inproc://"


class _Unserved:
    """A node of a cluster without the HTTP server that Dask starts for each."""

    def start_http_server(self, *_: Any, **__: Any) -> None:
        """Starts nothing."""


class UnservedScheduler(_Unserved, Scheduler):  # type: ignore[misc]  # distributed has no types
    """A scheduler that no socket leads to."""


class UnservedWorker(_Unserved, Worker):  # type: ignore[misc]
    """A worker that no socket leads to."""


@contextmanager
def cluster_in_this_process(cores: int) -> Iterator[Client]:
    """A client of a cluster with one worker of `cores` threads, which ends with the block."""
    # Dask would take a folder in /tmp that is called alike for all users, whose owner can exchange what a worker has in it.
    with temporary_folder() as folder:
        scheduler = {"protocol": PROTOCOL, "dashboard": False, "local_directory": str(folder)}
        worker = {
            "protocol": PROTOCOL,
            "nthreads": cores,
            "memory_limit": 0,  # machines' memory lies in a tmpfs, which a worker's own limit does not see
            "local_directory": str(folder),
        }
        with (
            SpecCluster(
                workers={0: {"cls": UnservedWorker, "options": worker}},
                scheduler={"cls": UnservedScheduler, "options": scheduler},
                silence_logs=logging.CRITICAL,  # what concerns a point is told with the point
            ) as cluster,
            Client(cluster, set_as_default=False) as client,
        ):
            yield client
