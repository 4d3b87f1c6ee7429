"""Programs that put queues of tc at their host's port, as Mininet's users do."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.end_to_end.programs.running import execute

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("virtual_kernel")]

TWO = ("--workers", "2", "--rate", "1gbit", "--hosts", "h1")
PING = "ping -c 2 -i 0.2 10.0.0.2"


def last_round_trip_ms(output: str) -> float:
    return float(re.findall(r"time=([0-9.]+) ms", output)[-1])


def test_a_delay_below_a_band_is_there_and_the_run_is_valid(tmp_path: Path) -> None:
    delay = "tc qdisc replace dev h1-eth0 parent 1:1 netem delay 10ms"
    done = execute(tmp_path, *TWO, "--", "sh", "-c", f"{delay} && {PING}")
    assert done.status == 0, done.out + done.err
    assert last_round_trip_ms(done.output("h1")) == pytest.approx(10, abs=0.1)
    assert "h1-eth0 has 1:1 netem" in done.out


def test_a_delay_in_place_of_the_shaper_is_no_faster_than_the_line(tmp_path: Path) -> None:
    done = execute(tmp_path, *TWO, "--", "sh", "-c", f"tc qdisc replace dev h1-eth0 root netem delay 10ms && {PING}")
    assert last_round_trip_ms(done.output("h1")) == pytest.approx(10, abs=0.1)
    assert done.status == 0, done.out + done.err
    assert "h1-eth0 has root netem" in done.out
