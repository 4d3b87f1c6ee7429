"""Whatever a scenario, a captured packet or a message's header has in it, it is taken or refused with one message, and soon.

`python -m benchmarks.hostile.inputs --inputs 100000` tries many more.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from gradwire.faults import LONGEST_LINE, MOST_LINES, InputFault, shortened
from tests.hostile.changes import MOST_BYTES, as_text
from tests.hostile.kinds import KINDS


@pytest.mark.filterwarnings("ignore")  # of code that is not as it should be
@pytest.mark.parametrize(
    ("kind", "count"),
    [
        *(("scenario", 80), ("file", 45), ("wire", 400), ("capture", 150), ("run", 40)),
        *(("code", 40), ("reader", 280), ("script", 40)),
    ],
)
def test_it_is_taken_or_refused(tmp_path: Path, kind: str, count: int) -> None:
    ended = set()
    for number in range(count):
        found = KINDS[kind](number, tmp_path)
        assert found.sound, f"{kind} {number}: {found.ended}\n{found.details}"
        ended.add(found.ended)
    assert ended == {"taken", "refused"}


def test_a_text_that_is_made_longer_fits_into_memory() -> None:
    line = b"word " * (MOST_BYTES // 50)
    assert max(len(as_text(line, Random(seed))) for seed in range(20)) <= MOST_BYTES


def test_a_message_has_the_beginning_of_a_word_that_nobody_reads() -> None:
    fault = InputFault(f"model '{'x' * 5000}' is unknown")
    assert str(fault) == f"model '{'x' * 59}... (5,002 characters) is unknown"
    path = "/" + "/".join(["folder"] * 100)
    assert shortened(path) == path


def test_a_message_can_be_read_however_long_lines_and_lists_are() -> None:
    ranks = ", ".join(map(str, range(5000)))
    said = shortened(f"group '5': [{ranks}] twice")
    assert len(said) <= LONGEST_LINE
    assert said.startswith("group '5': [0, 1,")
    assert said.endswith("4998, 4999] twice")
    lines = [f"line {number}" for number in range(MOST_LINES + 5)]
    *kept, last = shortened("\n".join(lines)).split("\n")
    assert kept == lines[:MOST_LINES]
    assert "5 more" in last
    assert shortened("\n".join(lines[:MOST_LINES])).split("\n") == lines[:MOST_LINES]
