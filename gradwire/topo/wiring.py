"""The arguments of ip and ovs-vsctl that wire the fabric. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from gradwire.datatypes.host_settings import STOCK_SEND_BYTES, HostTcp
from gradwire.faults import InputFault, MachineFault
from gradwire.network.fabric import ETHERNET_HEADER_BYTES, Fabric, Link, Port
from gradwire.network.path_delays import longest_round_trip_s
from gradwire.topo.long_links import inner_ends
from gradwire.topo.netlink.addresses import only_waits

OVS_TIMEOUT_S = 30
"""Seconds that Open vSwitch may take to answer. Without a limit, its tools wait for a daemon that has died, and virtual
time is endless."""
LEGACY_GSO_MAX_BYTES = 65536
"""GSO_LEGACY_MAX_SIZE, the largest `gso_max_size` for IPv4. Beyond it is BIG TCP, which needs headers that OVS cannot
match."""
MAX_INTERFACE_NAME = 15
"""IFNAMSIZ without the terminating zero."""
HOST_SYSCTLS: Mapping[str, str] = {
    # TCP stands in for RDMA: a pause between iterations must not shrink the window, nor may the end of one transfer
    # slow the next.
    "net/ipv4/tcp_slow_start_after_idle": "0",
    "net/ipv4/tcp_no_metrics_save": "1",
    # A message's last bytes leave at once, without waiting until those before them have been sent.
    "net/ipv4/tcp_autocorking": "0",
    # Initial send buffer: with 16 KiB (Linux's default) a high class starts so slowly that a low one got 0.08 % beside
    # it at 100 Gbit/s, and with 4 MiB a process that fills many sockets in turn kept the last of them waiting
    # (all-to-all 1.046 instead of 1.021). Largest: 4 MiB are 335 us at 100 Gbit/s, several round trips; 1 MiB was too
    # little for a ring there (1.32).
    "net/ipv4/tcp_wmem": "4096 1048576 4194304",
    "net/ipv4/tcp_rmem": "4096 4194304 16777216",
}
LOSSLESS_SYSCTLS: Mapping[str, str] = {
    # A tail that waits behind a higher class must not cause a probe, which would be a second copy of it.
    "net/ipv4/tcp_early_retrans": "0",
}
"""Further parameters for the hosts of a fabric without losses, where nothing is overtaken."""
ECN_SYSCTLS: Mapping[str, str] = {
    # Every connection asks for ECN, and not only those whose congestion control needs it.
    "net/ipv4/tcp_ecn": "1",
}
"""Further parameters for the hosts of a fabric whose switches mark."""
REORDERING_SYSCTLS: Mapping[str, str] = {
    # RACK (RFC 8985) would send again what is a quarter of a round trip late; without it, so many later packets have
    # to arrive first.
    "net/ipv4/tcp_recovery": "0",
    "net/ipv4/tcp_reordering": "300",
}
"""Parameters for hosts of a fabric without losses whose switch is Open vSwitch's userspace datapath. The first packets
of a flow, which wait for a rule, are overtaken there by those behind them, and TCP sent them again: 1 to 24 in a run
of VGG-19 on eight busy hosts. And parameters for hosts whose bursts take several ways at once (`fabric.routing =
"spray"`) where a fault may lose packets: with Linux's own, a ring of 16 hosts over 4 spines sent 2 % of its segments
again and took 2.7 times as long."""
ANY_ORDER_SYSCTLS: Mapping[str, str] = {
    "net/ipv4/tcp_recovery": "0",
    # The first one bounds the second one, and is 300 where nobody raises it.
    "net/ipv4/tcp_max_reordering": "30000",
    "net/ipv4/tcp_reordering": "30000",
}
"""Parameters for networks in which nothing can be lost: they tolerate the reordering of more segments than sockets
hold, so nothing is retransmitted. With 300, a ring of 8 hosts over 4 spines whose lines had a quarter of a host's rate
retransmitted 0.06 % and took 1.11 times its ideal time, and 1.02 times with this. Where packets are lost, it would
leave their repair to the retransmission timer."""
STOCK_SYSCTLS: Mapping[str, str] = {
    # Set, and not left alone, because what a kernel comes with depends on its memory.
    "net/ipv4/tcp_slow_start_after_idle": "1",
    "net/ipv4/tcp_no_metrics_save": "0",
    "net/ipv4/tcp_autocorking": "1",
    "net/ipv4/tcp_wmem": f"4096 16384 {STOCK_SEND_BYTES}",
}
"""Parameters of hosts whose TCP is as Linux comes (datatypes/host_settings.py has the sources); their tcp_rmem depends on
the kernel's age."""
STOCK_SOCKET_REQUEST_BYTES = 212992
"""SK_WMEM_MAX and SK_RMEM_MAX of include/net/sock.h: the largest size that a process on a stock host may request for a
socket's buffer."""
LARGEST_SOCKET_REQUEST_BYTES = 64 << 20
"""Largest size that a process may request for a socket's buffer, unless the scenario asks for more. The kernel silently
takes less, and doubles what it takes."""
KERNEL_SYSCTLS: Mapping[str, str] = {
    # In pages. The kernel's default, a sixteenth of memory, counts a tmpfs page once for every socket that has it in
    # flight.
    "net/ipv4/tcp_mem": "4194304 8388608 16777216",
    # Packets that veth devices have handed over and the kernel has not yet taken in. In virtual time hosts send at one
    # moment: of 512 in a ring, the default of 1,000 lost 245 packets of 81 million.
    "net/core/netdev_max_backlog": "1000000",
}
"""Parameters of the whole kernel, to be set only if the kernel is this run's alone."""


def distance_sysctls(fabric: Fabric) -> dict[str, str]:
    """What hosts of the virtual clock's kernel are told of the network: its longest round trip, from which congestion
    controls tell waiting from distance. Faults that add delays are what they are to notice."""
    return {"net/ipv4/tcp_base_rtt_us": str(math.ceil(longest_round_trip_s(fabric, ()) * 1e6 - 1e-6))}


def host_sysctls(fabric: Fabric, *, userspace: bool) -> dict[str, str]:
    """The parameters of each host's network namespace. userspace: whether packets go through Open vSwitch's userspace
    datapath."""
    marking = ECN_SYSCTLS if fabric.marks else {}
    # That datapath is this machine's, whatever hosts are like. Hosts that spray keep their patience with faults: else
    # iterations before a fault took 1.7 times as long as without it in the scenario.
    splits = fabric.routing.policy.splits_messages
    is_patient = splits or (userspace and fabric.is_lossless)
    of_order = ANY_ORDER_SYSCTLS if splits and fabric.is_lossless else REORDERING_SYSCTLS
    reordering = of_order if is_patient else {}
    if fabric.host_tcp.is_stock:
        receive = f"4096 131072 {fabric.host_tcp.receive_bytes}"
        return {**STOCK_SYSCTLS, "net/ipv4/tcp_rmem": receive, **marking, **reordering}
    return {**HOST_SYSCTLS, **(LOSSLESS_SYSCTLS if only_waits(fabric) else {}), **marking, **reordering}


def kernel_sysctls(socket_bytes: int, host_tcp: HostTcp = HostTcp.TUNED) -> dict[str, str]:
    """KERNEL_SYSCTLS, and limits below which sockets can have buffers of `socket_bytes` each."""
    usual_bytes = STOCK_SOCKET_REQUEST_BYTES if host_tcp.is_stock else LARGEST_SOCKET_REQUEST_BYTES
    most = str(max(usual_bytes, socket_bytes // 2))
    return {"net/core/rmem_max": most, "net/core/wmem_max": most, **KERNEL_SYSCTLS}


@dataclass(frozen=True)
class Naming:
    """Names on the machine: switches and their interfaces get a prefix, so that two networks can exist on one machine.

    Hosts need no prefix, because their interfaces are created inside their own namespaces. Devices with a label are
    called by it instead.
    """

    fabric: Fabric
    switch_prefix: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raises InputFault if an interface name is too long for Linux."""
        longest = max((self.interface(port) for port, _ in self.fabric.ports()), key=len)
        if len(longest) > MAX_INTERFACE_NAME:
            raise InputFault(
                f"interface name {longest} is longer than {MAX_INTERFACE_NAME}: use a shorter switch_prefix"
            )

    def device(self, name: str) -> str:
        """A device's name on the machine."""
        return self.labels.get(name) or (self.switch_prefix + name if self.is_switch(name) else name)

    def interface(self, port: Port) -> str:
        """The name of a port's interface on the machine."""
        return Port(self.device(port.device), port.number).interface

    def is_switch(self, name: str) -> bool:
        """Returns whether the fabric's device of this name is a switch."""
        return name in self._switches

    def ports_of(self, device: str) -> list[Port]:
        """The ports of a device, by number."""
        return self._ports.get(device, [])

    @cached_property
    def _ports(self) -> dict[str, list[Port]]:
        """The ports of all devices, by number: going through all ports for each of 512 hosts would take seconds."""
        found: dict[str, list[Port]] = {}
        for port, _ in sorted(self.fabric.ports(), key=lambda each: each[0].number):
            found.setdefault(port.device, []).append(port)
        return found

    @cached_property
    def inner_ends(self) -> dict[str, tuple[str, str]]:
        """Interfaces inside long links, by the names of these."""
        return inner_ends(self.fabric, self.switch_prefix)

    @cached_property
    def _switches(self) -> frozenset[str]:
        return frozenset(self.fabric.switch_names())

    def switch_interfaces(self) -> list[str]:
        """All interfaces of switches, which are in the machine's initial network namespace."""
        return [self.interface(port) for port, _ in self.fabric.ports() if self.is_switch(port.device)]


def near_end(link: Link, naming: Naming) -> Port:
    """The end of a link that is in the machine's initial network namespace: the switch's, or the first switch's."""
    return link.a if naming.is_switch(link.a.device) else link.b


def link_commands(link: Link, naming: Naming, host_pids: Mapping[str, int]) -> list[list[str]]:
    """The `ip` commands, without "ip", that make a link's veth pair, or its two pairs if it is long
    (topo/long_links.py).

    A host's end is directly in its network namespace. host_pids: a thread or a process in each, by name of the host.
    Raises InputFault for an impossible GSO size.
    """
    fabric = naming.fabric
    near = near_end(link, naming)
    far = link.b if near is link.a else link.a
    options = _interface_options(fabric)
    peer = ["peer", "name", naming.interface(far), *options]
    if far.device in host_pids:
        address = fabric.host_mac(fabric.endpoint_names().index(far.device))
        peer += ["address", address, "netns", str(host_pids[far.device])]
    inner = naming.inner_ends.get(link.name)
    if inner is None:
        return [["link", "add", naming.interface(near), *options, "type", "veth", *peer]]
    by_near, by_far = inner if near is link.a else inner[::-1]
    return [
        ["link", "add", naming.interface(near), *options, "type", "veth", "peer", "name", by_near, *options],
        ["link", "add", by_far, *options, "type", "veth", *peer],
    ]


def inner_end_of_far(link: Link, naming: Naming) -> str | None:
    """The interface inside a long link whose pair has the end that is not `near_end`; None for other links."""
    inner = naming.inner_ends.get(link.name)
    return None if inner is None else inner[1] if near_end(link, naming) is link.a else inner[0]


def _interface_options(fabric: Fabric) -> list[str]:
    smallest = fabric.mtu_bytes + ETHERNET_HEADER_BYTES
    if not smallest <= fabric.gso_bytes <= LEGACY_GSO_MAX_BYTES:
        raise InputFault(
            f"fabric.gso_bytes = {fabric.gso_bytes}: must be {smallest} (one frame) to {LEGACY_GSO_MAX_BYTES} "
            f"(the largest IPv4 packet)"
        )
    options = ["mtu", str(fabric.mtu_bytes), "gso_max_size", str(fabric.gso_bytes)]
    if fabric.gso_bytes < 2 * fabric.mtu_bytes:
        options += ["gso_max_segs", "1"]
    return options


def asked_of_switches(program: str, *words: str) -> list[str]:
    """The arguments of one of Open vSwitch's tools, which gives up after OVS_TIMEOUT_S."""
    return [program, f"--timeout={OVS_TIMEOUT_S}", *words]


def bridge_arguments(switch: str, naming: Naming, *, controller_port: int, userspace: bool) -> list[str]:
    """Arguments that add one switch of the fabric to an `ovs-vsctl` call. The whole call fails if the bridge exists.

    Fail mode secure: without the controller, a switch keeps its rules and never learns or floods. No inactivity probe:
    a late echo, under load on the wall clock, must not end the connection.
    """
    name, dpid = naming.device(switch), naming.fabric.switch_names().index(switch) + 1
    datapath = "netdev" if userspace else "system"
    bridge = ["--", "add-br", name, "--", "set", "Bridge", name, f"datapath_type={datapath}", "fail_mode=secure"]
    # Groups that hash connections come by OpenFlow 1.0 (controller/__main__.py).
    protocols = "OpenFlow10,OpenFlow13" if naming.fabric.routing.policy.hashes_connections else "OpenFlow13"
    if naming.fabric.controller:
        protocols = "OpenFlow10,OpenFlow13,OpenFlow14,OpenFlow15"  # whichever the user's application speaks
    bridge += [f"protocols={protocols}", f"other_config:datapath-id={dpid:016x}", "other_config:disable-in-band=true"]
    for port in naming.ports_of(switch):
        bridge += ["--", "add-port", name, naming.interface(port)]
        bridge += ["--", "set", "Interface", naming.interface(port), f"ofport_request={port.number}"]
    return bridge + controller_arguments(name, controller_port)


def controller_arguments(bridge: str, controller_port: int) -> list[str]:
    """Arguments that give a bridge its controller, for an `ovs-vsctl` call."""
    target = f'target="tcp:127.0.0.1:{controller_port}"'
    controller = ["--", f"--id=@{bridge}", "create", "Controller", target, "max_backoff=1000", "inactivity_probe=0"]
    return [*controller, "--", "set", "Bridge", bridge, f"controller=@{bridge}"]


def check_interfaces(text: str, numbers: Mapping[str, int]) -> None:
    """Reads `ovs-vsctl --format=json --columns=name,ofport,error list Interface`.

    Raises MachineFault if a port is missing or does not have the requested number, in which cases ovs-vsctl still
    succeeds.
    """
    assigned = {row[0]: (row[1], row[2]) for row in json.loads(text)["data"]}
    for interface, requested in numbers.items():
        number, error = assigned.get(interface, (None, None))
        if number != requested:
            raise MachineFault(
                f"Open vSwitch gave {interface} port {number} instead of {requested} (its error: {error}); "
                f"is ovs-vswitchd running and its log clean?"
            )
