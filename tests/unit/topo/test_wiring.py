import ast
import re
from dataclasses import replace

import pytest

from gradwire import PACKAGE
from gradwire.datatypes.host_settings import HostTcp
from gradwire.faults import InputFault, MachineFault
from gradwire.network.fabric import Fabric, Routing, Topology
from gradwire.topo.wiring import (
    OVS_TIMEOUT_S,
    Naming,
    asked_of_switches,
    bridge_arguments,
    check_interfaces,
    distance_sysctls,
    host_sysctls,
    kernel_sysctls,
    link_commands,
    near_end,
)

SINGLE = Fabric(hosts=3, rate_bps=10e9)
LEAF_SPINE = Fabric(hosts=4, rate_bps=10e9, topology=Topology.LEAF_SPINE, leaves=2, spines=2)
PIDS = {"h1": 101, "h2": 102, "h3": 103, "h4": 104}


def test_host_link_is_born_with_the_host_end_in_its_namespace() -> None:
    assert " ".join(link_commands(SINGLE.links()[1], Naming(SINGLE), PIDS)[0]) == (
        "link add s1-eth2 mtu 1500 gso_max_size 65536 type veth peer name h2-eth0 mtu 1500 gso_max_size 65536 "
        "address 02:00:00:00:00:02 netns 102"
    )


def test_link_between_switches_stays_outside() -> None:
    command = " ".join(link_commands(LEAF_SPINE.links()[-1], Naming(LEAF_SPINE, "gw"), PIDS)[0])
    assert command.startswith("link add gws2-eth4 ")
    assert " peer name gws4-eth2 " in command
    assert "netns" not in command


def test_near_ends_name_every_link_once_and_no_host() -> None:
    ends = [near_end(link, Naming(LEAF_SPINE)) for link in LEAF_SPINE.links()]
    assert len(set(ends)) == len(LEAF_SPINE.links())
    assert all(end.device.startswith("s") for end in ends)


def test_packet_by_packet_limits_segments() -> None:
    fabric = replace(SINGLE, gso_bytes=1514)
    assert " gso_max_size 1514 gso_max_segs 1 " in " ".join(link_commands(fabric.links()[0], Naming(fabric), PIDS)[0])


@pytest.mark.parametrize("gso_bytes", [1000, 1513, 65537])
def test_impossible_gso_sizes_are_rejected(gso_bytes: int) -> None:
    with pytest.raises(InputFault, match="gso"):
        replace(SINGLE, gso_bytes=gso_bytes)


def test_names_longer_than_linux_allows_are_rejected() -> None:
    Naming(SINGLE, "gw123456")
    with pytest.raises(InputFault, match="switch_prefix"):
        Naming(SINGLE, "gw1234567")


def test_bridge_is_secure_and_has_the_fabrics_port_numbers() -> None:
    words = bridge_arguments("s2", Naming(LEAF_SPINE, "p"), controller_port=6653, userspace=False)
    text = " ".join(words)
    assert "-- add-br ps2 " in text
    assert (
        "datapath_type=system fail_mode=secure protocols=OpenFlow13 other_config:datapath-id=0000000000000002 " in text
    )
    assert [word for word in words if word.startswith("ofport_request")] == [
        f"ofport_request={n}" for n in (1, 2, 3, 4)
    ]
    assert "may-exist" not in text
    assert 'target="tcp:127.0.0.1:6653"' in words
    assert "datapath_type=netdev" in bridge_arguments("s2", Naming(LEAF_SPINE), controller_port=1, userspace=True)


SHOWN = (
    '{"data":[["s1-eth2",2,["set",[]]],["s1",65534,["set",[]]],["s1-eth1",%s]],"headings":["name","ofport","error"]}'
)


def test_ports_with_the_numbers_asked_for_pass() -> None:
    check_interfaces(SHOWN % '1,["set",[]]', {"s1-eth1": 1, "s1-eth2": 2})


@pytest.mark.parametrize(
    "entry", ['-1,"could not open network device s1-eth1"', '7,["set",[]]', '["set",[]],["set",[]]']
)
def test_ports_that_open_vswitch_could_not_make_are_rejected(entry: str) -> None:
    with pytest.raises(MachineFault, match="s1-eth1"):
        check_interfaces(SHOWN % entry, {"s1-eth1": 1, "s1-eth2": 2})


def test_ports_that_are_missing_are_rejected() -> None:
    with pytest.raises(MachineFault, match="s1-eth9"):
        check_interfaces(SHOWN % '1,["set",[]]', {"s1-eth9": 9})


def test_no_tool_of_open_vswitch_waits_for_ever_for_a_daemon_that_has_died() -> None:
    """A command without a limit takes all of the time limit: ovsdb-server killed, `ovs-vsctl list` waited for it."""
    asked = asked_of_switches("ovs-vsctl", "list-br")
    assert asked == ["ovs-vsctl", f"--timeout={OVS_TIMEOUT_S}", "list-br"]
    lists = [
        element.elts[0].value
        for path in PACKAGE.rglob("*.py")
        if re.search(r"ovs-|\b(tc|ip)\b", source := path.read_text())
        for element in ast.walk(ast.parse(source))
        if isinstance(element, ast.List) and element.elts and isinstance(element.elts[0], ast.Constant)
    ]
    assert "tc" in lists or "ip" in lists
    assert not {"ovs-vsctl", "ovs-ofctl", "ovs-appctl"} & {name for name in lists if isinstance(name, str)}
    lines = [line for path in PACKAGE.rglob("*.sh") for line in path.read_text().splitlines() if "ovs-vsctl " in line]
    assert lines
    assert all(" --timeout=" in line for line in lines)


def test_hosts_are_told_the_longest_round_trip() -> None:
    assert distance_sysctls(SINGLE) == {"net/ipv4/tcp_base_rtt_us": "0"}
    assert distance_sysctls(replace(SINGLE, delay_s=1e-6)) == {"net/ipv4/tcp_base_rtt_us": "4"}
    assert distance_sysctls(replace(SINGLE, delay_s=0.3e-6)) == {"net/ipv4/tcp_base_rtt_us": "2"}


def test_stock_hosts_have_what_linux_comes_with() -> None:
    tuned = host_sysctls(SINGLE, userspace=False)
    assert tuned["net/ipv4/tcp_slow_start_after_idle"] == "0"
    stock = host_sysctls(replace(SINGLE, host_tcp=HostTcp.STOCK), userspace=False)
    assert stock == {
        "net/ipv4/tcp_slow_start_after_idle": "1",
        "net/ipv4/tcp_no_metrics_save": "0",
        "net/ipv4/tcp_autocorking": "1",
        "net/ipv4/tcp_wmem": "4096 16384 4194304",
        "net/ipv4/tcp_rmem": "4096 131072 6291456",
    }
    older = host_sysctls(replace(SINGLE, host_tcp=HostTcp.STOCK_BEFORE_6_6), userspace=False)
    assert older == {**stock, "net/ipv4/tcp_rmem": "4096 131072 3145728"}
    assert kernel_sysctls(0, HostTcp.STOCK)["net/core/wmem_max"] == "212992"
    assert kernel_sysctls(8 << 20, HostTcp.STOCK)["net/core/rmem_max"] == str(4 << 20)


def test_what_is_overtaken_is_for_timers_to_repair() -> None:
    """Flowlets may be; elsewhere nothing is late for long, and a probe would be a second copy."""
    flowlets = replace(LEAF_SPINE, routing=Routing.FLOWLET)
    assert host_sysctls(LEAF_SPINE, userspace=False)["net/ipv4/tcp_early_retrans"] == "0"
    assert "net/ipv4/tcp_early_retrans" not in host_sysctls(flowlets, userspace=False)


def test_marks_and_the_userspace_datapath_are_not_a_matter_of_hosts() -> None:
    marking = Fabric(hosts=3, rate_bps=10e9, gso_bytes=1514, ecn_bytes=100_000, host_tcp=HostTcp.STOCK)
    assert host_sysctls(marking, userspace=False)["net/ipv4/tcp_ecn"] == "1"
    assert host_sysctls(replace(SINGLE, host_tcp=HostTcp.STOCK), userspace=True)["net/ipv4/tcp_recovery"] == "0"
