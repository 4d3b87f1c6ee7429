"""Plans that are as they were: the digests of a small job by every strategy that has no groups.

A digest that changes makes every stored point of the strategy run again. Where that is meant, the new digest belongs
here.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from gradwire.network.fabric import Fabric
from gradwire.workloads.job import Cluster, Costs
from gradwire.workloads.models.profile import LayerKind
from gradwire.workloads.strategy_registry import strategy
from tests.shared.small_jobs import compiled, job_of, profile_of

DIGESTS = {
    "aggregation-ps": "2c760cb9035330b8",
    "butterfly": "19586f1a49b15d5f",
    "butterfly-mixing": "ad0c497e909ea6f4",
    "csc": "73419d3a244f9549",
    "ddp": "d49a3d04dbaaa93c",
    "diloco": "03db6648c9628d7e",
    "double-tree": "616885e720c81f0c",
    "geryon": "f91e53b03a41c651",
    "halving-doubling": "48512301699ce98f",
    "hierarchical-ring": "6789a6d0350d5536",
    "horovod": "889ebab4f585b34b",
    "kvstore": "a0cd6cece88afb28",
    "layer-allreduce": "9038fe10159ac88c",
    "lazy-allreduce": "4eceb0706044a889",
    "multicast-aggregation-ps": "f90cd219ddf094ea",
    "multicast-ps": "f9fb63041600e2f7",
    "netops-ps": "c1fbcae84a309a90",
    "p3": "7f845dc81a8831c4",
    "p3-slicing": "b2fc48b6d959c893",
    "partition-slicing": "6a4a27fe4438cd56",
    "ring": "1401854a9cc14655",
    "ring-multicast": "79a57716fc76d7e8",
    "tictac": "a0e04258332134af",
    "tictac-slicing": "d67d07ad99db0283",
    "vanilla": "8cab99364e1f88f7",
}


def digest_of(name: str) -> str:
    """Four workers, two servers behind them where there are any; three layers, and costs that take time."""
    how = strategy(name)
    cluster = Cluster(4, 2 if how.needs_servers else 0, colocated=False)
    profile = profile_of([(LayerKind.CONV, [30, 4]), (LayerKind.FC, [500]), (LayerKind.FC, [64, 8])])
    job = job_of(profile, cluster, seed=3, costs=Costs(aggregation_bytes_per_s=1e6, message_latency_s=1e-5))
    fabric = Fabric(hosts=cluster.hosts, rate_bps=1e9, aggregators=how.aggregators(how.options()))
    plans = compiled(replace(job, rate_bps=1e9, fabric=fabric), name, {})
    return " ".join(plan.digest() for plan in plans.values())


@pytest.mark.parametrize("name", DIGESTS)
def test_the_digest_is_as_it_was(name: str) -> None:
    assert digest_of(name) == DIGESTS[name]
