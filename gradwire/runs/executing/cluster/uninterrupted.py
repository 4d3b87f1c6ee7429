"""Preloaded by workers of this machine's own cluster. A terminal sends Ctrl-C to them too, and the command is to end them in order."""

from __future__ import annotations

import signal
from typing import Any


def dask_setup(_: Any) -> None:
    """Dask calls this in a worker's main thread before it takes tasks."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
