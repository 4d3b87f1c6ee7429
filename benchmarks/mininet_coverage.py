"""What of Mininet runs under `gradwire mininet` and `gradwire mn`, unmodified: the tests of all built-in topologies, the
rates of links, and the examples that come with Mininet.

    .venv/bin/python -m benchmarks.mininet_coverage [WORD ...] [--wall-limit 300s]

WORD chooses rows whose names have it (default: all, which takes an hour). Each row is one command, with an end of input in
place of what a person would type. Its outcome is the exit status of the script; of one that failed or was stopped, the last
line says why. The last column is the clock of the wall, and means nothing on a busy machine.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from benchmarks.commands import gradwire

TOPOLOGIES = ("minimal", "single,3", "reversed,3", "linear,4", "tree,2", "torus,3,3")
LOOPING = "torus"
"""The topology with circles, for which Mininet's own documentation asks for switches with a spanning tree."""
RATES_MBPS = (10, 1_000, 10_000, 25_000, 40_000, 100_000)
FRAME_BYTES, PAYLOAD_BYTES = 1514, 1448
"""`bw` counts the bits of frames; TCP's payload is what is left of them."""
LINK = """
import json, sys
from functools import partial
from mininet.link import TCLink
from mininet.net import Mininet
from mininet.topo import SingleSwitchTopo
bw = float(sys.argv[1])
net = Mininet(topo=SingleSwitchTopo(2), link=partial(TCLink, bw=bw))
net.start()
h1, h2 = net["h1"], net["h2"]
h2.cmd("iperf3 -s -D")
said = json.loads(h1.cmd("iperf3 -J -t 1 -c", h2.IP()))
print("share", said["end"]["sum_received"]["bits_per_second"] / (bw * 1e6 * PAYLOAD / FRAME))
net.stop()
"""
CLOCKS = re.compile(r"([\d.]+) s of virtual time in ([\d.]+) s")


@dataclass(frozen=True)
class Row:
    """One command of gradwire's, and a script that it needs."""

    name: str
    words: tuple[str, ...]
    script: str = ""


def examples() -> Iterator[Row]:
    """Those that come with the installed Mininet."""
    spec = find_spec("mininet")
    folder = Path(spec.origin).parent / "examples" if spec and spec.origin else Path()
    for path in sorted(folder.glob("*.py")):
        if path.stem != "__init__":
            yield Row(path.stem, ("mininet", str(path)))


def rows() -> list[Row]:
    """All that are tried."""
    link = LINK.replace("PAYLOAD", str(PAYLOAD_BYTES)).replace("FRAME", str(FRAME_BYTES))
    return [
        *(Row(f"mn {name}", ("mn", "--topo", name, *_switch(name), "--test", "all")) for name in TOPOLOGIES),
        *(Row(f"link {rate}", ("mininet", "link.py", str(rate)), link) for rate in RATES_MBPS),
        *examples(),
    ]


def _switch(topology: str) -> tuple[str, ...]:
    return ("--switch", "ovsbr,stp=1") if topology.startswith(LOOPING) else ()


def tried(row: Row, wall_limit: str) -> str:
    """A row of the table: name, outcome, what it measured, virtual and wall time."""
    with tempfile.TemporaryDirectory() as folder:
        if row.script:
            (Path(folder) / "link.py").write_text(row.script)
        options = ["--wall-limit", wall_limit]
        words = ["mininet", *options, *(row.words[1:] if row.words[0] == "mininet" else row.words)]
        done = gradwire(*words, cwd=Path(folder))
    lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    said = next((line for line in reversed(lines) if "share" in line), "")
    written = [line for line in lines if not CLOCKS.search(line)] or ["nothing was written"]
    why = "" if done.returncode == 0 else written[-1].replace("|", "\\|")
    clocks = CLOCKS.search(done.stdout + done.stderr)
    virtual_s, wall_s = clocks.groups() if clocks else ("", "")
    return f"| {row.name} | {done.returncode} | {said}{why} | {virtual_s} | {wall_s} |"


def main(argv: Sequence[str]) -> None:
    """Prints the table, row by row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", metavar="WORD")
    parser.add_argument("--wall-limit", default="300s")
    options = parser.parse_args(argv)
    print(
        "| what | exit status | measured, or why it failed | virtual time (s) | wall time (s) |\n|---|---|---|---|---|"
    )
    for row in rows():
        if not options.words or any(word in row.name for word in options.words):
            print(tried(row, options.wall_limit), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
