"""Measures what gradwire costs, compared with other tools and as traffic grows: `python -m benchmarks.performance
[--write] [PART...]`.

Parts are those of PARTS; without any, all are measured, in half an hour. Figures are kept in figures.json, and --write
puts them and the chart into docs/performance.md. Wall times are those of whatever else the machine does; run it on an
idle one.
"""

from __future__ import annotations

import argparse
import os
import platform
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.performance import chart, parts
from benchmarks.performance.cost import Cost, Figures, MessageFigure
from benchmarks.performance.page import PAGE, WORDS, written

PARTS: dict[str, Callable[[int], Iterator[Cost | MessageFigure]]] = {
    "side_by_side": parts.with_other_tools,
    "hosts": parts.over_hosts,
    "rates": parts.over_rates,
    "sizes": parts.over_sizes,
    "messages": parts.over_messages,
    "agents": parts.messages_by_code,
    "start_up": parts.started,
    "commands": parts.timed_commands,
}


def machine() -> str:
    """Processor, cores and memory."""
    names = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    cores = len(os.sched_getaffinity(0))
    return f"{names[0].split(':')[1].strip() if names else platform.machine()}, {cores} cores, {memory:.0f} GiB"


def main() -> None:
    """Measures, and keeps each part as soon as it is there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", choices=[*PARTS, []])
    parser.add_argument("--rounds", type=int, default=3, help="of each measurement that does not take minutes")
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    figures = Figures.load()
    for part in arguments.parts or PARTS:
        costs: list[Cost | MessageFigure] = []
        for cost in PARTS[part](arguments.rounds):
            costs.append(cost)
            print(f"{part}: {cost.text()}", flush=True)
        setattr(figures, part, costs)
        figures.machine = machine()
        if arguments.write:
            figures.save()
    if arguments.write:
        PAGE.write_text(written(WORDS.read_text(encoding="utf-8"), figures), encoding="utf-8")
        chart.draw(figures)


if __name__ == "__main__":
    main()
