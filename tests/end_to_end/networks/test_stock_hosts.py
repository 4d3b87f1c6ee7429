"""Hosts whose TCP is as Linux comes, in the virtual-time kernel: plans and programs have its buffers, and its windows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gradwire.agents.connections import SocketOptions
from gradwire.analysis.iterations import iteration_times_s
from gradwire.datatypes.host_settings import HostTcp
from gradwire.network.fabric import Fabric
from gradwire.runs.replay import replay_plans
from gradwire.workloads.patterns import Transfer, compile_transfers
from tests.shared.commands import gradwire_command

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("virtual_kernel")]

FAR = Fabric(2, 1e9, classes=1, mtu_bytes=9001, delay_s=0.005)
"""A round trip of 20 ms, which holds 2.5 MB: a little less than stock windows, and more than the 1 MiB of SO_RCVLOWAT."""
SIZE_BYTES = 32_000_000
GROWN = SocketOptions(0, None)


def transfers_s(fabric: Fabric, iterations: int) -> list[float]:
    """How long each transfer from host to host takes."""
    plan = compile_transfers("one", 2, [Transfer(0, 1, SIZE_BYTES)])
    done = replay_plans({"one": plan}, fabric, iterations, sockets=GROWN)["one"]
    return [float(time_s) for time_s in iteration_times_s(done.plan, done.log, iterations)]


def line_s(fabric: Fabric, size_bytes: float) -> float:
    return size_bytes * 8 / fabric.rate_bps / fabric.goodput_share()


@pytest.mark.parametrize("hosts", [HostTcp.STOCK, HostTcp.STOCK_BEFORE_6_6])
def test_windows_grow_until_they_fill_the_path_and_no_further(hosts: HostTcp) -> None:
    # A message is half a round trip under way, and so is the one that lets the next iteration begin.
    round_trip_s = 4 * FAR.delay_s
    first_s, *_, last_s = transfers_s(replace(FAR, host_tcp=hosts), 4)
    ideal_s = line_s(FAR, SIZE_BYTES) + round_trip_s
    assert first_s > 1.2 * ideal_s  # slow start takes some round trips
    assert last_s == pytest.approx(ideal_s, rel=0.01)
    fast = replace(FAR, host_tcp=hosts, rate_bps=4e9)
    windows = SIZE_BYTES / hosts.window_bytes
    # A window in each round trip, and the last one at the line's rate.
    limited_s = (windows - 1) * round_trip_s + line_s(fast, hosts.window_bytes) + round_trip_s
    assert transfers_s(fast, 4)[-1] == pytest.approx(limited_s, rel=0.06)


TEXT = """
title = "What hosts have"
[cluster]
workers = 2
[fabric]
rate = "10gbit"
hosts = "stock-before-6.6"
[program.show]
command = "cd /proc/sys/net/ipv4 && cat tcp_wmem tcp_rmem tcp_slow_start_after_idle && ip route"
hosts = "h1"
"""


def test_programs_find_what_linux_comes_with(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(TEXT)
    done = gradwire_command("run", "own.toml", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    (shown,) = (tmp_path / "runs" / "own").glob("points/*/output/show/h1.out")
    first, second, third, *routes = [" ".join(line.split()) for line in shown.read_text().splitlines()]
    assert (first, second, third) == ("4096 16384 4194304", "4096 131072 3145728", "1")
    assert routes
    assert not any("rto_min" in route or "initcwnd" in route for route in routes)
