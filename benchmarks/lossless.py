"""The cases that operators test on lossless Ethernet: incast, all-to-all and ring, of 8 ports on one leaf and of 16 over
two leaves and a spine, with priority flow control; and a victim of somebody else's incast.

    python -m benchmarks.lossless [--rate 100gbit] [--size 20MB] [--json FILE] [--expect incast=94.2gbit:1%]

Prints a row for each case: the job completion time, the payload that a receiver gets per second, pauses, how long
ports stood still, the most that a switch's port had waiting, marks, and drops. Then what the victim gets in the class of
the incast and in its own, with what theory says. Ends with status 1 if anything is dropped, a pause does not end, or a
case is slower than expected: `--expect CASE=RATE:TOLERANCE` is for both networks, `--expect 16/CASE=RATE:TOLERANCE` for the
one of 16 ports, and may be given several times.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from gradwire.agents.connections import SocketOptions
from gradwire.analysis.iterations import iteration_times_s
from gradwire.datatypes.plan import OpKind, Plan
from gradwire.network.fabric import Fabric, Topology
from gradwire.network.lossless import GSO_BYTES, WINDOW_BUFFERS, Lossless
from gradwire.runs.replay import COUNTERS, ReplayedPlan, replay_plans
from gradwire.workloads.builder import CONTROL_BYTES
from gradwire.workloads.patterns import Transfer, all_to_all, compile_transfers, incast, ring
from gradwire.workloads.units import RATE, SIZE

TRIANGLE = """switch,destination,next
s1,h2,s3
s1,h3,s3
s3,h2,s2
s3,h1,s2
s2,h1,s1
s2,h3,s1
"""
"""Routes of three switches in a ring that go the long way to the next host: they deadlock."""
ITERATIONS = 3
"""The first one warms up."""
CASES: dict[str, Callable[[int, int], list[Transfer]]] = {
    "incast": incast,
    "all-to-all": lambda hosts, size_bytes: all_to_all(hosts, size_bytes // (hosts - 1)),
    "ring": ring,
}
"""Each host sends `size_bytes` in all, but the receiver of the incast."""
HEAD = "| | completion, ms | of ideal | bandwidth, Gbit/s | pauses | stood still, ms | most waiting, MB | headroom | marks | dropped |"
JUMBO_BYTES = 9014
"""The victim's bursts: theory is of frames that take turns one by one."""
VICTIM_BUFFER_BYTES = 3_000_000
"""Smaller than most, so that pauses spread before the victim is done."""


@dataclass(frozen=True)
class Row:
    """One case on one network."""

    name: str
    completion_s: float
    ideal_s: float
    #: Payload that the busiest receiver gets.
    bandwidth_bps: float
    pauses: int
    stood_still_s: float
    most_bytes: int
    headroom_share: float
    marks: int
    dropped: int
    all_ended: bool
    ports: int


@dataclass(frozen=True)
class Expectation:
    """The least bandwidth of a case; of one network, or of all where `ports` is 0."""

    text: str
    case: str
    ports: int
    least_bps: float

    def failed(self, row: Row) -> bool:
        """Whether it is for this row, which is slower."""
        return self.case == row.name and self.ports in (0, row.ports) and row.bandwidth_bps < self.least_bps


_EXPECTATION = re.compile(r"(?:(?P<ports>\d+)/)?(?P<case>[a-z-]+)=(?P<rate>[^:]+)(?::(?P<percent>\d+(?:\.\d+)?)%)?")


def expectation_of(text: str) -> Expectation:
    """Reads "16/incast=94.2gbit:1%". Raises ValueError for what is not one, or is of a case or a network that there is not."""
    found = _EXPECTATION.fullmatch(text)
    if found is None:
        raise ValueError(f"{text}: must be [PORTS/]CASE=RATE[:TOLERANCE%], such as 16/incast=94.2gbit:1%")
    case, ports = found["case"], int(found["ports"] or 0)
    known = sorted(fabric.hosts for fabric in networks(1e9).values())
    if case not in CASES:
        raise ValueError(f"{text}: there is no case '{case}'; cases are {', '.join(CASES)}")
    if ports and ports not in known:
        raise ValueError(f"{text}: there is no network of {ports} ports; there are those of {known[0]} and {known[1]}")
    try:
        rate_bps = RATE.parse(found["rate"])
    except ValueError as error:
        raise ValueError(f"{text}: its rate {error}") from error
    return Expectation(text, case, ports, rate_bps * (1 - float(found["percent"] or 0) / 100))


def networks(rate_bps: float) -> dict[str, Fabric]:
    """8 ports on one leaf, and 16 over two leaves and a spine, without oversubscription."""
    one = Fabric(8, rate_bps, classes=1, gso_bytes=GSO_BYTES, lossless=Lossless())
    return {
        "8 ports, one leaf": one,
        "16 ports, two leaves": replace(one, hosts=16, topology=Topology.LEAF_SPINE, leaves=2, spines=1),
    }


def sockets_of(fabric: Fabric) -> SocketOptions:
    """Windows that hold more than all buffers, so that pauses are what holds senders back."""
    assert fabric.lossless is not None
    return SocketOptions(WINDOW_BUFFERS * fabric.lossless.buffer_bytes, unsent_bytes=None)


def measure(name: str, fabric: Fabric, transfers: Sequence[Transfer]) -> Row:
    """Replays the transfers of a case. Raises MachineFault if the network deadlocks."""
    plan = compile_transfers(name, fabric.hosts, list(transfers))
    replayed = replay_plans({name: plan}, fabric, ITERATIONS, sockets=sockets_of(fabric), reads=COUNTERS)[name]
    assert replayed.counts is not None
    assert replayed.pauses is not None
    received = np.bincount([each.dst for each in transfers], [each.size_bytes for each in transfers], fabric.hosts)
    sent = np.bincount([each.src for each in transfers], [each.size_bytes for each in transfers], fabric.hosts)
    completion_s = float(iteration_times_s(plan, replayed.log, ITERATIONS)[1:].mean())
    counts = replayed.pauses.counts
    inputs = [count for count in counts if count.headroom_bytes]
    return Row(
        name,
        completion_s,
        float(max(received.max(), sent.max())) * 8 / fabric.rate_bps / fabric.goodput_share(),
        float(received.max()) * 8 / completion_s,
        sum(count.pauses for count in counts),
        sum(count.stopped_ns for count in counts) / 1e9,
        max(count.most_bytes for count in inputs),
        max(count.most_headroom_bytes / count.headroom_bytes for count in inputs),
        sum(band.marks for band in replayed.counts.bands),
        sum(count.dropped for count in counts) + sum(band.drops for band in replayed.counts.bands),
        all(count.pauses == count.resumes for count in counts),
        fabric.hosts,
    )


def text_of(row: Row) -> str:
    """A line of the table."""
    cells = [
        row.name,
        f"{row.completion_s * 1e3:.3f}",
        f"{row.completion_s / row.ideal_s:.3f}",
        f"{row.bandwidth_bps / 1e9:.2f}",
        f"{row.pauses:,}",
        f"{row.stood_still_s * 1e3:.2f}",
        f"{row.most_bytes / 1e6:.2f}",
        f"{row.headroom_share:.0%}",
        f"{row.marks:,}",
        str(row.dropped),
    ]
    return f"| {' | '.join(cells)} |"


def flow_rates_bps(replayed: ReplayedPlan) -> dict[tuple[int, int], float]:
    """Payload rate of each transfer of the last iteration, from its first byte to its last, by the hosts' indices."""
    ops, log = replayed.plan.ops, replayed.log
    last = log.iteration == log.iteration.max()
    begun = dict(zip(log.op[last].tolist(), log.start_ns[last].tolist(), strict=True))
    ended = dict(zip(log.op[last].tolist(), log.end_ns[last].tolist(), strict=True))
    large = ops.size_bytes > CONTROL_BYTES
    recvs = {
        (int(ops.peer[at]), int(ops.rank[at])): at for at in np.flatnonzero(large & (ops.kind == OpKind.RECV)).tolist()
    }
    return {
        pair: int(ops.size_bytes[send]) * 8e9 / (ended[recvs[pair]] - begun[send])
        for send in np.flatnonzero(large & (ops.kind == OpKind.SEND)).tolist()
        for pair in [(int(ops.rank[send]), int(ops.peer[send]))]
    }


def victim_plans(names: Iterable[str]) -> dict[str, Plan]:
    """The same plan twice, with the victim's flow in class 0 and in class 1, by these names."""
    crowd = [Transfer(0, 4, 60_000_000), Transfer(6, 4, 90_000_000), Transfer(7, 4, 90_000_000)]
    return {
        name: compile_transfers(name, 8, [*crowd, Transfer(1, 5, 40_000_000, traffic_class)])
        for traffic_class, name in enumerate(names)
    }


def victim_lines(rate_bps: float) -> list[str]:
    """Three hosts send to h5, h1 of them over the line between the leaves. h2 sends over it too, to h6, which is idle."""
    base = Fabric(
        8, rate_bps, Topology.LEAF_SPINE, leaves=2, spines=1, oversubscription=4, classes=2, gso_bytes=JUMBO_BYTES
    )
    paused = replace(base, lossless=Lossless(buffer_bytes=VICTIM_BUFFER_BYTES))
    line_bps = rate_bps * base.goodput_share()
    lines = ["| victim | theory, Gbit/s | measured, Gbit/s |", "|---|---|---|"]
    theories_bps = {"in the class of the incast": line_bps / 3, "in its own class": line_bps * 2 / 3}
    plans = victim_plans(theories_bps)
    for name, replayed in replay_plans(plans, paused, 2, sockets=sockets_of(paused)).items():
        theory_bps = theories_bps[name]
        lines.append(f"| {name} | {theory_bps / 1e9:.2f} | {flow_rates_bps(replayed)[1, 5] / 1e9:.2f} |")
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", default="100gbit", type=RATE.parse)
    parser.add_argument("--size", default="20MB", type=lambda text: round(SIZE.parse(text)))
    parser.add_argument("--json", type=Path)
    parser.add_argument(
        "--expect", action="append", default=[], type=_expectation, metavar="[PORTS/]CASE=RATE[:TOLERANCE%]"
    )
    options = parser.parse_args(arguments)
    rows = []
    for network, fabric in networks(options.rate).items():
        print(f"\n{network}\n\n{HEAD}\n|{'---|' * HEAD.count(' | ')}---|")
        for case, transfers in CASES.items():
            rows.append(measure(case, fabric, transfers(fabric.hosts, options.size)))
            print(text_of(rows[-1]), flush=True)
    print("", *victim_lines(options.rate), sep="\n")
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    missed = [(each, row) for each in options.expect for row in rows if each.failed(row)]
    for each, row in missed:
        print(
            f"not as expected, {each.text}: {row.bandwidth_bps / 1e9:.2f} Gbit/s on {row.ports} ports", file=sys.stderr
        )
    return int(bool(missed) or any(row.dropped or not row.all_ended for row in rows))


def _expectation(text: str) -> Expectation:
    try:
        return expectation_of(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


if __name__ == "__main__":
    sys.exit(main())
