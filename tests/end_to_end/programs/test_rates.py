"""Real programs get what the line carries: iperf3 with one flow, three senders to one receiver, and Open MPI's ring."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.end_to_end.programs.running import execute
from tests.shared.snippets import ROOT

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("virtual_kernel")]

ONE_FLOW = """
if [ $GRADWIRE_INDEX = 0 ]; then iperf3 -s -1 >/dev/null; else sleep 0.1; iperf3 -c h1 -J -n 100M; fi
"""
THREE_SERVERS = """
if [ $GRADWIRE_INDEX = 0 ]; then
    for port in 1 2 3; do iperf3 -s -1 -p 520$port >/dev/null & done; wait
else
    sleep 0.1; iperf3 -c h1 -p 520$GRADWIRE_INDEX -J -n 50M
fi
"""
INCAST, DUPLEX = (Path(__file__).with_name(name) for name in ("incast.py", "duplex.py"))
ALLREDUCE = ROOT / "examples" / "programs" / "allreduce.c"
RING = ("--mca", "coll_tuned_use_dynamic_rules", "1", "--mca", "coll_tuned_allreduce_algorithm", "4")
"""Makes Open MPI's mpirun take its ring."""


@pytest.mark.parametrize("rate_gbps", [10, 100])
def test_one_flow_of_iperf3_fills_the_line(tmp_path: Path, rate_gbps: int) -> None:
    done = execute(tmp_path, "--workers", "2", "--rate", f"{rate_gbps}gbit", "--", "sh", "-c", ONE_FLOW)
    assert done.status == 0, done.err
    received = json.loads(done.output("h2"))["end"]["sum_received"]
    ideal_bps = rate_gbps * 1e9 * 1448 / 1538
    assert received["bits_per_second"] == pytest.approx(ideal_bps, rel=0.002)
    assert done.counts().tcp_retransmits == 0


@pytest.mark.parametrize("rate_gbps", [10, 100])
def test_three_senders_share_a_receivers_line(tmp_path: Path, rate_gbps: int) -> None:
    words = ("python3", str(INCAST), str(30_000_000), str(rate_gbps * 1e9))
    done = execute(tmp_path, "--workers", "4", "--rate", f"{rate_gbps}gbit", "--", *words)
    assert done.status == 0, done.err
    assert float(done.output("h1")) == pytest.approx(1, rel=0.01)
    by_port = {line.port: line.size_bytes for line in done.counts().lines}
    assert by_port["s1-eth1"] == pytest.approx(3 * 30_000_000 * 1514 / 1448, rel=0.01)


def test_three_servers_of_one_host_hold_each_other_up_for_no_tick(tmp_path: Path) -> None:
    done = execute(tmp_path, "--workers", "4", "--rate", "100gbit", "--", "sh", "-c", THREE_SERVERS)
    assert done.status == 0, done.err
    ends = [json.loads(done.output(host))["end"] for host in ("h2", "h3", "h4")]
    ideal_s = sum(end["sum_received"]["bytes"] for end in ends) * 8 / 100e9 * 1538 / 1448
    assert max(end["sum_received"]["seconds"] for end in ends) == pytest.approx(ideal_s, rel=0.01)


def test_open_mpi_unmodified_has_a_rings_time(tmp_path: Path) -> None:
    subprocess.run(["mpicc", "-O1", "-o", str(tmp_path / "allreduce"), str(ALLREDUCE)], check=True)
    command = ("mpirun", *RING, "-np", "4", "./allreduce", "8e6")
    done = execute(tmp_path, "--workers", "4", "--rate", "10gbit", "--launch", "mpi", "--", *command)
    assert done.status == 0, done.err
    assert float(done.output("h1").splitlines()[-1]) == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize("rate_gbps", [10, 100])
def test_a_connection_that_sends_both_ways_fills_the_line_in_both(tmp_path: Path, rate_gbps: int) -> None:
    words = ("python3", str(DUPLEX), str(50_000_000), str(rate_gbps * 1e9))
    done = execute(tmp_path, "--workers", "2", "--rate", f"{rate_gbps}gbit", "--", *words)
    assert done.status == 0, done.err
    for host in ("h1", "h2"):
        assert float(done.output(host)) == pytest.approx(1, abs=0.05)
