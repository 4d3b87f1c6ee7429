"""Real Gloo on emulated hosts, held against what others measured on machines of a cloud.

`python -m reproduction.world.gloo --python PYTHON`, where PYTHON is one that has PyTorch, runs the rows of the source
`tc_cluster` that begin with "gloo", smallest first, and prints a table. Each row is a scenario of programs: unmodified
PyTorch on hosts with Linux's own TCP of before 6.6, an MTU of 9001, the cloud's limit of a connection, and on every
host's egress the netem that the source names. One value is fitted, for all rows alike (PAUSE_S).

A host's own costs (copies, additions) are not emulated: virtual time stands still while a processor works.
"""

from __future__ import annotations

import argparse
import csv
import re
import statistics
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import tomli_w

HERE = Path(__file__).parent
GIVEN = HERE / "given.csv"
RANKS = HERE / "gloo_ranks.py"
SOURCE = "tc_cluster"
LINE_GBPS = 10.0
"""The source: "up to 10 Gbit/s"."""
FLOW_GBPS = 5.05
"""The source: "some 5 Gbit/s" of a connection, counted without preambles and gaps, which take 1 % of a frame of 9,001 bytes."""
ROUND_TRIP_S = 1e-4
"""The source: "about 0.1 ms" between two hosts of the default network."""
LINKS_OF_ROUND_TRIP = 4
MTU_BYTES = 9001
NETEM_PACKETS = 1000
"""netem's default limit."""
LIMIT_FACTOR, LIMIT_PACKET_BYTES = 1.5, 1500
"""The source: a limit of 1.5 R D in packets of 1,500 bytes."""
HOST_MB, OTHER_MB = 1200, 1500
"""Memory of a rank with PyTorch and two tensors of 128 MiB, and of all else."""
CALLS = 6
"""The first of them, in which windows grow, is shown alone."""
PAUSE_S = 1.0
"""What hosts do besides communicating before each call, fitted to FITTED. The source does not say it, but Linux halves the window of a
connection for each retransmission timeout that it was idle. That row took 0.467 s without a pause, 0.565 s after 3 s, and 0.532 s as
printed, which is four halvings: 0.9 to 1.1 s."""
FITTED = ("p2p", "delay 10 ms")
"""The row by which PAUSE_S was chosen: it predicts nothing."""
WHAT = re.compile(r"gloo (p2p|all-reduce|broadcast|reduce), (\d+) MiB, (\d+) hosts")


@dataclass(frozen=True)
class Row:
    """A printed time, and what it is of."""

    collective: str
    mebibytes: int
    hosts: int
    #: The source's words: "default", or a delay, a rate, or both.
    setting: str
    printed_ms: float

    @property
    def name(self) -> str:
        """A folder's name."""
        words = f"{self.collective}-{self.hosts}-{self.mebibytes}-{self.setting}"
        return re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")

    @property
    def is_fitted(self) -> bool:
        """Whether a value was chosen by it."""
        return (self.collective, self.setting) == FITTED

    @property
    def netem(self) -> str:
        """The words of the netem on every host's egress; "none" for the default network. Raises ValueError for other words."""
        delay, rate = re.search(r"delay (\d+) ms", self.setting), re.search(r"rate (\d+) Gbit/s", self.setting)
        if self.setting == "default":
            return "none"
        if not delay and not rate:
            raise ValueError(f"a setting of {SOURCE} is {self.setting!r}: must be a delay, a rate, or both")
        words = [f"delay {delay[1]}ms"] if delay else []
        if rate:
            words.append(f"rate {rate[1]}gbit")
        limit = NETEM_PACKETS
        if delay and rate:
            limit = round(LIMIT_FACTOR * float(rate[1]) * 1e9 / 8 * float(delay[1]) / 1e3 / LIMIT_PACKET_BYTES)
        return " ".join([*words, f"limit {limit}"])


@dataclass(frozen=True)
class Predicted:
    """A row with the times of its calls, slowest rank each."""

    row: Row
    calls_s: tuple[float, ...]
    verdict: str

    @property
    def later_ms(self) -> float:
        """Mean of all calls but the first."""
        return statistics.mean(self.calls_s[1:]) * 1e3

    @property
    def ratio(self) -> float:
        """Predicted over printed."""
        return self.later_ms / self.row.printed_ms


def rows_of(lines: Iterable[dict[str, str]]) -> list[Row]:
    """Gloo's rows of the given values, with few hosts and bytes first."""
    found = []
    for line in lines:
        match = WHAT.fullmatch(line["what"])
        if line["source"] == SOURCE and match and line["unit"] == "ms":
            found.append(Row(match[1], int(match[2]), int(match[3]), line["setting"], float(line["printed"])))
    return sorted(found, key=lambda row: (row.hosts, row.mebibytes, row.collective, row.printed_ms))


def scenario(row: Row, python: str, calls: int, hosts_tcp: str, pause_s: float = PAUSE_S) -> dict[str, object]:
    """A row as a scenario of programs."""
    arguments = {
        "python": python,
        "collective": row.collective,
        "mib": row.mebibytes,
        "calls": calls,
        "netem": row.netem,
        "pause_s": pause_s,
    }
    return {
        "title": f"Gloo's {row.collective} of {row.mebibytes} MiB on {row.hosts} hosts, {row.setting}",
        "metric": "time_s",
        "cluster": {"workers": row.hosts},
        "fabric": {
            "rate": f"{LINE_GBPS:g}gbit",
            "flow_rate": f"{FLOW_GBPS:g}gbit",
            "delay": f"{ROUND_TRIP_S / LINKS_OF_ROUND_TRIP * 1e6:g}us",
            "mtu_bytes": MTU_BYTES,
            "hosts": hosts_tcp,
        },
        "program": {
            "gloo": {
                "command": f'$python {RANKS} $collective $mib $calls "$netem" $pause_s',
                "launch": "torch",
                "arguments": arguments,
            }
        },
        "run": {"memory_mb": OTHER_MB + HOST_MB * row.hosts, "time_limit": "3000s", "stall_limit": "1000s"},
    }


def predicted(row: Row, folder: Path) -> Predicted:
    """What a run left. Raises OSError if it left nothing."""
    with (folder / "figures.csv").open(newline="") as figures:
        calls = sorted((int(line["call"]), float(line["time_s"])) for line in csv.DictReader(figures))
    with (folder / "points.csv").open(newline="") as points:
        (point,) = csv.DictReader(points)
    return Predicted(row, tuple(time_s for _, time_s in calls), point["verdict"])


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
    parser.add_argument("--calls", type=int, default=CALLS, help="calls of each row, of which the first is shown alone")
    parser.add_argument("--pause", type=float, default=PAUSE_S, help="seconds without communication before each call")
    parser.add_argument("--hosts-tcp", default="stock-before-6.6", help="fabric.hosts")
    parser.add_argument("--given", type=Path, default=GIVEN, help="the printed values")
    options = parser.parse_args()
    with options.given.open(newline="") as given:
        rows = [row for row in rows_of(csv.DictReader(given)) if re.search(options.only, row.name)]
    options.out.mkdir(parents=True, exist_ok=True)
    found = []
    for row in rows:
        file, folder = options.out / f"{row.name}.toml", options.out / row.name
        file.write_text(tomli_w.dumps(scenario(row, options.python, options.calls, options.hosts_tcp, options.pause)))
        command = [sys.executable, "-m", "gradwire", "run", str(file), "--out", str(folder), "--jobs", "1"]
        status = subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode
        if status and not (folder / "figures.csv").exists():
            print(f"{row.name}: ended with status {status}; {' '.join(command)}", file=sys.stderr)
            continue
        found.append(predicted(row, folder))
        print(list(table(found[-1:]))[1], flush=True)
    print("\n".join(["", *table(found)]))
    errors = [abs(each.ratio - 1) for each in found if not each.row.is_fitted]
    if errors:
        print(
            f"{len(errors)} rows without the fitted one (*): median error {statistics.median(errors):.1%}, worst {max(errors):.1%}"
        )
    return 0 if len(found) == len(rows) and all(each.verdict == "valid" for each in found) else 1


if __name__ == "__main__":
    sys.exit(main())
