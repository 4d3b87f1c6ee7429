"""MXNet's KVStore with synchronous updates, the baseline of P3: notify and pull for each key, first come, first served.

Source: P3, sections 2, 4.1 and 5.1, and the constants of MXNet's public code (kvstore_dist.h). Keys are tensors. Those
of a million parameters or more are cut evenly over all servers, the others are whole on server key * 9973 mod n.
Workers push a layer as soon as the backward pass yields it. Once all workers have pushed a key, its server notifies
each of them, and the worker pulls it inside the iteration: a request and the answer. There is no barrier (see
workloads/engines/keywise.py). The server's one thread adds what arrives and copies what it answers with
(costs.copy_rate); P3's server sends without a copy.

Where the paper is silent: every pair has one connection and data waits in it in the order in which it became ready;
notifications and requests go in the control class (`control_in_line` queues them behind the pair's data, as on a
single connection).

Sockets hold what the pair's own queue would hold anyway, so it does not matter here when a SEND ends.
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from gradwire.datatypes.plan import Plan
from gradwire.workloads.engines.keywise import Exchange, Updates, compile_keywise
from gradwire.workloads.engines.placement import kvstore_keys
from gradwire.workloads.job import Job
from gradwire.workloads.strategy import PS_LITE, Options, Strategy

SPLIT_PARAMETERS = 1_000_000
"""Default of MXNET_KVSTORE_BIGARRAY_BOUND."""


class KVStoreOptions(Options):
    """Options for how tensors are cut, and for what waits for what."""

    split_parameters: int = Field(SPLIT_PARAMETERS, ge=1)
    """Tensors with at least this many parameters are cut over all servers."""
    wait_free: bool = True
    """Whether layers are pushed as the backward pass yields them; otherwise all of them after it."""
    updates: Updates = "serial"
    """Updates of different keys go one after the other ("serial") or all at once ("parallel", each at
    costs.aggregation_rate)."""
    control_in_line: bool = False
    """Whether notifications and requests queue behind the pair's data; otherwise they go in the control class."""


def compile_kvstore(job: Job, options: KVStoreOptions) -> Mapping[str, Plan]:
    """One connection per pair, first come, first served."""
    pieces = kvstore_keys(job.profile, job.cluster.servers, options.split_parameters, job.cluster.workers)
    exchange = Exchange(
        "pull", wait_free=options.wait_free, updates=options.updates, control_in_line=options.control_in_line
    )
    return {"kvstore": compile_keywise(job, pieces, exchange, "kvstore")}


STRATEGIES = (
    Strategy(
        name="kvstore",
        summary="MXNet's KVStore: push per layer, notify and pull per key inside the iteration, no barrier",
        source="P3, sections 2, 4.1 and 5.1",
        options=KVStoreOptions,
        compile=compile_kvstore,
        senders=PS_LITE,
    ),
)
