"""iperf3 beside the line's rate: one flow, three senders to one receiver, and both ways at once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.end_to_end.programs.running import execute
from tests.programs.ideal import payload_bps
from tests.programs.scenarios import figures_of

pytestmark = [pytest.mark.programs, pytest.mark.kernel, pytest.mark.usefixtures("virtual_kernel")]

MOMENT_MS = 100


def iperf3(folder: Path, rate_gbps: int, *client: str) -> dict[str, dict[str, float]]:
    """What a client on the second host reports of its whole run with a server on the first."""
    serve = "iperf3 -s -1 >/dev/null"
    ask = f"sleep {MOMENT_MS / 1000}; exec iperf3 -c h1 -J {' '.join(client)}"
    size = ("--workers", "2", "--rate", f"{rate_gbps}gbit")
    done = execute(folder, *size, "--", "sh", "-c", f"if [ $GRADWIRE_INDEX = 0 ]; then {serve}; else {ask}; fi")
    assert done.status == 0, done.err
    assert done.counts().tcp_retransmits == 0
    end: dict[str, dict[str, float]] = json.loads(done.output("h2"))["end"]
    return end


@pytest.mark.parametrize("rate_gbps", [10, 100])
def test_one_flow_fills_the_line(tmp_path: Path, rate_gbps: int) -> None:
    end = iperf3(tmp_path, rate_gbps, "-n", f"{rate_gbps * 10}M")
    share = end["sum_received"]["bits_per_second"] / payload_bps(rate_gbps * 1e9)
    print(f"\niperf3, one flow at {rate_gbps} Gbit/s: {share:.4f} of the line")
    assert share == pytest.approx(1, abs=0.002)


@pytest.mark.parametrize("rate_gbps", [10, 100])
def test_three_senders_share_a_line(tmp_path: Path, rate_gbps: int) -> None:
    rows = figures_of(
        "iperf3", tmp_path / "run", f"fabric.rate={rate_gbps}gbit", f"program.senders.arguments.size={rate_gbps * 5}M"
    )
    assert len(rows) == 3
    ideal_s = sum(float(row["received_bytes"]) for row in rows) * 8 / payload_bps(rate_gbps * 1e9)
    ratio = max(float(row["duration_s"]) for row in rows) / ideal_s
    print(f"\niperf3, three senders at {rate_gbps} Gbit/s: {ratio:.4f} of their ideal time")
    assert ratio == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize("rate_gbps", [10, 100])
def test_both_directions_are_full_at_once(tmp_path: Path, rate_gbps: int) -> None:
    end = iperf3(tmp_path, rate_gbps, "--bidir", "-n", f"{rate_gbps * 10}M")
    directions = ("sum_received", "sum_received_bidir_reverse")
    shares = [end[name]["bits_per_second"] / payload_bps(rate_gbps * 1e9) for name in directions]
    print(f"\niperf3, both ways at {rate_gbps} Gbit/s: {shares[0]:.4f} and {shares[1]:.4f} of the line")
    assert min(shares) > 0.97
    assert max(shares) < 1.002
