"""One flow, incast, ring and all-to-all on networks of several shapes, with delays of 1 us, 1 ms and 100 ms: measured
over ideal.

    .venv/bin/python benchmarks/patterns_on_graphs.py [--only NAME] [--delays 1us,1ms,100ms] [--size 20000000]

The last of three iterations of each pattern on the virtual clock, over its time on the fluid engine's ideal network.
Prints a table, which docs/networks.md sums up.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import networkx as nx

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from gradwire.agents.connections import SocketOptions
from gradwire.analysis.fluid.estimate import estimate
from gradwire.analysis.iterations import iteration_times_s
from gradwire.datatypes.fabric import Fabric, Topology
from gradwire.datatypes.links import LinkSetting
from gradwire.datatypes.network_graph import dragonfly, full_mesh, ring, spread, torus
from gradwire.datatypes.path_delays import enough_buffer_bytes, round_trip_bytes
from gradwire.runs.replay import replay_plans
from gradwire.scenario.loading import load_scenario
from gradwire.scenario.resolution.compilation import compile_point
from gradwire.workloads.patterns import Transfer, all_to_all, compile_transfers, incast, one
from gradwire.workloads.patterns import ring as ring_of

RATE_BPS = 10e9
SIZE_BYTES = 20_000_000
ITERATIONS = 3
DELAYS_S = {"1us": 1e-6, "1ms": 1e-3, "100ms": 0.1}
SCENARIO = """
title = "A network in a file"
cluster.workers = {hosts}
fabric = {{ rate = "10gbit", file = "{file}" }}
model = {{ name = "alexnet", device = "k40" }}
strategy.name = "ring"
"""
TOPO = """
from mininet.link import TCLink
from mininet.topo import Topo


class Campus(Topo):
    def build(self):
        a, b, c, d = (self.addSwitch(f"s{number}") for number in range(1, 5))
        for number, switch in enumerate((a, a, b, c, d, d), start=1):
            self.addLink(self.addHost(f"h{number}"), switch, cls=TCLink, bw=10000)
        for near, far, bw in ((a, b, 10000), (b, c, 5000), (c, d, 10000), (d, a, 2500)):
            self.addLink(near, far, cls=TCLink, bw=bw)
"""


def built_in(hosts: int, switches: int, pairs: list[tuple[int, int]]) -> Fabric:
    """A network whose links are all alike."""
    return Fabric(hosts, RATE_BPS, Topology.CUSTOM, classes=1, graph=spread(hosts, switches, pairs, RATE_BPS, ""))


def from_files(folder: Path) -> dict[str, Fabric]:
    """A network of a GraphML file (the Petersen graph), and one of a Topo, with unequal rates."""
    nx.write_graphml(
        nx.from_edgelist((f"s{a + 1}", f"s{b + 1}") for a, b in nx.petersen_graph().edges), folder / "petersen.graphml"
    )
    (folder / "lab.py").write_text(TOPO)
    found = {}
    for name, file, hosts in (("GraphML", "petersen.graphml", 10), ("Mininet Topo", "lab.py:Campus", 6)):
        (folder / "file.toml").write_text(SCENARIO.format(file=file, hosts=hosts))
        (point,) = load_scenario(folder / "file.toml").points
        found[name] = replace(compile_point(point.section).fabric, classes=1)
    return found


def networks(folder: Path) -> dict[str, Fabric]:
    """By what the table calls them."""
    triangle = built_in(3, 3, full_mesh(3))
    slow = (LinkSetting("s1-s2", rate_bps=2.5e9), LinkSetting("h3", rate_bps=5e9))
    return {
        "triangle": triangle,
        "triangle, unequal rates": replace(triangle, link_settings=slow),
        "ring of 6": built_in(6, 6, ring(6)),
        "torus 4 x 4": built_in(16, 16, torus((4, 4))),
        "dragonfly of 12": built_in(12, 12, dragonfly(4, 3, 1)),
        **from_files(folder),
    }


def ratios(fabric: Fabric, size_bytes: int) -> dict[str, float]:
    """Measured over ideal, by pattern. size_bytes: of each message."""
    patterns: Mapping[str, list[Transfer]] = {
        "one flow": one(size_bytes),
        "incast": incast(fabric.hosts, size_bytes),
        "ring": ring_of(fabric.hosts, size_bytes),
        "all-to-all": all_to_all(fabric.hosts, size_bytes),
    }
    plans = {name: compile_transfers(name, fabric.hosts, transfers) for name, transfers in patterns.items()}
    path_bytes = round_trip_bytes(fabric, ())
    sockets = SocketOptions(enough_buffer_bytes(path_bytes), None, path_bytes=path_bytes)
    done = replay_plans(plans, fabric, ITERATIONS, sockets=sockets)
    return {
        name: float(iteration_times_s(each.plan, each.log, ITERATIONS)[-1])
        / estimate(each.plan, each.fabric).iteration_s
        for name, each in done.items()
    }


def main() -> None:
    """Reads the arguments and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="networks whose names have this in them")
    parser.add_argument("--delays", default=",".join(DELAYS_S))
    parser.add_argument("--size", type=int, default=SIZE_BYTES, help="bytes of each message")
    arguments = parser.parse_args()
    print("| network | delay of each link | one flow | incast | ring | all-to-all |\n|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name, fabric in networks(Path(folder)).items():
            if arguments.only and arguments.only not in name:
                continue
            for delay in arguments.delays.split(","):
                found = ratios(replace(fabric, delay_s=DELAYS_S[delay]), arguments.size)
                print(f"| {name} | {delay} | {' | '.join(f'{ratio:.4f}' for ratio in found.values())} |", flush=True)


if __name__ == "__main__":
    main()
