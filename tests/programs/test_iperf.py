"""iperf3 beside the line's rate: one flow, three senders to one receiver, and both ways at once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.end_to_end.programs.running import execute
from tests.programs.conftest import needs
from tests.programs.ideal import payload_bps

pytestmark = [pytest.mark.programs, pytest.mark.kernel, pytest.mark.usefixtures("virtual_kernel"), needs("iperf3")]

MOMENT_MS = 100
SERVE = "for port in 1 2 3; do iperf3 -s -1 -p 520$port >/dev/null & done; wait"


def iperf3(folder: Path, hosts: int, rate_gbps: int, *client: str) -> list[dict[str, dict[str, float]]]:
    """What the clients on all hosts but the first report of their whole run; each has a server of its own on the first."""
    serve = SERVE if hosts > 2 else "iperf3 -s -1 -p 5201 >/dev/null"
    ask = f"sleep {MOMENT_MS / 1000}; exec iperf3 -c h1 -p 520$GRADWIRE_INDEX -J {' '.join(client)}"
    size = ("--workers", str(hosts), "--rate", f"{rate_gbps}gbit")
    done = execute(folder, *size, "--", "sh", "-c", f"if [ $GRADWIRE_INDEX = 0 ]; then {serve}; else {ask}; fi")
    assert done.status == 0, done.err
    assert done.summary()["report"]["tcp_retransmits"] == 0
    return [json.loads(done.output(f"h{index}"))["end"] for index in range(2, hosts + 1)]


@pytest.mark.parametrize("rate_gbps", [10, 100])
def test_one_flow_fills_the_line(tmp_path: Path, rate_gbps: int) -> None:
    (end,) = iperf3(tmp_path, 2, rate_gbps, "-n", f"{rate_gbps * 10}M")
    share = end["sum_received"]["bits_per_second"] / payload_bps(rate_gbps * 1e9)
    print(f"\niperf3, one flow at {rate_gbps} Gbit/s: {share:.4f} of the line")
    assert share == pytest.approx(1, abs=0.002)


@pytest.mark.parametrize("rate_gbps", [10, 100])
def test_three_senders_share_a_line(tmp_path: Path, rate_gbps: int) -> None:
    ends = iperf3(tmp_path, 4, rate_gbps, "-n", f"{rate_gbps * 5}M")
    ideal_s = sum(end["sum_received"]["bytes"] for end in ends) * 8 / payload_bps(rate_gbps * 1e9)
    ratio = max(end["sum_received"]["seconds"] for end in ends) / ideal_s
    print(f"\niperf3, three senders at {rate_gbps} Gbit/s: {ratio:.4f} of their ideal time")
    assert ratio == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize("rate_gbps", [10, 100])
def test_both_directions_are_full_at_once(tmp_path: Path, rate_gbps: int) -> None:
    (end,) = iperf3(tmp_path, 2, rate_gbps, "--bidir", "-n", f"{rate_gbps * 10}M")
    directions = ("sum_received", "sum_received_bidir_reverse")
    shares = [end[name]["bits_per_second"] / payload_bps(rate_gbps * 1e9) for name in directions]
    print(f"\niperf3, both ways at {rate_gbps} Gbit/s: {shares[0]:.4f} and {shares[1]:.4f} of the line")
    assert min(shares) > 0.97
    assert max(shares) < 1.002
