"""Users' controllers, in virtual time: flows decide ways, as the verdict counts on every line, and what has none is an error."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradwire import PACKAGE
from gradwire.csv_files import read_csv
from tests.end_to_end.networks.test_static_routes import LEAF_SPINE
from tests.shared.commands import gradwire_command
from tests.shared.parts import tells

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("virtual_kernel")]

EXAMPLE = (PACKAGE.parent / "examples" / "spine_by_destination.py").read_text()
OF_RYU = EXAMPLE.replace("os_ken.", "ryu.").replace("from os_ken", "from ryu").replace("OSKenApp", "RyuApp")
SCENARIO = f"""
title = "Ways of a controller"
[cluster]
workers = 8
[fabric]
rate = "10gbit"
{LEAF_SPINE}
controller = "app.py"
[model]
name = "one-layer"
layers = [{{ name = "fc", kind = "fc", size = ["SIZE"], forward = "1ms", backward = "1ms" }}]
[strategy]
name = "STRATEGY"
[run]
warmup = 1
iterations = 2
"""


def ran(folder: Path, app: str, strategy: str, size: str) -> tuple[dict[str, str], str]:
    (folder / "app.py").write_text(app)
    (folder / "own.toml").write_text(SCENARIO.replace("STRATEGY", strategy).replace("SIZE", size))
    done = gradwire_command("run", str(folder / "own.toml"), "--out", str(folder / "run"), limit_s=500)
    (row,) = read_csv(folder / "run" / "points.csv")
    return row, " ".join((done.stdout + done.stderr).split())


@pytest.mark.parametrize(("app", "strategy", "size"), [(EXAMPLE, "ring", "8MB"), (OF_RYU, "p3", "40MB")])
def test_a_run_is_valid_and_takes_its_ideal_time(app: str, strategy: str, size: str, tmp_path: Path) -> None:
    row, said = ran(tmp_path, app, strategy, size)
    assert row["verdict"] == "valid", said
    assert "unexplained" not in said
    assert float(row["iteration_time_s"]) == pytest.approx(float(row["fluid_time_s"]), rel=0.03)


def test_a_missing_flow_is_an_error_with_hosts_and_switch(tmp_path: Path) -> None:
    app = EXAMPLE.replace(
        "for number, host in enumerate(self.hosts):", "for number, host in enumerate(self.hosts[:7]):"
    )
    row, said = ran(tmp_path, app, "ring", "1MB")
    assert row["verdict"].startswith("invalid: InputFault")
    assert tells(said, "fabric.controller:", "h1 to h8", "at s1:", "h8")
