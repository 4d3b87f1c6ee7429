"""How switches that hash connections spread 10,000 of them over 4 spines: as many bytes as the binomial distribution says, and each
connection on the way that is known before the run.

    .venv/bin/python -m benchmarks.hashed_flows [--flows 10000] [--seeds 3] [--size 65536]

An ordinary program on a host opens TCP connections to a host at another leaf, one after the other from different ports, and sends the
same on each. The counters of Open vSwitch's ports then say how many bytes went up to each spine. Where each connection goes by chance,
the number at a spine is binomial: mean n p, standard deviation sqrt(n p (1 - p)), with p = 1/4. The last column is the probability that
chance alone is as far from even (chi-squared).
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
from collections import Counter
from pathlib import Path

from benchmarks.commands import gradwire
from gradwire.datatypes.fabric import Fabric, Routing, Topology
from gradwire.datatypes.hashed_routes import HashedRoutes
from gradwire.datatypes.switch_hash import FlowPorts

SPINES = 4
FIRST_PORT, SERVER_PORT = 10_000, 5001
SCENARIO = """
title = "Connections that switches hash"
cluster.workers = 2
model = {{ name = "alexnet", device = "k40" }}
strategy.name = "ring"
run.seed = {seed}
[fabric]
rate = "100gbit"
topology = "leaf-spine"
leaves = 2
spines = 4
routing = "ecmp"
"""
PROGRAM = """
import os, socket, sys, time
flows, size = int(sys.argv[1]), int(sys.argv[2])
FIRST_PORT, SERVER_PORT = int(sys.argv[3]), int(sys.argv[4])
if os.environ["GRADWIRE_HOST"] == "h2":
    listener = socket.create_server(("", SERVER_PORT), backlog=64)
    for _ in range(flows):
        with listener.accept()[0] as taken:
            while taken.recv(1 << 20):
                pass
            taken.sendall(b"x")
else:
    time.sleep(1)
    data = bytes(size)
    for number in range(flows):
        with socket.socket() as own:
            own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            own.bind(("", FIRST_PORT + number))
            own.connect(("10.0.0.2", SERVER_PORT))
            own.sendall(data)
            own.shutdown(socket.SHUT_WR)
            own.recv(1)
"""


def uplinks(fabric: Fabric) -> dict[int, str]:
    """The port of the first leaf at each of its links to a spine, by the link's number in `Fabric.trunk_links`."""
    leaf = fabric.switch_names()[0]
    ends = {number: (link.a, link.b) for number, link in enumerate(fabric.trunk_links())}
    return {
        number: f"{port.device}-eth{port.number}"
        for number, both in ends.items()
        for port in both
        if port.device == leaf
    }


def foreseen(fabric: Fabric, flows: int) -> Counter[int]:
    """How many connections take each link up, by the hash that gradwire computes."""
    routes = HashedRoutes(fabric)
    found: Counter[int] = Counter()
    for number in range(flows):
        (up, _), _ = routes.steps(0, 1, FlowPorts(FIRST_PORT + number, SERVER_PORT))
        found[up] += 1
    return found


def sent_bytes(seed: int, flows: int, size_bytes: int) -> dict[str, int]:
    """What each port sent, with the frames' headers. Raises RuntimeError if the program did not come to its end."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "hashed.toml").write_text(SCENARIO.format(seed=seed))
        (folder / "flows.py").write_text(PROGRAM)
        words = ("python3", str(folder / "flows.py"), f"{flows}", f"{size_bytes}", f"{FIRST_PORT}", f"{SERVER_PORT}")
        done = gradwire("exec", str(folder / "hashed.toml"), "--out", str(folder / "run"), "--", *words, cwd=folder)
        if done.returncode:
            raise RuntimeError(done.stdout + done.stderr)
        report = json.loads((folder / "run" / "summary.json").read_text())["report"]
        return {port["interface"]: port["sent_bytes"] for port in report["ports"]}


def chance(counts: list[float], flows: int) -> float:
    """The probability that even shares are as far off: the tail of the chi-squared distribution with SPINES - 1 = 3 degrees of freedom."""
    expected = flows / SPINES
    value = sum((count - expected) ** 2 / expected for count in counts)
    return math.erfc(math.sqrt(value / 2)) + math.sqrt(2 * value / math.pi) * math.exp(-value / 2)


def main() -> None:
    """Reads the arguments and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flows", type=int, default=10_000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--size", type=int, default=65_536, help="bytes that each connection sends")
    arguments = parser.parse_args()
    mean, deviation = arguments.flows / SPINES, math.sqrt(arguments.flows * (1 - 1 / SPINES) / SPINES)
    print(
        f"{arguments.flows} connections: {mean:.0f} at each spine, plus or minus {deviation:.1f}, by the binomial distribution\n"
    )
    print(
        "| seed | at each spine, foreseen | by the switch's bytes | standard deviations off | chance |\n|---|---|---|---|---|"
    )
    for seed in range(1, arguments.seeds + 1):
        fabric = Fabric(2, 1e11, Topology.LEAF_SPINE, leaves=2, spines=SPINES, routing=Routing.ECMP, seed=seed)
        known, ports = foreseen(fabric, arguments.flows), uplinks(fabric)
        sent = sent_bytes(seed, arguments.flows, arguments.size)
        whole = sum(sent[name] for name in ports.values())
        seen = [arguments.flows * sent[name] / whole for name in ports.values()]
        off = [(count - mean) / deviation for count in seen]
        print(
            f"| {seed} | {', '.join(str(known[number]) for number in ports)} | {', '.join(f'{count:.1f}' for count in seen)} | "
            f"{', '.join(f'{each:+.2f}' for each in off)} | {chance(seen, arguments.flows):.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
