"""Every fault at several moments of an iteration, on strategies of every kind: what became of the runs, and how long
they took to recover.

`python -m benchmarks.faults [--strategies ring,p3] [--faults link-down,loss] [--moments 0,0.4] [--out runs/faults]`
prints a row for each strategy and fault. A run has faults of all kinds at all moments, with some iterations in
between, and has to end valid, which means that every gradient was added once (docs/trust/checks.md). A worker dies once, so
that has a run for each moment, which has to end with a message that names it. Runs that are in the folder already do
not run again. A strategy takes two minutes on one core.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import gradwire
from gradwire.api.run import InvalidPointWarning, Run
from gradwire.runs.stored.stored_run import StoredRun

STRATEGIES: Mapping[str, str] = {
    "ring": "ring",
    "ps": "kvstore",
    "p3": "p3",
    "multicast": "multicast-ps",
    "aggregation": "aggregation-ps",
}
"""Strategies by what they are examples of."""
SIZE = "5MB"
"""A layer's."""
SIZES: Mapping[str, str] = {"p3": "1MB"}
"""The same of strategies that send in slices, each of which costs as much to replay as another's whole message."""
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
}
DEADLY = "dead-worker"
MOMENTS = (0.0, 0.2, 0.4, 0.6, 0.8)
"""When faults begin, as shares of an iteration without faults."""
WARMUP = 1
FIRST = 2
"""The iteration in which the first one begins."""
APART = 6
"""Iterations from one fault to the next, in which those without faults are longer together than any fault lasts."""


def scenario(strategy: str) -> dict[str, Any]:
    """Four workers that exchange two layers at 10 Gbit/s."""
    size = SIZES.get(strategy, SIZE)
    layers = [{"name": name, "size": [size], "forward": "2ms", "backward": "4ms"} for name in ("fc1", "fc2")]
    return {
        "title": f"faults and {strategy}",
        "cluster": {"workers": 4},
        "fabric": {"rate": "10gbit"},
        "model": {"name": "two-layers", "layers": layers},
        "strategy": {"name": strategy},
        "run": {"warmup": WARMUP, "iterations": FIRST + 1},
    }


def faulty(strategy: str, kinds: Sequence[str], moments: Sequence[float], usual_s: float) -> dict[str, Any]:
    """The scenario with faults of these kinds, each at all moments, one after the other."""
    chosen = list(product(kinds, enumerate(_after(moments, usual_s))))
    faults = {
        f"{kind}-{number}": {"kind": kind, "iteration": FIRST + place * APART, "at": at, **FAULTS[kind]}
        for place, (kind, (number, at)) in enumerate(chosen)
    }
    iterations = FIRST + APART * len(chosen) - WARMUP
    return {**scenario(strategy), "fault": faults, "run": {"warmup": WARMUP, "iterations": iterations}}


def deadly(strategy: str, moments: Sequence[float], usual_s: float) -> dict[str, Any]:
    """The scenario with a worker that dies, with a point for each moment."""
    fault = {"kind": DEADLY, "iteration": FIRST, "worker": 1}
    return {**scenario(strategy), "fault": {"x": fault}, "sweep": {"fault.x.at": _after(moments, usual_s)}}


def _after(moments: Sequence[float], usual_s: float) -> list[str]:
    return [f"{round(moment * usual_s * 1e6)}us" for moment in moments]


def rows(strategy: str, kinds: Sequence[str], moments: Sequence[float], out: Path) -> Iterator[str]:
    """A row for each kind of fault: what became of it, by how much later iterations were, and how late it was
    itself."""
    healthy = gradwire.run(scenario(strategy), out=out / f"{strategy}-healthy", progress=False)
    usual_s = float(healthy.iterations["iteration_time_s"].median())
    yield f"{strategy}: an iteration without faults takes {usual_s * 1e3:.2f} ms"
    survived = [kind for kind in kinds if kind != DEADLY]
    if survived:
        point = faulty(strategy, survived, moments, usual_s)
        found = gradwire.run(point, out=out / f"{strategy}-{len(survived)}-faults", progress=False)
        yield from _survived(found, strategy, survived, len(moments))
    if DEADLY in kinds:
        found = gradwire.run(deadly(strategy, moments, usual_s), out=out / f"{strategy}-{DEADLY}", progress=False)
        yield _died(found, strategy, len(moments))


def _survived(found: Run, strategy: str, kinds: Sequence[str], moments: int) -> Iterator[str]:
    """What became of a run with faults of these kinds."""
    (verdict,) = found.points["verdict"]
    yield f"{strategy}: {verdict}"
    if verdict != "valid":
        return
    times_s = found.iterations["iteration_time_s"].to_numpy()
    blocks = times_s[FIRST:].reshape(len(kinds), moments, APART)
    # Beside what follows: after a fault, workers may be out of step, in which iterations of some strategies are 2 %
    # longer or shorter.
    late_s = (blocks - blocks[:, :, -1:]).sum(axis=2)
    stored = StoredRun(found.folder / "points" / str(found.points.index[0]))
    for kind, each in zip(kinds, late_s, strict=True):
        later = ", ".join(f"{one_s * 1e3:.1f}" for one_s in each)
        yield f"| {strategy} | {kind} | {later} | {_lateness(stored, kind)} |"


def _died(found: Run, strategy: str, moments: int) -> str:
    """What became of the runs in which a worker dies: the first one's end stands for all."""
    verdicts = list(found.points["verdict"])
    named = sum("; rank 1 died at " in verdict and "(faults: fault.x, " in verdict for verdict in verdicts)
    return f"| {strategy} | {DEADLY} | {named} of {moments} ended with its name | {verdicts[0]} |"


def _lateness(stored: StoredRun, kind: str) -> str:
    """How late the latest fault of a kind began and ended."""
    records = [record for record in stored.record().faults if record.fault.kind == kind]
    begun_ns = max(record.begun_ns - record.due_ns for record in records)
    ended_ns = max(record.ended_ns - record.due_ns - record.fault.duration_ns for record in records)
    return f"began {begun_ns / 1e6:.3f} ms late at most, ended {ended_ns / 1e6:.3f} ms"


def main() -> None:
    """Prints the table as it grows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--strategies", default=",".join(STRATEGIES))
    parser.add_argument("--faults", default=",".join([*FAULTS, DEADLY]))
    parser.add_argument("--moments", default=",".join(map(str, MOMENTS)))
    parser.add_argument("--out", type=Path, default=Path("runs/faults"))
    chosen = parser.parse_args()
    warnings.simplefilter("ignore", InvalidPointWarning)
    moments = [float(moment) for moment in chosen.moments.split(",")]
    print("| strategy | fault | later by, ms | |\n|---|---|---|---|", flush=True)
    for name in chosen.strategies.split(","):
        for row in rows(STRATEGIES[name], chosen.faults.split(","), moments, chosen.out):
            print(row, flush=True)


if __name__ == "__main__":
    main()
