"""Whole commands, from the prompt to the report, each in a folder of its own, so that nothing is taken over from another run."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.performance.cost import Cost, Spread

COMPARE = ("compare", "--model", "resnet50", "--device", "v100", "--workers", "8", "--rate", "10gbit")
COMMANDS = {
    "Table II: `run geryon-table2`": ("run", "geryon-table2"),
    "Table II, `--fidelity 1%`": ("run", "geryon-table2", "--fidelity", "1%"),
    "all strategies: `compare --model resnet50 ...`": COMPARE,
    "all strategies, `--set run.fidelity=1%`": (*COMPARE, "--set", "run.fidelity=1%"),
}
"""The comparison is on 8 workers with a V100 each, at 10 Gbit/s."""


def timed(rounds: int) -> Iterator[Cost]:
    """Wall and CPU time of each. Ends this program if a command fails."""
    for name, arguments in COMMANDS.items():
        walls_s, cpus_s = [], []
        for _ in range(rounds):
            wall_s, cpu_s = _once(arguments)
            walls_s.append(wall_s)
            cpus_s.append(cpu_s)
        yield Cost(name, Spread.of(walls_s), Spread.of(cpus_s), 0.0, 0)


def _once(arguments: tuple[str, ...]) -> tuple[float, float]:
    with TemporaryDirectory(prefix="gradwire-") as folder:
        out = Path(folder) / "out"
        before, began_s = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-m", "gradwire", *arguments, "--out", str(out)],
            capture_output=True,
            text=True,
            check=False,
        )
        wall_s, after = time.perf_counter() - began_s, resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode:
            sys.exit(f"gradwire {' '.join(arguments)}: {done.stderr[-2000:]}")
        return wall_s, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
