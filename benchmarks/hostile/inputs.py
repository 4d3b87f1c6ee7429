"""Reads many hostile inputs of each kind in tests/hostile/kinds.py: `python -m benchmarks.hostile.inputs [--inputs N] [--only KIND]
[--first N]`.

Each must be taken, or refused with a message that a person can read, within the budget of gradwire/reading_budget.py. What is not is
printed with its number, which makes the same input again, and makes the command end with status 1. benchmarks/hostile/traces.py does the
same for traces.
"""

from __future__ import annotations

import argparse
import logging
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path

from tests.hostile.kinds import KINDS


def tried(kind: str, first: int, count: int) -> Counter[str]:
    """Tries inputs of a kind and prints what went wrong; returns how many ended how."""
    ended: Counter[str] = Counter()
    slowest_s, slowest = 0.0, first
    with tempfile.TemporaryDirectory() as folder:
        for number in range(first, first + count):
            found = KINDS[kind](number, Path(folder))
            ended[found.ended] += 1
            slowest_s, slowest = max((slowest_s, slowest), (found.took_s, number))
            if not found.sound:
                print(f"{kind} {number}: {found.ended}\n{found.details}", flush=True)
    shown = ", ".join(f"{how} {times:,}" for how, times in ended.most_common())
    print(f"{kind}: {count:,} inputs: {shown}; the slowest ({slowest}) took {slowest_s:.2f} s", flush=True)
    return ended


def main() -> None:
    """Reads the arguments, and tries the kinds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=3000, help="of each kind")
    parser.add_argument("--only", choices=list(KINDS), help="this kind alone")
    parser.add_argument("--first", type=int, default=0, help="number of the first input")
    arguments = parser.parse_args()
    logging.disable()
    warnings.simplefilter("ignore")
    begun_s = time.monotonic()
    ended: Counter[str] = Counter()
    for kind in [arguments.only] if arguments.only else KINDS:
        ended += tried(kind, arguments.first, arguments.inputs)
    print(f"{sum(ended.values()):,} inputs in {time.monotonic() - begun_s:.0f} s")
    if set(ended) - {"taken", "refused"}:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
