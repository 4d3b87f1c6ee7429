"""Every fault at several moments of an iteration, on strategies of every kind: what became of the runs, and how long they took to recover.

`python -m benchmarks.faults [--strategies ring,p3] [--faults link-down,loss] [--moments 0,0.4] [--out runs/faults]` prints a row for each
strategy and fault as it goes. A point has a fault at one moment after the other, with some iterations in between, and has to end valid, which
means that every gradient was added once (docs/trust.md). A worker dies once, so that has a point for each moment, which has to end by name.
Points that are in the run folders already do not run again. One takes about eight seconds on one core.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import gradwire
from gradwire.api.run import InvalidPointWarning, Run
from gradwire.runner.stored.stored_run import StoredRun

STRATEGIES: Mapping[str, str] = {
    "ring": "ring",
    "ps": "kvstore",
    "p3": "p3",
    "multicast": "multicast-ps",
    "aggregation": "aggregation-ps",
}
"""Strategies by what they are examples of."""
OUTAGE = "50ms"
FAULTS: Mapping[str, Mapping[str, Any]] = {
    "link-down": {"link": "h2", "duration": OUTAGE},
    "flapping": {"link": "h2", "every": "20ms", "duration": OUTAGE},
    "loss": {"link": "h2", "loss": 0.01, "duration": OUTAGE},
    "delay": {"link": "h2", "delay": "1ms", "duration": OUTAGE},
    "rate": {"link": "h2", "rate": "5gbit", "duration": OUTAGE},
    "tenant": {"source": "h2", "destination": "h3", "rate": "5gbit", "duration": OUTAGE},
    "slow-worker": {"worker": 1, "factor": 2, "duration": OUTAGE},
    "switch-restart": {"switch": "s1", "duration": OUTAGE},
    "controller-restart": {"duration": OUTAGE},
    "dead-worker": {"worker": 1},
}
MOMENTS = (0.0, 0.2, 0.4, 0.6, 0.8)
"""When faults begin, as shares of an iteration without faults."""
WARMUP = 1
FIRST = 2
"""The iteration in which the first one begins."""
APART = 6
"""Iterations from one fault to the next, in which those without faults are longer together than any fault lasts."""


def scenario(strategy: str) -> dict[str, Any]:
    """Four workers that exchange 10 MB at 10 Gbit/s."""
    layers = [{"name": name, "size": ["5MB"], "forward": "2ms", "backward": "4ms"} for name in ("fc1", "fc2")]
    return {
        "title": f"faults and {strategy}",
        "cluster": {"workers": 4},
        "fabric": {"rate": "10gbit"},
        "model": {"name": "two-layers", "layers": layers},
        "strategy": {"name": strategy},
        "run": {"warmup": WARMUP, "iterations": FIRST + 1},
    }


def faulty(strategy: str, kind: str, moments: Sequence[float], usual_s: float) -> dict[str, Any]:
    """The scenario with a kind of fault at these moments: of one point with all of them, or of a point for each where a worker dies."""
    at = [f"{round(moment * usual_s * 1e6)}us" for moment in moments]
    fault = {"kind": kind, "iteration": FIRST, **FAULTS[kind]}
    if kind == "dead-worker":
        return {**scenario(strategy), "fault": {"x": fault}, "sweep": {"fault.x.at": at}}
    faults = {
        f"n{number}": {**fault, "at": each, "iteration": FIRST + number * APART} for number, each in enumerate(at)
    }
    iterations = FIRST + APART * len(moments) - WARMUP
    return {**scenario(strategy), "fault": faults, "run": {"warmup": WARMUP, "iterations": iterations}}


def rows(strategy: str, kinds: Sequence[str], moments: Sequence[float], out: Path) -> Iterator[str]:
    """A row for each kind of fault: what became of it, by how much later iterations were, and how late it was itself."""
    healthy = gradwire.run(scenario(strategy), out=out / f"{strategy}-healthy", progress=False)
    usual_s = float(healthy.iterations["iteration_time_s"].median())
    yield f"{strategy}: an iteration without faults takes {usual_s * 1e3:.2f} ms"
    for kind in kinds:
        point = faulty(strategy, kind, moments, usual_s)
        found = gradwire.run(point, out=out / f"{strategy}-{kind}", progress=False)
        yield f"| {strategy} | {kind} | {' | '.join(_cells(found, len(moments)))} |"


def _cells(found: Run, moments: int) -> Iterator[str]:
    """What became of the points of a kind."""
    verdicts = list(found.points["verdict"])
    if len(verdicts) == moments and all("(faults: " in verdict for verdict in verdicts):
        yield f"ended by name, {moments} times"
        yield ""
        yield verdicts[0].partition(": ")[2]
        return
    if verdicts != ["valid"]:
        yield "INVALID"
        yield ""
        yield "; ".join(verdicts)
        return
    times_s = found.iterations["iteration_time_s"].to_numpy()
    blocks = times_s[FIRST:].reshape(moments, APART)
    usual_s = float(np.median(np.append(blocks[:, -1], times_s[1])))
    yield f"right sum, {moments} times"
    yield ", ".join(f"{late_s * 1e3:.1f}" for late_s in (blocks - usual_s).sum(axis=1))
    yield _lateness(StoredRun(found.folder / "points" / str(found.points.index[0])))


def _lateness(stored: StoredRun) -> str:
    """How late the latest fault of a run began and ended."""
    records = stored.record().faults
    begun_ns = max(record.begun_ns - record.due_ns for record in records)
    ended_ns = max(record.ended_ns - record.due_ns - record.fault.duration_ns for record in records)
    return f"began {begun_ns / 1e6:.3f} ms late at most, ended {ended_ns / 1e6:.3f} ms"


def main() -> None:
    """Prints the table as it grows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--strategies", default=",".join(STRATEGIES))
    parser.add_argument("--faults", default=",".join(FAULTS))
    parser.add_argument("--moments", default=",".join(map(str, MOMENTS)))
    parser.add_argument("--out", type=Path, default=Path("runs/faults"))
    chosen = parser.parse_args()
    warnings.simplefilter("ignore", InvalidPointWarning)
    moments = [float(moment) for moment in chosen.moments.split(",")]
    print("| strategy | fault | outcome | later by, ms | |\n|---|---|---|---|---|", flush=True)
    for name in chosen.strategies.split(","):
        for row in rows(STRATEGIES[name], chosen.faults.split(","), moments, chosen.out):
            print(row, flush=True)


if __name__ == "__main__":
    main()
