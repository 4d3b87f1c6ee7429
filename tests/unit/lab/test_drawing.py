"""A lab's network as it is drawn: what it stands for, and what cannot be."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import gradwire.lab
from gradwire.faults import InputFault
from gradwire.lab.drawing import Drawing, Drawn, LinkLike
from gradwire.lab.network import Network
from gradwire.network.fabric import Fabric

LINE = LinkLike(1e9)
TWO_SWITCHES = Drawing(
    ("b", "a"),
    ("near", "far"),
    (
        Drawn("near", "far", LinkLike(2e7, 0.05, buffer_bytes=125_000)),
        Drawn("a", "far", LINE),
        Drawn("near", "b", LINE),
    ),
)


def test_a_drawing_is_a_fabric_whose_devices_keep_their_names() -> None:
    fabric = TWO_SWITCHES.fabric(seed=3, mtu_bytes=1500)
    assert TWO_SWITCHES.labels() == {"h1": "b", "h2": "a", "s1": "near", "s2": "far"}
    assert [link.name for link in fabric.links()] == ["h1-s1", "h2-s2", "s1-s2"]
    assert [TWO_SWITCHES.port_of(number, fabric) for number in range(3)] == ["s1-eth2", "h2-eth0", "h1-eth0"]
    assert fabric.host_tcp.is_stock
    assert Fabric.from_json(fabric.to_json()) == fabric


@pytest.mark.parametrize(("like", "gso_bytes"), [(LINE, 65536), (LinkLike(1e9, loss=0.01), 1514)])
def test_hosts_send_frame_by_frame_where_frames_are_lost(like: LinkLike, gso_bytes: int) -> None:
    drawing = Drawing(("h",), ("s",), (Drawn("h", "s", like),))
    assert drawing.fabric(seed=1, mtu_bytes=1500).gso_bytes == gso_bytes


def build(net: Network) -> bool:
    """Has the network built, which takes a kernel if it can be."""
    net.sleep(1)
    return True


WRONG: list[tuple[Callable[[Network], object], str]] = [
    (lambda net: net.hosts("h1", "h1"), "h1: there is a host called that already"),
    (lambda net: (net.switch("x"), net.host("x")), "x: there is a switch called that already"),
    (lambda net: net.host("a_b"), "a host is called by a letter"),
    (lambda net: net.host("much-too-long"), "up to 9 more"),
    (lambda net: net.switch("lo"), "and not lo"),
    (lambda net: net.link(net.host("a"), net.host("b")), "are hosts, which meet at a switch"),
    (lambda net: [net.link(h, s) for h in [net.host("a")] for s in (net.switch(), net.switch())], "has a link already"),
    (lambda net: [net.link(s, s) for s in [net.switch()]], "a link joins two devices"),
    (lambda net: net.link(net.host("a"), net.switch(), rate="5 parsec"), "rate = '5 parsec': must be a rate"),
    (lambda net: net.link(net.host("a"), net.switch(), rate=0), "links have 1kbit to"),
    (lambda net: net.link(net.host("a"), net.switch(), rate=float("nan")), "must be a rate"),
    (lambda net: net.link(net.host("a"), net.switch(), delay=-1), "delay = -1: must be a duration"),
    (lambda net: net.link(net.host("a"), net.switch(), loss="100%"), "must be below 100%"),
    (lambda net: net.link(net.host("a"), gradwire.lab.network().switch()), "s1 is of another network"),
    (lambda net: net.sleep(1), "has no host"),
    (lambda net: (net.host("a"), build(net)), "a has no link"),
    (lambda net: ([net.link(net.host(n), net.switch()) for n in "ab"], build(net)), "no way leads from s1 to s2"),
    (lambda net: ([net.link(net.host(f"h{n}"), net.switch(f"s{n}"), rate="1tbit") for n in range(7)], build(net)), "7000gbit"),
]  # fmt: skip


@pytest.mark.parametrize(("draw", "message"), WRONG)
def test_what_cannot_be_is_refused_before_anything_boots(draw: Callable[[Network], object], message: str) -> None:
    with gradwire.lab.network() as net, pytest.raises(InputFault, match=message):
        draw(net)


@pytest.mark.parametrize("settings", [{"sede": 1}, {"memory": "1MiB"}, {"wall_limit": 0}, {"mtu_bytes": 10}])
def test_settings_that_cannot_be_are_named(settings: dict[str, object]) -> None:
    with pytest.raises(InputFault, match=next(iter(settings))):
        gradwire.lab.network(**settings)
