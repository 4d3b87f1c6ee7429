"""Real Gloo on emulated hosts, held against what others measured on machines of a cloud.

`python -m reproduction.world.gloo --python PYTHON`, where PYTHON is one that has PyTorch, runs the rows of the source
`tc_cluster` that begin with "gloo", smallest first, and prints a table. `gradwire reproduce world --python PYTHON` runs
them among all others; this module runs some of them, with other calls, pauses and hosts, and cells that are not given.
"""

from __future__ import annotations

import argparse
import csv
import math
import re
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path

import tomli_w

from gradwire.csv_files import read_csv
from gradwire.faults import MachineFault
from reproduction.world.cells import GIVEN
from reproduction.world.gloo_rows import (
    CPU_TIME,
    HOSTS_TCP,
    PAUSE_S,
    WHAT,
    Row,
    later_ms,
    rows_of,
    scenario,
)
from reproduction.world.host_costs import build
from reproduction.world.sources.tc_cluster import further


@dataclass(frozen=True)
class Predicted:
    """A row with the times of its calls, slowest rank each."""

    row: Row
    calls_s: tuple[float, ...]
    verdict: str

    @property
    def later_ms(self) -> float:
        """Mean of all calls but the first."""
        return later_ms(self.calls_s)

    @property
    def ratio(self) -> float:
        """Predicted over printed; NaN for a cell that is not given."""
        return self.later_ms / self.row.printed_ms


def predicted(row: Row, folder: Path) -> Predicted:
    """What a run left. Raises OSError if it left nothing."""
    calls = sorted((int(line["call"]), float(line["time_s"])) for line in read_csv(folder / "figures.csv"))
    (point,) = read_csv(folder / "points.csv")
    return Predicted(row, tuple(time_s for _, time_s in calls), point["verdict"])


def further_rows(given: Sequence[Row], what: re.Pattern[str] = WHAT) -> list[Row]:
    """The cells of a library's tables that are not given, with few hosts first."""
    known = {row.name for row in given}
    cells = [(what.fullmatch(each.what), each.setting) for each in further()]
    rows = [
        Row(match[1], int(match[2]), int(match[3]), setting, math.nan, library=match[0].split()[0])
        for match, setting in cells
        if match
    ]
    return sorted((row for row in rows if row.name not in known), key=lambda row: row.hosts)


def chosen(rows: Iterable[Row], only: str, name_of: Callable[[Row], str] = attrgetter("name")) -> list[Row]:
    """The rows whose names a regular expression finds. Raises ValueError where it is none, or finds none."""
    try:
        pattern = re.compile(only)
    except re.error as error:
        raise ValueError(f"--only {only}: not a regular expression: {error}") from error
    names = {name_of(row): row for row in rows}
    found = [row for name, row in names.items() if pattern.search(name)]
    if not found:
        raise ValueError(f"--only {only}: no row has such a name; rows are {', '.join(names)}")
    return found


def table(found: Iterable[Predicted]) -> Iterator[str]:
    """The lines of a table: printed and predicted times in ms."""
    yield f"{'row':<58}{'printed':>9}{'first':>8}{'later':>8}{'ratio':>7}  verdict"
    for each in found:
        row = each.row
        name = f"{row.collective}, {row.mebibytes} MiB, {row.hosts} hosts, {row.setting}"
        first_ms = each.calls_s[0] * 1e3
        name += " *" if row.is_fitted else ""
        yield f"{name:<58}{row.printed_ms:>9.0f}{first_ms:>8.0f}{each.later_ms:>8.0f}{each.ratio:>7.3f}  {each.verdict}"


def main() -> int:
    """Runs the rows that are asked for. Those that ran before, with the same settings and code, are not run again."""
    parser = argparse.ArgumentParser(description="Gloo on emulated hosts, and what others measured")
    parser.add_argument("--python", required=True, help="a Python that has PyTorch")
    parser.add_argument("--out", type=Path, default=Path("runs/world-gloo"), help="the folder of the runs")
    parser.add_argument("--only", default="", help="a regular expression for the names of rows")
    parser.add_argument("--calls", type=int, help="calls of each row, of which the first is shown alone")
    parser.add_argument("--pause", type=float, default=PAUSE_S, help="seconds without communication before each call")
    parser.add_argument("--cpu-time", type=float, default=CPU_TIME, help="run.cpu_time: a factor; 0 for none")
    parser.add_argument("--hosts-tcp", default=HOSTS_TCP, help="fabric.hosts")
    parser.add_argument("--given", type=Path, default=GIVEN, help="the printed values")
    parser.add_argument("--further", action="store_true", help="cells that are not given as well")
    options = parser.parse_args()
    with options.given.open(newline="") as given:
        rows = rows_of(csv.DictReader(given))
    try:
        rows = chosen(rows + (further_rows(rows) if options.further else []), options.only)
        build()
    except (ValueError, MachineFault) as error:
        parser.error(str(error))
    options.out.mkdir(parents=True, exist_ok=True)
    found = []
    for row in rows:
        file, folder = options.out / f"{row.name}.toml", options.out / row.name
        document = scenario(
            row, options.python, options.calls or row.calls, options.hosts_tcp, options.pause, options.cpu_time
        )
        file.write_text(tomli_w.dumps(document))
        command = [sys.executable, "-m", "gradwire", "run", str(file), "--out", str(folder), "--jobs", "1"]
        status = subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode
        if status and not (folder / "figures.csv").exists():
            print(f"{row.name}: ended with status {status}; {' '.join(command)}", file=sys.stderr)
            continue
        found.append(predicted(row, folder))
        print(list(table(found[-1:]))[1], flush=True)
    print("\n".join(["", *table(found)]))
    errors = [abs(each.ratio - 1) for each in found if not each.row.is_fitted and not math.isnan(each.ratio)]
    if errors:
        print(
            f"{len(errors)} rows without the fitted ones (*): median error {statistics.median(errors):.1%}, worst {max(errors):.1%}"
        )
    return 0 if len(found) == len(rows) and all(each.verdict == "valid" for each in found) else 1


if __name__ == "__main__":
    sys.exit(main())
