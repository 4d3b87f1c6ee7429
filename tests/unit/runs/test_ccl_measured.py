"""What docs/ccl.md predicts of measured values is what the command predicts today, with the options that the page has."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from gradwire.runs.ccl import kind_of, size_of
from gradwire.runs.ccl_calls import call_machines
from gradwire.runs.ccl_machines import CclOptions, TestedCall
from tests.shared.ccl_given import USUAL
from tests.shared.snippets import ROOT

NAMES = {"--nccl": "version", "--env": "variables"}
UNPRINTED = {"size not printed": "1GiB", "peak over sizes": "16GiB"}
OTHERS = ("broadcast", "all-to-all", "send/recv")
UNITS = {"us": 1e6, "ms": 1e3}
_ROW = re.compile(
    r"^\| (?P<what>[^|]+) \| (?:`(?P<options>[^`]+)`)? ?\| (?P<measured>[0-9.]+) ?(?P<unit>us|ms)? \| (?P<predicted>[0-9.]+)[^|]* "
    r"\| (?P<error>[^|]+) \|$",
    re.M,
)


@dataclass(frozen=True)
class PageRow:
    """A row of the page's table."""

    given: CclOptions
    kind: TestedCall
    size_bytes: int
    measured: float
    unit: str | None
    predicted: float
    #: What the page says of the difference; None: the row is fitted.
    error: float | None


def options_of(text: str) -> CclOptions:
    words = shlex.split(text)
    changes: dict[str, Any] = {}
    flags = [word for word in words if word.startswith("--no-")]
    changes |= {flag.removeprefix("--no-"): False for flag in flags}
    words = [word for word in words if word not in flags]
    for option, value in zip(words[::2], words[1::2], strict=True):
        name = NAMES.get(option, option.removeprefix("--"))
        if name == "variables":
            changes[name] = (*changes.get(name, ()), value)
        else:
            changes[name] = int(value) if value.isdecimal() else value
    return replace(USUAL, nic="400gbit", **changes) if "nic" not in changes else replace(USUAL, **changes)


def rows() -> Iterator[PageRow]:
    options, size = "", ""
    for found in _ROW.finditer((ROOT / "docs" / "ccl.md").read_text()):
        what = found["what"]
        printed = re.search(r"(?P<number>\d+) (?P<unit>[KMG]i?B|bytes)\b", what)
        size = printed["number"] + printed["unit"].replace("bytes", "B") if printed else _unprinted(what) or size
        # A row that names no machines is of those above it.
        options = found["options"] or ("" if re.match(r"2 x 8 H100, 8 x 400|2 DGX", what) else options)
        error = found["error"]
        yield PageRow(
            given=options_of(options),
            kind=kind_of(next((kind for kind in OTHERS if kind in what), "all-reduce")),
            size_bytes=size_of(size),
            measured=float(found["measured"]),
            unit=found["unit"],
            predicted=float(found["predicted"]),
            error=None if error == "fitted" else float(error.removesuffix(" %")) / 100,
        )


def _unprinted(what: str) -> str:
    return next((size for words, size in UNPRINTED.items() if words in what), "")


ROWS = list(rows())


def test_the_page_has_all_rows() -> None:
    assert len(ROWS) >= 62
    assert sum(row.error is None for row in ROWS) == 10


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.measured:g}")
def test_the_page_has_todays_predictions(row: PageRow) -> None:
    now = call_machines(row.given, row.kind).row(row.size_bytes, 4)
    value = now.bus_bytes_per_s / 1e9 if row.unit is None else now.time_s * UNITS[row.unit]
    assert value == pytest.approx(row.predicted, rel=0.005)
    error = row.predicted / row.measured - 1
    assert abs(error) < 0.02 if row.error is None else error == pytest.approx(row.error, abs=0.001)
