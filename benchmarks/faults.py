"""Every fault at several moments of an iteration, on strategies of every kind: what became of the run, and how long it took to recover.

`python -m benchmarks.faults [--strategies ring,p3] [--faults link-down,loss] [--moments 0,0.4]` runs the points one after the other, and
prints a row for each. A point either ends valid, which means that every gradient was added once (docs/trust.md), or it ends by name. It
takes about ten seconds a point on one core.
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import gradwire
from gradwire.api.run import InvalidPointWarning

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
    "flapping": {"link": "h2", "every": "20ms", "duration": "100ms"},
    "loss": {"link": "h2", "loss": 0.01, "duration": OUTAGE},
    "delay": {"link": "h2", "delay": "1ms", "duration": OUTAGE},
    "rate": {"link": "h2", "rate": "5gbit", "duration": OUTAGE},
    "slow-worker": {"worker": 1, "factor": 2, "duration": OUTAGE},
    "dead-worker": {"worker": 1},
    "switch-restart": {"switch": "s1", "duration": OUTAGE},
    "controller-restart": {"duration": OUTAGE},
}
MOMENTS = (0.0, 0.2, 0.4, 0.6, 0.8)
"""When faults begin, as shares of an iteration without faults."""
FAULTY = 2
"""The iteration in which they begin."""


def scenario(strategy: str) -> dict[str, Any]:
    """Four workers that exchange 20 MB at 10 Gbit/s."""
    layers = [{"name": name, "size": ["10MB"], "forward": "2ms", "backward": "4ms"} for name in ("fc1", "fc2")]
    return {
        "title": f"faults and {strategy}",
        "cluster": {"workers": 4},
        "fabric": {"rate": "10gbit"},
        "model": {"name": "two-layers", "layers": layers},
        "strategy": {"name": strategy},
        "run": {"warmup": 1, "iterations": 4},
    }


def rows(strategy: str, faults: Sequence[str], moments: Sequence[float]) -> Iterator[tuple[str, ...]]:
    """A row for each fault and moment: the strategy, the fault, the share, what became of it, the extra time, and the reason."""
    with tempfile.TemporaryDirectory() as folder:
        healthy = gradwire.run(scenario(strategy), out=Path(folder) / "healthy", progress=False)
        usual_s = float(healthy.iterations["iteration_time_s"].median())
        for kind in faults:
            for moment in moments:
                fault = {"kind": kind, "iteration": FAULTY, "at": f"{round(moment * usual_s * 1e6)}us", **FAULTS[kind]}
                point = {**scenario(strategy), "fault": {"x": fault}}
                found = gradwire.run(point, out=Path(folder) / f"{kind}-{moment:g}", progress=False)
                yield _row(strategy, kind, moment, found, usual_s)


def _row(strategy: str, kind: str, moment: float, found: Any, usual_s: float) -> tuple[str, ...]:
    (verdict,) = found.points["verdict"]
    if verdict != "valid":
        outcome = "ended by name" if "(faults: " in verdict else "INVALID"
        return strategy, kind, f"{moment:.0%}", outcome, "", verdict
    times = found.iterations["iteration_time_s"].to_numpy()
    lost_s = float((times[FAULTY:] - usual_s).sum())
    return strategy, kind, f"{moment:.0%}", "right sum", f"{lost_s * 1e3:.1f}", ""


def main() -> None:
    """Prints the table as it grows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--strategies", default=",".join(STRATEGIES))
    parser.add_argument("--faults", default=",".join(FAULTS))
    parser.add_argument("--moments", default=",".join(map(str, MOMENTS)))
    chosen = parser.parse_args()
    warnings.simplefilter("ignore", InvalidPointWarning)
    print("| strategy | fault | at | outcome | later by, ms | |\n|---|---|---|---|---|---|", flush=True)
    for name in chosen.strategies.split(","):
        for row in rows(
            STRATEGIES[name], chosen.faults.split(","), [float(moment) for moment in chosen.moments.split(",")]
        ):
            print(f"| {' | '.join((name, *row[1:]))} |", flush=True)


if __name__ == "__main__":
    main()
