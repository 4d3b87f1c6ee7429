"""A ring of 16 hosts over 4 leaves and 4 spines, all of whose links are of equal rate, with 1, 4 and 16 connections per pair, over seeds.

    .venv/bin/python benchmarks/hashed_connections.py [--seeds 20] [--connections 1,4,16] [--routing balanced,ecmp,spray] [--estimate]

Neighbours of the ring are on different leaves, so that 4 of its flows go from each leaf to the next one, over 4 ways. Prints how much
longer the last of two iterations takes on the virtual clock than the same ring without collisions: the median over seeds and the range, and
how far an estimate is off at most. With --estimate, all times are those of the fluid engine. As a table that docs/networks.md has.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from gradwire.agents.connections import SocketOptions
from gradwire.analysis.fluid.estimate import estimate
from gradwire.analysis.iterations import iteration_times_s
from gradwire.datatypes.fabric import Fabric, Routing, Topology
from gradwire.datatypes.path_delays import LEAST_BUFFER_BYTES
from gradwire.datatypes.plan import Plan
from gradwire.runs.replay import replay_plans
from gradwire.runs.stored.spines import Spines
from gradwire.workloads.divided_messages import divided
from gradwire.workloads.patterns import Transfer, compile_transfers

RATE_BPS = 10e9
HOSTS, LEAVES, SPINES = 16, 4, 4
SIZE_BYTES = 20_000_000
ITERATIONS = 2
"""The first one has TCP's slow start in it."""
FABRIC = Fabric(HOSTS, RATE_BPS, Topology.LEAF_SPINE, leaves=LEAVES, spines=SPINES, classes=1)


def ring(connections: int) -> Plan:
    """Every host sends to the one with the same place on the next leaf."""
    step = HOSTS // LEAVES
    transfers = [Transfer(host, (host + step) % HOSTS, SIZE_BYTES) for host in range(HOSTS)]
    return divided(compile_transfers(f"{connections}", HOSTS, transfers), connections, FABRIC.burst_payload_bytes())


def alone_s() -> float:
    """Time of the ring where no two flows meet: on one switch."""
    return estimate(ring(1), replace(FABRIC, topology=Topology.SINGLE_SWITCH, leaves=1, spines=0)).iteration_s


def main() -> None:
    """Reads the arguments and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--connections", default="1,4,16")
    parser.add_argument("--routing", default="balanced,ecmp,spray")
    parser.add_argument("--estimate", action="store_true")
    arguments = parser.parse_args()
    plans = {f"{number}": ring(int(number)) for number in arguments.connections.split(",")}
    ideal_s = alone_s()
    print(
        "| `fabric.routing` | connections | median | from | to | off an estimate by up to |\n|---|---|---|---|---|---|"
    )
    for routing in arguments.routing.split(","):
        slower: dict[str, list[float]] = {name: [] for name in plans}
        off: dict[str, list[float]] = {name: [] for name in plans}
        for seed in range(1, arguments.seeds + 1):
            fabric = replace(FABRIC, routing=Routing(routing), seed=seed)
            estimated_s = {
                name: estimate(plan, fabric, Spines(fabric).spine_of).iteration_s for name, plan in plans.items()
            }
            measured_s = estimated_s if arguments.estimate else measured(plans, fabric)
            for name in plans:
                slower[name].append(measured_s[name] / ideal_s)
                off[name].append(measured_s[name] / estimated_s[name] - 1)
        for name, found in slower.items():
            worst = max(off[name], key=abs)
            print(
                f"| `{routing}` | {name} | {statistics.median(found):.2f} | {min(found):.2f} | {max(found):.2f} | {worst:+.1%} |",
                flush=True,
            )


def measured(plans: dict[str, Plan], fabric: Fabric) -> dict[str, float]:
    """Time of each plan's last iteration, by name."""
    done = replay_plans(plans, fabric, ITERATIONS, sockets=SocketOptions(LEAST_BUFFER_BYTES, None))
    return {name: float(iteration_times_s(each.plan, each.log, ITERATIONS)[-1]) for name, each in done.items()}


if __name__ == "__main__":
    main()
