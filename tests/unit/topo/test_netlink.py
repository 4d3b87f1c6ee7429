import socket
import struct

import pytest

from gradwire.datatypes.host_settings import HostTcp
from gradwire.faults import MachineFault
from gradwire.netlink_messages import HEADER, Kernel, attribute, attributes, index_of, known_index, request
from gradwire.network.fabric import Fabric, Routing, Topology
from gradwire.topo.netlink.addresses import (
    ADDRESS,
    NEIGHBOUR,
    ROUTE,
    NeighbourRequests,
    configuring,
    has_ipv6,
    host_requests,
    neighbour_requests,
)
from gradwire.topo.netlink.qdiscs import TC_H_ROOT, TC_MESSAGE, QdiscEntry, can_be_copied, copying, entry, parts, shown

FABRIC = Fabric(3, 10e9)
HTB = QdiscEntry("htb", 0x50000, TC_H_ROOT, attribute(2, struct.pack("=IIIII", 0x30011, 10, 1, 0, 7)), b"")
LINE = QdiscEntry("htb", 0x50001, TC_H_ROOT, attribute(1, b"rate"), b"")
PRIO = QdiscEntry("prio", 0x10000, 0x50001, b"bands", b"")
LEAVES = [QdiscEntry("fq", 0x80030000 + (n << 16), 0x10000 + n, b"turns", b"") for n in (1, 2)]


def words(fabric: Fabric, host: int) -> list[str]:
    return [each.words for each in host_requests(host, fabric, 2, neighbour_requests(fabric, 2))]


def test_every_host_knows_every_other_and_not_itself() -> None:
    told = words(FABRIC, 1)
    assert told[:3] == ["ip link set lo up", "ip addr add 10.0.0.2/16 dev h2-eth0", "ip link set h2-eth0 up"]
    assert [line for line in told if "neigh" in line] == [
        "ip neigh add 10.0.0.1 lladdr 02:00:00:00:00:01 nud permanent",
        "ip neigh add 10.0.0.3 lladdr 02:00:00:00:00:03 nud permanent",
    ]


def test_ipv6_is_asked_for_beside_ipv4_where_programs_may_use_it() -> None:
    both = Fabric(3, 10e9, ipv6=True)
    of_4 = [each.words for each in configuring(1, FABRIC, 2, NeighbourRequests.of(FABRIC, 2))]
    assert of_4 == words(FABRIC, 1)
    made = configuring(1, both, 2, NeighbourRequests.of(both, 2), 9000)
    assert [each.words for each in made if "-6" in each.words] == [
        "ip -6 addr add fd00::2/64 dev h2-eth0 nodad noprefixroute",
        "ip -6 route add fd00::/64 dev h2-eth0 rto_min 20s initcwnd 9000",
        "ip -6 neigh add fd00::1 lladdr 02:00:00:00:00:01 nud permanent",
        "ip -6 neigh add fd00::3 lladdr 02:00:00:00:00:03 nud permanent",
    ]
    assert [
        each.words for each in made if " add " in each.words and "h2-eth0" in each.words and "-6" not in each.words
    ] == [
        "ip addr add 10.0.0.2/16 dev h2-eth0 broadcast 10.0.255.255",
        "ip route add 255.255.255.255/32 dev h2-eth0",
        "ip route add 224.0.0.0/4 dev h2-eth0",
    ]
    address, route, neighbour, _ = [each.data[HEADER.size :] for each in made if "-6" in each.words]
    host = socket.inet_pton(socket.AF_INET6, "fd00::2")
    assert ADDRESS.unpack_from(address) == (socket.AF_INET6, 64, 0, 0, 2)
    assert attributes(address[ADDRESS.size :]) == {1: host, 2: host, 8: struct.pack("=I", 0x202)}
    assert ROUTE.unpack_from(route)[:2] == (socket.AF_INET6, 64)
    assert attributes(neighbour[NEIGHBOUR.size :])[1] == socket.inet_pton(socket.AF_INET6, "fd00::1")


def test_packets_that_are_too_small_for_ipv6_leave_it_out() -> None:
    small = Fabric(3, 10e9, ipv6=True, mtu_bytes=1279)
    assert not has_ipv6(small)
    assert not any("-6" in each.words for each in configuring(0, small, 2, NeighbourRequests.of(small, 2)))
    assert has_ipv6(Fabric(3, 10e9, ipv6=True, mtu_bytes=1280))


def test_only_a_lossless_fabric_waits_with_its_retransmissions() -> None:
    assert any("rto_min" in line for line in words(FABRIC, 0))
    assert not any("rto_min" in line for line in words(Fabric(3, 10e9, loss=0.01), 0))
    flowlets = Fabric(4, 10e9, Topology.LEAF_SPINE, leaves=2, spines=2, routing=Routing.FLOWLET)
    assert not any("rto_min" in line for line in words(flowlets, 0))  # what is overtaken is for timers to repair
    assert not any("route" in line for line in words(Fabric(3, 10e9, host_tcp=HostTcp.STOCK), 0))


def test_a_first_window_is_a_matter_of_the_route_on_every_fabric() -> None:
    lossy = Fabric(3, 10e9, loss=0.01)
    for fabric, others in ((FABRIC, " rto_min 20s"), (lossy, "")):
        (line,) = [each.words for each in host_requests(1, fabric, 2, [], 9000) if "route" in each.words]
        assert line == f"ip route replace 10.0.0.0/16 src 10.0.0.2{others} initcwnd 9000"
    (route,) = [each for each in host_requests(1, lossy, 2, [], 9000) if "route" in each.words]
    told = attributes(route.data[HEADER.size + ROUTE.size :])
    # RTAX_INITCWND.
    assert attributes(told[8]) == {11: struct.pack("=I", 9000)}


def asked(fabric: Fabric, host: int, words: str) -> bytes:
    """What is asked of the kernel by the request whose words begin so."""
    (found,) = (
        each for each in host_requests(host, fabric, 2, neighbour_requests(fabric, 2)) if each.words.startswith(words)
    )
    return found.data[HEADER.size :]


def test_what_the_kernel_is_asked_for() -> None:
    address = asked(FABRIC, 1, "ip addr")
    assert ADDRESS.unpack_from(address) == (socket.AF_INET, 16, 0, 0, 2)
    assert attributes(address[ADDRESS.size :]) == {1: bytes([10, 0, 0, 2]), 2: bytes([10, 0, 0, 2])}
    route = asked(FABRIC, 1, "ip route")
    assert ROUTE.unpack_from(route) == (socket.AF_INET, 16, 0, 0, 254, 2, 253, 1, 0)
    told = attributes(route[ROUTE.size :])
    assert (told[1], told[4], told[7]) == (bytes([10, 0, 0, 0]), struct.pack("=i", 2), bytes([10, 0, 0, 2]))
    # RTAX_RTO_MIN, and the lock on it, without which TCP heeds no shortest timeout.
    assert attributes(told[8]) == {1: struct.pack("=I", 1 << 13), 13: struct.pack("=I", 20_000)}
    neighbour = asked(FABRIC, 1, "ip neigh add 10.0.0.3")
    assert NEIGHBOUR.unpack_from(neighbour) == (socket.AF_INET, 2, 0x80, 0, 0)
    assert attributes(neighbour[NEIGHBOUR.size :]) == {1: bytes([10, 0, 0, 3]), 2: bytes([2, 0, 0, 0, 0, 3])}


def test_attributes_are_read_as_they_are_written() -> None:
    assert attributes(attribute(1, b"abc") + attribute(0x8002, b"")) == {1: b"abc", 2: b""}


def test_what_is_copied_comes_after_what_it_is_below() -> None:
    requests = copying([*LEAVES, PRIO, HTB], [LINE, QdiscEntry("prio", 0x10001, 0x10000, b"", b"")], 9, "h2-eth0")
    places = [TC_MESSAGE.unpack_from(each.data, HEADER.size) for each in requests]
    assert [(index, handle, parent) for _, index, handle, parent, _ in places] == [
        (9, HTB.handle, TC_H_ROOT),
        (9, LINE.handle, TC_H_ROOT),
        (9, PRIO.handle, LINE.handle),
        (9, 0, 0x10001),
        (9, 0, 0x10002),
    ]
    assert requests[3].words == "tc qdisc add dev h2-eth0 parent 1:1 fq"


def test_htb_is_asked_for_by_its_major_version() -> None:
    (shaper,) = copying([HTB], [], 9, "h2-eth0")
    told = attributes(attributes(shaper.data[HEADER.size + TC_MESSAGE.size :])[2])
    assert struct.unpack("=IIIII", told[2]) == (3, 10, 1, 0, 7)


def test_qdiscs_that_the_kernel_describes_in_another_form_are_not_copied() -> None:
    netem = QdiscEntry("netem", 0x1000000, 0x10001, b"", b"")
    assert can_be_copied([HTB, PRIO, *LEAVES])
    assert not can_be_copied([HTB, PRIO, netem])
    with pytest.raises(ValueError, match="netem"):
        copying([HTB, PRIO, netem], [LINE], 9, "h2-eth0")
    with pytest.raises(ValueError, match="below no qdisc"):
        copying([HTB, *LEAVES], [LINE], 9, "h2-eth0")


class Dumping(Kernel):
    """A kernel that has been asked already: it tells of two interfaces whatever the question, as this one does of qdiscs."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, tuple[int, ...]]] = []

    def dump(self, kind: int, body: bytes) -> list[bytes]:
        self.asked.append((kind, TC_MESSAGE.unpack(body)))
        counted = attribute(1, struct.pack("=QI", 294, 3)) + attribute(3, struct.pack("=IIIII", 2, 500, 1, 4, 9))
        stats = attribute(7, counted)
        return [
            TC_MESSAGE.pack(0, 4, HTB.handle, TC_H_ROOT, 2) + attribute(1, b"htb\0") + attribute(2, b"rate") + stats,
            TC_MESSAGE.pack(0, 4, 0x10000, 0x50001, 1) + attribute(1, b"prio\0") + stats,
            TC_MESSAGE.pack(0, 6, 0, 0x10001, 2) + attribute(1, b"noqueue\0") + stats,
        ]


def test_only_a_ports_own_qdiscs_are_its_parts() -> None:
    """linux/rtnetlink.h: RTM_GETQDISC is 38 and RTM_GETTCLASS 42. Classes are told of the interface that is asked for."""
    kernel = Dumping()
    htb, prio = parts(kernel, 4)
    assert (htb.kind, htb.handle, htb.parent, htb.options) == ("htb", HTB.handle, TC_H_ROOT, b"rate")
    assert (prio.kind, prio.handle, prio.parent, prio.options) == ("prio", 0x10000, 0x50001, b"")
    assert [part.kind for part in parts(kernel, 6, classes=True)] == ["noqueue"]
    assert kernel.asked == [(38, (0, 4, 0, 0, 0)), (42, (0, 6, 0, 0, 0))]


def test_what_is_shown_is_of_the_interfaces_with_a_name() -> None:
    kernel = Dumping()
    root, told = shown(kernel, {4: "h1-eth0", 5: "h2-eth0"})
    assert (root["kind"], root["dev"], root["root"]) == ("htb", "h1-eth0", True)
    assert (told["kind"], told["dev"], told["parent"], told["bytes"]) == ("prio", "h1-eth0", "5:1", 294)
    assert kernel.asked == [(38, (0, 0, 0, 0, 0))]


def test_an_entry_has_the_names_of_tc() -> None:
    basic, queue = attribute(1, struct.pack("=QI", 294, 3)), attribute(3, struct.pack("=IIIII", 2, 500, 1, 4, 9))
    options = attribute(1, struct.pack("=IIIBBBB", 100_000, 30_000, 30_000, 1, 21, 1, 9))
    red = QdiscEntry(
        "red", 0x80010000, 0x1010001, options, basic + queue + attribute(4, struct.pack("=IIII", 0, 0, 0, 7))
    )
    assert entry(red, "s1-eth1") == {
        "kind": "red",
        "dev": "s1-eth1",
        "parent": "101:1",
        "options": {"limit": 100_000, "min": 30_000, "max": 30_000},
        "bytes": 294,
        "packets": 3,
        "drops": 1,
        "overlimits": 9,
        "requeues": 4,
        "marked": 7,
        "backlog": 500,
        "qlen": 2,
    }
    finite = QdiscEntry("bfifo", 0x80010000, 0x10001, struct.pack("=I", 50_000), basic + queue)
    assert entry(finite, "s1-eth1")["options"] == {"limit": 50_000}
    many = QdiscEntry("fq", 0x80010000, 0x10001, b"", basic + queue + attribute(8, struct.pack("=Q", 2**32 + 3)))
    assert entry(many, "h1-eth0")["packets"] == 2**32 + 3


def test_a_request_that_the_kernel_refuses_is_told_in_its_words() -> None:
    """Deleting an interface that does not exist; between requests that are as hopeless and come later."""
    gone = [
        request(f"ip link del #{index}", 17, 0, struct.pack("=BxHiII", 0, 0, index, 0, 0)) for index in (99998, 99999)
    ]
    with Kernel() as kernel, pytest.raises(MachineFault, match="`ip link del #99998`"):
        kernel.do(gone)


def test_a_refusal_has_the_kernels_reason() -> None:
    """A qdisc of no known kind, at the loopback interface: refused before anything is done."""
    unknown = TC_MESSAGE.pack(0, 1, 0, TC_H_ROOT, 0) + attribute(1, b"nothing\0")
    with (
        Kernel() as kernel,
        pytest.raises(MachineFault, match=r"`tc qdisc`: .*\(.*(kind|unknown|perm).*\)|not permitted"),
    ):
        kernel.do([request("tc qdisc", 36, 0x600, unknown)])


def test_an_interface_that_is_gone_is_named() -> None:
    assert index_of("nothing-here") is None
    with pytest.raises(MachineFault, match="nothing-here is gone"):
        known_index("nothing-here")


def test_interfaces_are_listed() -> None:
    with Kernel() as kernel:
        told = kernel.dump(18, struct.pack("=BxHiII", socket.AF_UNSPEC, 0, 0, 0, 0))
    names = {attributes(body[16:])[3].rstrip(b"\0").decode() for body in told}
    assert names == {name for _, name in socket.if_nameindex()}
