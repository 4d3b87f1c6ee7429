"""Parameters of hosts' kernels, in virtual time: what is asked is there when the first byte leaves, for plans and for programs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import gradwire
from gradwire.csv_files import read_csv
from tests.end_to_end.programs.test_program_scenario import run
from tests.shared.parts import tells

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("virtual_kernel")]

PLAN = """
title = "Two of three hosts have BBR"
[cluster]
workers = 3
[fabric]
rate = "10gbit"
[fabric.host."h[12]"]
sysctl = { "net.ipv4.tcp_congestion_control" = "bbr" }
[fabric.host.h3]
sysctl.net.ipv4.tcp_autocorking = 1
[model]
name = "toy"
layers = [{ name = "fc", size = ["20MB"], forward = "1ms", backward = "1ms" }]
[strategy]
name = "ring"
"""
PROGRAMS = (
    """
title = "What hosts have"
[cluster]
workers = 2
[fabric]
rate = "10gbit"
delay = "1.5us"
[fabric.host.all]
sysctl = { "net.ipv4.tcp_limit_output_bytes" = 262144 }
[fabric.host.h1]
sysctl = { "net.ipv4.tcp_congestion_control" = "swift" }
[fabric.host.h2]
sysctl = { "net.ipv4.tcp_congestion_control" = "nscc" }
[program.look]
command = """
    + "'''"
    + """
cd /proc/sys/net/ipv4
control=$(cat tcp_congestion_control) unsent=$(cat tcp_limit_output_bytes) base_us=$(cat tcp_base_rtt_us)
echo "{\\"control\\": \\"$control\\", \\"unsent\\": $unsent, \\"base_us\\": $base_us}" >>$GRADWIRE_FIGURES
"""
    + "'''"
    + """
"""
)


def test_the_connections_of_a_plan_have_what_their_hosts_were_given(tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(PLAN)
    found = gradwire.run(tmp_path / "plan.toml", out=tmp_path / "run", progress=False)
    assert found.valid
    (folder,) = (tmp_path / "run" / "points").iterdir()
    record = json.loads((folder / "record.json").read_text())
    controls = {state["src_host"]: state["congestion"] for agent in record["agents"] for state in agent["sockets"]}
    assert controls == {0: "bbr", 1: "bbr", 2: "cubic"}
    checks = {check["name"]: check for check in json.loads((folder / "verdict.json").read_text())["checks"]}
    assert tells(checks["host parameters"]["value"], "3 of 3", "net.ipv4.tcp_autocorking = '0'", "h3")


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("net.ipv4.no_such_thing=1", "host h1 has no such parameter"),
        ("net.ipv4.tcp_congestion_control=nonsense", "the kernel of host h1 refuses it"),
    ],
)
def test_a_parameter_that_cannot_be_set_is_one_message(tmp_path: Path, setting: str, words: str) -> None:
    (tmp_path / "own.toml").write_text(PLAN)
    done = run(tmp_path, "--set", f"fabric.host.all.sysctl.{setting}")
    assert done.returncode == 1
    said = " ".join((done.stdout + done.stderr).split())
    assert words in said
    assert f"fabric.host.'all'.sysctl.'{setting.partition('=')[0]}'" in said


def test_programs_find_them_and_the_verdict_knows_who_changed_them(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(PROGRAMS)
    done = run(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = read_csv(tmp_path / "runs" / "own" / "figures.csv")
    assert [(row["host"], row["control"], row["unsent"], row["base_us"]) for row in rows] == [
        ("h1", "swift", "262144", "6"),
        ("h2", "nscc", "262144", "6"),
    ]
    (tmp_path / "own.toml").write_text(
        PROGRAMS.replace("\ncd", "\necho 4096 >/proc/sys/net/ipv4/tcp_limit_output_bytes; cd")
    )
    done = run(tmp_path, "--out", "changed")
    assert done.returncode == 1
    assert tells(done.stdout, "net.ipv4.tcp_limit_output_bytes", "h1", "'4096'")
