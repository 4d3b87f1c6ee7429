"""The cases of htsim's connection matrices in gradwire: how long flows take with each congestion control.

    python -m benchmarks.htsim_cases incast.cm [more.cm ...] [--controls reno,cubic,dctcp,dcqcn,swift,nscc] [--seeds 1,2,3]
        [--slow-link leaf1-spine1] [--buffer 892250B] [--kmin 37350B] [--kmax 145250B]

Files of flows that all begin at 0, `src->dst id N start 0 size BYTES`, as in csg-htsim's sim/datacenter/connection_matrices.
The network is htsim's: a fat tree of 16 hosts (four pods of two leaves, two spines and four cores), 100 Gbit/s,
1 us for each link, frames of 4 KiB; switches hash connections (ECMP). A slow link, both ways, has a quarter of its rate, as
`-failed 1` of htsim. Buffers and marks are those that htsim_uec prints with `-disable_trim`; for DCTCP all packets from kmin on are
marked. Prints the time of the last flow and of the median one, in the median of the seeds.
"""

from __future__ import annotations

import argparse
import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.transports import MTU_BYTES
from gradwire.agents.connections import KNOWS_LINE, SocketOptions
from gradwire.datatypes.plan import OpKind
from gradwire.network.fabric import Fabric, Topology
from gradwire.network.links import LinkSetting
from gradwire.network.routing import Routing
from gradwire.runs.replay import COUNTERS, ReplayedPlan, replay_plans
from gradwire.workloads.builder import CONTROL_BYTES
from gradwire.workloads.patterns import Transfer, compile_transfers
from gradwire.workloads.units import SIZE

_FLOW = re.compile(r"(\d+)->(\d+)(?: id \d+)? start 0 size (\d+)")
FAILED_SHARE = 0.25
"""What a failed link of htsim has of its rate (_failed_link_ratio of fat_tree_topology.cpp)."""
RED = ("dcqcn", "nscc")
HEAD = "| | control | last flow, us | median flow, us | drops | marks | again | timers |"


@dataclass(frozen=True)
class Sizes:
    """What a port of a switch holds, and between which lengths it marks more and more, up to all packets."""

    buffer_bytes: int
    kmin_bytes: int
    kmax_bytes: int


@dataclass(frozen=True)
class FlowTimes:
    """Of one case with one seed, from the first byte of all flows."""

    last_us: float
    median_us: float
    drops: int
    marks: int
    resent: int
    timers: int


def transfers_of(path: Path) -> list[Transfer]:
    """The flows of a connection matrix. Raises ValueError for one whose flows wait for others."""
    text = path.read_text(encoding="utf-8")
    flows = [Transfer(*map(int, found.groups())) for found in _FLOW.finditer(text)]
    if len(flows) != text.count("->"):
        raise ValueError(f"{path}: has flows that do not begin at 0")
    return flows


def network(control: str, seed: int, slow_link: str, sizes: Sizes) -> Fabric:
    """htsim's fat tree of 16 hosts."""
    slow = (LinkSetting(slow_link, rate_bps=FAILED_SHARE * 100e9),) if slow_link else ()
    return Fabric(
        16,
        100e9,
        Topology.FAT_TREE,
        pods=4,
        leaves=2,
        spines=2,
        cores=4,
        classes=1,
        mtu_bytes=MTU_BYTES,
        gso_bytes=MTU_BYTES + 14,
        delay_s=1e-6,
        routing=Routing.ECMP,
        seed=seed,
        buffer_bytes=sizes.buffer_bytes,
        ecn_bytes=sizes.kmin_bytes if control in (*RED, "dctcp") else 0,
        ecn_most_bytes=sizes.kmax_bytes if control in RED else 0,
        link_settings=slow,
    )


def measure(control: str, transfers: Sequence[Transfer], fabric: Fabric) -> FlowTimes:
    """Replays the flows once. Raises a Fault of the machine."""
    plan = compile_transfers(control, fabric.hosts, list(transfers))
    line = round(fabric.rate_bps * fabric.goodput_share() / 8) if control in KNOWS_LINE else 0
    sockets = SocketOptions(8 << 20, None, control, line_bytes_per_s=line)
    replayed = replay_plans({"": plan}, fabric, 1, sockets=sockets, reads=COUNTERS)[""]
    times_us, counts = flow_times_us(replayed), replayed.counts
    assert counts is not None
    return FlowTimes(
        float(times_us.max()),
        float(np.median(times_us)),
        sum(band.drops for band in counts.bands),
        sum(band.marks for band in counts.bands),
        counts.tcp_retransmits,
        counts.tcp_timeouts,
    )


def flow_times_us(replayed: ReplayedPlan) -> npt.NDArray[np.float64]:
    """When each flow had arrived, since the first began."""
    ops, log = replayed.plan.ops, replayed.log
    large = (ops.size_bytes > CONTROL_BYTES)[log.op]
    begin_ns = log.start_ns[large & (ops.kind == OpKind.SEND)[log.op]].min()
    times_us: npt.NDArray[np.float64] = (log.end_ns[large & (ops.kind == OpKind.RECV)[log.op]] - begin_ns) / 1e3
    return times_us


def row(name: str, control: str, found: Sequence[FlowTimes]) -> str:
    """A line of the table: medians over seeds, with the range of the last flow's time where it differs."""
    last = [each.last_us for each in found]
    spread = f" ({min(last):,.0f} to {max(last):,.0f})" if max(last) - min(last) >= 1 else ""
    cells = [
        name,
        f"`{control}`",
        f"{statistics.median(last):,.0f}{spread}",
        f"{statistics.median(each.median_us for each in found):,.0f}",
        *(
            f"{statistics.median(getattr(each, field) for each in found):,.0f}"
            for field in ("drops", "marks", "resent", "timers")
        ),
    ]
    return f"| {' | '.join(cells)} |"


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the table as it grows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--controls", default="reno,cubic,dctcp,dcqcn,swift,nscc")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--slow-link", default="")
    for name, size in {"--buffer": "892250B", "--kmin": "37350B", "--kmax": "145250B"}.items():
        parser.add_argument(name, default=size, type=SIZE.parse)
    chosen = parser.parse_args(arguments)
    print(f"{HEAD}\n|{'---|' * HEAD.count(' | ')}---|")
    sizes = Sizes(round(chosen.buffer), round(chosen.kmin), round(chosen.kmax))
    for path in chosen.files:
        transfers = transfers_of(path)
        for control in chosen.controls.split(","):
            seeds = map(int, chosen.seeds.split(","))
            fabrics = [network(control, seed, chosen.slow_link, sizes) for seed in seeds]
            print(row(path.stem, control, [measure(control, transfers, each) for each in fabrics]), flush=True)


if __name__ == "__main__":
    main()
