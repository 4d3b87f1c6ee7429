"""Traffic classes of programs that know of none: who is in a more urgent one has the whole port, and switches serve the same order."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradwire.csv_files import read_csv
from tests.end_to_end.programs.running import counts_in
from tests.shared.commands import gradwire_command

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.usefixtures("virtual_kernel"),
]

TEXT = """
title = "Two tenants and one port"
[cluster]
workers = 3
[fabric]
rate = "10gbit"
[program.sinks]
command = "iperf3 -s -p 5201 & iperf3 -s -p 5202"
hosts = "h3"
background = true
[program.urgent]
command = "iperf3 --json -c h3 -p 5201 -n 10M"
hosts = "h1"
start = "100ms"
figures = "iperf3"
traffic_class = 0
[program.bulk]
command = "iperf3 --json -c h3 -p 5202 -n 10M"
hosts = "h2"
start = "100ms"
figures = "iperf3"
traffic_class = 0
[sweep]
"program.bulk.traffic_class" = [0, 1]
"""


def test_a_more_urgent_class_has_the_port_first(tmp_path: Path) -> None:
    (tmp_path / "tenants.toml").write_text(TEXT)
    done = gradwire_command("run", "tenants.toml", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    folder = tmp_path / "runs" / "tenants"
    rate_bps = {
        (row["traffic_class"], row["program"]): float(row["goodput_bps"]) for row in read_csv(folder / "figures.csv")
    }
    payload_bps = 10e9 * 1448 / 1538
    for program in ("urgent", "bulk"):  # in one class, they share the port
        assert rate_bps["0", program] == pytest.approx(payload_bps / 2, rel=0.02)
    assert rate_bps["1", "urgent"] == pytest.approx(payload_bps, rel=0.01)
    # The receiver's port, where both meet, carried each in the band of its class.
    (summary,) = folder.glob("points/1_*/summary.json")
    control, urgent, bulk = (band.bytes_sent for band in counts_in(summary).bands if band.port == "s1-eth3")
    assert control < 0.01 * urgent
    assert urgent == pytest.approx(bulk, rel=0.01)
