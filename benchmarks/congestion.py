"""Incast of seven senders to one, with cubic, DCTCP and BBR, in buffers of 100 KB, of 1 MB, and in deep ones.

    python -m benchmarks.congestion [--sizes 2MB,2.01MB] [--iterations 4] [--out FOLDER] [--chart docs/congestion.svg]

Seven workers push a tensor each to one parameter server at 10 Gbit/s, past one switch, and pull it again. Prints a row
for each congestion control and buffer: the iteration time, the times of the pushes, what was dropped, marked and sent
again, and how long the queue in front of the server was while pushes were under way. Which packet finds a full buffer
depends on nanoseconds before it, so a row is of several tensors of nearly the same size: the median, and the least and
the most where they differ. Draws the queue over time, for the first size. Points that ran in the folder before do not
run again.
"""

from __future__ import annotations

import argparse
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import gradwire
from gradwire.analysis.congestion_report import QueueUse, queue_uses
from gradwire.analysis.report.charts import PALETTE, STYLE, svg_text
from gradwire.datatypes.records import NetworkCounts, QueueLengths
from gradwire.runs.stored.stored_run import StoredRun

SENDERS = 7
RATE = "10gbit"
FRAME_BYTES = 1514
FEW, MANY = 20 * FRAME_BYTES, 65 * FRAME_BYTES
"""DCTCP's K at 1 and at 10 Gbit/s in its paper (Alizadeh et al., SIGCOMM 2010, section 4): 20 and 65 packets. Section
3.4 asks for K > C x RTT / 7, which here is about 4 KB; the paper's 65 packets leave room for bursts. They would fill a
buffer of 100 KB."""
BUFFERS: Mapping[str, int] = {"100KB": FEW, "1MB": MANY, "deep": MANY}
"""Each buffer, with the threshold of its marks for DCTCP."""
TITLES: Mapping[str, str] = {"100KB": "Buffer of 100 KB", "1MB": "Buffer of 1 MB", "deep": "Deep buffers"}
CONTROLS = ("cubic", "dctcp", "bbr")
PORT = f"s1-eth{SENDERS + 1}"
"""The switch's port to the server."""
SAMPLE = "50us"
SIZES = "2MB,2.01MB,2.02MB,2.03MB,2.04MB"
HEAD = "| | buffer | iteration, ms | push, ms | slowest push, ms | drops | marks | sent again | timers | queue, KB | 99 %, KB | valid |"
DRAWN_S = 0.025


@dataclass(frozen=True)
class Measured:
    """One congestion control with one buffer."""

    control: str
    buffer: str
    verdict: str
    iteration_s: float
    #: Of each push of the measured iterations.
    pushes_s: npt.NDArray[np.float64]
    #: Begin and end of each iteration's pushes.
    spans_s: npt.NDArray[np.float64]
    counts: NetworkCounts
    queues: QueueLengths
    use: QueueUse

    @property
    def threshold_bytes(self) -> int:
        """Where packets were marked; 0 for nowhere."""
        return BUFFERS[self.buffer] if self.control == "dctcp" else 0


def scenario(control: str, buffer: str, size: str, iterations: int) -> dict[str, Any]:
    """Seven workers and a server on separate hosts."""
    fabric: dict[str, Any] = {"rate": RATE, "buffer": buffer}
    if control == "dctcp":
        fabric["ecn"] = f"{BUFFERS[buffer]}B"
    return {
        "title": f"incast of {SENDERS}, {control}, {buffer}",
        "cluster": {"workers": SENDERS, "servers": 1, "colocated": False},
        "fabric": fabric,
        "model": {"name": "one-layer", "layers": [{"name": "fc", "size": [size], "forward": "1ms", "backward": "1ms"}]},
        "strategy": {"name": "kvstore"},
        "transport": {"congestion": control},
        "run": {"warmup": 1, "iterations": iterations, "queue_sample": SAMPLE},
    }


def measure(control: str, buffer: str, size: str, iterations: int, out: Path) -> Measured:
    """Runs a point, or takes what it left before. Raises InputFault if it did not come to its end."""
    folder = out / f"{control}-{buffer}-{size}"
    found = gradwire.run(scenario(control, buffer, size, iterations), out=folder, progress=False)
    iteration_s, verdict = float(found.points["iteration_time_s"].iloc[0]), str(found.points["verdict"].iloc[0])
    stored = StoredRun(next((found.folder / "points").iterdir()))
    pushes = _pushes(found.ops())
    queues = stored.queues()
    assert queues is not None
    grouped = pushes.groupby("iteration")
    spans_s = np.column_stack([grouped["start_s"].min(), grouped["end_s"].max()])
    use = next(use for use in queue_uses(queues, spans_s) if use.port == PORT)
    counts = stored.record().counts
    times_s = (pushes["end_s"] - pushes["start_s"]).to_numpy()
    return Measured(control, buffer, verdict, iteration_s, times_s, spans_s, counts, queues, use)


def _pushes(ops: pd.DataFrame) -> pd.DataFrame:
    """Of each push to the server in measured iterations: its iteration, and when it began and had arrived."""
    measured = ops[~ops["warmup"]]
    sends = measured[
        (measured["kind"] == "SEND") & (measured["role"] == "worker") & (measured["size_bytes"] > FRAME_BYTES)
    ]
    arrivals = measured[
        (measured["kind"] == "RECV") & (measured["role"] == "server") & (measured["size_bytes"] > FRAME_BYTES)
    ]
    begun = sends[["iteration", "rank", "start_s"]]
    ended = arrivals[["iteration", "peer", "end_s"]].rename(columns={"peer": "rank"}).astype({"rank": "int64"})
    return begun.astype({"rank": "int64"}).merge(ended, on=["iteration", "rank"])


def row(measured: Sequence[Measured]) -> str:
    """A line of the table, of one congestion control with one buffer and tensors of several sizes."""
    bands = [each.counts.bands for each in measured]
    cells = [
        f"`{measured[0].control}`",
        measured[0].buffer,
        _spread([each.iteration_s * 1e3 for each in measured], 1),
        _spread([each.pushes_s.mean() * 1e3 for each in measured], 1),
        _spread([each.pushes_s.max() * 1e3 for each in measured], 1),
        _spread([sum(band.drops for band in each) for each in bands]),
        _spread([sum(band.marks for band in each) for each in bands]),
        _spread([each.counts.tcp_retransmits for each in measured]),
        _spread([each.counts.tcp_timeouts for each in measured]),
        _spread([each.use.mean_bytes / 1e3 for each in measured]),
        _spread([each.use.p99_bytes / 1e3 for each in measured]),
        f"{sum(each.verdict == 'valid' for each in measured)} of {len(measured)}",
    ]
    return f"| {' | '.join(cells)} |"


def _spread(values: Sequence[float], digits: int = 0) -> str:
    least, middle, most = (f"{value:.{digits}f}" for value in (min(values), float(np.median(values)), max(values)))
    return middle if least == most else f"{middle} ({least} to {most})"


def chart(measured: Sequence[Measured]) -> Figure:
    """The queue in front of the server during one push of all workers, a panel for each buffer."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(8.0, 7.0), layout="constrained")
        panels = figure.subplots(len(BUFFERS), 1, squeeze=False)[:, 0]
        for axes, buffer in zip(panels, BUFFERS, strict=True):
            _panel(axes, buffer, [each for each in measured if each.buffer == buffer])
        panels[-1].set_xlabel("Time since the first of seven pushes began (ms)")
        panels[0].legend(loc="lower center", bbox_to_anchor=(0.5, 1.12), ncols=len(CONTROLS) + 1, frameon=False)
    return figure


def _panel(axes: Axes, buffer: str, measured: Sequence[Measured]) -> None:
    for each in measured:
        begin_s = each.spans_s[-1, 0]
        times_s = each.queues.time_ns / 1e9 - begin_s
        shown = (times_s >= 0) & (times_s <= DRAWN_S)
        waiting_kb = each.queues.waiting_bytes[shown, each.queues.ports.index(PORT)] / 1e3
        color = PALETTE[CONTROLS.index(each.control)]
        axes.plot(times_s[shown] * 1e3, waiting_kb, color=color, linewidth=1.1, label=each.control)
    axes.axhline(BUFFERS[buffer] / 1e3, color="#777777", linewidth=0.9, linestyle="--", label="DCTCP's K")
    axes.set_title(TITLES[buffer], loc="left")
    axes.set_ylabel("Queue (KB)")
    axes.set_xlim(0, DRAWN_S * 1e3)
    axes.set_ylim(0, None)
    if buffer == "deep":
        axes.set_yscale("symlog", linthresh=100)
        axes.yaxis.set_major_formatter(
            "{x:,.0f}"
        )  # charts have no mathematical text, by which powers of ten are written


def main() -> None:
    """Prints the table as it grows, and draws the chart."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default=SIZES, help="of a tensor, separated by commas")
    parser.add_argument("--iterations", type=int, default=4)
    parser.add_argument("--out", type=Path, default=None)
    parser.add_argument("--chart", type=Path, default=None)
    chosen = parser.parse_args()
    print(HEAD)
    print(re.sub(r"[^|]+", "---", HEAD), flush=True)
    drawn = []
    with tempfile.TemporaryDirectory() as temporary:
        for buffer in BUFFERS:
            for control in CONTROLS:
                out = chosen.out or Path(temporary)
                sizes = chosen.sizes.split(",")
                measured = [measure(control, buffer, size, chosen.iterations, out) for size in sizes]
                drawn.append(measured[0])
                print(row(measured), flush=True)
    if chosen.chart is not None:
        chosen.chart.write_text(svg_text(chart(drawn)))


if __name__ == "__main__":
    main()
