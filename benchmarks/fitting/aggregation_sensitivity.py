"""How much Table II's predictions depend on the assumed aggregation rate.

    .venv/bin/python -m benchmarks.fitting.aggregation_sensitivity [RATE ...]

For each rate (default: 1.5GB/s and 4GB/s) the compute times are inferred from the vanilla cells anew, and the other
cells predicted.
"""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.fitting.fit_compute_time import efficiency, fit, iteration_time
from gradwire.scenario.loading import load_scenario
from gradwire.workloads.models import model
from gradwire.workloads.models.compute_times import compute_time

SCENARIO = Path(__file__).resolve().parents[2] / "scenarios" / "geryon-table2.toml"
PREDICTED = ("partition-slicing", "geryon")


def main() -> None:
    """Prints a row a rate and model."""
    printed = {
        (cell.where["model"], cell.where["strategy"]): cell.value
        for cell in load_scenario(SCENARIO).printed
        if cell.metric == "scaling_efficiency"
    }
    models = dict.fromkeys(name for name, _ in printed)
    for rate in sys.argv[1:] or ["1.5GB/s", "4GB/s"]:
        for name in models:
            settings = [f"model.name={name}", f"costs.aggregation_rate.value={rate}"]
            guess_s = compute_time(model(str(name)), "k40").iteration_s
            seconds = fit(SCENARIO, [*settings, "strategy.name=vanilla"], printed[name, "vanilla"], guess_s)
            found = {
                strategy: efficiency(SCENARIO, [*settings, f"strategy.name={strategy}", iteration_time(seconds)])
                for strategy in PREDICTED
            }
            shown = ", ".join(f"{s} {100 * e:.1f} (printed {100 * printed[name, s]:.1f})" for s, e in found.items())
            print(f"{rate} {name}: {seconds:.3f} s; {shown}", flush=True)


if __name__ == "__main__":
    main()
