"""Pauses of networks that run programs alone: they end however slow the line is, are told by port, and a deadlock is named."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from benchmarks.lossless import TRIANGLE
from gradwire.datatypes.pauses import PAUSES_FILE, PauseEvents
from tests.shared.commands import gradwire_command
from tests.shared.parts import tells

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("virtual_kernel")]

DATAGRAMS = """
import socket, time
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for _ in range(330):
    sender.sendto(bytes(1400), ("h1", 5000))
time.sleep(0.01)
"""
"""460 kB to a host where nobody listens. The last of them wait at the host, whose port is paused, when the program ends."""
SLOW = f"""
title = "Two hosts send to a third at 100 Mbit/s"
[cluster]
workers = 3
[fabric]
rate = "100mbit"
gso = "1514B"
lossless = {{ buffer = "1MB", xoff = "200KB", xon = "20KB" }}
[program.sender]
command = "{sys.executable} send.py"
hosts = ["h2", "h3"]
"""
AROUND = """
import os, socket, threading, time
FLOWS = 4
following = f"h{(int(os.environ['GRADWIRE_INDEX']) + 1) % 3 + 1}"
server = socket.create_server(("", 5000))
def give():
    with socket.create_connection((following, 5000)) as connection:
        connection.sendall(bytes(20_000_000))
def take(connection):
    while connection.recv(1 << 20):
        pass
time.sleep(0.01)
threads = [threading.Thread(target=give) for _ in range(FLOWS)]
for thread in threads:
    thread.start()
threads += [threading.Thread(target=take, args=(server.accept()[0],)) for _ in range(FLOWS)]
for thread in threads[FLOWS:]:
    thread.start()
for thread in threads:
    thread.join()
"""
DEADLOCK = f"""
title = "Programs send around a triangle"
[cluster]
workers = 3
[fabric]
rate = "25gbit"
topology = "ring"
switches = 3
routing = "static"
routes = "round.csv"
mtu_bytes = 4200
gso = "4214B"
lossless = {{ buffer = "400KB" }}
[program.around]
command = "{sys.executable} around.py"
hosts = ["h1", "h2", "h3"]
"""


def test_pauses_end_at_any_rate_and_are_told_by_port_and_over_time(tmp_path: Path) -> None:
    (tmp_path / "send.py").write_text(DATAGRAMS)
    (tmp_path / "slow.toml").write_text(SLOW)
    done = gradwire_command("run", "slow.toml", "--out", "run", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    (summary,) = (tmp_path / "run" / "points").glob("*/summary.json")
    report = json.loads(summary.read_text())["report"]
    told = [count for count in report["pauses"]["counts"] if count["pauses"]]
    assert all(count["pauses"] == count["resumes"] for count in told)
    last_s = PauseEvents.load(summary.parent / PAUSES_FILE).time_ns.max() / 1e9
    assert last_s > report["duration_s"] + 10e-3  # the memory of a switch takes longer at this rate than at 10 Gbit/s
    why = gradwire_command("why", "run", "100mbit", cwd=tmp_path)
    assert re.search(r"h2 out\s+s1-eth2\s+0\s", why.stdout), why.stdout + why.stderr
    assert gradwire_command("trace", "run", "100mbit", cwd=tmp_path).returncode == 0
    events = json.loads((summary.parent / "trace.json").read_text())["traceEvents"]
    names = sorted({event["name"] for event in events if event["ph"] == "b"})
    assert len(names) == 2
    assert all(
        tells(name, f"h{number} out", f"s1-eth{number}", "class 0") for number, name in enumerate(names, start=2)
    )


def test_a_deadlock_is_foreseen_and_named(tmp_path: Path) -> None:
    (tmp_path / "around.py").write_text(AROUND)
    (tmp_path / "round.csv").write_text(TRIANGLE)
    (tmp_path / "around.toml").write_text(DEADLOCK)
    done = gradwire_command("run", "around.toml", "--out", "run", cwd=tmp_path)
    said = " ".join(done.stdout.split())
    assert done.returncode == 1, done.stdout + done.stderr
    assert "circle of buffers" in " ".join(done.stderr.split())
    assert tells(said, "deadlocked", "class 0", "after 0.0")
    for port, by in (("s1-eth3", "s3-eth3"), ("s3-eth2", "s2-eth3"), ("s2-eth2", "s1-eth2")):
        assert tells(said, port, f"paused by {by}")
