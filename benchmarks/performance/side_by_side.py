"""One all-to-all of eight hosts at 10 Gbit/s here, in ns-3 and in SimGrid, in turns on one machine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from benchmarks.performance.cost import Cost
from benchmarks.performance.emulated import replayed
from benchmarks.performance.other_tools import fluid, ns3, simgrid
from gradwire.datatypes.fabric import ETHERNET_HEADER_BYTES, Fabric
from gradwire.workloads.patterns import all_to_all, compile_transfers

HOSTS = 8
RATE_BPS = 10e9
FLOW_BYTES = 64_000_000
"""56 flows: 3.58 GB."""


def compared(rounds: int, flow_bytes: int = FLOW_BYTES) -> Iterator[Cost]:
    """Each of them; ns-3, which takes minutes, and single frames once only."""
    fabric = Fabric(HOSTS, RATE_BPS)
    plan = compile_transfers("all-to-all", HOSTS, all_to_all(HOSTS, flow_bytes))
    frames = replace(fabric, gso_bytes=fabric.mtu_bytes + ETHERNET_HEADER_BYTES)
    yield replayed("gradwire, bursts of 64 KiB (default)", plan, fabric, rounds)
    yield replayed("gradwire, single frames", plan, frames, 1)
    yield ns3(HOSTS, flow_bytes, RATE_BPS, 1)
    yield fluid(plan, fabric, rounds)
    yield simgrid(HOSTS, flow_bytes, RATE_BPS, rounds, fabric)
