"""Where a served model is: instances that prefill, instances that decode, and the workers of each."""

from __future__ import annotations

from dataclasses import dataclass

from gradwire.faults import InputFault
from gradwire.workloads.job import Cluster, Job


@dataclass(frozen=True)
class Replica:
    """Workers that share every product of a model, or all of it but its experts, and process requests together."""

    ranks: tuple[int, ...]
    #: Whether they are in several machines, so that their sums go over the network.
    is_spread: bool


@dataclass(frozen=True)
class Deployment:
    """Numbers of instances, and of the workers of each."""

    prefills: int
    prefill_tensor: int
    decodes: int
    decode_tensor: int
    #: Replicas of an instance that decodes; they divide the experts among them and go together.
    experts: int

    @property
    def workers(self) -> int:
        """Workers of all instances."""
        return self.prefills * self.prefill_tensor + self.decodes * self.experts * self.decode_tensor

    def check(self, cluster: Cluster) -> None:
        """Raises InputFault if the cluster has another number of workers."""
        if self.workers != cluster.workers:
            raise InputFault(
                f"cluster.workers = {cluster.workers}: strategy.options prefill = {self.prefills} times prefill_tensor = "
                f"{self.prefill_tensor}, and decode = {self.decodes} times decode_experts = {self.experts} times decode_tensor = "
                f"{self.decode_tensor}, make {self.workers}"
            )

    def prefill_replicas(self, cluster: Cluster) -> list[Replica]:
        """The instances that prefill, on the first workers."""
        return _replicas(cluster, 0, self.prefills, self.prefill_tensor)

    def decode_replicas(self, cluster: Cluster) -> list[Replica]:
        """The replicas that decode, instance by instance."""
        return _replicas(cluster, self.prefills * self.prefill_tensor, self.decodes * self.experts, self.decode_tensor)


def _replicas(cluster: Cluster, first: int, count: int, size: int) -> list[Replica]:
    found = []
    for number in range(count):
        ranks = tuple(range(first + number * size, first + (number + 1) * size))
        found.append(Replica(ranks, len({cluster.worker_host(rank) for rank in ranks}) > 1))
    return found


@dataclass(frozen=True)
class MessageLine:
    """Rate and latency of a message that goes by itself."""

    bytes_per_s: float
    latency_s: float


def line_between(job: Job, *, inside: bool) -> MessageLine:
    """The line of a message within a machine, or between two."""
    if inside:
        return MessageLine(job.costs.local_bytes_per_s, job.costs.latency_s(inside=True))
    goodput = job.fabric.goodput_share() if job.fabric is not None else 1.0
    rate = float("inf") if job.rate_bps is None else job.rate_bps / 8 * goodput
    return MessageLine(rate, job.costs.message_latency_s)


def ring_s(size_bytes: float, members: int, line: MessageLine) -> float:
    """Seconds of a ring allreduce by itself: 2(N-1) steps with an N-th of the bytes each."""
    if members == 1:
        return 0.0
    return 2 * (members - 1) * (size_bytes / members / line.bytes_per_s + line.latency_s)


def shares_of_cache(sources: int, targets: int, *, divided: bool) -> list[tuple[int, int, float]]:
    """Returns (source, target, share) for each share of a cache. divided: by heads, of which each worker has neighbours; otherwise
    each target gets all of it, from the sources in turn."""
    if not divided:
        return [(target % sources, target, 1.0) for target in range(targets)]
    found = []
    for source in range(sources):
        for target in range(targets):
            begin, end = max(source / sources, target / targets), min((source + 1) / sources, (target + 1) / targets)
            if end - begin > 1e-9:
                found.append((source, target, end - begin))
    return found
