"""How near is a part of a job by packets ([part]) to the whole?

    .venv/bin/python benchmarks/part_of_a_job.py SCENARIO [--set key=value ...] [--part h1-h8 | --copies 2] [--strategies ddp,fsdp,...]
        [--no-whole] [--out FOLDER]

Runs each strategy of a scenario in part and, unless that is not wanted, whole. Prints a table in Markdown: both
times, the part's error, and what each run took. Ends with status 1 if a part differs by more than LIMIT, or a run is not
valid.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import gradwire
from gradwire.faults import InputFault

LIMIT = 0.02
"""What a part may be off: twice `NEAR` (runs/compiling/part_of_job.py). Parts that are refused are said, and do not count."""


@dataclass(frozen=True)
class Ran:
    """A run of one point."""

    time_s: float
    valid: bool
    #: Wall time of the machine, and of everything with compiling.
    machine_s: float
    all_s: float


def ran(scenario: Path, settings: list[str], out: Path) -> Ran:
    """Runs the one point of a scenario. Raises InputFault for what is wrong in it."""
    begun_s = time.perf_counter()
    run = gradwire.run(scenario, set=settings, out=out, jobs=1, progress=False, fresh=True)
    (row,) = run.points.to_dict("records")
    return Ran(row["iteration_time_s"], bool(run.valid), row["wall_s"], time.perf_counter() - begun_s)


def main() -> int:
    """Reads the arguments, runs, prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenario", type=Path)
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--part", default="h1-h8")
    parser.add_argument("--copies", type=int, help="instead: copies of each class of ranks")
    parser.add_argument("--strategies", default="ddp")
    parser.add_argument("--no-whole", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("runs/part-of-a-job"))
    arguments = parser.parse_args()
    print("| strategy | whole (s) | part (s) | error | machine of the whole, of the part (s) | all (s) |", flush=True)
    print("|---|---|---|---|---|---|", flush=True)
    wrong = 0
    which = f"part.copies={arguments.copies}" if arguments.copies else f"part.hosts={arguments.part}"
    for name in arguments.strategies.split(","):
        settings = [*arguments.set, f"strategy.name={name}"]
        try:
            part = ran(arguments.scenario, [*settings, which], arguments.out / f"{name}-part")
        except InputFault as fault:
            print(f"| {name} | | refused: {fault} | | | |", flush=True)
            continue
        wrong += not part.valid
        cells = ["", "", f"{part.machine_s:.0f}", f"{part.all_s:.0f}"]
        if not arguments.no_whole:
            whole = ran(arguments.scenario, settings, arguments.out / f"{name}-whole")
            error = part.time_s / whole.time_s - 1
            wrong += not whole.valid or abs(error) > LIMIT
            cells = [
                f"{whole.time_s:.5g}{'' if whole.valid else ' (not valid)'}",
                f"{error:+.2%}",
                f"{whole.machine_s:.0f}, {part.machine_s:.0f}",
                f"{whole.all_s:.0f}, {part.all_s:.0f}",
            ]
        told = f"{part.time_s:.5g}{'' if part.valid else ' (not valid)'}"
        print(f"| {name} | {cells[0]} | {told} | {cells[1]} | {cells[2]} | {cells[3]} |", flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
