"""Random small allreduces, and what the tests of allreduces measure on their plans."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

from gradwire.datatypes.plan import Int64, OpKind, Plan
from gradwire.network.fabric import Fabric
from gradwire.workloads.job import Cluster, Costs, Job
from gradwire.workloads.models.profile import LayerKind
from tests.shared.examples import examples
from tests.shared.simulation import replay, times
from tests.shared.small_jobs import compiled, job_of, profile_of

FABRIC = Fabric(hosts=16, rate_bps=36e9, classes=1)
GOODPUT_BYTES_PER_S = FABRIC.rate_bps * FABRIC.goodput_share() / 8
PAIRED = ("butterfly", "halving-doubling", "butterfly-mixing")
Choice = tuple[str, Mapping[str, Any]]

quick = settings(max_examples=examples(40))
slow_gpu = Costs(aggregation_bytes_per_s=1e6, message_latency_s=1e-5, local_bytes_per_s=1e7, copy_bytes_per_s=1e7)

common = st.fixed_dictionaries(
    {
        "wire": st.sampled_from(["fp32", "fp16"]),
        "conversion_rate_bytes_per_s": st.sampled_from([None, 1e6]),
        "overlap": st.booleans(),
        "concurrent": st.booleans(),
        "forward_waits": st.sampled_from(["all", "barrier", "layer"]),
        "segments": st.integers(1, 3),
    }
)
own: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    "ring": st.fixed_dictionaries({"messaging": st.booleans()}),
    "hierarchical-ring": st.fixed_dictionaries({"inside": st.sampled_from(["reduce-broadcast", "scatter-gather"])}),
    "butterfly": st.just({}),
    "halving-doubling": st.just({}),
    "butterfly-mixing": st.just({}),
    "layer-allreduce": st.fixed_dictionaries({"algorithm": st.sampled_from(["ring", "hierarchical-ring"])}),
    "horovod": st.fixed_dictionaries(
        {
            "buffer_bytes": st.integers(4, 3000),
            "cycle_s": st.sampled_from([0, 1e-3, 2.5e-3, 7e-3]),
            "report_s": st.sampled_from([0, 1e-5, 3e-3]),
        }
    ),
    "ddp": st.fixed_dictionaries(
        {key: st.integers(1, 3000).map("{}B".format) for key in ("bucket_cap", "first_bucket_cap")}
    ),
    "lazy-allreduce": st.fixed_dictionaries({"threshold_bytes": st.integers(0, 3000)}),
    "csc": st.fixed_dictionaries(
        {
            "threshold_bytes": st.integers(0, 3000),
            "chunk_values": st.integers(3, 90),
            "share": st.floats(0.01, 1),
            "norm_rate_bytes_per_s": st.sampled_from([None, 1e6]),
        }
    ),
}
choices = st.sampled_from(sorted(own)).flatmap(
    lambda name: st.tuples(st.just(name), st.builds(lambda a, b: {**a, **b}, common, own[name]))
)
layers = st.lists(
    st.tuples(st.sampled_from([LayerKind.CONV, LayerKind.FC]), st.lists(st.integers(1, 400), max_size=2)),
    min_size=1,
    max_size=5,
).filter(lambda chosen: any(sizes for _, sizes in chosen))


@st.composite
def allreduces(draw: st.DrawFn, most_workers: int = 9) -> tuple[Job, Choice]:
    """A job without servers, and a strategy with options that fit its number of workers."""
    name, options = draw(choices)
    numbers = [n for n in range(1, most_workers + 1) if name not in PAIRED or n & (n - 1) == 0]
    workers = draw(st.sampled_from(numbers))
    per_host = draw(st.sampled_from([n for n in range(1, workers + 1) if workers % n == 0]))
    cluster = Cluster(workers, workers_per_host=per_host)
    costs = draw(st.sampled_from([Costs(), slow_gpu]))
    return job_of(profile_of(draw(layers)), cluster, seed=draw(st.integers(0, 99)), costs=costs), (name, options)


def plan_of(job: Job, name: str, options: Mapping[str, Any] | None = None) -> Plan:
    (plan,) = compiled(job, name, options or {}).values()
    return plan


def one_tensor(values: int, workers: int, *, per_host: int = 1, costs: Costs | None = None, layers: int = 1) -> Job:
    profile = profile_of([(LayerKind.FC, [values])] * layers)
    return job_of(profile, Cluster(workers, workers_per_host=per_host), costs=costs)


def sent_bytes(plan: Plan, *, remote: bool = True) -> Int64:
    """Bytes of chunks that leave each host in an iteration, or that its ranks hand one another."""
    ops = plan.ops
    chosen = (ops.kind == OpKind.SEND) & (ops.chunk >= 0) & (plan.is_remote() == remote)
    return np.bincount(plan.rank_host[ops.rank[chosen]], ops.size_bytes[chosen], plan.hosts).astype(np.int64)


def first_send_ns(plan: Plan) -> int:
    """Start of the first message of chunks in iteration 0."""
    when = times(replay(plan, 1))
    sends = np.flatnonzero((plan.ops.kind == OpKind.SEND) & (plan.ops.chunk >= 0)).tolist()
    return min(when[0, op][1] for op in sends)
