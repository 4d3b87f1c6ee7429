"""DeepEP's dispatch and combine over leaves and spines, or over rails: by ECMP, by adaptive routing, and by others.

    python -m benchmarks.deepep [--ranks 32] [--routings ecmp,adaptive,balanced,spray] [--seeds 1,2,3] [--kernels normal,low-latency]

Servers have 8 GPUs with a NIC of 400 Gbit/s each. Either all NICs of a server are at one leaf, or each at the leaf of its rail; as
many spines as NICs at a leaf, so that nothing is oversubscribed. Sizes are DeepEP's (github.com/deepseek-ai/DeepEP, commit
0297fc80, docs/legacy): 7,168 features, 8 experts of each token, FP8 to the experts and BF16 back.

- "low-latency": 128 tokens of each rank go straight to the ranks of their experts; between GPUs of one server by NVLink.
- "normal": 4,096 tokens, each once to every server that has one of its experts, to the GPU with the sender's number, which
  passes it on by NVLink.

Experts are chosen by chance alike, and sizes are what is sent on average. Prints the time of a dispatch and of a combine, what it would
be at the NICs' rate, and the range over seeds.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from gradwire.analysis.iterations import iteration_times_s
from gradwire.network.fabric import Fabric, Topology
from gradwire.network.flowlets import FLOWLET_GAP_S
from gradwire.network.routing import Routing
from gradwire.runs.replay import replay_plans
from gradwire.workloads.patterns import Transfer, compile_transfers

RATE_BPS = 400e9
GPUS = 8
"""Of a server."""
FEATURES = 7168
FP8_BYTES = FEATURES + FEATURES // 128 * 4 + 16
"""Of a token: features, a scale for each 128 of them, and its number (num_fp8_bytes of DeepEP's tests)."""
BF16_BYTES = 2 * FEATURES
EXPERTS = 8
"""Of each token."""
TOKENS = {"low-latency": 128, "normal": 4096}
GROUPS = 4
"""Servers that a token's experts are at, at most (top-4 groups)."""
PUBLISHED_US = {
    ("low-latency", 16): (118, 195),
    ("low-latency", 32): (155, 273),
    ("low-latency", 64): (173, 314),
}
"""Latencies of dispatch and combine that docs/legacy has, with what GPUs do, on InfiniBand."""
ITERATIONS = 2
"""The first one warms up."""
HEAD = "| kernels | network | routing | dispatch, us | over ideal | combine, us | over ideal |"


@dataclass(frozen=True)
class Exchange:
    """What ranks send each other."""

    kernels: str
    ranks: int
    token_bytes: int

    def transfers(self) -> list[Transfer]:
        """One between any two ranks that exchange something over the network."""
        tokens, servers = TOKENS[self.kernels], self.ranks // GPUS
        pairs = [(a, b) for a in range(self.ranks) for b in range(self.ranks) if a // GPUS != b // GPUS]
        if self.kernels == "low-latency":
            return [Transfer(a, b, round(tokens * EXPERTS / self.ranks * self.token_bytes)) for a, b in pairs]
        chosen = min(GROUPS, servers)
        share = chosen / servers * (1 - (1 - 1 / chosen) ** EXPERTS)
        return [Transfer(a, b, round(tokens * share * self.token_bytes)) for a, b in pairs if a % GPUS == b % GPUS]

    def ideal_s(self, fabric: Fabric) -> float:
        """How long a NIC needs for what it sends."""
        sent_bytes = sum(each.size_bytes for each in self.transfers() if each.src == 0)
        return sent_bytes * 8 / RATE_BPS / fabric.goodput_share()

    def time_s(self, fabric: Fabric) -> float:
        """Replays the exchange. Raises a Fault of the machine."""
        plan = compile_transfers(self.kernels, self.ranks, self.transfers())
        replayed = replay_plans({"": plan}, fabric, ITERATIONS)[""]
        return float(iteration_times_s(plan, replayed.log, ITERATIONS)[-1])


def network(ranks: int, routing: Routing, seed: int, *, rails: bool) -> Fabric:
    """Leaves with 8 NICs each and 8 spines; with rails, as many leaves as a server has NICs."""
    leaves = GPUS if rails else ranks // GPUS
    return Fabric(
        ranks,
        RATE_BPS,
        Topology.LEAF_SPINE,
        leaves=leaves,
        spines=ranks // leaves,
        classes=1,
        mtu_bytes=4200,
        routing=routing,
        seed=seed,
        nics_per_host=GPUS,
        rails=rails,
        flowlet_gap_s=FLOWLET_GAP_S if routing.policy.chooses_for_flowlets else 0.0,
    )


def row(kernels: str, ranks: int, routing: Routing, seeds: Sequence[int], *, rails: bool) -> str:
    """A line of the table: medians over seeds, with the least and the most where they differ."""
    cells = [kernels, "rails" if rails else "a leaf for each server", f"`{routing}`"]
    for token_bytes in (FP8_BYTES, BF16_BYTES):
        exchange = Exchange(kernels, ranks, token_bytes)
        fabrics = [network(ranks, routing, seed, rails=rails) for seed in seeds]
        times_us = [exchange.time_s(fabric) * 1e6 for fabric in fabrics]
        median_us = statistics.median(times_us)
        spread = f" ({min(times_us):,.0f} to {max(times_us):,.0f})" if max(times_us) - min(times_us) >= 1 else ""
        cells += [f"{median_us:,.0f}{spread}", f"{median_us / exchange.ideal_s(fabrics[0]) / 1e6:.2f}"]
    return f"| {' | '.join(cells)} |"


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the table as it grows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", default=32, type=int)
    parser.add_argument("--routings", default="ecmp,adaptive,balanced,spray")
    parser.add_argument("--kernels", default="low-latency,normal")
    parser.add_argument("--seeds", default="1,2,3")
    chosen = parser.parse_args(arguments)
    print(f"{HEAD}\n|{'---|' * HEAD.count(' | ')}---|")
    for kernels in chosen.kernels.split(","):
        if (kernels, chosen.ranks) in PUBLISHED_US:
            dispatch_us, combine_us = PUBLISHED_US[kernels, chosen.ranks]
            print(f"| {kernels} | DeepEP, published | | {dispatch_us} | | {combine_us} | |")
        for rails in (False, True):
            for routing in map(Routing, chosen.routings.split(",")):
                seeds = [*map(int, chosen.seeds.split(","))]
                print(row(kernels, chosen.ranks, routing, seeds, rails=rails), flush=True)


if __name__ == "__main__":
    main()
