"""What makes a link long, as ip and tc are told of it."""

from __future__ import annotations

from dataclasses import replace

from gradwire.datatypes.fabric import Fabric, Topology
from gradwire.datatypes.links import LinkSetting
from gradwire.topo.long_links import holding_commands
from gradwire.topo.wiring import Naming, inner_end_of_far, link_commands

PIDS = {f"h{host}": 1000 + host for host in range(1, 5)}
FABRIC = Fabric(
    4,
    10e9,
    Topology.LEAF_SPINE,
    leaves=2,
    spines=1,
    link_settings=(LinkSetting("h1", delay_s=1e-6), LinkSetting("s2-s3", delay_s=1e-3, jitter_s=1e-4)),
)


def words(commands: list[list[str]]) -> list[str]:
    return [" ".join(command) for command in commands]


def test_a_long_link_is_two_pairs_with_a_queue_in_between() -> None:
    link, naming = FABRIC.links()[0], Naming(FABRIC)
    first, second = words(link_commands(link, naming, PIDS))
    assert first.startswith("link add s1-eth1 mtu 1500")
    assert first.endswith("peer name l0b mtu 1500 gso_max_size 65536")
    assert second.startswith("link add l0a ")
    assert " peer name h1-eth0 " in second
    assert second.endswith("netns 1001")
    assert words(holding_commands(link, naming.inner_ends[link.name], 1)) == [
        "qdisc add dev l0b root netem limit 10000000 delay 1.000us",
        "qdisc add dev l0a ingress",
        "filter add dev l0a ingress protocol all pref 1 matchall action mirred egress redirect dev l0b",
        "qdisc add dev l0a root netem limit 10000000 delay 1.000us",
        "qdisc add dev l0b ingress",
        "filter add dev l0b ingress protocol all pref 1 matchall action mirred egress redirect dev l0a",
    ]


def test_a_jitter_is_even_above_the_delay_and_keeps_the_order() -> None:
    link, naming = FABRIC.trunk_links()[1], Naming(FABRIC, "gw")
    ends = naming.inner_ends[link.name]
    assert ends == ("gwl5a", "gwl5b")
    assert words(holding_commands(link, ends, 7))[0].endswith("delay 1050.000us 50.000us rate 1000tbit seed 7")
    assert "seed" not in " ".join(words(holding_commands(link, ends, None)))


def test_other_links_are_one_pair() -> None:
    link, naming = FABRIC.links()[1], Naming(FABRIC)
    assert len(link_commands(link, naming, PIDS)) == 1
    assert inner_end_of_far(link, naming) is None
    assert inner_end_of_far(FABRIC.links()[0], naming) == "l0a"


def test_the_fabric_itself_tells_which_links_are_long() -> None:
    assert set(Naming(replace(FABRIC, delay_s=1e-5)).inner_ends) == {link.name for link in FABRIC.links()}


def test_links_of_hosts_take_packets_from_sockets_where_switches_drop_or_mark() -> None:
    """For no time: netem orphans what it holds only where it has a delay or a rate."""
    for shallow in (
        replace(FABRIC, gso_bytes=1514, buffer_bytes=50_000),
        replace(FABRIC, gso_bytes=1514, ecn_bytes=30_000),
    ):
        naming, (first, second, *_) = Naming(shallow), shallow.links()
        assert set(naming.inner_ends) == {"h1-s1", "h2-s1", "h3-s2", "h4-s2", "s2-s3"}
        held = [words(holding_commands(link, naming.inner_ends[link.name], 1))[0] for link in (first, second)]
        assert held[0].endswith("limit 10000000 delay 1.000us")
        assert held[1].endswith("limit 10000000 rate 1000tbit")
    assert set(Naming(FABRIC).inner_ends) == {"h1-s1", "s2-s3"}
