"""NCCL's sockets on emulated hosts, held against what others measured on machines of a cloud.

`python -m reproduction.world.nccl` runs the rows of the source `tc_cluster` that begin with "nccl", smallest first, and
prints a table; `gradwire reproduce world` runs them among all others. This module runs some of them, with other numbers
of sockets and calls, and other pauses.
"""

from __future__ import annotations

import argparse
import csv
import subprocess
import sys
from pathlib import Path

import tomli_w

from reproduction.world.cells import GIVEN
from reproduction.world.gloo import chosen, further_rows, predicted, table
from reproduction.world.gloo_rows import CALLS, rows_of
from reproduction.world.nccl_rows import PAUSE_S, SOCKETS, WHAT, name_of, scenario


def main() -> int:
    """Runs the rows that are asked for. Those that ran before, with the same settings and code, are not run again."""
    parser = argparse.ArgumentParser(description="NCCL's sockets on emulated hosts, and what others measured")
    parser.add_argument("--out", type=Path, default=Path("runs/world-nccl"), help="the folder of the runs")
    parser.add_argument("--only", default="", help="a regular expression for the names of rows")
    parser.add_argument("--calls", type=int, default=CALLS, help="calls of each row, of which the first is shown alone")
    parser.add_argument("--pause", type=float, default=PAUSE_S, help="seconds without communication before each call")
    parser.add_argument("--sockets", type=int, default=SOCKETS, help="connections of each channel to a neighbour")
    parser.add_argument("--further", action="store_true", help="cells that are not given as well")
    options = parser.parse_args()
    with GIVEN.open(newline="") as given:
        rows = rows_of(csv.DictReader(given), WHAT)
    rows += further_rows(rows, WHAT) if options.further else []
    try:
        rows = chosen(rows, options.only, name_of)
    except ValueError as error:
        parser.error(str(error))
    options.out.mkdir(parents=True, exist_ok=True)
    found = []
    for row in rows:
        name = f"{name_of(row)}-{options.sockets}-{options.pause:g}-{options.calls}"
        file, folder = options.out / f"{name}.toml", options.out / name
        file.write_text(tomli_w.dumps(scenario(row, options.calls, options.pause, options.sockets)))
        command = [sys.executable, "-m", "gradwire", "run", str(file), "--out", str(folder), "--jobs", "1"]
        status = subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode
        if status and not (folder / "figures.csv").exists():
            print(f"{name}: ended with status {status}; {' '.join(command)}", file=sys.stderr)
            continue
        found.append(predicted(row, folder))
        print(list(table(found[-1:]))[1], *(f"{time_s * 1e3:.0f}" for time_s in found[-1].calls_s), flush=True)
    return 0 if len(found) == len(rows) and all(each.verdict == "valid" for each in found) else 1


if __name__ == "__main__":
    sys.exit(main())
