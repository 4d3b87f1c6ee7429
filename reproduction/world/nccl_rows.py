"""Rows of NCCL over sockets as scenarios of programs: what NCCL 2.7 does with its connections, without a GPU, on the hosts
and the network that the rows of Gloo have (gloo_rows).

Nothing is fitted on them: the pause between calls is Gloo's.
"""

from __future__ import annotations

import math
import re
import sys
from pathlib import Path

from gradwire.documents import Document
from reproduction.world.cells import By, Programs
from reproduction.world.gloo_rows import CALLS, HOSTS_TCP, Row, fabric_of, later_ms

RANKS = Path(__file__).parent / "nccl_ranks.py"
SOCKETS = 8
"""The source: NCCL_SOCKET_NTHREADS = 1 and NCCL_NSOCKS_PERTHREAD = "8 or 16", of each channel."""
CHANNELS = {"p2p": 1}
"""For sends to another machine (`ncclTopoGetNchannels`, src/graph/paths.cc:473, NCCL 2.7.8)."""
RINGS = 2
"""The search finds one ring, and each is there twice (`ncclTopoPostset`, src/graph/connect.cc:291)."""
PAUSE_S = 1.0
"""What hosts do besides communicating before each call, fitted to the row of Gloo's that its own pause is fitted to, where
hosts' kernels take no time, as here: it takes 0.467 s without a pause, 0.530 s after 1 s, and 0.532 s as printed."""
HOST_MB, OTHER_MB = 100, 1000
MOST_HOSTS = 4
"""Of cells that are not given, beyond which `gradwire reproduce` keeps to plans, which are within a few per cent: on one core, the program
takes one to five minutes for a cell of 8 hosts, and twice as long for twice as many."""
ALONE = "python -m reproduction.world.nccl"
WHAT = re.compile(r"nccl (p2p|all-reduce|broadcast|reduce), (\d+) MiB, (\d+) hosts")


def scenario(
    row: Row, calls: int = CALLS, pause_s: float = PAUSE_S, sockets: int = SOCKETS, hosts_tcp: str = HOSTS_TCP
) -> Document:
    """A row as a scenario of programs. They need no module beyond Python's own."""
    arguments: Document = {
        "python": sys.executable,
        "collective": row.collective,
        "mib": row.mebibytes,
        "calls": calls,
        "netem": row.netem_with(""),
        "pause_s": pause_s,
        "sockets": sockets,
        "channels": CHANNELS.get(row.collective, RINGS),
    }
    return {
        "title": f"NCCL's sockets, {row.collective} of {row.mebibytes} MiB on {row.hosts} hosts, {row.setting}",
        "metric": "time_s",
        "cluster": {"workers": row.hosts},
        "fabric": fabric_of(hosts_tcp),
        "program": {
            "nccl": {
                "command": f'$python {RANKS} $collective $mib $calls "$netem" $pause_s $sockets $channels',
                "launch": "torch",
                "arguments": arguments,
            }
        },
        "run": {"memory_mb": OTHER_MB + HOST_MB * row.hosts, "time_limit": "3000s", "stall_limit": "1000s"},
    }


def name_of(row: Row) -> str:
    """A folder's name."""
    return f"nccl-{row.name}"


def programs(row: Row) -> Programs:
    """A row as programs to run, which the world's score knows."""
    return Programs(
        name=name_of(row),
        document=lambda _: scenario(row),
        figure="time_s",
        ordered_by="call",
        value=later_ms,
        alone=f"{ALONE} --only '^{name_of(row)}$'" + (" --further" if math.isnan(row.printed_ms) else ""),
        kind=By.SOCKETS,
    )
