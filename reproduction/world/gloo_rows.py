"""Rows of real Gloo as scenarios of programs: unmodified PyTorch on hosts with Linux's own TCP of before 6.6, an MTU of
9001, the cloud's limit of a connection, and on every host's egress the netem that the source names.

Two values are fitted, for all rows alike (PAUSE_S and CPU_TIME). What Gloo computes, its additions above all, takes the
CPU time that the machine outside counts for it, times CPU_TIME, and what a host's kernel does (copies, wake-ups) takes
what was measured elsewhere (`host_costs.c`).
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from gradwire.documents import Document
from reproduction.world.cells import Programs
from reproduction.world.host_costs import path_of_library

RANKS = Path(__file__).parent / "gloo_ranks.py"
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
HOST_MB, OTHER_MB = 600, 1000
"""Memory of a rank with PyTorch and two tensors of 128 MiB, and of all else. Four ranks took 1.5 GiB in all."""
CALLS = 3
"""The first of them, in which windows grow, is shown alone. The others of most rows are alike to 0.1 %."""
CALLS_WITH_ADDITIONS = 9
"""Of Gloo's reductions: their calls differ by up to a fifth (EXAMINED in sources/tc_cluster.py)."""
CALLS_OF_TWO_KINDS = 25
"""Of printed ones with a delay of 1 ms, which are of two kinds, so that the mean of eight varies by 2.4 %."""
ADDING = ("all-reduce", "reduce")
CPU_TIME = 1.5
"""`run.cpu_time`: how much longer the source's processors compute than this machine's, fitted to FITTED_COMPUTATION, which
took 473 ms with 1 (24 calls) and 480 to 494 ms with 1.5, and 485 ms as printed. The reduce with 1 ms was looked at as well: 383
ms with 1, 408 and 423 ms with 1.5 in two runs, and 406 ms as printed. The source names no processor. The kind of hosts
that has one V100, "up to 10 Gbit/s" and an MTU of 9001 has Xeons E5-2686 v4 of at most 2.7 GHz (AWS News Blog, 25 October
2017). An addition of 1 MiB takes 0.24 ms with 1.5 where 1.5 was fitted (additions.py measures it without), three times 1
MiB at 13 GB/s; one thread of such a Xeon with 3.6 GHz has 18 GB/s in STREAM's triad (AnandTech 11544). It also multiplies
the 2.9 us that each system call is charged for (docs/your-own-program.md)."""
PAUSE_S = 1.2
"""What hosts do besides communicating before each call, fitted to FITTED. The source does not say it, but Linux halves
the window of a connection for each retransmission timeout that it was idle. That row takes 0.514 s after 1 s, 0.534 s
after 1.2 s and 0.561 s after 1.5 s, and 0.532 s as printed."""
HOSTS_TCP = "stock-before-6.6"
"""The source is of 2022."""
ALONE = "python -m reproduction.world.gloo --python PYTHON"
FITTED = ("gloo", "p2p", "delay 10 ms")
"""The row by which PAUSE_S was chosen: it predicts nothing."""
FITTED_COMPUTATION = ("gloo", "all-reduce", "delay 1 ms, rate 5 Gbit/s")
"""The row on 4 hosts by which CPU_TIME was chosen: it predicts nothing."""
FITTED_HOSTS = 4
"""Hosts of that row."""
WHAT = re.compile(r"gloo (p2p|all-reduce|broadcast|reduce), (\d+) MiB, (\d+) hosts")


@dataclass(frozen=True)
class Row:
    """A printed time, and what it is of."""

    collective: str
    mebibytes: int
    hosts: int
    #: The source's words: "default", or a delay, a rate, or both.
    setting: str
    #: NaN for a cell that is not given.
    printed_ms: float
    library: str = "gloo"

    @property
    def name(self) -> str:
        """A folder's name."""
        words = f"{self.collective}-{self.hosts}-{self.mebibytes}-{self.setting}"
        return re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")

    @property
    def calls(self) -> int:
        """How often Gloo is called."""
        if self.collective not in ADDING:
            return CALLS
        of_two_kinds = self.setting.startswith("delay 1 ms,") and not math.isnan(self.printed_ms)
        return CALLS_OF_TWO_KINDS if of_two_kinds else CALLS_WITH_ADDITIONS

    @property
    def is_fitted(self) -> bool:
        """Whether a value was chosen by it."""
        return bool(self.fitted)

    @property
    def fitted(self) -> str:
        """The value that was chosen by it; "" for none."""
        cell = self.library, self.collective, self.setting
        if cell == FITTED:
            return "pause between calls"
        return "compute time" if cell == FITTED_COMPUTATION and self.hosts == FITTED_HOSTS else ""

    @property
    def netem(self) -> str:
        """The words of the netem on every host's egress; "none" for the default network. Raises ValueError for other words."""
        # The cloud's limit of a connection stays where there is a delay alone, and netem takes the place of the queue
        # that keeps it. Only rows of one connection have such a setting.
        return self.netem_with(f"{FLOW_GBPS}gbit")

    def netem_with(self, own_rate: str) -> str:
        """The same, with this rate where the setting has a delay alone; "" for none."""
        delay, rate = re.search(r"delay (\d+) ms", self.setting), re.search(r"rate (\d+) Gbit/s", self.setting)
        if self.setting == "default":
            return "none"
        if not delay and not rate:
            raise ValueError(f"a setting of {SOURCE} is {self.setting!r}: must be a delay, a rate, or both")
        words = [f"delay {delay[1]}ms"] if delay else []
        if kept := f"{rate[1]}gbit" if rate else own_rate:
            words.append(f"rate {kept}")
        limit = NETEM_PACKETS
        if delay and rate:
            limit = round(LIMIT_FACTOR * float(rate[1]) * 1e9 / 8 * float(delay[1]) / 1e3 / LIMIT_PACKET_BYTES)
        return " ".join([*words, f"limit {limit}"])


def later_ms(calls_s: Sequence[float]) -> float:
    """Mean of all calls but the first, in ms. Raises ValueError for a single call."""
    if len(calls_s) < 2:
        raise ValueError(f"{len(calls_s)} calls: the first is not counted, so there must be two")
    return statistics.mean(calls_s[1:]) * 1e3


def rows_of(lines: Iterable[dict[str, str]], what: re.Pattern[str] = WHAT) -> list[Row]:
    """A library's rows of the given values, with few hosts and bytes first. what: of its names, by default Gloo's."""
    found = []
    for line in lines:
        match = what.fullmatch(line["what"])
        if line["source"] == SOURCE and match and line["unit"] == "ms":
            cell = match[1], int(match[2]), int(match[3]), line["setting"], float(line["printed"])
            found.append(Row(*cell, library=line["what"].split()[0]))
    return sorted(found, key=lambda row: (row.hosts, row.mebibytes, row.collective, row.printed_ms))


def scenario(
    row: Row, python: str, calls: int, hosts_tcp: str, pause_s: float = PAUSE_S, cpu_time: float = CPU_TIME
) -> Document:
    """A row as a scenario of programs."""
    arguments: Document = {
        "python": python,
        "collective": row.collective,
        "mib": row.mebibytes,
        "calls": calls,
        "netem": row.netem,
        "pause_s": pause_s,
        "host_costs": str(path_of_library()),
    }
    return {
        "title": f"Gloo's {row.collective} of {row.mebibytes} MiB on {row.hosts} hosts, {row.setting}",
        "metric": "time_s",
        "cluster": {"workers": row.hosts},
        "fabric": fabric_of(hosts_tcp),
        "program": {
            "gloo": {
                "command": "test -r $host_costs && exec env LD_PRELOAD=$host_costs "
                f'$python {RANKS} $collective $mib $calls "$netem" $pause_s',
                "launch": "torch",
                "arguments": arguments,
            }
        },
        "run": {
            "memory_mb": OTHER_MB + HOST_MB * row.hosts,
            "time_limit": "3000s",
            "stall_limit": "1000s",
            "cpu_time": cpu_time,
        },
    }


def fabric_of(hosts_tcp: str) -> Document:
    """The cloud's network, of any library's rows; what tc adds is each host's own."""
    return {
        "rate": f"{LINE_GBPS:g}gbit",
        "flow_rate": f"{FLOW_GBPS:g}gbit",
        "delay": f"{ROUND_TRIP_S / LINKS_OF_ROUND_TRIP * 1e6:g}us",
        "mtu_bytes": MTU_BYTES,
        "hosts": hosts_tcp,
    }


def programs(row: Row) -> Programs:
    """A row as programs to run, which the world's score knows."""
    return Programs(
        name=row.name,
        document=partial(scenario, row, calls=row.calls, hosts_tcp=HOSTS_TCP),
        figure="time_s",
        ordered_by="call",
        value=later_ms,
        alone=f"{ALONE} --only '^{row.name}$'" + (" --further" if math.isnan(row.printed_ms) else ""),
    )
