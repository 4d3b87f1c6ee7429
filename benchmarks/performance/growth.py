"""How the cost of traffic grows: over hosts, rates, bytes and messages."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.performance.cost import Cost
from benchmarks.performance.emulated import replayed
from gradwire.datatypes.fabric import Fabric
from gradwire.workloads.patterns import Transfer, all_to_all, compile_transfers, ring

HOSTS = (2, 4, 8, 16, 32, 64)
RATES_GBPS = (10, 25, 40, 100)
SIZES_MB = (1, 4, 16, 64)
MESSAGES = (16, 160, 1600, 16_000)

RATE_BPS = 10e9
RING_BYTES = 64_000_000
FLOW_BYTES = 32_000_000
MESSAGES_BYTES = 100_000_000
"""Of each of eight flows in the sweep over messages: 6 MB to 6 kB per message."""
EIGHT = 8


def over_hosts(rounds: int) -> Iterator[Cost]:
    """A ring: every host sends as much to the next."""
    for hosts in HOSTS:
        plan = compile_transfers("ring", hosts, ring(hosts, RING_BYTES))
        yield replayed(f"{hosts} hosts", plan, Fabric(hosts, RATE_BPS), rounds, at=hosts)


def over_rates(rounds: int) -> Iterator[Cost]:
    """The same bytes between eight hosts at higher rates."""
    plan = compile_transfers("all-to-all", EIGHT, all_to_all(EIGHT, FLOW_BYTES))
    for rate in RATES_GBPS:
        yield replayed(f"{rate} Gbit/s", plan, Fabric(EIGHT, rate * 1e9), rounds, at=rate)


def over_sizes(rounds: int) -> Iterator[Cost]:
    """More bytes between eight hosts at one rate."""
    for size in SIZES_MB:
        plan = compile_transfers("all-to-all", EIGHT, all_to_all(EIGHT, size * 1_000_000))
        yield replayed(f"{size} MB per flow", plan, Fabric(EIGHT, RATE_BPS), rounds, at=size)


def over_messages(rounds: int) -> Iterator[Cost]:
    """The same bytes round a ring of eight in more messages, each of which begins when the one ahead of it has left."""
    for messages in MESSAGES:
        flows = [
            Transfer(flow.src, flow.dst, flow.size_bytes, messages=messages) for flow in ring(EIGHT, MESSAGES_BYTES)
        ]
        plan = compile_transfers("messages", EIGHT, flows)
        yield replayed(f"{EIGHT * messages} messages", plan, Fabric(EIGHT, RATE_BPS), rounds, at=EIGHT * messages)
