"""What programs and scripts expect of a host's kernel: shared memory, firewalls, bridges, congestion controls by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.end_to_end.programs.running import execute

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("virtual_kernel")]

ONE = ("--workers", "2", "--rate", "10gbit", "--hosts", "h1")
SHARED_MEMORY = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p
segment = libc.shmget(0, 4096, 0o1600)
first, second = (libc.shmat(segment, None, 0) for _ in range(2))
ctypes.memmove(first, b"through memory", 14)
print(ctypes.string_at(second, 14).decode())
"""
FIREWALL = """
nft add table inet filter
nft add chain inet filter output '{ type filter hook output priority 0; }'
nft add rule inet filter output ip daddr 10.0.0.2 icmp type echo-request counter drop
ping -c 1 -W 1 10.0.0.2 >/dev/null && echo "it got through"
nft list ruleset | grep -o 'packets 1 bytes 84'
"""
BRIDGE = """
ip link add br0 type bridge
ip link add left type veth peer name right
ip link set left master br0
for device in br0 left right; do ip link set $device up; done
bridge link show dev left | grep -o 'master br0 state forwarding'
"""
TIMESTAMPS = """
import os, socket, struct, time
SO_TIMESTAMPING, TX_SOFTWARE, SOFTWARE, OPT_ID = 37, 1 << 1, 1 << 4, 1 << 7
listening = socket.create_server(("", 9))
datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
datagrams.bind(("", 9))
if os.environ["GRADWIRE_HOST"] == "h4":
    connection, _ = listening.accept()
    while connection.recv(1 << 20):
        pass
    raise SystemExit
time.sleep(0.01)
for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
    s = socket.socket(socket.AF_INET, kind)
    s.connect(("h4", 9))
    s.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPING, SOFTWARE | OPT_ID)
    for _ in range(5):
        s.sendmsg([bytes(1000)], [(socket.SOL_SOCKET, SO_TIMESTAMPING, struct.pack("=I", TX_SOFTWARE))])
        time.sleep(0.01)
    s.setblocking(False)
    count = 0
    try:
        while s.recvmsg(2000, 1000, socket.MSG_ERRQUEUE):
            count += 1
    except BlockingIOError:
        print(kind.name, count)
"""


def test_processes_share_memory_as_mpich_and_databases_do(tmp_path: Path) -> None:
    (tmp_path / "shared.py").write_text(SHARED_MEMORY)
    done = execute(tmp_path, *ONE, "--", "python3", "shared.py")
    assert done.status == 0, done.err
    assert done.output("h1") == "through memory\n"


def test_a_hosts_firewall_drops_what_its_rule_says(tmp_path: Path) -> None:
    done = execute(tmp_path, *ONE, "--", "sh", "-c", FIREWALL)
    assert done.output("h1") == "packets 1 bytes 84\n", done.err


def test_a_host_has_bridges_and_only_its_own_devices(tmp_path: Path) -> None:
    done = execute(tmp_path, *ONE, "--", "sh", "-c", f"ls /sys/class/net | xargs; {BRIDGE}")
    assert done.status == 0, done.err
    assert done.output("h1").splitlines() == ["h1-eth0 lo", "master br0 state forwarding"]


def test_congestion_controls_of_courses_are_there_and_ipv6_asks_for_no_router(tmp_path: Path) -> None:
    look = "cat /proc/sys/net/ipv4/tcp_available_congestion_control /proc/sys/net/ipv6/conf/h1-eth0/accept_ra"
    done = execute(tmp_path, *ONE, "--", "sh", "-c", look)
    controls, accepted = done.output("h1").splitlines()
    assert {"reno", "cubic", "bbr", "dctcp", "vegas", "westwood", "illinois"} <= set(controls.split())
    assert accepted == "0"


def test_a_packet_has_one_transmit_timestamp_past_three_switches(tmp_path: Path) -> None:
    (tmp_path / "stamps.py").write_text(TIMESTAMPS)
    network = ("--workers", "4", "--rate", "10gbit", "--set", "fabric.topology=leaf-spine", "--set", "fabric.leaves=2")
    done = execute(tmp_path, *network, "--set", "fabric.spines=1", "--hosts", "h1,h4", "--", "python3", "stamps.py")
    assert done.status == 0, done.err
    assert done.output("h1").split() == ["SOCK_DGRAM", "5", "SOCK_STREAM", "5"]
