"""Jobs that strategies compile: a model with its compute times, on a cluster, with named costs and a seed."""

from __future__ import annotations

from dataclasses import dataclass, field

from gradwire.faults import InputFault
from gradwire.network.fabric import Fabric
from gradwire.workloads.models.compute_times import ComputeTime
from gradwire.workloads.models.profile import Profile
from gradwire.workloads.traces.workload import Workload

BYTES_PER_PARAMETER = 4
"""fp32."""


@dataclass(frozen=True)
class Cluster:
    """The workers and servers of a job, and the hosts that they run on: workers fill one host after the other; servers
    are on the workers' hosts (co-located) or on hosts behind them.

    workers_per_host: GPUs of one machine, which exchange data over the machine's own link and share its ports.
    nics_per_host: ports of one machine, among which its workers are divided in order; servers take those of their
    machines in turn, so that each rail has as many. The fabric knows each as a separate host, which plans learn when
    they are compiled (scenario/resolution/compilation.py); to strategies a host is a machine.
    """

    workers: int
    servers: int = 0
    colocated: bool = True
    workers_per_host: int = 1
    nics_per_host: int = 1

    def __post_init__(self) -> None:
        """Rejects empty clusters; raises InputFault."""
        if self.workers < 1:
            raise InputFault(f"cluster.workers = {self.workers}: must be at least 1")
        if self.servers < 0:
            raise InputFault(f"cluster.servers = {self.servers}: must not be negative")
        if self.workers_per_host < 1 or self.workers % self.workers_per_host:
            raise InputFault(
                f"cluster.workers_per_host = {self.workers_per_host}: must divide cluster.workers = {self.workers}"
            )

        if self.nics_per_host < 1 or self.workers_per_host % self.nics_per_host:
            raise InputFault(
                f"cluster.nics_per_host = {self.nics_per_host}: must divide cluster.workers_per_host = "
                f"{self.workers_per_host}, so that "
                "equally many workers use each"
            )

    @property
    def ports(self) -> int:
        """Hosts of the fabric that the cluster needs: NICs."""
        return self.hosts * self.nics_per_host

    @property
    def hosts(self) -> int:
        """Machines that the cluster needs."""
        return max(self.worker_hosts, self.servers) if self.colocated else self.worker_hosts + self.servers

    @property
    def worker_hosts(self) -> int:
        """Machines that have workers."""
        return self.workers // self.workers_per_host

    @property
    def rings(self) -> int:
        """Rings around all workers by which every NIC of a machine carries as much: one for each, as NCCL's channels
        have it; one on a single machine."""
        return self.nics_per_host if self.worker_hosts > 1 else 1

    def worker_host(self, worker: int) -> int:
        """Index of a worker's machine."""
        return worker // self.workers_per_host

    def worker_port(self, worker: int) -> int:
        """Host of the fabric that a worker is at: the NIC of its machine that it uses."""
        machine, index = divmod(worker, self.workers_per_host)
        return machine * self.nics_per_host + index * self.nics_per_host // self.workers_per_host

    def server_host(self, server: int) -> int:
        """Index of a server's machine."""
        return server if self.colocated else self.worker_hosts + server

    def server_port(self, server: int) -> int:
        """Host of the fabric that a server is at: the NIC of its machine that it uses."""
        return self.server_host(server) * self.nics_per_host + server % self.nics_per_host


@dataclass(frozen=True)
class Costs:
    """Constants besides those of network and GPU, each with its source in the scenario. Infinite rates are free."""

    #: Rate at which one server adds gradients, while the network carries others.
    aggregation_bytes_per_s: float = float("inf")
    #: Software latency of every message before its first byte leaves.
    message_latency_s: float = 0.0
    #: Rate of a machine's own link between two of its GPUs.
    local_bytes_per_s: float = float("inf")
    #: Software latency of a message between two GPUs of one machine; None: as of any other.
    local_latency_s: float | None = None
    #: Rate at which one thread copies memory: a worker, gradients into and out of a fused buffer; a server, the values
    #: with which it answers a pull.
    copy_bytes_per_s: float = float("inf")
    #: A worker's time for each slice that it merges into a tensor before the layer's forward pass; for strategies that
    #: slice TensorFlow's shards.
    merge_s: float = 0.0
    #: Time that a call of a collective takes before its first message; None: NCCL's, for a GPU that it knows.
    call_latency_s: float | None = None
    #: Speed at which a worker computes while it sends, as a share of its speed otherwise.
    speed_while_communicating: float = 1.0

    def latency_s(self, *, inside: bool) -> float:
        """Software latency of a message before its first byte leaves; `inside`: between two GPUs of one machine."""
        return self.message_latency_s if self.local_latency_s is None or not inside else self.local_latency_s

    def message_s(self, size_bytes: float, *, inside: bool) -> float:
        """Returns the seconds that a SEND takes before the network has it; for a message inside a machine, until it has
        arrived."""
        return self.latency_s(inside=inside) + (size_bytes / self.local_bytes_per_s if inside else 0.0)


@dataclass(frozen=True)
class Job:
    """The input of a strategy: one point of a scenario."""

    profile: Profile
    compute: ComputeTime
    cluster: Cluster
    #: Samples that a worker processes in an iteration.
    batch: int
    #: Decides every random order of the strategy.
    seed: int = 1
    costs: Costs = field(default_factory=Costs)
    #: Line rate of a host's link, for strategies that weigh transfers against computation; None: unknown.
    rate_bps: float | None = None
    #: The network, for strategies that use its switches; None: a single switch.
    fabric: Fabric | None = None
    #: The cluster that this one stands for, whose samples count; costs and rates are scaled already.
    stands_for: Cluster | None = None
    #: Factor of each worker on the times of `compute`; empty: 1 for all.
    relative_times: tuple[float, ...] = ()
    #: The GPU, by the name that NCCL's tables have here, whose calls take what these say; None: another.
    gpu: str | None = None
    #: Rate of a worker's memory; None: unknown.
    memory_bytes_per_s: float | None = None
    #: A recorded workload in place of the profile's, for the strategy that replays it.
    trace: Workload | None = None

    def relative_time(self, worker: int) -> float:
        """A worker's factor on the times of `compute`."""
        return self.relative_times[worker] if self.relative_times else 1.0

    @property
    def compute_s(self) -> float:
        """A worker's forward and backward pass, undisturbed; the mean one where workers differ."""
        return sum(self.compute.forward_s) + sum(self.compute.backward_s)

    @property
    def samples(self) -> int:
        """Samples that all workers process together in an iteration."""
        return self.batch * (self.stands_for or self.cluster).workers
