"""`gradwire ccl` as users call it."""

from __future__ import annotations

import csv
import itertools
import json
from pathlib import Path
from typing import Any

import pytest

TWO = ("ccl", "all-reduce", "--machines", "2", "--nic", "200gbit")


def test_the_table_is_nccl_tests_one_with_what_was_chosen(call: Any) -> None:
    status, out, err = call(*TWO, "--sizes", "8..1KiB")
    assert (status, err) == (0, "")
    rows = [line.split() for line in out.splitlines() if not line.startswith("#")]
    assert rows[0][:4] == ["8", "2", "float", "sum"]
    assert len(rows) == 8
    assert all(("Tree", "LL") in itertools.pairwise(row) for row in rows)


def test_it_is_a_gate(call: Any) -> None:
    status, out, err = call(*TWO, "--sizes", "8", "--expect", "1GiB=316.93GB/s:10%")
    assert (status, err) == (0, "")
    assert "holds" in out
    status, out, err = call(*TWO, "--sizes", "8", "--expect", "1GiB=1GB/s", "--expect", "1GiB=316.93GB/s:1%")
    assert status == 1
    assert "DOES NOT HOLD" in err
    status, out, err = call(*TWO, "--sizes", "8", "--json", "--expect", "1GiB=316.93GB/s:1%")
    assert (status, err) == (1, "")
    assert [one["holds"] for one in json.loads(out)["expected"]] == [False]


def test_programs_read_it(call: Any, tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    status, out, err = call(*TWO, "--sizes", "1MiB", "--json", "--csv", str(file), "--env", "NCCL_ALGO=Ring")
    assert (status, err) == (0, "")
    row = json.loads(out)["rows"][0]
    assert (row["size_bytes"], row["count"], row["algorithm"]) == (2**20, 2**18, "Ring")
    assert [one["algorithm"] for one in csv.DictReader(file.read_text().splitlines())] == ["Ring"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--gpu", "k40"), "--gpu k40: must be one of p100, v100"),
        (("--nic", "fast"), "--nic fast: must be a rate"),
        (("--nccl", "2.4"), "must be one of 2.18"),
        (("--env", "NCCL_ALGO"), "must be NAME=VALUE"),
        (("--env", "NCCL_ALGO=NVLS", "--nccl", "2.24"), "has no algorithm"),
        (("--machine-rate", "0GB/s"), "at least 1MB/s"),
        (("--sizes", "lots"), "size lots"),
        (("--machines", "0"), "--machines 0: must be 1 to "),
        (("--machines", "1", "--gpus", "1"), "two GPUs or more"),
    ],
)
def test_wrong_options_are_input_faults(call: Any, options: tuple[str, ...], message: str) -> None:
    status, out, err = call("ccl", *options)
    assert (status, out) == (2, "")
    assert message in err
