"""A small cluster that stands for a large one: every worker real, but fewer of them, with latencies and rates scaled
to match.

An allreduce takes the time of its messages' latencies, one after the other, and of its bytes on the busiest links.
Both follow from the numbers of workers and machines in closed form. A stand-in moves its own bytes over links whose
rates are divided as its bytes are fewer, with latencies multiplied as its messages are fewer, so that an allreduce of
any size takes as long as among all workers.

What it cannot show is what differs between workers: stragglers, and messages that are smaller than a packet's overhead.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from gradwire.faults import InputFault
from gradwire.workloads.job import Costs


@dataclass(frozen=True)
class Load:
    """What an allreduce of K bytes asks of the busiest of everything, on the path that decides its time."""

    #: Messages one after the other, each of which pays the latency.
    messages: float
    #: Bytes through the port of one machine, in each direction, in units of K.
    network: float
    #: Bytes that one worker sends inside its machine, in units of K.
    local: float
    #: Bytes that one worker adds, in units of K.
    added: float


@dataclass(frozen=True)
class StandIn:
    """How a cluster with load `own` behaves as one with load `meant`.

    Raises InputFault where the small cluster has no link of a kind that the large one is slowed down by.
    """

    own: Load
    meant: Load

    def __post_init__(self) -> None:
        """Rejects a cluster without a kind of link that it has to stand for."""
        if self.meant.network > 0 and self.own.network == 0:
            raise InputFault("cluster.workers: all on one machine cannot stand for several machines; use at least two")
        if self.meant.local > 0 and self.own.local == 0:
            raise InputFault(
                "cluster.workers_per_host = 1: machines of one worker cannot stand for machines of several, "
                "whose own links count as well; use at least 2"
            )

    def rate_bps(self, rate_bps: float) -> float:
        """Line rate of a host's link that takes as long for the stand-in's bytes."""
        return rate_bps * _ratio(self.own.network, self.meant.network)

    def costs(self, costs: Costs) -> Costs:
        """Costs per message and per byte that add up to as much. Copying is not scaled: a worker copies what it always
        does.

        Raises InputFault for a latency of its own inside machines, because loads do not count these messages apart.
        """
        if costs.local_latency_s is not None:
            raise InputFault(
                "costs.local_latency: a stand-in's messages have one latency; leave out it or cluster.stands_for"
            )
        return replace(
            costs,
            message_latency_s=costs.message_latency_s * _ratio(self.meant.messages, self.own.messages),
            local_bytes_per_s=costs.local_bytes_per_s * _ratio(self.own.local, self.meant.local),
            aggregation_bytes_per_s=costs.aggregation_bytes_per_s * _ratio(self.own.added, self.meant.added),
        )


def _ratio(above: float, below: float) -> float:
    """1 where neither is there."""
    return above / below if below else 1.0
