"""Packets of programs arrive whatever their type of service, which ssh and scp mark by default, and so do those to all hosts, to groups
and to further addresses of a host."""

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


SPEAK = """
import os, socket, struct, time
me = os.environ["GRADWIRE_HOST"]
line = f"{me}-eth0"
port = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
port.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
port.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 0)
port.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton("239.1.2.3") + bytes(4))
port.bind(("", 7000))
port6 = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
scope = socket.if_nametoindex(line)
port6.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
port6.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_LOOP, 0)
port6.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, socket.inet_pton(socket.AF_INET6, "ff02::77") + struct.pack("@I", scope))
port6.bind(("::", 7000))
frames = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
frames.bind((line, 0x88cc))
time.sleep(0.1)
if me == "h1":
    for to in ("255.255.255.255", "10.0.255.255", "239.1.2.3"):
        port.sendto(to.encode(), (to, 7000))
    port6.sendto(b"ff02::77", ("ff02::77", 7000, 0, scope))
    frames.send(bytes.fromhex("0180c200000e 020000000001 88cc") + bytes(46))
if me == "h2":
    port.sendto(b"10.0.9.9", ("10.0.9.9", 7000))
time.sleep(0.1)
for each in (port, port6):
    each.setblocking(False)
    try:
        while True:
            data, (source, *_) = each.recvfrom(100)
            print(data.decode(), "from", source)
    except BlockingIOError:
        pass
"""


def test_packets_to_all_hosts_to_groups_and_to_further_addresses_arrive_once(tmp_path: Path) -> None:
    """Three switches in a ring, where copies could go in circles. What is to bridges alone (LLDP) is not passed on."""
    (tmp_path / "speak.py").write_text(SPEAK)
    script = "test $GRADWIRE_HOST != h3 || ip addr add 10.0.9.9/32 dev h3-eth0; exec python3 speak.py"
    ring = ("--set", "fabric.topology=ring", "--set", "fabric.switches=3")
    done = execute(tmp_path, "--workers", "3", "--rate", "10gbit", *ring, "--", "sh", "-c", script)
    assert done.status == 0, done.out + done.err
    to_all = ["255.255.255.255", "10.0.255.255", "239.1.2.3"]
    told = [f"{to} from 10.0.0.1" for to in to_all] + ["ff02::77 from fd00::1"]
    heard = {host: sorted(done.output(host).splitlines()) for host in ("h1", "h2", "h3")}
    # Linux gives a host's broadcasts to its own sockets as well, as it does with groups unless told otherwise.
    own = sorted(told[:2])
    assert heard == {"h1": own, "h2": sorted(told), "h3": sorted([*told, "10.0.9.9 from 10.0.0.2"])}
    assert "valid: " in done.out
    assert done.counts().table_miss_packets == 0
    assert done.counts().dropped_reports > 0
