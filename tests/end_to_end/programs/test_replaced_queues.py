"""Programs that put queues of tc at their host's port, as Mininet's users do."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.end_to_end.programs.running import execute

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("virtual_kernel")]

DELAYS = {"h1": "parent 1:1", "h2": "root"}
"""Where a host puts its delay: below a band, and in place of the shaper."""
PING = "ping -c 2 -i 0.2 10.0.0.3"


def last_round_trip_ms(output: str) -> float:
    return float(re.findall(r"time=([0-9.]+) ms", output)[-1])


def test_delays_are_there_are_told_and_are_no_faster_than_the_line(tmp_path: Path) -> None:
    cases = [
        f"{host}) tc qdisc replace dev {host}-eth0 {place} netem delay 10ms && {PING};;"
        for host, place in DELAYS.items()
    ]
    script = f"case $GRADWIRE_HOST in {' '.join(cases)} esac"
    done = execute(tmp_path, "--workers", "3", "--rate", "1gbit", "--", "sh", "-c", script)
    assert done.status == 0, done.out + done.err
    for host, place in DELAYS.items():
        assert last_round_trip_ms(done.output(host)) == pytest.approx(10, abs=0.1)
        assert f"{host}-eth0 has {place.removeprefix('parent ')} netem" in done.out
