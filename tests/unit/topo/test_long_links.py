"""What makes a link long, as ip and tc are told of it."""

from __future__ import annotations

import sys
from dataclasses import replace

from gradwire.netlink_messages import attributes
from gradwire.network.fabric import Fabric, Topology
from gradwire.network.links import LinkSetting
from gradwire.topo.long_links import delay_lines, joining_commands
from gradwire.topo.netlink.delay_lines import (
    OPTIONS,
    RATE,
    TCA_NETEM_JITTER64,
    TCA_NETEM_LATENCY64,
    TCA_NETEM_PRNG_SEED,
    TCA_NETEM_RATE,
    TCA_NETEM_RATE64,
    DelayLine,
    holding,
)
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


def held(lines: list[tuple[str, DelayLine]]) -> list[str]:
    return [line.words(name) for name, line in lines]


def test_a_long_link_is_two_pairs_with_a_queue_in_between() -> None:
    link, naming = FABRIC.links()[0], Naming(FABRIC)
    first, second = words(link_commands(link, naming, PIDS))
    assert first.startswith("link add s1-eth1 mtu 1500")
    assert first.endswith("peer name l0b mtu 1500 gso_max_size 65536")
    assert second.startswith("link add l0a ")
    assert " peer name h1-eth0 " in second
    assert second.endswith("netns 1001")
    ends = naming.inner_ends[link.name]
    assert held(delay_lines(link, ends, 1)) == [
        "tc qdisc add dev l0b root netem limit 10000000 delay 1000ns 0ns",
        "tc qdisc add dev l0a root netem limit 10000000 delay 1000ns 0ns",
    ]
    assert words(joining_commands(ends)) == [
        "qdisc add dev l0a ingress",
        "filter add dev l0a ingress protocol all pref 1 matchall action mirred egress redirect dev l0b",
        "qdisc add dev l0b ingress",
        "filter add dev l0b ingress protocol all pref 1 matchall action mirred egress redirect dev l0a",
    ]


def test_a_jitter_is_even_above_the_delay_and_keeps_the_order() -> None:
    link, naming = FABRIC.trunk_links()[1], Naming(FABRIC, "gw")
    ends = naming.inner_ends[link.name]
    assert ends == ("gwl5a", "gwl5b")
    first, second = held(delay_lines(link, ends, 7))
    assert first.startswith("tc qdisc add dev gwl5b ")
    assert first.endswith("delay 1050000ns 50000ns rate 1000000000000000bit 0 seed 7")
    assert second.endswith(" seed 8")
    assert "seed" not in " ".join(held(delay_lines(link, ends, None)))


def test_the_kernel_is_told_nanoseconds() -> None:
    """In steps of the clock. tc would make 300 us of the delay, and no jitter."""
    line = DelayLine(1000, 3.007e-4, 3e-7, rate_bps=400e9, overhead_bytes=24, seed=3)
    body = holding(line, 5, "l0a").data
    options = line.options()
    assert options in body
    assert OPTIONS.unpack_from(options) == (0, 1000, 0, 0, 0, 0)
    told = attributes(options[OPTIONS.size :])
    assert {kind: int.from_bytes(told[kind], sys.byteorder) for kind in told if kind != TCA_NETEM_RATE} == {
        TCA_NETEM_LATENCY64: 300_704,
        TCA_NETEM_JITTER64: 304,
        TCA_NETEM_RATE64: 50_000_000_000,
        TCA_NETEM_PRNG_SEED: 3,
    }
    assert RATE.unpack(told[TCA_NETEM_RATE]) == (2**32 - 1, 24, 0, 0)
    slower = attributes(replace(line, rate_bps=8e9).options()[OPTIONS.size :])
    assert TCA_NETEM_RATE64 not in slower
    assert RATE.unpack(slower[TCA_NETEM_RATE]) == (10**9, 24, 0, 0)


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
        lines = [held(delay_lines(link, naming.inner_ends[link.name], 1))[0] for link in (first, second)]
        assert lines[0].endswith("limit 10000000 delay 1000ns 0ns")
        assert lines[1].endswith("limit 10000000 rate 1000000000000000bit 0")
    assert set(Naming(FABRIC).inner_ends) == {"h1-s1", "s2-s3"}
