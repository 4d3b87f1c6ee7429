"""The names by which hosts find each other: IPv4 first, for who takes either."""

from __future__ import annotations

from gradwire.inside.namespaces import names_of_hosts
from gradwire.network.fabric import Fabric

BOTH = Fabric(2, 10e9, ipv6=True)


def test_a_name_has_both_addresses_where_ipv4_comes_first() -> None:
    assert names_of_hosts(BOTH, prefers_ipv4=True).splitlines() == [
        "127.0.0.1 localhost",
        "10.0.0.1 h1",
        "10.0.0.2 h2",
        "::1 localhost ip6-localhost",
        "fd00::1 h1 ip6-h1",
        "fd00::2 h2 ip6-h2",
    ]


def test_otherwise_ipv6_has_names_of_its_own() -> None:
    lines = names_of_hosts(BOTH, prefers_ipv4=False).splitlines()
    assert lines[3:] == ["::1 ip6-localhost", "fd00::1 ip6-h1", "fd00::2 ip6-h2"]


def test_a_network_without_ipv6_has_none_of_its_names() -> None:
    assert names_of_hosts(Fabric(2, 10e9), prefers_ipv4=True).splitlines() == [
        "127.0.0.1 localhost",
        "10.0.0.1 h1",
        "10.0.0.2 h2",
    ]
