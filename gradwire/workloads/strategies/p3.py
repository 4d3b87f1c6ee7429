"""P3: priority-based parameter propagation, slices that travel in the order in which the next forward pass needs them.

Source: P3, section 4.2. Tensors are cut into slices of 50,000 parameters, round robin over the servers. A slice has
the priority of its layer: the first layer's is the highest. Each worker has one priority queue and one thread that
takes from it and sends with blocking calls, to all servers. A server puts what arrives into a priority queue from
which one thread adds, updates and broadcasts at once: no notification, no pull, no barrier (see
workloads/engines/keywise.py). `p3-slicing` is the same with the priorities off, the second curve of Fig. 7.

Where the paper is silent:
- Of slices with the same priority the earlier part of the tensor goes first.
- The server's thread broadcasts with blocking calls as well, so what waits there is sent by priority, one message at a
  time.
- What `p3-slicing` keeps of P3 besides the slices: here all but the order (`delivery = "pull"` gives it the KVStore's
  notify and pull).

Blocking sends: the paper says that the thread goes at the speed of the network, which is what transport.send_ends =
"departure" does. In its implementation a thread returns from a send when the socket has room, not when the data has
left, and what waits in the socket is beyond the reach of any priority. So by default sends are "buffered" and one
slice may wait for each connection (workloads/strategy.py); transport.unsent sets another bound, such as one burst,
"64KB". Below that TCP's small queues keep about a millisecond of data in the host's own port: in Fig. 4's example,
with one server, 10 Gbit/s and "64KB", an urgent slice waits 1.3 ms longer than on paper.
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from gradwire.datatypes.plan import Plan
from gradwire.workloads.engines.keywise import Delivery, Exchange, Updates, compile_keywise
from gradwire.workloads.engines.placement import full_slices
from gradwire.workloads.job import Job
from gradwire.workloads.strategy import P3_CONSUMER, Options, Strategy

SLICE_PARAMETERS = 50_000
"""P3, section 5.6: throughput is highest there (MXNet's P3Store later took 40,000)."""


class P3Options(Options):
    """Options for how tensors are sliced, and for the order of slices."""

    slice_parameters: int = Field(SLICE_PARAMETERS, ge=0)
    """Parameters of a slice; 0 slices none."""
    priority: bool = True
    """Whether slices go in the order of the forward pass; otherwise first come, first served."""
    wait_free: bool = True
    """Whether layers are pushed as the backward pass yields them; otherwise all of them after it."""
    updates: Updates = "serial"
    """Updates of different slices go one after the other ("serial", by priority) or all at once ("parallel", each at
    costs.aggregation_rate)."""
    delivery: Delivery = "broadcast"
    """"broadcast": at once. "pull": by the KVStore's notification and request."""


class SlicingOptions(P3Options):
    """P3's options with the priorities off."""

    priority: bool = False
    """Whether slices of earlier layers go first."""


def compile_p3(job: Job, options: P3Options) -> Mapping[str, Plan]:
    """One sending thread per worker and server, which feeds all connections."""
    pieces = full_slices(job.profile, job.cluster.servers, options.slice_parameters, job.cluster.workers)
    exchange = Exchange(
        options.delivery,
        priority=options.priority,
        worker_thread=True,
        server_thread=True,
        wait_free=options.wait_free,
        updates=options.updates,
    )
    name = "p3" if options.priority else "p3-slicing"
    return {name: compile_keywise(job, pieces, exchange, name)}


STRATEGIES = (
    Strategy(
        name="p3",
        summary=(
            "slices in the order of the next forward pass, by priority queues at workers and servers; broadcast at once"
        ),
        source="P3, section 4",
        options=P3Options,
        compile=compile_p3,
        senders=P3_CONSUMER,
    ),
    Strategy(
        name="p3-slicing",
        summary="P3's slices and immediate broadcast without its priorities",
        source="P3, section 5.2 (the second curve of Fig. 7)",
        options=SlicingOptions,
        compile=compile_p3,
        senders=P3_CONSUMER,
    ),
)
