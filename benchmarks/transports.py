"""Swift and NSCC beside their theory: how long the queue is, whether shares are fair, and how well the line is used.

    python -m benchmarks.transports [--rate 100gbit] [--delay 1us] [--flows 2,4,8,16] [--controls swift,nscc] [--marks 25KB]
        [--gso BYTES] [--length 20ms]

Flows of one host each go to one more host, past one switch whose queues are deep, with frames of 4 KiB. The first half
of the time is left out. Swift's queue is what fills its target: net.ipv4.tcp_swift_queue_us, and what flow-based scaling
adds for the window that then is each flow's share (`swift_target_s`). NSCC cuts where packets are marked and wait for
longer than its target, a round trip; its queue is the longer of both (`nscc_queue_s`).
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gradwire.agents.connections import KNOWS_LINE, SocketOptions
from gradwire.datatypes.plan import OpKind
from gradwire.network.fabric import Fabric
from gradwire.network.path_delays import longest_round_trip_s
from gradwire.runs.replay import Reads, ReplayedPlan, replay_plans
from gradwire.workloads.builder import CONTROL_BYTES
from gradwire.workloads.patterns import Transfer, compile_transfers
from gradwire.workloads.units import DURATION, RATE, SIZE

MTU_BYTES = 4148
"""For segments of 4,096 bytes, as in htsim."""
FRAME_BYTES = MTU_BYTES + 38
"""What such a segment takes of a line."""
MESSAGE_BYTES = 65_536
"""So often the log says how much of a flow has arrived."""
SAMPLE_NS = 2_000
SWIFT_QUEUE_S, SWIFT_SCALING_S = 25e-6, 100e-6
"""What the kernel's parameters are, net.ipv4.tcp_swift_queue_us and tcp_swift_scaling_us."""
FEWEST, MOST = 0.1, 100.0
"""Windows in packets between which Swift scales its target (fs_min_cwnd and fs_max_cwnd of the paper's section 3.5)."""
NSCC_MOST = 1.5
"""NSCC's largest window over what a round trip holds."""
MARKED = ("dctcp", "nscc")
HEAD = "| control | flows | queue, us | by theory, us | 1 %, us | 99 %, us | shares, of a fair one | of the line | marks | again |"


@dataclass(frozen=True)
class Shared:
    """Flows that share a line, in the second half of their time."""

    control: str
    fabric: Fabric
    replayed: ReplayedPlan
    flows: int

    def row(self) -> str:
        """A line of the table."""
        counts, queues = self.replayed.counts, self.replayed.queues
        assert counts is not None
        assert queues is not None
        arrived_s = [times - self._begin_s for times in arrivals_s(self.replayed, self.flows)]
        end_s = min(float(times[-1]) for times in arrived_s)
        got = np.array(
            [np.count_nonzero((times >= end_s / 2) & (times < end_s)) for times in arrived_s], dtype=np.float64
        )
        times_s = queues.time_ns / 1e9 - self._begin_s
        inside = (times_s >= end_s / 2) & (times_s < end_s)
        queue_us = queues.waiting_bytes[inside].max(axis=1) * 8 / self.fabric.rate_bps * 1e6
        use = got.sum() * MESSAGE_BYTES * 8 / (end_s / 2) / (self.fabric.rate_bps * self.fabric.goodput_share())
        theory_s = THEORIES[self.control](self.fabric, self.flows) if self.control in THEORIES else math.nan
        cells = [
            f"`{self.control}`",
            str(self.flows),
            f"{queue_us.mean():.1f}",
            "" if math.isnan(theory_s) else f"{theory_s * 1e6:.1f}",
            f"{np.percentile(queue_us, 1):.1f}",
            f"{np.percentile(queue_us, 99):.1f}",
            f"{(got / got.mean()).min():.3f} to {(got / got.mean()).max():.3f}",
            f"{use:.1%}",
            f"{sum(band.marks for band in counts.bands):,}",
            f"{counts.tcp_retransmits:,}",
        ]
        return f"| {' | '.join(cells)} |"

    @property
    def _begin_s(self) -> float:
        ops, log = self.replayed.plan.ops, self.replayed.log
        return (
            int(log.start_ns[(ops.kind == OpKind.SEND)[log.op] & (ops.size_bytes > CONTROL_BYTES)[log.op]].min()) / 1e9
        )


def arrivals_s(replayed: ReplayedPlan, flows: int) -> list[npt.NDArray[np.float64]]:
    """When each message of each flow had arrived."""
    ops, log = replayed.plan.ops, replayed.log
    data = ((ops.kind == OpKind.RECV) & (ops.size_bytes > CONTROL_BYTES))[log.op]
    sources = ops.peer[log.op[data]]
    return [np.sort(log.end_ns[data][sources == source] / 1e9) for source in range(1, flows + 1)]


def swift_target_s(base_s: float, window: float) -> float:
    """Swift's target for the round trip of a flow whose window is so many packets."""
    alpha = SWIFT_SCALING_S / (1 / math.sqrt(FEWEST) - 1 / math.sqrt(MOST))
    scaling_s = alpha * (1 / math.sqrt(window) - 1 / math.sqrt(MOST))
    return base_s + SWIFT_QUEUE_S + min(max(0.0, scaling_s), SWIFT_SCALING_S)


def swift_queue_s(fabric: Fabric, flows: int) -> float:
    """How long packets wait where each flow's window is its share of what its target holds."""
    base_s = longest_round_trip_s(fabric, ())
    target_s = base_s + SWIFT_QUEUE_S
    for _ in range(100):
        target_s = swift_target_s(base_s, target_s * fabric.rate_bps / 8 / FRAME_BYTES / flows)
    return target_s - base_s


def nscc_queue_s(fabric: Fabric, flows: int) -> float:
    """How long packets wait where NSCC's target is met and packets are marked; or what its largest or its smallest windows hold,
    if that is less or more."""
    base_s = longest_round_trip_s(fabric, ())
    smallest_s = flows * FRAME_BYTES * 8 / fabric.rate_bps - base_s
    marked_s = fabric.ecn_bytes * 8 / fabric.rate_bps
    return max(smallest_s, min(max(base_s, marked_s), (NSCC_MOST * flows - 1) * base_s))


THEORIES = {"swift": swift_queue_s, "nscc": nscc_queue_s}


def share(control: str, base: Fabric, flows: int, marks_bytes: int, length_s: float) -> Shared:
    """Replays flows that share the line to one host. marks_bytes: from where on packets are marked, for those that react.

    Raises a Fault of the machine.
    """
    fabric = Fabric(
        flows + 1,
        base.rate_bps,
        classes=1,
        mtu_bytes=MTU_BYTES,
        gso_bytes=base.gso_bytes,
        delay_s=base.delay_s,
        ecn_bytes=marks_bytes if control in MARKED else 0,
        buffer_bytes=0 if control in MARKED else 100_000_000,
    )
    line_bps = fabric.rate_bps * fabric.goodput_share()
    count = math.ceil(length_s * line_bps / 8 / flows / MESSAGE_BYTES)
    transfers = [Transfer(source, 0, count * MESSAGE_BYTES, messages=count) for source in range(1, flows + 1)]
    plan = compile_transfers(f"{control}-{flows}", flows + 1, transfers)
    line = round(line_bps / 8) if control in KNOWS_LINE else 0
    sockets = SocketOptions(8 << 20, 1 << 20, control, line_bytes_per_s=line)
    reads = Reads(counters=True, queue_period_ns=SAMPLE_NS)
    return Shared(control, fabric, replay_plans({"": plan}, fabric, 1, sockets=sockets, reads=reads)[""], flows)


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the table as it grows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", default="100gbit", type=RATE.parse)
    parser.add_argument("--delay", default="1us", type=DURATION.parse)
    parser.add_argument("--length", default="20ms", type=DURATION.parse)
    parser.add_argument("--flows", default="2,4,8,16")
    parser.add_argument("--controls", default="swift,nscc")
    parser.add_argument("--marks", default="25KB", type=SIZE.parse)
    parser.add_argument("--gso", type=int, default=MTU_BYTES + 14)
    chosen = parser.parse_args(arguments)
    base = Fabric(2, chosen.rate, gso_bytes=chosen.gso, delay_s=chosen.delay)
    print(f"{HEAD}\n|{'---|' * HEAD.count(' | ')}---|")
    for control in chosen.controls.split(","):
        for flows in map(int, chosen.flows.split(",")):
            print(share(control, base, flows, round(chosen.marks), chosen.length).row(), flush=True)


if __name__ == "__main__":
    main()
