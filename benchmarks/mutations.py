"""Puts faults in on purpose and says which check finds each: `python -m benchmarks.mutations [--write] [--only WORDS]
[FAMILY...]`.

Families are those of tests/mutations/fault.py; without any, all of them run, in ten minutes on one core. --write puts
what was found into tests/mutations/outcomes.md after each fault; docs/mutations.md has the counts.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator

from tests.mutations.fault import FAMILIES, Outcome, faults_of
from tests.mutations.page import PAGE, score, verdict_on, written
from tests.mutations.trial import outcome


def outcomes(family: str, words: str) -> Iterator[Outcome]:
    """Tries every fault of a family whose name has these words."""
    for fault in faults_of(family).values():
        if words not in fault.name:
            continue
        found = outcome(family, fault)
        print(
            f"{family:7} {fault.name:55} {verdict_on(found)}",
            f"({found.remark})" if found.caught_by else "",
            flush=True,
        )
        yield found


def main() -> None:
    """Reads the arguments, and tries the families."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("families", nargs="*", metavar="FAMILY", choices=[*FAMILIES, []])
    parser.add_argument("--only", default="", metavar="WORDS", help="only faults whose names have these words")
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    found: list[Outcome] = []
    for each in itertools.chain.from_iterable(
        outcomes(family, arguments.only) for family in arguments.families or FAMILIES
    ):
        found.append(each)
        if arguments.write:
            PAGE.write_text(written(PAGE.read_text(), [each]))
    print(score(map(verdict_on, found)))


if __name__ == "__main__":
    main()
