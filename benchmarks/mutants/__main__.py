"""Changes modules a little and says which changes the unit tests do not notice: a comparison, a number, a term or a
statement is another.

    python -m benchmarks.mutants MODULE.py... [--tests PATH...] [--sample N] [--seed N] [--lines A,B] [--budget SECONDS]

MODULE.py is a path such as gradwire/analysis/verdict/byte_checks.py. The tests are run once as they are, to see which
of them call which function. Each change is then made in a copy of the tree and tried against those that call its
function, the quickest first. A change that survives is either the same program in other words, or a line that no test
holds in place. One process runs at a time.
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
from collections import Counter
from pathlib import Path

from benchmarks.mutants.changes import Change, changes_of
from benchmarks.mutants.trial import Ending, copied, ending, observed

TREE = Path(__file__).resolve().parent.parent.parent


def chosen(source: str, lines: set[int], sample: int, seed: int) -> list[Change]:
    """Some of a module's changes, the same each time; all of those in `lines`, if any are given."""
    changes = changes_of(source)
    if lines:
        return [change for change in changes if change.line in lines]
    drawn = random.Random(seed).sample(changes, min(sample, len(changes)))
    return sorted(drawn, key=lambda change: (change.begin, change.end, change.text))


def main(original: Path = TREE) -> None:
    """Reads the arguments, and tries the changes in a copy of a tree."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.mutants", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("modules", nargs="+", metavar="MODULE.py")
    parser.add_argument("--tests", nargs="+", default=["tests/unit"], metavar="PATH")
    parser.add_argument("--sample", type=int, default=20, help="changes of each module (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lines", default="", help="all changes of these lines, and no others")
    parser.add_argument("--budget", type=float, default=20.0, help="CPU seconds of tests for each change")
    arguments = parser.parse_args()
    lines = {int(line) for line in arguments.lines.split(",") if line}
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        tree = Path(folder)
        copied(original, tree)
        reach = observed(tree, arguments.tests, arguments.modules)
        for path in arguments.modules:
            counts: Counter[Ending] = Counter()
            for change in chosen((tree / path).read_text(encoding="utf-8"), lines, arguments.sample, arguments.seed):
                end = ending(tree, path, change, reach, arguments.budget)
                counts[end] += 1
                if end is not Ending.KILLED:
                    print(f"{path}:{change.line}: {end.value}: {change}", flush=True)
            summary = ", ".join(f"{counts[end]} {end.value}" for end in Ending if counts[end])
            print(f"{path}: {counts.total()} changes: {summary}", flush=True)


if __name__ == "__main__":
    main()
