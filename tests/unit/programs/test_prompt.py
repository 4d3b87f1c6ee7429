"""What a shell says of the network."""

from __future__ import annotations

import pytest

from gradwire.datatypes.fabric import Fabric, Topology
from gradwire.programs.inside.shell_job import echo_request
from gradwire.programs.prompt import dump, links, net, nodes

FABRIC = Fabric(2, 10e9, Topology.LEAF_SPINE, leaves=2, spines=1)


def test_nodes_links_and_ports_are_those_of_the_fabric() -> None:
    assert nodes(FABRIC).splitlines()[1] == "c0 h1 h2 s1 s2 s3"
    assert next(links(FABRIC)) == "h1-eth0<->s1-eth1 (10gbit)"
    assert len(list(links(FABRIC))) == len(FABRIC.links())
    assert list(net(FABRIC))[:3] == ["h1 h1-eth0:s1-eth1", "h2 h2-eth0:s2-eth1", "s1 s1-eth1:h1-eth0 s1-eth2:s3-eth1"]
    assert list(dump(FABRIC, [70, 71]))[1:3] == [
        "<Host h2: h2-eth0:10.0.0.2 pid=71>",
        "<OVSSwitch s1: s1-eth1,s1-eth2>",
    ]


def test_a_host_without_a_process_is_a_bug() -> None:
    with pytest.raises(ValueError):
        list(dump(FABRIC, [70]))


def test_an_echo_request_has_the_right_checksum() -> None:
    request = echo_request(1, 2)
    total = sum(int.from_bytes(request[i : i + 2], "big") for i in range(0, len(request), 2))
    assert (total & 0xFFFF) + (total >> 16) == 0xFFFF
