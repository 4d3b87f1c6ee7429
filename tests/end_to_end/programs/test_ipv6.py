"""IPv6 between programs: reached by name, at the line's rate, in the queues of its class, and along the ways of IPv4."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradwire.csv_files import read_csv
from tests.end_to_end.programs.running import counts_in, execute
from tests.end_to_end.programs.test_program_scenario import run

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("virtual_kernel")]

TEXT = """
title = "IPv6 across leaves"
[cluster]
workers = 4
[fabric]
rate = "10gbit"
topology = "leaf-spine"
leaves = 2
spines = 2
[program.server]
command = "iperf3 -s"
hosts = "h1"
background = true
[program.client]
command = "iperf3 -6 -c h1 -n 100M --json"
hosts = "h4"
start = "100ms"
figures = "iperf3"
traffic_class = 1
[sweep]
"fabric.routing" = ["balanced", "ecmp"]
"""
PAYLOAD_BPS = 10e9 * (1500 - 40 - 32) / 1538
"""IPv6's header has 40 bytes, and TCP's with timestamps 32."""


def test_a_flow_has_the_lines_rate_and_the_queues_of_its_class(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(TEXT)
    done = run(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    folder = tmp_path / "runs" / "own"
    for row in read_csv(folder / "figures.csv"):
        assert float(row["goodput_bps"]) == pytest.approx(PAYLOAD_BPS, rel=0.01)
    for summary in folder.glob("points/*/summary.json"):
        counts = counts_in(summary)
        assert counts.table_miss_packets == 0
        sent: dict[str, list[int]] = {}
        for band in counts.bands:
            sent.setdefault(band.port, []).append(band.bytes_sent)
        ways = [sent[f"s2-eth{number}"] for number in (3, 4)]
        for bands in (sent["h4-eth0"], max(ways, key=sum), sent["s1-eth1"]):
            assert bands[2] > 100e6
            assert sum(bands) - bands[2] < 1e6
        assert sum(min(ways, key=sum)) < 1e6


def test_hosts_are_reached_by_name_and_who_takes_either_takes_ipv4(tmp_path: Path) -> None:
    done = execute(
        tmp_path,
        *("--workers", "3", "--rate", "1gbit", "--", "sh", "-c"),
        "ping -6 -c 1 -q h2 >/dev/null && ping -6 -c 1 -q ip6-h3 >/dev/null && ping -c 1 -q h2",
    )
    assert done.status == 0, done.out + done.err
    for host in ("h1", "h2", "h3"):
        assert "PING h2 (10.0.0.2)" in done.output(host)
    assert done.counts().table_miss_packets == 0
