"""Closed forms of what an allreduce by each algorithm asks of messages and links (Load in workloads/stand_in.py).

Sources: GradientFlow, section 2.4 (ring: 2 (N - 1) messages, 2 (N - 1) / N K bytes per GPU); NetOps, section 8.2.2 (butterfly);
Rabenseifner (halving-doubling).
Workers fill one machine after the other and share its port.
"""

from __future__ import annotations

import math

from gradwire.faults import InputFault
from gradwire.workloads.job import Cluster
from gradwire.workloads.stand_in import Load


def allreduce_load(algorithm: str, cluster: Cluster) -> Load:
    """The load of one allreduce. Raises InputFault for an algorithm without a closed form here, or a number it cannot pair."""
    workers, machines, per_machine = cluster.workers, cluster.worker_hosts, cluster.workers_per_host
    if workers < 2:
        return Load(0, 0, 0, 0)
    if algorithm == "ring":
        around = 2 * (workers - 1) / workers
        return Load(2 * (workers - 1), around * (machines > 1), around * (per_machine > 1), around / 2)
    if algorithm not in ("butterfly", "halving-doubling"):
        raise InputFault(
            f"cluster.stands_for: no closed form for '{algorithm}'; there is one for ring, butterfly and halving-doubling"
        )
    rounds_out, rounds_in = _rounds("machines", machines), _rounds("workers of one machine", per_machine)
    if algorithm == "butterfly":
        rounds = rounds_out + rounds_in
        return Load(rounds, per_machine * rounds_out, rounds_in, rounds)
    # Distances fall from N / 2 to 1 while what is exchanged is halved: K / 2 to K / M goes out, the rest stays inside; and back.
    out, inside = 1 - 1 / machines, 1 / machines - 1 / workers
    return Load(2 * (rounds_out + rounds_in), per_machine * 2 * out, 2 * inside, out + inside)


def _rounds(what: str, count: int) -> int:
    if count & (count - 1):
        raise InputFault(f"cluster: {count} {what}: butterfly and halving-doubling pair them and need a power of two")
    return round(math.log2(count))
