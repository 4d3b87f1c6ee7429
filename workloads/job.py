"""What a strategy compiles: a model with its compute times, on a cluster, with named costs and a seed."""

from __future__ import annotations

from dataclasses import dataclass, field

from gradwire.faults import InputFault
from gradwire.topo.fabric import Fabric
from gradwire.workloads.models.devices import ComputeTime
from gradwire.workloads.models.profile import Profile

BYTES_PER_PARAMETER = 4
"""fp32."""


@dataclass(frozen=True)
class Cluster:
    """Who runs where: workers fill one host after the other; servers are beside the workers (co-located) or on hosts behind them.

    workers_per_host: GPUs of one machine, which exchange data over the machine's own link and share its port.
    """

    workers: int
    servers: int = 0
    colocated: bool = True
    workers_per_host: int = 1

    def __post_init__(self) -> None:
        """Refuses an empty cluster; raises InputFault."""
        if self.workers < 1:
            raise InputFault(f"cluster.workers = {self.workers}: must be at least 1")
        if self.servers < 0:
            raise InputFault(f"cluster.servers = {self.servers}: must not be negative")
        if self.workers_per_host < 1 or self.workers % self.workers_per_host:
            raise InputFault(
                f"cluster.workers_per_host = {self.workers_per_host}: must divide cluster.workers = {self.workers}"
            )

    @property
    def hosts(self) -> int:
        """Hosts that the cluster needs."""
        return max(self.worker_hosts, self.servers) if self.colocated else self.worker_hosts + self.servers

    @property
    def worker_hosts(self) -> int:
        """Hosts that have workers."""
        return self.workers // self.workers_per_host

    def worker_host(self, worker: int) -> int:
        """Host index of a worker."""
        return worker // self.workers_per_host

    def server_host(self, server: int) -> int:
        """Host index of a server."""
        return server if self.colocated else self.worker_hosts + server


@dataclass(frozen=True)
class Costs:
    """Constants beside network and GPU, each with its source in the scenario.

    aggregation_bytes_per_s: gradient bytes that one server adds a second (infinite: free), beside the network.
    message_latency_s: software latency of every message before its first byte leaves.
    local_bytes_per_s: rate of a machine's own link between two of its GPUs (infinite: free).
    copy_bytes_per_s: rate at which one thread copies memory: a worker, gradients into and out of a fused buffer; a server, the
    values with which it answers a pull (infinite: free).
    merge_s: a worker's time for each slice that it merges into a tensor before the layer's forward pass; for strategies that slice
    TensorFlow's shards.
    """

    aggregation_bytes_per_s: float = float("inf")
    message_latency_s: float = 0.0
    local_bytes_per_s: float = float("inf")
    copy_bytes_per_s: float = float("inf")
    merge_s: float = 0.0


@dataclass(frozen=True)
class Job:
    """One point to compile.

    seed: decides every random order of the strategy. rate_bps: line rate of a host's link, for strategies that weigh
    transfers against computation; None where nobody said. fabric: the network, for strategies that use its switches;
    None: a single switch. stands_for: the cluster that this one stands for, whose samples count; costs and rates are scaled already.
    relative_times: of each worker, what its passes take of `compute`; none: all take just that.
    """

    profile: Profile
    compute: ComputeTime
    cluster: Cluster
    batch: int
    seed: int = 1
    costs: Costs = field(default_factory=Costs)
    rate_bps: float | None = None
    fabric: Fabric | None = None
    stands_for: Cluster | None = None
    relative_times: tuple[float, ...] = ()

    def relative_time(self, worker: int) -> float:
        """What a worker's passes take of `compute`."""
        return self.relative_times[worker] if self.relative_times else 1.0

    @property
    def compute_s(self) -> float:
        """A worker's forward and backward pass, undisturbed; the mean one where workers differ."""
        return sum(self.compute.forward_s) + sum(self.compute.backward_s)

    @property
    def samples(self) -> int:
        """Samples that all workers process together in an iteration."""
        return self.batch * (self.stands_for or self.cluster).workers
