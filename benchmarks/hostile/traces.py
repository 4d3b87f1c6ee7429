"""Imports many hostile traces and says how each kind ended: `python -m benchmarks.hostile.traces [--inputs N] [--only
FORMAT] [--first N]`.

Every input must end with a workload or with one message, within 5 s of the processor and 2 GiB of memory. What does
not is printed with its number, which makes the same input again, and makes the command end with status 1.
"""

from __future__ import annotations

import argparse
import faulthandler
import logging
import resource
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.hostile.inputs import FORMATS, hostile_input
from tests.hostile.trial import limited_memory, outcome

HANGS_S = 120
"""Of wall time, after which the process says where it is and ends: code that no signal interrupts."""


def tried(format_name: str, first: int, count: int) -> Counter[str]:
    """Tries inputs of a format and prints what went wrong; returns how many ended how."""
    ended: Counter[str] = Counter()
    slowest_s, slowest = 0.0, first
    with tempfile.TemporaryDirectory() as folder, limited_memory():
        for number in range(first, first + count):
            faulthandler.dump_traceback_later(HANGS_S, exit=True)
            found = outcome(hostile_input(format_name, number), Path(folder))
            ended[found.ended] += 1
            if found.took_s > slowest_s:
                slowest_s, slowest = found.took_s, number
            if not found.sound:
                print(f"{format_name} {number}: {found.ended}\n{found.details}", flush=True)
    faulthandler.cancel_dump_traceback_later()
    shown = ", ".join(f"{how} {times:,}" for how, times in ended.most_common())
    print(f"{format_name}: {count:,} inputs: {shown}; the slowest ({slowest}) took {slowest_s:.2f} s", flush=True)
    return ended


def main() -> None:
    """Reads the arguments, and tries the formats."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=3000, help="in all, divided among the formats")
    parser.add_argument("--only", choices=FORMATS, help="this format alone")
    parser.add_argument("--first", type=int, default=0, help="number of the first input")
    arguments = parser.parse_args()
    logging.disable()
    formats = [arguments.only] if arguments.only else list(FORMATS)
    begun_s = time.monotonic()
    ended: Counter[str] = Counter()
    for name in formats:
        ended += tried(name, arguments.first, -(-arguments.inputs // len(formats)))
    peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(
        f"{sum(ended.values()):,} inputs in {time.monotonic() - begun_s:.0f} s, {peak_bytes / 1e9:.2f} GB of memory "
        "at most"
    )
    if set(ended) - {"workload", "refused"}:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
