"""Infers a model's single-GPU iteration time from one printed efficiency, by the secant method on emulated runs.

    .venv/bin/python benchmarks/fitting/fit_compute_time.py SCENARIO MODEL STRATEGY EFFICIENCY FIRST_GUESS_S

Geryon prints no single-GPU times, so gradwire's k40 times come from the vanilla column of Table II, one a model:

    .venv/bin/python benchmarks/fitting/fit_compute_time.py scenarios/geryon-table2.toml vgg19 vanilla 0.269 1.7
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from rich.console import Console

from gradwire.console.live_progress import LiveProgress
from gradwire.runs.campaign import Campaign
from gradwire.runs.executing.executor import LocalPool
from gradwire.runs.planned import plan_runs
from gradwire.scenario.loading import load_scenario
from gradwire.vm.machines import Clock

TOLERANCE = 0.0005
ROUNDS = 6


def efficiency(scenario: Path, settings: list[str]) -> float:
    """Measured scaling efficiency of the one point that the settings leave."""
    loaded = load_scenario(scenario, [*settings, "run.iterations=1"])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        planned = plan_runs(loaded.points, folder, Clock())
        with LiveProgress(Console(stderr=True), len(planned)) as progress:
            (judged,) = Campaign(planned, folder, LocalPool(1), progress).run()
    if not judged.result.valid:
        sys.exit(f"{judged.label}: {judged.result.verdict}")
    efficiency: float = judged.result.scaling_efficiency
    return efficiency


def iteration_time(seconds: float) -> str:
    """The setting of a worker's iteration time."""
    return f"model.iteration_time={seconds!r}s"


def fit(scenario: Path, settings: list[str], wanted: float, guess_s: float) -> float:
    """The iteration time at which the point's efficiency is the wanted one, in seconds; prints each guess."""

    def error(seconds: float) -> float:
        found = efficiency(scenario, [*settings, iteration_time(seconds)])
        print(f"  {seconds:.4f} s: {found:.4f}", flush=True)
        return found - wanted

    seconds, errors = [guess_s], [error(guess_s)]
    while abs(errors[-1]) > TOLERANCE and len(seconds) < ROUNDS:
        if len(seconds) == 1:
            seconds.append(seconds[0] * wanted / (errors[0] + wanted))
        else:
            slope = (errors[-1] - errors[-2]) / (seconds[-1] - seconds[-2])
            seconds.append(seconds[-1] - errors[-1] / slope)
        errors.append(error(seconds[-1]))
    return seconds[-1]


def main() -> None:
    """Prints each guess, and at last the one that meets the printed efficiency."""
    scenario, model, strategy, target, guess = sys.argv[1:]
    settings = [f"model.name={model}", f"strategy.name={strategy}"]
    print(f"{model}: {fit(Path(scenario), settings, float(target), float(guess)):.3f} s, printed {target}")


if __name__ == "__main__":
    main()
