"""Parameters of hosts by their names: which table counts, and what a fabric keeps of them."""

from __future__ import annotations

import pytest

from gradwire.datatypes.host_settings import HostSetting, is_of_resending, is_of_tcp, same_value
from gradwire.faults import InputFault
from gradwire.network.fabric import Fabric
from gradwire.network.network_graph import GraphLink, NetworkGraph
from gradwire.network.topology import Topology
from tests.shared.parts import in_order

ECN, CONGESTION = "net.ipv4.tcp_ecn", "net.ipv4.tcp_congestion_control"
SETTINGS = (
    HostSetting("all", ((ECN, "0"), (CONGESTION, "cubic"))),
    HostSetting("h[12]", ((CONGESTION, "bbr"),)),
    HostSetting("h2", ((ECN, "1"),)),
)


def test_a_later_table_counts_key_by_key() -> None:
    fabric = Fabric(3, 1e9, host_settings=SETTINGS)
    values = [{key: each.value for key, each in asked.items()} for asked in fabric.host_parameters]
    assert values == [
        {ECN: "0", CONGESTION: "bbr"},
        {ECN: "1", CONGESTION: "bbr"},
        {ECN: "0", CONGESTION: "cubic"},
    ]
    assert fabric.host_parameters[1][ECN].pattern == "h2"
    assert fabric.congestion_of_hosts == ("bbr", "bbr", "cubic")
    assert fabric.set_keys == {ECN, CONGESTION}


def test_a_fabric_is_written_and_read_with_them_and_without_them() -> None:
    fabric = Fabric(3, 1e9, host_settings=SETTINGS)
    assert Fabric.from_json(fabric.to_json()) == fabric
    plain = Fabric(3, 1e9)
    assert Fabric.from_json(plain.to_json()) == plain
    assert plain.host_parameters == ({}, {}, {})
    assert plain.congestion_of_hosts == ("", "", "")


def test_a_table_of_no_host_is_refused() -> None:
    with pytest.raises(InputFault, match=in_order("fabric.host.'h4':", "h1 to h3")):
        Fabric(3, 1e9, host_settings=(HostSetting("h4", ((ECN, "1"),)),))


def test_hosts_of_a_network_of_the_users_own_are_called_as_there_too() -> None:
    graph = NetworkGraph(1, (GraphLink(0, 0, 1e9), GraphLink(1, 0, 1e9)), (), ("gpu1", "storage"), ("tor",), "a rack")
    for pattern in ("storage", "stor*", "h2"):
        fabric = Fabric(2, 1e9, Topology.CUSTOM, graph=graph, host_settings=(HostSetting(pattern, ((ECN, "1"),)),))
        assert [bool(asked) for asked in fabric.host_parameters] == [False, True]


def test_which_parameters_decide_what() -> None:
    assert is_of_tcp("net.ipv4.tcp_notsent_lowat")
    assert is_of_tcp("net.core.default_qdisc")
    assert not is_of_tcp("net.ipv4.ip_forward")
    assert is_of_resending("net.ipv4.tcp_recovery")
    assert not is_of_resending("net.ipv4.tcp_wmem")
    assert same_value("4096\t16384\n", "4096 16384")
    assert not same_value("4096", "40 96")
