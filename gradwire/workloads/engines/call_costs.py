"""What a call of a collective takes before its bytes move, by NCCL's table for the GPU and the machines.

NCCL counts for a call what its start and its hops take, and on top of that its bytes over a bandwidth (`ncclTopoGetAlgoTime`,
src/graph/tuning.cc). The first of the two, of the algorithm and the protocol that it would choose for the size, is a
call's latency here; the second is what messages take on the network. With `algorithm = "nccl"` hops have their own
latencies, and where a scenario says what messages take (`costs.message_latency`, `costs.local_latency`), so do all
others: then a call has none by itself, unless `costs.call_latency` says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property

from gradwire.faults import InputFault
from gradwire.workloads.engines.collectives.choice import Layout, layout_of
from gradwire.workloads.engines.collectives.schedule import Collective
from gradwire.workloads.engines.nccl.chooser import Communicator, choose, latency_us
from gradwire.workloads.engines.nccl.devices import GpuName
from gradwire.workloads.engines.nccl.options import NCCL, NcclOptions, Setup, setup_of
from gradwire.workloads.job import Job


@dataclass(frozen=True)
class CallCosts:
    """The latencies of a job's calls."""

    job: Job
    #: Algorithm of its collectives.
    algorithm: str

    def seconds(self, kind: Collective, size_bytes: int, members: Sequence[int] | None = None) -> float:
        """Returns the latency of a call. size_bytes: all that a member of an all-gather gets, or of a reduce-scatter
        puts in. members: workers; None: all, of the cluster that this one stands for."""
        if self.job.costs.call_latency_s is not None:
            return self.job.costs.call_latency_s
        if not self.by_table:
            return 0.0
        comm = self._communicator(members)
        if comm is None:
            return 0.0
        choice = choose(comm, kind, size_bytes)
        return latency_us(comm, kind, choice.algorithm, choice.protocol) / 1e6

    @property
    def by_table(self) -> bool:
        """Returns whether latencies are NCCL's."""
        costs = self.job.costs
        by_message = costs.message_latency_s > 0 or costs.local_latency_s is not None
        known = self.job.gpu is not None and self.job.rate_bps is not None
        return known and not by_message and self.algorithm != NCCL and costs.call_latency_s is None

    @property
    def is_known(self) -> bool:
        """Returns whether NCCL has latencies for calls of all workers."""
        return self.by_table and self._communicator(None) is not None

    def _communicator(self, members: Sequence[int] | None) -> Communicator | None:
        cluster = self.job.stands_for or self.job.cluster
        ranks = tuple(range(cluster.workers) if members is None else members)
        if len(ranks) < 2:
            return None
        per_host = cluster.workers_per_host
        return _communicator(self._setup, layout_of(range(len(ranks)), [rank // per_host for rank in ranks]))

    @cached_property
    def _setup(self) -> Setup:
        """All that NCCL sees."""
        return setup_of(self.job, NcclOptions(gpu=GpuName(self.job.gpu or "")))


@cache
def _communicator(setup: Setup, layout: Layout) -> Communicator | None:
    """The group as NCCL sees it; None for one that NCCL does not know how to join, such as machines of too many GPUs."""
    try:
        found = setup.communicator(layout)
        _ = found.searched
    except InputFault:
        return None
    return found
