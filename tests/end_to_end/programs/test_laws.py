"""Whatever programs do to their hosts, the network that they get is the one that was described, or the run is invalid."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest

from gradwire.analysis.verdict.law_checks import law_checks
from gradwire.csv_files import read_csv
from gradwire.network.fabric import Fabric
from tests.end_to_end.programs.running import Executed, execute
from tests.shared.commands import gradwire_command

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("virtual_kernel")]

THREE = ("--workers", "3", "--rate", "10gbit")
SEND = """
import os, socket, struct, sys, time
me, hosts = int(os.environ["GRADWIRE_HOST"][1:]), int(sys.argv[1])
def mac(host):
    return bytes([2, 0, 0, 0, 0, host])
def frame(host):
    data = b"x" * 1400
    ip = struct.pack("!BBHHHBBH4B4B", 0x45, 0, 28 + len(data), 0, 0x4000, 64, 17, 0, 10, 0, 0, me, 10, 0, 0, host)
    total = sum(struct.unpack("!10H", ip))
    total = (total >> 16) + (total & 0xffff)
    ip = ip[:10] + struct.pack("!H", ~(total + (total >> 16)) & 0xffff) + ip[12:]
    return mac(host) + mac(me) + bytes([8, 0]) + ip + struct.pack("!4H", 1000, 9, 8 + len(data), 0) + data
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
s.bind((f"h{me}-eth0", 0))
if "bypass" in sys.argv:
    s.setsockopt(263, 20, 1)
time.sleep(0.05)
frames = [frame((me + step) % hosts + 1) for step in range(2)]
for i in range(2000):
    s.send(frames[i % 2])
time.sleep(0.5)
"""
CLASS = "dev $port parent 5: classid 5:1 htb rate"
FASTER, AS_BEFORE = (
    f"tc class change {CLASS} {rate}" for rate in ("100gbit burst 1m cburst 1m", "9844mbit burst 4k cburst 4k")
)
WITHOUT = "tc qdisc del dev $port root"
ANEW = f"tc qdisc add dev $port root handle 5: htb default 1 && tc class add {CLASS} 9844mbit"
LINES = {
    "h1": ("true", "bypass", "true"),
    "h2": (FASTER, "", AS_BEFORE),
    "h3": (WITHOUT, "", ANEW),
    "h4": (WITHOUT, "", "true"),
    "h5": ("true", "", "true"),
}
"""What each host does to its line before it sends, how it sends, and what it does afterwards."""


def sent(folder: Path, lines: Mapping[str, tuple[str, str, str]], hosts: int, rate: str) -> Executed:
    """24 Mbit of frames from each of some hosts to two others, each of which has a line of its own."""
    (folder / "send.py").write_text(SEND)
    cases = [
        f"{host}) {before} && python3 -S send.py {hosts} {how} && {after};;"
        for host, (before, how, after) in lines.items()
    ]
    script = f"port=$GRADWIRE_HOST-eth0; case $GRADWIRE_HOST in {' '.join(cases)} *) sleep 0.6;; esac"
    return execute(folder, "--workers", str(hosts), "--rate", rate, "--", "sh", "-c", script)


def test_frames_that_the_shaper_sees_are_at_the_line_rate(tmp_path: Path) -> None:
    """At 400 Gbit/s. At 10 Gbit/s it is h5 of the next test, which changes nothing."""
    done = sent(tmp_path, {"h1": LINES["h5"]}, 3, "400gbit")
    lines = {line.port: line for line in done.counts().lines}
    assert lines["h1-eth0"].frames >= 2000
    assert all(line.beyond_bytes == 0 for line in lines.values())
    assert "line rate" not in done.err


def test_a_line_that_was_faster_makes_a_run_invalid(tmp_path: Path) -> None:
    """Whether its queues are passed by, changed and changed back, made anew or taken away: each line would alone."""
    done = sent(tmp_path, LINES, 5, "10gbit")
    assert done.status != 0
    assert "invalid: line rate h" in done.err, done.out + done.err
    lines = {line.port: line for line in done.counts().lines}
    assert lines["h5-eth0"].frames >= 2000
    failed = {
        line.port
        for line in lines.values()
        for check in law_checks(Fabric(5, 10e9), [line])
        if check.name == "line rate" and not check.ok
    }
    assert failed == {"h1-eth0", "h2-eth0", "h3-eth0", "h4-eth0"}


SMALL = """
import os, socket, struct, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
if os.environ["GRADWIRE_HOST"] == "h1":
    time.sleep(0.05)
    s.sendto(bytes(18), ("h2", 9))
    s.setsockopt(socket.IPPROTO_UDP, 103, 18)
    for _ in range(20):
        s.sendto(bytes(50 * 18), ("h2", 9))
    s.setsockopt(socket.IPPROTO_UDP, 103, 0)
    for _ in range(1000):
        s.sendto(bytes(18), ("h2", 9))
else:
    s.setsockopt(socket.SOL_SOCKET, 35, 1)
    s.bind(("", 9))
    came = [struct.unpack("qq", s.recvmsg(99, 99)[1][0][2]) for _ in range(2001)]
    print("took", (came[-1][0] - came[0][0]) * 10**9 + came[-1][1] - came[0][1])
"""


def test_the_smallest_frames_take_84_bytes_of_the_line_each(tmp_path: Path) -> None:
    """1,000 of them leave in bursts of 50, and the others one by one. Of what is sent, 1,514 bytes may leave at once, and a
    frame leaves while any credit is left. The kernel says when each came (SO_TIMESTAMPNS): a program may be a moment late."""
    (tmp_path / "small.py").write_text(SMALL)
    done = execute(tmp_path, "--workers", "2", "--rate", "100mbit", "--", "python3", "-S", "small.py")
    assert done.status == 0, done.out + done.err
    took_ns = int(done.out.rpartition("took ")[2].split()[0])
    assert (2000 * 84 - 1514 - 84) * 80 <= took_ns <= 2000 * 84 * 80


SEGMENTS = """
import os, socket, time
size = 8900 if os.environ["GRADWIRE_HOST"] == "h1" else 1400
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.IPPROTO_UDP, 103, size)
time.sleep(0.05)
for _ in range(20):
    s.sendto(bytes(7 * size), ("h3", 9))
time.sleep(0.5)
"""


def test_frames_beyond_the_mtu_make_a_run_invalid(tmp_path: Path) -> None:
    """A burst is passed on whatever the length of its frames, which a host chooses. h2 sends bursts of allowed ones."""
    (tmp_path / "segments.py").write_text(SEGMENTS)
    send = "exec python3 -S segments.py"
    script = f"case $GRADWIRE_HOST in h1) ip link set h1-eth0 mtu 9000 && {send};; h2) {send};; *) sleep 1;; esac"
    done = execute(tmp_path, *THREE, "--", "sh", "-c", script)
    failed = {
        line.port
        for line in done.counts().lines
        for check in law_checks(Fabric(3, 10e9), [line])
        if check.name == "frame lengths" and not check.ok
    }
    assert "h1-eth0" in failed, done.out + done.err
    assert "h2-eth0" not in failed
    assert done.status != 0
    assert "frame lengths" in done.err


JOIN = """
import socket, struct, time
group = socket.inet_pton(socket.AF_INET6, "ff05::77") + struct.pack("@I", socket.if_nametoindex("h1-eth0"))
joined = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
joined.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, group)
time.sleep(20)
"""


def test_reports_of_groups_are_dropped_by_rules_and_accounted_for(tmp_path: Path) -> None:
    (tmp_path / "join.py").write_text(JOIN)
    done = execute(tmp_path, *THREE, "--hosts", "h1", "--", "python3", "join.py")
    assert done.status == 0, done.out + done.err
    assert done.counts().dropped_reports > 0


JOINS = {
    "veth": "ip link add a0 type veth peer name b0 netns $there",
    "veth moved": "ip link add a0 type veth peer name b0 && ip link set b0 netns $there",
    "macvlan": "ip link add link h1-eth0 name a0 type macvlan && ip link set a0 netns $there",
    "as another root": "unshare -Urn ip link add a0 type veth peer name b0 netns $there",
    "own port": "ip link set h1-eth0 netns $there",
}
"""Ways to lead a line from one host to another, $there: a process of its. What is made on the way is removed before the next."""


def test_hosts_are_joined_by_their_network_alone(tmp_path: Path) -> None:
    tries = [
        f'{command}; echo "{name}: $?"; for made in a0 b0; do ip link del $made 2>/dev/null; done'
        for name, command in JOINS.items()
    ]
    joining = f"sleep 0.1; there=$(cat /run/tmp/there); {'; '.join(tries)}"
    script = f"case $GRADWIRE_HOST in h2) echo $$ >/run/tmp/there; sleep 2;; h1) {joining};; esac"
    done = execute(tmp_path, *THREE, "--", "sh", "-c", script)
    statuses = dict(line.rsplit(": ", 1) for line in done.output("h1").splitlines() if ": " in line)
    assert statuses.keys() == JOINS.keys(), done.output("h1") + done.output("h1", "err")
    assert "0" not in statuses.values(), statuses


def test_devices_of_a_host_are_its_programs_own(tmp_path: Path) -> None:
    names = {"a0": "type veth peer name b0", "c0": "type bridge", "d0": "type dummy", "e0": "link h1-eth0 type macvlan"}
    tunnel = "ip link add f0 type vxlan id 7 remote 10.0.0.2 dstport 4789 dev h1-eth0"
    script = " && ".join([tunnel, *(f"ip link add {name} {kind}" for name, kind in names.items())])
    done = execute(tmp_path, *THREE, "--hosts", "h1", "--", "sh", "-c", f"{script} && ip -br link show")
    assert {"f0", *names} <= {line.split("@")[0].split()[0] for line in done.output("h1").splitlines()}, done.output(
        "h1", "err"
    )


FOR_ALL = ("/proc/lossless", "/proc/lines", "/sys/module/tcp_cubic/parameters/beta", "/proc/sys/vm/swappiness")


def test_what_is_one_for_all_hosts_is_not_the_programs(tmp_path: Path) -> None:
    tries = []
    for file in FOR_ALL:
        write = f"sh -c 'echo anew >{file} || echo 1 >{file}' && echo written"
        tries.append(f"ls {file} && {write}; unshare -Ur {write}; echo tried")
    done = execute(tmp_path, *THREE, "--hosts", "h1", "--", "sh", "-c", "; ".join(tries))
    assert done.output("h1") == "".join(f"{file}\ntried\n" for file in FOR_ALL)


OWN = '''
title = "Its own"
metric = "x"
cluster.workers = 2
fabric.rate = "10gbit"
[program.editor]
command = """sed -i s/10gbit/99gbit/ run/scenario.toml; grep -c 99 run/scenario.toml; echo '{"x": 1}' >$GRADWIRE_FIGURES"""
hosts = "h1"
'''


def test_a_program_that_edits_the_scenario_of_its_run_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(OWN)
    done = gradwire_command("run", "own.toml", "--out", "run", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    (output,) = (tmp_path / "run").glob("points/*/output/editor/h1.out")
    assert output.read_text() != "0\n"
    assert tomllib.loads((tmp_path / "run" / "scenario.toml").read_text())["fabric"]["rate"] == "10gbit"


BESIDE = """
title = "A ring beside a faster line"
cluster.workers = 3
fabric.rate = "10gbit"
strategy.name = "ring"
[model]
name = "one-layer"
layers = [{ name = "fc", size = ["40MB"], forward = "1ms", backward = "1ms" }]
[program.backup]
command = 'sh -c "tc class change dev h1-eth0 parent 5: classid 5:1 htb rate 14gbit burst 64k cburst 64k; exec sleep 1000"'
hosts = "h1"
background = true
[run]
warmup = 1
"""


def test_a_faster_line_beside_a_strategy_makes_its_point_invalid(tmp_path: Path) -> None:
    (tmp_path / "beside.toml").write_text(BESIDE)
    done = gradwire_command("run", "beside.toml", "--out", "run", cwd=tmp_path)
    (row,) = read_csv(tmp_path / "run" / "points.csv")
    assert "line rate" in row["verdict"], done.stdout + done.stderr


DOOR = """
import json, os, socket, sys
for folder in (3, 5, *(f"/proc/self/fd/{number}" for number in range(3, 9))):
    with socket.socket(socket.AF_UNIX) as asked:
        asked.connect("/run/gradwire/door")
        socket.send_fds(asked, [b"\\n"], [0, 1, 2])
        command = "ls . ../openvswitch ../../openvswitch 2>/dev/null; pwd"
        request = {"host": "h1", "command": command, "folder": folder, "env": dict(os.environ)}
        asked.sendall(json.dumps(request).encode() + b"\\n")
        print("answer", asked.makefile("rb").read().decode())
"""


def test_the_door_leads_to_hosts_and_nowhere_else(tmp_path: Path) -> None:
    (tmp_path / "door.py").write_text(DOOR)
    done = execute(tmp_path, *THREE, "--launch", "mpi", "--hosts", "h1", "--", "python3", "door.py")
    assert done.output("h1").splitlines() == ["answer 255"] * 8, done.output("h1") + done.output("h1", "err")
