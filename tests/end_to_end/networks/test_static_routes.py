"""Networks whose ways a table says, in virtual time: packets take them, as the verdict counts on every line, and times are ideal."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradwire.csv_files import read_csv
from tests.shared.commands import gradwire_command

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("virtual_kernel")]

TEXT = """
title = "Ways of a table"
[cluster]
workers = 8
[fabric]
rate = "10gbit"
{fabric}
routing = "static"
routes = "routes.csv"
[model]
name = "one-layer"
layers = [{{ name = "fc", size = ["8MB"], forward = "1ms", backward = "1ms" }}]
[strategy]
name = "{strategy}"
[run]
warmup = 1
iterations = 2
[transport]
connections = {connections}
"""
RING = 'topology = "ring"\nswitches = 4'
LEAF_SPINE = 'topology = "leaf-spine"\nleaves = 4\nspines = 2'
CLOCKWISE = ["s1,*,s2", "s2,*,s3", "s3,*,s4", "s4,*,s1"]
SPINES = ["s[1-4],*,s5 s6", "s1,h3,s6"]
SPINES += [f"s[56],h{host},s{leaf}" for leaf in range(1, 5) for host in (2 * leaf - 1, 2 * leaf)]
CASES = {
    "one way around": (RING, CLOCKWISE, "ring", 1),
    "one way around, all to all": (RING, CLOCKWISE, "vanilla", 1),
    "several next hops": (LEAF_SPINE, SPINES, "ring", 4),
    "multicast": (LEAF_SPINE, SPINES, "multicast-ps", 1),
}


@pytest.mark.parametrize("name", CASES)
def test_a_run_is_valid_and_takes_its_ideal_time(name: str, tmp_path: Path) -> None:
    fabric, rows, strategy, connections = CASES[name]
    (tmp_path / "routes.csv").write_text("\n".join(["switch,destination,next", *rows, ""]))
    (tmp_path / "static.toml").write_text(TEXT.format(fabric=fabric, strategy=strategy, connections=connections))
    done = gradwire_command("run", str(tmp_path / "static.toml"), "--out", str(tmp_path / "run"))
    (row,) = read_csv(tmp_path / "run" / "points.csv")
    assert row["verdict"] == "valid", done.stdout + done.stderr
    assert "unexplained" not in done.stdout
    if connections == 1:
        assert float(row["iteration_time_s"]) == pytest.approx(float(row["fluid_time_s"]), rel=0.01)
