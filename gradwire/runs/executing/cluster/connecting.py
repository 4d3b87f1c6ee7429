"""Connections to a Dask scheduler: one that is there already, or a cluster of this machine's cores for one command."""

from __future__ import annotations

import logging
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from distributed import Client, LocalCluster
from distributed.security import Security

from gradwire.faults import InputFault, MachineFault

PATIENCE_S = 20.0
"""How long a scheduler may take to answer."""


def dask_setup(_: Any) -> None:
    """Dask calls this in a worker's main thread before it takes tasks."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def connected(scheduler: str | Client | None, cores: int) -> Iterator[Client]:
    """A client of a scheduler, given by its address, by the file that it wrote, or by a client, which stays open.

    None: of a cluster with `cores` workers on this machine, which ends with the block. Raises InputFault for what is
    not a scheduler's address, and MachineFault where none answers.
    """
    if isinstance(scheduler, Client):
        yield scheduler
        return
    if scheduler is None:
        with (
            LocalCluster(
                n_workers=cores,
                threads_per_worker=1,
                memory_limit=0,  # machines' memory lies in a tmpfs, which a worker's own limit does not see
                dashboard_address=None,
                preload=__name__,
                silence_logs=logging.CRITICAL,  # what concerns a point is told with the point
            ) as cluster,
            Client(cluster, set_as_default=False) as client,
        ):
            yield client
        return
    with _client(scheduler) as client:
        yield client


def _client(scheduler: str) -> Client:
    """A client of the scheduler at an address, or of the one that wrote a file."""
    if scheduler.startswith("tls://"):
        _refuse_missing_certificates(scheduler)
    try:
        if Path(scheduler).is_file():
            return Client(scheduler_file=scheduler, timeout=PATIENCE_S, set_as_default=False)
        return Client(scheduler, timeout=PATIENCE_S, set_as_default=False)
    except (OSError, TimeoutError) as error:
        raise MachineFault(
            f"--scheduler {scheduler}: no Dask scheduler answers there ({error}); `dask scheduler` prints its address "
            "when it starts"
        ) from error
    except (ValueError, KeyError) as error:
        raise InputFault(
            f"--scheduler {scheduler}: is not an address of a Dask scheduler, like tcp://10.0.0.1:8786, and no file "
            f"that one wrote: {error}"
        ) from error


def _refuse_missing_certificates(scheduler: str) -> None:
    """Raises InputFault if Dask's configuration names no certificate for the command, or one that cannot be read."""
    where = "Dask's configuration (distributed.comm.tls)"
    named = Security().get_tls_config_for_role("client")
    if not named.get("cert"):
        raise InputFault(
            f"--scheduler {scheduler}: needs a certificate, and {where} names none; docs/many-machines.md shows the "
            "lines"
        )
    try:
        Security().get_connection_args("client")
    except OSError as error:  # ssl.SSLError is one
        files = ", ".join(str(value) for key, value in named.items() if value and key in ("ca_file", "cert", "key"))
        raise InputFault(
            f"--scheduler {scheduler}: cannot use the certificates that {where} names ({files}): "
            f"{error.strerror or error}; names that do not begin with / count from the current folder"
        ) from error
