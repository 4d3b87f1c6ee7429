"""DCQCN in the emulation and in its fluid model: shares of 2, 4 and 8 flows, queues, marks and pauses; and what DCTCP,
cubic and BBR do in its place.

    python -m benchmarks.dcqcn [--rate 40gbit] [--flows 2,4,8] [--controls dcqcn,dctcp,cubic,bbr]
        [--pmax 0.01,0.1,1] [--chart docs/dcqcn.svg]

All flows go to one host and begin at once, at the line's rate. The first cuts leave them with unlike rates, from which the
fluid model begins (benchmarks/dcqcn_fluid.py): it says from when on every flow has its fair share within 5 %. Shares and
queues are measured from then on, for so long that chance moves no share by 5 %, which the model says as well (`noise`); of
others than DCQCN, for 0.1 s from the first cuts on. Switches have priority flow control, so nothing is dropped.

DCQCN is measured with each Pmax, for RED's slope decides how long the queue is: the model's fixed point needs a certain share
of marked packets, and a steep RED marks as many just above Kmin. Ends with status 1 if a share of DCQCN is off by more than
5 %, or if its queue is not that of the fixed point where RED has room for one (`ROOM`).
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import StrMethodFormatter

from benchmarks.dcqcn_fluid import (
    FAIR,
    Course,
    FixedPoint,
    Floats,
    Noise,
    Parameters,
    first_state,
    fixed_point,
    noise,
    solve,
)
from gradwire.agents.connections import DCQCN, SocketOptions
from gradwire.analysis.report.charts import PALETTE, STYLE, svg_text
from gradwire.datatypes.fabric import IP_TCP_HEADER_BYTES, Fabric
from gradwire.datatypes.lossless import WINDOW_BUFFERS, Lossless
from gradwire.datatypes.plan import OpKind
from gradwire.runs.replay import Reads, Replayed, replay_plans
from gradwire.workloads.builder import CONTROL_BYTES
from gradwire.workloads.patterns import Transfer, compile_transfers
from gradwire.workloads.units import RATE

COMPARED_S = 0.1
"""For how long others than DCQCN are measured."""
MODELLED_S = 0.1
"""For how long the model is followed: it is fair well before."""
MTU_BYTES = 4200
"""Of RoCE networks, for packets of 4,096 bytes."""
CUT_S = 3e-3
"""After so long, the first cuts are over: the queue that all made at the line's rate is empty again."""
MESSAGE_BYTES = 131_072
"""So often the log says how much of a flow has arrived."""
UNSENT_BYTES = 1 << 20
SAMPLE_NS = 50_000
DCTCP_K_BYTES = 65 * 1514
"""DCTCP's threshold at 10 Gbit/s in its paper (Alizadeh et al., SIGCOMM 2010, section 4): 65 packets."""
DRAWN_S = 1e-3
"""Rates are drawn as means of so long."""
DRAWN_TO_S = 60e-3
NEAR = 0.25
"""How far the mean queue may be from the model's fixed point, as a share of it; or by a packet (MTU_BYTES), of which a queue
is made and the model knows none."""
ROOM = 0.5
"""Where the fixed point needs more than this of Pmax, chance takes the queue beyond Kmax now and then. All packets are marked
there, all flows cut at once and the queue is emptied, so its mean is not the model's."""
MODELLED: Mapping[str, Any] = {"color": "#444444", "linewidth": 0.9, "linestyle": "--"}
HEAD = (
    "| | Pmax | flows | fair from, ms | measured for, ms | shares, of a fair one | by chance | queue, KB | 99 %, KB | by the model, KB |"
    " pauses | of the line | marks | of packets | again |"
)


@dataclass(frozen=True)
class Measured:
    """Flows to one host."""

    control: str
    #: Of DCQCN: how switches mark, what the model says from CUT_S on and where it ends, and what chance adds. None for others.
    red: Parameters | None
    course: Course | None
    fixed: FixedPoint | None
    noise: Noise | None
    replayed: Replayed
    #: From when on shares are to be fair, and when the first flow ended.
    span_s: tuple[float, float]
    #: When messages of each flow arrived, in time since the first began.
    arrivals_s: tuple[Floats, ...]

    @property
    def shares(self) -> Floats:
        """What each flow got in the span, over a fair share."""
        got = np.array([np.count_nonzero(self._inside(each)) for each in self.arrivals_s], dtype=np.float64)
        shares: Floats = got / got.mean()
        return shares

    @property
    def queue_bytes(self) -> tuple[Floats, Floats]:
        """Times since the first flow began, and what waited in front of the receiver."""
        queues = self.replayed.queues
        assert queues is not None
        return (queues.time_ns - self.begin_ns) / 1e9, queues.waiting_bytes.max(axis=1).astype(np.float64)

    @property
    def settled_queue_bytes(self) -> Floats:
        """What waited in the span."""
        times_s, waiting = self.queue_bytes
        return waiting[self._inside(times_s)]

    @property
    def is_as_modelled(self) -> bool:
        """Whether all shares are fair, and the queue is that of the fixed point where RED has room for it."""
        if self.red is None or self.fixed is None:
            return True
        off_bytes = abs(float(self.settled_queue_bytes.mean()) - self.fixed.state.queue_bytes)
        has_room = self.fixed.marked <= ROOM * self.red.pmax
        is_near = off_bytes <= max(NEAR * self.fixed.state.queue_bytes, MTU_BYTES)
        return float(np.abs(self.shares - 1).max()) <= FAIR and (is_near or not has_room)

    @property
    def marked(self) -> tuple[Floats, Floats]:
        """Times since the first flow began, and how many packets were marked so far."""
        queues = self.replayed.queues
        assert queues is not None
        assert queues.marks is not None
        marks = queues.marks.sum(axis=1)
        return (queues.time_ns - self.begin_ns) / 1e9, (marks - marks[0]).astype(np.float64)

    @property
    def use(self) -> float:
        """What all flows together got of the line in the span."""
        got = sum(np.count_nonzero(self._inside(each)) for each in self.arrivals_s) * MESSAGE_BYTES * 8
        line_bps = self.replayed.fabric.rate_bps * self.replayed.fabric.goodput_share()
        return got / (self.span_s[1] - self.span_s[0]) / line_bps

    @property
    def begin_ns(self) -> int:
        """When the first flow began, by the log's clock."""
        return first_begin_ns(self.replayed)

    def _inside(self, times_s: Floats) -> np.typing.NDArray[np.bool_]:
        return (times_s >= self.span_s[0]) & (times_s < self.span_s[1])


def first_begin_ns(replayed: Replayed) -> int:
    """When the first byte was to be sent."""
    ops, log = replayed.plan.ops, replayed.log
    data = (ops.kind == OpKind.SEND) & (ops.size_bytes > CONTROL_BYTES)
    return int(log.start_ns[data[log.op]].min())


def arrivals_s(replayed: Replayed, flows: int) -> tuple[Floats, ...]:
    """When each message of each flow had arrived, in time since the first began."""
    ops, log = replayed.plan.ops, replayed.log
    data = ((ops.kind == OpKind.RECV) & (ops.size_bytes > CONTROL_BYTES))[log.op]
    times_s = (log.end_ns[data] - first_begin_ns(replayed)) / 1e9
    sources = ops.peer[log.op[data]]
    return tuple(np.sort(times_s[sources == source]) for source in range(1, flows + 1))


def measure(control: str, flows: int, rate_bps: float, red: Parameters) -> Measured:
    """Replays the flows. Raises a Fault of the machine."""
    base = Fabric(flows + 1, rate_bps, classes=1, mtu_bytes=MTU_BYTES, gso_bytes=MTU_BYTES + 14, lossless=Lossless())
    line_bps = rate_bps * base.goodput_share()
    chance, fabric, window_s = None, base, COMPARED_S
    if control == DCQCN:
        chance = noise(line_bps, flows, red)
        window_s = MODELLED_S / 2 + chance.window_s()
        kmin_bytes, kmax_bytes = round(red.kmin_bytes), round(red.kmax_bytes)
        fabric = replace(base, ecn_bytes=kmin_bytes, ecn_most_bytes=kmax_bytes, ecn_share=red.pmax)
    elif control == "dctcp":
        fabric = replace(base, ecn_bytes=round(DCTCP_K_BYTES * max(1.0, rate_bps / 10e9)))
    count = math.ceil((CUT_S + window_s) * line_bps / 8 / flows / MESSAGE_BYTES)
    transfers = [Transfer(source, 0, count * MESSAGE_BYTES, messages=count) for source in range(1, flows + 1)]
    plan = compile_transfers(f"{control}-{flows}", flows + 1, transfers)
    sockets = SocketOptions(
        WINDOW_BUFFERS * Lossless().buffer_bytes,
        UNSENT_BYTES,
        control,
        line_bytes_per_s=round(line_bps / 8) if control == DCQCN else 0,
    )
    replayed = replay_plans(
        {"": plan}, fabric, 1, sockets=sockets, reads=Reads(counters=True, queue_period_ns=SAMPLE_NS)
    )[""]
    arrived_s = arrivals_s(replayed, flows)
    end_s = min(float(each[-1]) for each in arrived_s)
    if chance is None:
        return Measured(control, None, None, None, None, replayed, (CUT_S, end_s), arrived_s)
    around = np.array([CUT_S - CUT_S / 3, CUT_S + CUT_S / 3])
    # A slow flow may not have a whole message meanwhile.
    arrived = [float(np.ptp(np.interp(around, each, np.arange(len(each))))) for each in arrived_s]
    first_bps = [messages * MESSAGE_BYTES * 8 / float(np.ptp(around)) for messages in arrived]
    course = solve(line_bps, first_state(first_bps), MODELLED_S, red)
    fixed, fair_s = fixed_point(line_bps, flows, red), CUT_S + course.converged_s(line_bps)
    return Measured(control, red, course, fixed, chance, replayed, (fair_s, end_s), arrived_s)


def row(measured: Measured) -> str:
    """A line of the table."""
    counts, pauses = measured.replayed.counts, measured.replayed.pauses
    assert counts is not None
    assert pauses is not None
    queue_kb, fixed = measured.settled_queue_bytes / 1e3, measured.fixed
    marks, sent = sum(band.marks for band in counts.bands), counts.tcp_segments_sent
    cells = [
        f"`{measured.control}`",
        f"{measured.red.pmax:g}" if measured.red else "",
        str(len(measured.arrivals_s)),
        f"{measured.span_s[0] * 1e3:.1f}",
        f"{np.ptp(measured.span_s) * 1e3:.0f}",
        f"{measured.shares.min():.3f} to {measured.shares.max():.3f}",
        f"{measured.noise.deviation(float(np.ptp(measured.span_s))):.3f}" if measured.noise else "",
        f"{queue_kb.mean():.1f}",
        f"{np.percentile(queue_kb, 99):.1f}",
        f"{fixed.state.queue_bytes / 1e3:.1f}" if fixed else "",
        f"{sum(count.pauses for count in pauses.counts):,}",
        f"{measured.use:.1%}",
        f"{marks:,}",
        f"{marks / max(1, sent):.2%}",
        f"{counts.tcp_retransmits:,}",
    ]
    return f"| {' | '.join(cells)} |"


def chart(measured: Sequence[Measured]) -> Figure:
    """Rates, the queue and marks over time of the first number of flows, a column for each congestion control with its first
    Pmax."""
    flows = len(measured[0].arrivals_s)
    drawn = list({each.control: each for each in reversed(measured) if len(each.arrivals_s) == flows}.values())[::-1]
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(9.0, 7.2), layout="constrained")
        panels = figure.subplots(3, len(drawn), squeeze=False, sharex=True, sharey="row")
        for (rates, queue, marks), each in zip(panels.T, drawn, strict=True):
            _rates(rates, each)
            _queue(queue, each)
            _marks(marks, each)
        for panel, label in zip(panels[:, 0], ("Rate (Gbit/s)", "Queue (KB)", "Marks per ms"), strict=True):
            panel.set_ylabel(label)
        for row in panels:
            most = max(line.get_ydata().max() for panel in row for line in panel.lines)
            row[0].set_ylim(0, 1.1 * most)
            row[0].yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    return figure


def _rates(axes: Axes, measured: Measured) -> None:
    end_s = min(DRAWN_TO_S, measured.span_s[1])
    edges_s = np.arange(0.0, end_s, DRAWN_S)
    for number, arrived_s in enumerate(measured.arrivals_s):
        arrived = np.diff(np.interp(edges_s, [0.0, *arrived_s], np.arange(len(arrived_s) + 1)))
        color = PALETTE[number % len(PALETTE)]
        axes.plot(edges_s[:-1] * 1e3, arrived * MESSAGE_BYTES * 8 / DRAWN_S / 1e9, color=color, linewidth=0.9)
    if measured.course is not None:
        times_s = measured.course.time_s + CUT_S
        for rates_bps in measured.course.rates_bps[times_s < end_s].T:
            axes.plot(times_s[times_s < end_s] * 1e3, rates_bps / 1e9, **MODELLED)
    axes.set_title(measured.control, loc="left")


def _queue(axes: Axes, measured: Measured) -> None:
    times_s, waiting = measured.queue_bytes
    end_s = min(DRAWN_TO_S, measured.span_s[1])
    shown = (times_s >= 0) & (times_s < end_s)
    axes.plot(times_s[shown] * 1e3, waiting[shown] / 1e3, color=PALETTE[0], linewidth=0.9)
    if measured.course is not None:
        model_s = measured.course.time_s + CUT_S
        axes.plot(model_s[model_s < end_s] * 1e3, measured.course.queue_bytes[model_s < end_s] / 1e3, **MODELLED)
    axes.set_yscale("symlog", linthresh=10)


def _marks(axes: Axes, measured: Measured) -> None:
    times_s, marks = measured.marked
    edges_s = np.arange(0.0, min(DRAWN_TO_S, measured.span_s[1]), DRAWN_S)
    within = np.diff(np.interp(edges_s, times_s, marks)) / (DRAWN_S * 1e3)
    axes.plot(edges_s[:-1] * 1e3, within, color=PALETTE[0], linewidth=0.9)
    axes.set_yscale("symlog", linthresh=10)
    axes.set_xlabel("Time (ms)")


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the table, and draws the chart."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", default="40gbit", type=RATE.parse)
    parser.add_argument("--flows", default="2,4,8")
    parser.add_argument("--controls", default="dcqcn,dctcp,cubic,bbr")
    parser.add_argument("--pmax", default="0.01,0.1,1")
    parser.add_argument("--chart", type=Path)
    options = parser.parse_args(arguments)
    slopes = [float(each) for each in options.pmax.split(",")]
    reds = [Parameters(pmax=pmax, packet_bytes=MTU_BYTES - IP_TCP_HEADER_BYTES) for pmax in slopes]
    print(f"{HEAD}\n|{'---|' * (HEAD.count('|') - 1)}", flush=True)
    found = []
    for control in options.controls.split(","):
        for red in reds if control == DCQCN else reds[:1]:
            for flows in map(int, options.flows.split(",")):
                found.append(measure(control, flows, options.rate, red))
                print(row(found[-1]), flush=True)
    if options.chart is not None:
        options.chart.write_text(svg_text(chart(found)))
    return int(not all(each.is_as_modelled for each in found))


if __name__ == "__main__":
    sys.exit(main())
