"""Where the queues of hosts' ports are part of what a scenario describes, a program that changes them makes its run invalid,
also if it puts them back."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.end_to_end.programs.running import execute

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("virtual_kernel")]

CLASS = "dev $port parent 5: classid 5:1 htb rate 9844mbit burst 4k cburst"
HOSTS = {
    "h1": f"tc class change {CLASS} 4k && tc class change {CLASS} 4k",
    "h2": "tc qdisc replace dev $port root pfifo && tc qdisc del dev $port root",
    "h3": "tc qdisc add dev $port clsact && tc filter add dev $port egress matchall action ok && ip link set $port txqueuelen 99",
    "h4": "true",
}
"""What each does to its port. The first leaves its queues as they were; the last two change none."""
SCENARIO = """
title = "Pauses"
cluster.workers = 4
fabric = { rate = "10gbit", lossless = {} }
model = { name = "alexnet", device = "v100" }
strategy.name = "ring"
"""


def test_changes_at_ports_that_have_to_pause_are_noticed(tmp_path: Path) -> None:
    (tmp_path / "lossless.toml").write_text(SCENARIO)
    cases = " ".join(f"{host}) {line};;" for host, line in HOSTS.items())
    script = f"port=$GRADWIRE_HOST-eth0; case $GRADWIRE_HOST in {cases} esac"
    done = execute(tmp_path, "lossless.toml", "--", "sh", "-c", script)
    assert done.counts().changed_ports == ("h1-eth0", "h2-eth0"), done.out + done.err
    assert done.status != 0
    assert "queues of hosts" in done.err, done.out + done.err
