"""What docs/ccl.md predicts of measured values is what the command predicts today."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from gradwire.runs.ccl import kind_of, row_of, set_up, size_of
from tests.shared.ccl_given import USUAL
from tests.shared.snippets import ROOT

PAGE = (ROOT / "docs" / "ccl.md").read_text()
TCP = {"nics": 1, "transport": "tcp"}
B200 = {"machines": 4, "gpu": "b200", "version": "2.27", "transport": "efa", "nic": "400gbit"}
V100 = {"machines": 4, "gpus": 1, "gpu": "v100", "version": "2.18", **TCP}
ROWS = [
    ("465.43", {"machines": 1}, "all-reduce", "1GiB"),
    ("316.93", {}, "all-reduce", "1GiB"),
    ("123 us", {}, "all-reduce", "8"),
    ("175 us", TCP, "all-reduce", "8"),
    ("23.7", TCP, "all-reduce", "1GiB"),
    ("1.01", {**TCP, "machines": 3, "variables": ("NCCL_ALGO=Ring",)}, "all-reduce", "4MB"),
    ("4.54", {**TCP, "machines": 3, "variables": ("NCCL_ALGO=Tree",)}, "all-reduce", "4MB"),
    ("5.37", B200, "all-reduce", "1MiB"),
    ("156.74", B200, "all-reduce", "64MiB"),
    ("381.8", B200, "all-reduce", "16GiB"),
    ("160.1", {"machines": 4, "nic": "400gbit", "transport": "efa"}, "all-reduce", "1GiB"),
    ("175 ms", {**V100, "nic": "10gbit", "delay": "100us"}, "all-reduce", "128MiB"),
    ("329 ms", {**V100, "nic": "5gbit", "delay": "1ms"}, "all-reduce", "128MiB"),
    ("835 ms", {**V100, "nic": "2gbit", "delay": "5ms"}, "all-reduce", "128MiB"),
    ("1669 ms", {**V100, "nic": "1gbit", "delay": "10ms"}, "all-reduce", "128MiB"),
    ("1441 ms", {**V100, "nic": "1gbit", "delay": "10ms"}, "broadcast", "128MiB"),
]


@pytest.mark.parametrize(("measured", "options", "kind", "size"), ROWS)
def test_the_page_has_todays_predictions(measured: str, options: dict[str, Any], kind: str, size: str) -> None:
    comm, wires, _ = set_up(replace(USUAL, **options))
    row = row_of(comm, wires, kind_of(kind), size_of(size), 4)
    line = re.search(rf"^\|.*\| {re.escape(measured)} \| (?P<predicted>[0-9.]+)(?P<unit> us| ms|) \|.*$", PAGE, re.M)
    assert line is not None
    value = {" us": row.time_s * 1e6, " ms": row.time_s * 1e3}.get(line["unit"], row.bus_bytes_per_s / 1e9)
    assert value == pytest.approx(float(line["predicted"]), rel=0.005)
