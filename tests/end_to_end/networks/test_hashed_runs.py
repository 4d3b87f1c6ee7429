"""Whole runs on switches that hash connections: several connections, programs, multicast and faults are valid as without."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradwire.csv_files import read_csv
from tests.shared.commands import gradwire_command

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("virtual_kernel")]

TEXT = """
title = "Hashed connections"
[cluster]
workers = 8
[fabric]
rate = "2gbit"
topology = "leaf-spine"
leaves = 4
spines = 2
routing = "ecmp"
[model]
name = "one-layer"
layers = [{ name = "fc", size = ["8MB"], forward = "1ms", backward = "1ms" }]
[strategy]
name = "ring"
[run]
warmup = 1
iterations = 2
"""
SETTINGS = {
    "one connection": "",
    "four connections": "[transport]\nconnections = 4\n",
    "a connection for each burst, in Python": '[transport]\nconnections = 64\nagent_code = "python"\n',
    "a switch that restarts": (
        '[transport]\nconnections = 2\n[fault.x]\nkind = "switch-restart"\nswitch = "s5"\niteration = 1\nat = "5ms"\nduration = "50ms"\n'
    ),
    "a controller that restarts": (
        '[fault.x]\nkind = "controller-restart"\niteration = 1\nat = "5ms"\nduration = "50ms"\n'
    ),
    "a link that is down": (
        '[transport]\nconnections = 4\n[fault.x]\nkind = "link-down"\nlink = "s1-eth3"\niteration = 1\nat = "5ms"\nduration = "50ms"\n'
    ),
}
MULTICAST = TEXT.replace('name = "ring"', 'name = "multicast-ps"')
IPERF = """
[program.backup]
command = "sh backup.sh"
hosts = ["h7", "h2"]
background = true
"""
BACKUP = """
case $GRADWIRE_HOST in
h7) exec iperf3 -s ;;
h2) exec iperf3 -t 1000 -P 4 -c h7 ;;
esac
"""


def run(folder: Path, text: str) -> tuple[dict[str, str], str]:
    """The row of a scenario's only point, and what the command wrote."""
    (folder / "hashed.toml").write_text(text)
    done = gradwire_command("run", str(folder / "hashed.toml"), "--out", str(folder / "run"))
    (row,) = read_csv(folder / "run" / "points.csv")
    return row, " ".join((done.stdout + done.stderr).split())


@pytest.mark.parametrize("name", SETTINGS)
def test_a_ring_is_valid(name: str, tmp_path: Path) -> None:
    row, said = run(tmp_path, TEXT + SETTINGS[name])
    assert row["verdict"] == "valid", said
    assert "lines between switches" in said
    assert "unexplained" not in said


def test_parts_end_together_where_ports_serve_first_come_first_served(tmp_path: Path) -> None:
    """With queues that are fair, the last part of a message takes turns with those of the next one."""
    fifo = TEXT.replace("[model]", "fair_queues = false\n[model]") + SETTINGS["four connections"]
    row, said = run(tmp_path, fifo)
    assert row["verdict"] == "valid", said
    alone_s = 0.002 + 2 * 7 / 8 * 8e6 * 8 / (2e9 * 1448 / 1538)
    assert float(row["iteration_time_s"]) == pytest.approx(alone_s, rel=0.01)


def test_multicasts_take_their_trees_and_the_other_messages_are_divided(tmp_path: Path) -> None:
    row, said = run(tmp_path, MULTICAST + SETTINGS["four connections"])
    assert row["verdict"] == "valid", said


def test_programs_share_the_network(tmp_path: Path) -> None:
    (tmp_path / "backup.sh").write_text(BACKUP)
    row, said = run(
        tmp_path, TEXT + SETTINGS["four connections"] + IPERF.replace("backup.sh", str(tmp_path / "backup.sh"))
    )
    assert row["verdict"] == "valid", said
    assert float(row["iteration_time_s"]) > 1.05 * float(row["fluid_time_s"])
