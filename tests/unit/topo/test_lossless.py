"""Lines for /proc/lossless, and what is read there."""

from __future__ import annotations

from gradwire.datatypes.pauses import HeldBandBytes
from gradwire.network.fabric import Fabric, Port, Topology
from gradwire.network.links import LinkSetting
from gradwire.network.lossless import Lossless
from gradwire.topo.lossless import link_lines, opening_lines, parse_pauses, port_lines

WANTED = Lossless(buffer_bytes=2_000_000, headroom_bytes=50_000)
FABRIC = Fabric(
    2,
    10e9,
    Topology.LEAF_SPINE,
    leaves=2,
    spines=1,
    classes=2,
    gso_bytes=16384,
    link_settings=(LinkSetting("s1-s3", delay_s=1e-6),),
    lossless=WANTED,
)
PORTS = [port for port, _ in FABRIC.ports()]
TOLD = """now 9000
lost 0 3
pool 0 1800000 0 700000
in 1 1 100 20 700000 30000 1 2 1 5000 8000 0
out 1 1 0 0 0 0 0
out 0 1 64 1 2 4000 8100
held 5 1 1 120
"""


def test_pools_are_what_headroom_leaves_and_all_classes_are_paused() -> None:
    # s1 and s2 have a host and a spine each: two ports, two classes, 50 KB.
    pool = "1800000 1000 0 0 32768"
    assert opening_lines(FABRIC, WANTED) == ["classes 6", "ports 8", *(f"pool {number} {pool}" for number in range(3))]


def test_only_the_classes_asked_for_are_paused() -> None:
    assert opening_lines(FABRIC, Lossless(classes=(1,)))[0] == "classes 4"


def test_ports_are_named_where_they_are_and_hosts_have_no_pool() -> None:
    lines = port_lines(FABRIC, WANTED, {port: port.interface for port in PORTS})
    assert lines["h1"] == ["port 0 h1-eth0 -1 50000"]
    assert lines["s1"] == ["port 1 s1-eth1 0 50000", "port 4 s1-eth2 0 50000"]
    assert lines["s3"] == ["port 5 s3-eth1 2 50000", "port 7 s3-eth2 2 50000"]


def test_a_pause_takes_the_delay_and_its_frame() -> None:
    # 84 bytes at 10 Gbit/s are 67 ns.
    assert link_lines(FABRIC) == ["link 0 1 67 67", "link 2 3 67 67", "link 4 5 1067 1067", "link 6 7 67 67"]


def test_counts_are_read_by_port_and_class() -> None:
    state = parse_pauses(TOLD, PORTS, [50_000] * len(PORTS))
    host, switch = state.counts
    assert (host.port, host.stops, host.stopped_ns, host.is_stopped, host.headroom_bytes) == (
        "h1-eth0",
        2,
        4000,
        True,
        0,
    )
    assert (switch.port, switch.pauses, switch.resumes, switch.paused_ns) == ("s1-eth1", 2, 1, 5000)
    assert (switch.most_bytes, switch.most_headroom_bytes, switch.headroom_bytes) == (700_000, 30_000, 50_000)
    assert (switch.charged_bytes, switch.paused_since_ns, state.now_ns, state.told) == (120, 8000, 9000, 3)
    assert state.held == (HeldBandBytes(PORTS[5].interface, 1, "s1-eth1", 120),)
    assert PORTS[1] == Port("s1", 1)
