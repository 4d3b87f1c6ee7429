"""Chooses the executor of a command's points by its options."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gradwire.faults import InputFault, MachineFault
from gradwire.runs.compiling.many_points import cores
from gradwire.runs.executing.executor import Executor, LocalPool, Trial
from gradwire.scenario.loading import ScenarioPoint
from gradwire.vm.kernel import cached_kernel
from gradwire.vm.machines import Clock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from distributed import Client

LOCAL, DASK = "local", "dask"
EXTRA = "run `pip install 'gradwire[dask]'` in gradwire's Python"
UNKNOWN_JOBS = 64
"""Points that are handed to a cluster at a time whose workers have not joined yet."""


@dataclass(frozen=True)
class Where:
    """The options of a command that say where its points run."""

    #: Number of points at a time; None: as many as there are cores.
    jobs: int | None = None
    #: "local", or "dask".
    executor: str = LOCAL
    #: A Dask scheduler's address, the file that it wrote, or a client of it; None: a cluster of this machine for this
    #: command.
    scheduler: str | Client | None = None

    def refuse_what_cannot_be(self, clock: Clock, points: Sequence[ScenarioPoint] = ()) -> None:
        """Raises InputFault for options or points that do not fit together, and MachineFault where Dask is not
        installed."""
        if self.executor not in (LOCAL, DASK):
            raise InputFault(f"--executor {self.executor}: must be {LOCAL} or {DASK}")
        if self.executor == LOCAL:
            if self.scheduler is not None:
                raise InputFault("--scheduler belongs to --executor dask: give both, or neither")
            return
        if clock.name != "virtual":
            raise InputFault("--executor dask: is for the virtual clock; on the wall clock, points run on this machine")
        if any(point.programs for point in points):
            raise InputFault("--executor dask: programs are files of this machine, which workers lack; leave it out")
        if importlib.util.find_spec("distributed") is None:
            raise MachineFault(f"--executor dask: needs dask.distributed, which is not installed: {EXTRA}")

    @contextmanager
    def opened(self, clock: Clock, trial: Trial, warn: Callable[[str], None], points: int) -> Iterator[Executor]:
        """The executor, for this block. trial: of this machine. points: how many there are at most. Raises Fault."""
        if self.executor == LOCAL:
            parallel = 1 if clock.name == "wall" else min(self.jobs or cores(), points)
            yield LocalPool(parallel, trial)
            return
        # Imported here, for only those who ask for it have it.
        from gradwire.runs.executing.cluster.pool import DaskPool, connected

        kernel = cached_kernel()
        assert kernel is not None, "it is built before"
        with connected(self.scheduler, min(self.jobs or cores(), points)) as client:
            jobs = self.jobs or sum(client.nthreads().values()) or UNKNOWN_JOBS
            pool = DaskPool(client, kernel, min(jobs, points), warn)
            try:
                yield pool
            finally:
                pool.close()
