"""Packets that programs mark with a type of service arrive, whatever it is: ssh and scp mark theirs by default."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.end_to_end.programs.running import execute

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("virtual_kernel")]

TALK = """
import os, socket, time
server, arrived = os.environ["GRADWIRE_HOST"] == "h1", set()
port = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
port.bind(("", 7000))
if server:
    port.settimeout(1.0)
    try:
        while len(arrived) < 64:
            data, address = port.recvfrom(10)
            arrived.add(data[0])
    except TimeoutError:
        pass
    print(*(dscp for dscp in range(64) if dscp not in arrived))
else:
    time.sleep(0.5)
    for dscp in range(64):
        port.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, dscp << 2)
        port.sendto(bytes([dscp]), ("h1", 7000))
"""


def test_packets_with_any_dscp_arrive(tmp_path: Path) -> None:
    (tmp_path / "talk.py").write_text(TALK)
    done = execute(tmp_path, "--workers", "2", "--rate", "10gbit", "--", "python3", "talk.py")
    assert done.output("h1") == "\n", "missing DSCPs: " + done.output("h1")
    assert done.status == 0, done.err
    assert "valid: " in done.out
    assert done.counts().table_miss_packets == 0
