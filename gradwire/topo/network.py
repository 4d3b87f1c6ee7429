"""Builds a fabric with Mininet, Open vSwitch and tc, reads its counters, and removes what it built and nothing else."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from gradwire.datatypes.host_settings import HostParameter
from gradwire.faults import MachineFault
from gradwire.netlink_messages import Kernel, index_of, known_index
from gradwire.network.fabric import NO_LIMIT_BYTES, Fabric, Port
from gradwire.network_namespace import namespace_of, network_namespace
from gradwire.topo.abilities import Abilities, require_red
from gradwire.topo.command import attempt, run, write_sysctl
from gradwire.topo.counters import (
    DatapathCounters,
    PortCounters,
    PortQueues,
    TcpCounters,
    dropped_by_rules,
    parse_lookups,
    parse_qdiscs,
    parse_tcp,
    read_port_queues,
)
from gradwire.topo.flow_control import FlowControl
from gradwire.topo.host_parameters import quiet_ipv6, read_again, set_parameters, silence_ipv6
from gradwire.topo.line_counters import LineCounters
from gradwire.topo.long_links import delay_lines, joining_commands, stores_packets
from gradwire.topo.netlink.addresses import NeighbourRequests, configuring, has_ipv6, raised
from gradwire.topo.netlink.delay_lines import holding
from gradwire.topo.netlink.qdiscs import QdiscEntry, can_be_copied, copying, parts, shown
from gradwire.topo.nodes import BatchSwitch, FabricTopo, OutsideController, QuietHost, QuietLink, QuietMininet
from gradwire.topo.queue_watch import QueueWatch
from gradwire.topo.switch_sockets import enlarge_switch_sockets, switch_process
from gradwire.topo.tc import Classify, Shaper, batch_text, port_commands
from gradwire.topo.wiring import (
    Naming,
    asked_of_switches,
    bridge_arguments,
    check_interfaces,
    distance_sysctls,
    host_sysctls,
    inner_end_of_far,
    kernel_sysctls,
    link_commands,
    near_end,
)

LOG = logging.getLogger(__name__)
Read = TypeVar("Read")

CONTROLLER_NAME = "c0"
LOCAL_EXPERIMENTAL_ETHERTYPE = "88b5"


class Network:
    """Context manager that builds a fabric when entered and removes it when left, also after an error.

    abilities: what the kernel can do (gradwire.topo.abilities.probe_kernel).
    controller_port: TCP port on 127.0.0.1 where the controller listens, now or soon.
    switch_prefix: precedes the names of switches and their interfaces; needed where another network may use s1, s2, ...
    owns_kernel: whether the kernel is this run's alone (virtual clock), so that its global parameters may be set and
    timers are exact.
    impaired: ports at which faults will lose or delay packets.
    socket_bytes: the largest buffer that a socket asks for, for which a kernel that is owned makes room.
    first_window: of TCP connections, in segments; 0 for the kernel's own.
    labels: what devices are called on the machine, by their names in the fabric, where that is something else.

    `net` is the Mininet object: net.hosts, net.switches and mininet.cli.CLI(net) work as always. If something cannot
    be built, entering removes what was built and raises MachineFault with the command and its error.
    """

    def __init__(
        self,
        fabric: Fabric,
        abilities: Abilities,
        *,
        controller_port: int,
        switch_prefix: str = "",
        owns_kernel: bool = False,
        impaired: Collection[Port] = (),
        socket_bytes: int = 0,
        first_window: int = 0,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        self.fabric = fabric
        self._abilities = abilities
        self._naming = Naming(fabric, switch_prefix, labels or {})
        self._names = fabric.endpoint_names()
        self._controller_port = controller_port
        self._owns_kernel = owns_kernel
        self._impaired = impaired
        self._socket_bytes = socket_bytes
        self._first_window = first_window
        self._cleanup = ExitStack()
        self._parameters: list[HostParameter] = []
        self.net: QuietMininet | None = None
        self.flow_control: FlowControl | None = None
        self.line_counters: LineCounters | None = None
        self.queue_watch: QueueWatch | None = None

    @property
    def userspace(self) -> bool:
        """Whether packets go through Open vSwitch's userspace datapath."""
        return not self._abilities.has_openvswitch

    @property
    def classify(self) -> Classify:
        """The way in which packets are assigned to a band."""
        return Classify.DSCP if self.userspace else Classify.SKB_PRIORITY

    @property
    def shaper(self) -> Shaper:
        """How ports are kept to their rates."""
        return Shaper(exact_timers=self._owns_kernel, charges_frames=self._abilities.counts_lines)

    def __enter__(self) -> Network:
        if self.fabric.marks:
            require_red()
        with ExitStack() as undo:
            if not self._owns_kernel:
                self._check_names_are_free()
            self.net = QuietMininet(
                topo=FabricTopo(self._naming),
                host=QuietHost,
                switch=BatchSwitch,
                link=QuietLink,
                controller=None,
                build=False,
            )
            undo.callback(self._end_nodes)
            self.net.addController(CONTROLLER_NAME, OutsideController, ip="127.0.0.1", port=self._controller_port)
            self.net.build()
            self._set_sysctls()
            undo.callback(self._delete_links)
            self._make_links()
            self._configure_hosts()
            self._set_parameters()
            undo.callback(self._delete_bridges)
            self._make_bridges()
            self.net.start()
            self._shape_ports()
            if self.fabric.lossless is not None:
                self.flow_control = FlowControl(self, self.fabric.lossless)
            if self._owns_kernel and self._abilities.counts_lines:
                self.line_counters = LineCounters(self)
            self._cleanup = undo.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._cleanup.close()

    def host_pid(self, host: int) -> int:
        """Id of the thread that holds the network namespace of endpoint index `host`; a signal to it would reach this
        process."""
        # By name, for Mininet's own order has aggregators before hosts.
        return int(self._mininet()[self._naming.device(self._names[host])].pid)

    def interface(self, port: Port) -> str:
        """Name of a port's interface on the machine, in its network namespace (see `namespace_of_port`)."""
        return self._naming.interface(port)

    def switch_interfaces(self) -> dict[str, str]:
        """Names on the machine of all interfaces of switches, with the fabric's names for them."""
        ports = self._interfaces(self.fabric.switch_names())
        return {name: port.interface for name, port in ports.items()}

    def namespace_of_port(self, port: Port) -> str:
        """The /proc path of a port's network namespace, or "" for a port of a switch, which is in the machine's
        initial one."""
        if self._naming.is_switch(port.device):
            return ""
        return namespace_of(self.host_pid(self.fabric.endpoint_names().index(port.device)))

    def watch_queues(self) -> None:
        """Notices from now on what programs change at the queues of hosts' ports (`queue_watch`)."""
        self.queue_watch = QueueWatch(self)
        self._cleanup.callback(self.queue_watch.close)

    def loss_of(self, port: Port) -> float:
        """Share of packets that the fabric itself loses at a port."""
        return self.fabric.losses.get(port.interface, 0.0)

    @property
    def naming(self) -> Naming:
        """Names of the fabric's parts on this machine."""
        return self._naming

    def counters(self) -> list[PortCounters]:
        """Reads the counters of every port since the network was built: first the ports of hosts, in order, then those
        of switches.

        Raises MachineFault if something has replaced a port's qdiscs.
        """
        return self._read_ports(lambda entries, ports: parse_qdiscs(entries, ports, self.fabric.bands))

    def port_queues(self) -> list[PortQueues]:
        """The queues of every port, in the order of `counters`, where programs may have replaced some."""
        return self._read_ports(lambda entries, ports: read_port_queues(entries, ports, self.fabric.bands))

    def _read_ports(self, parse: Callable[[list[dict[str, Any]], dict[str, Port]], list[Read]]) -> list[Read]:
        """Applies `parse` to the queues of hosts' ports, namespace by namespace, and then to those of switches. Returns
        all its results in this order."""
        read: list[Read] = []
        for host, name in enumerate(self.fabric.endpoint_names()):
            with network_namespace(namespace_of(self.host_pid(host))):
                read += _read_ports_here(self._interfaces([name]), parse)
        return read + _read_ports_here(self._interfaces(self.fabric.switch_names()), parse)

    def datapath_counters(self) -> DatapathCounters:
        """Datapath and table counters, read after Open vSwitch has collected its statistics (up to half a second).

        All but the table misses include other bridges of the machine that use the same datapath.
        """
        run(asked_of_switches("ovs-appctl", "revalidator/wait"))
        hits, upcalls, lost = parse_lookups(run(asked_of_switches("ovs-appctl", "dpctl/show")))
        bridges = map(self._naming.device, self.fabric.switch_names())
        has_own_rules = bool(self.fabric.controller)
        dropped = [dropped_by_rules(bridge, has_own_rules=has_own_rules) for bridge in bridges]
        return DatapathCounters(hits, upcalls, lost, *map(sum, zip(*dropped, strict=True)))

    def tcp_counters(self) -> list[TcpCounters]:
        """TCP segments and retransmissions of each host since the network was built."""
        folders = [Path(f"/proc/{self.host_pid(host)}/net") for host in range(self.fabric.endpoints)]
        return [parse_tcp((net / "snmp").read_text(), (net / "netstat").read_text()) for net in folders]

    def _mininet(self) -> QuietMininet:
        if self.net is None:
            raise MachineFault("the network is not built: enter it first")
        return self.net

    def _interfaces(self, devices: list[str]) -> dict[str, Port]:
        return {self._naming.interface(port): port for name in devices for port in self._naming.ports_of(name)}

    def _check_names_are_free(self) -> None:
        """Makes sure that nothing has one of our names yet, so that whatever has one later is ours to delete."""
        listed = attempt(asked_of_switches("ovs-vsctl", "list-br"))
        if listed.returncode:
            raise MachineFault(
                f"Open vSwitch does not answer: {listed.stderr.strip()}; `service openvswitch-switch start` starts it"
            )
        taken = set(listed.stdout.split()) | {entry.name for entry in Path("/sys/class/net").iterdir()}
        bridges = [self._naming.device(name) for name in self.fabric.switch_names()]
        for name in [*bridges, *self._initial_interfaces()]:
            if name in taken:
                raise MachineFault(
                    f"a bridge or interface {name} exists already: remove it or use another switch_prefix"
                )

    def _initial_interfaces(self) -> list[str]:
        """All interfaces in the machine's initial network namespace: those of switches, and those inside long links."""
        inside = [end for ends in self._naming.inner_ends.values() for end in ends]
        return [*self._naming.switch_interfaces(), *inside]

    def _set_sysctls(self) -> None:
        if self._owns_kernel:
            for name, value in kernel_sysctls(self._socket_bytes, self.fabric.host_tcp).items():
                write_sysctl(name, value)
        told = distance_sysctls(self.fabric) if self._abilities.has_base_rtt else {}
        settings = {**host_sysctls(self.fabric, userspace=self.userspace), **told}
        self._own_settings = frozenset(settings)
        for host in range(self.fabric.endpoints):
            with network_namespace(namespace_of(self.host_pid(host))):
                for name, value in settings.items():
                    write_sysctl(name, value)
                for scope in ("all", "default"):
                    (quiet_ipv6 if has_ipv6(self.fabric) else silence_ipv6)(scope)

    def _set_parameters(self) -> None:
        """Sets what the scenario asks of hosts' kernels, after all that gradwire sets itself."""
        for host, asked in enumerate(self.fabric.host_parameters):
            if asked:
                with network_namespace(namespace_of(self.host_pid(host))):
                    self._parameters += set_parameters(self._names[host], asked, self._own_settings)

    def host_parameters(self) -> tuple[HostParameter, ...]:
        """The host parameters that the scenario sets, with their present values."""
        found: list[HostParameter] = []
        for name in dict.fromkeys(each.host for each in self._parameters):
            with network_namespace(namespace_of(self.host_pid(self._names.index(name)))):
                found += read_again(self._parameters, name)
        return tuple(found)

    def _make_links(self) -> None:
        pids = {name: self.host_pid(host) for host, name in enumerate(self.fabric.endpoint_names())}
        commands = [words for link in self.fabric.links() for words in link_commands(link, self._naming, pids)]
        run(["ip", "-batch", "-"], batch_text(commands))
        for name in self._initial_interfaces():
            silence_ipv6(name)
        with Kernel() as kernel:
            kernel.do([raised(name, known_index(name)) for name in self._initial_interfaces()])
        self._stretch_links()

    def _stretch_links(self) -> None:
        """Joins the halves of long links."""
        inside, stores = self._naming.inner_ends, stores_packets(self.fabric)
        seed = abs(self.fabric.seed) if self._abilities.has_netem_seed else None
        lines = [
            line
            for number, link in enumerate(self.fabric.links())
            if link.name in inside
            for line in delay_lines(link, inside[link.name], None if seed is None else seed + 2 * number, stores=stores)
        ]
        if lines:
            with Kernel() as kernel:
                kernel.do([holding(line, known_index(name), name) for name, line in lines])
            run(
                ["tc", "-batch", "-"],
                batch_text([words for ends in inside.values() for words in joining_commands(ends)]),
            )

    def _configure_hosts(self) -> None:
        neighbours: dict[int, NeighbourRequests] = {}
        for host, name in enumerate(self.fabric.endpoint_names()):
            (interface,) = self._interfaces([name])
            with network_namespace(namespace_of(self.host_pid(host))), Kernel() as kernel:
                index = known_index(interface)
                if index not in neighbours:
                    neighbours[index] = NeighbourRequests.of(self.fabric, index)
                kernel.do(configuring(host, self.fabric, index, neighbours[index], self._first_window))
                if self.userspace:
                    # AF_PACKET hands packets without their checksum to the userspace datapath, which never computes it.
                    run(["ethtool", "-K", interface, "tx", "off"])

    def _make_bridges(self) -> None:
        arguments = [
            word
            for name in self.fabric.switch_names()
            for word in bridge_arguments(
                name, self._naming, controller_port=self._controller_port, userspace=self.userspace
            )
        ]
        run(asked_of_switches("ovs-vsctl", *arguments[1:]))
        if self.userspace:
            self._open_sending_socket()
            enlarge_switch_sockets(switch_process())
        shown = run(asked_of_switches("ovs-vsctl", "--format=json", "--columns=name,ofport,error", "list", "Interface"))
        switch_ports = self._interfaces(self.fabric.switch_names())
        check_interfaces(shown, {interface: port.number for interface, port in switch_ports.items()})

    def _open_sending_socket(self) -> None:
        """Makes Open vSwitch open the socket through which it sends for all ports, by a first packet that nobody
        receives."""
        frame = "02000000ffff" + "02000000fffe" + LOCAL_EXPERIMENTAL_ETHERTYPE + "00" * 46
        bridge = self._naming.device(self.fabric.switch_names()[0])
        what = f"in_port=controller packet={frame} actions=output:1"
        run(asked_of_switches("ovs-ofctl", "-O", "OpenFlow13", "packet-out", bridge, what))

    def _shape_ports(self) -> None:
        """Shapes all ports. This comes last, because Open vSwitch clears a port's qdiscs when the port is added."""
        commands: dict[int | None, list[list[str]]] = {}
        ends = [(end, link) for link in self.fabric.links() for end in (link.a, link.b)]
        for port, link in ends:
            is_switch = self._naming.is_switch(port.device)
            place = None if is_switch else self.fabric.endpoint_names().index(port.device)
            commands.setdefault(place, []).extend(
                port_commands(
                    self._naming.interface(port),
                    link.rate_bps,
                    self.fabric,
                    has_prio=self._abilities.has_prio,
                    has_fq=self._abilities.has_fq,
                    shaper=self.shaper,
                    # A user's controller need not know of queues: then the DSCP tells the band.
                    classify=Classify.DSCP if is_switch and self.fabric.controller else self.classify,
                    loss=self.loss_of(port),
                    netem_seed=self.fabric.seed + port.number if self._abilities.has_netem_seed else None,
                    impaired=port in self._impaired,
                    bounded=is_switch,
                    queue_bytes=(link.buffer_bytes or NO_LIMIT_BYTES * bool(self.fabric.lossless), link.ecn_bytes),
                    flow_rate_bps=0.0 if is_switch or math.isinf(link.rate_bps) else self.fabric.flow_rate_bps,
                )
            )
        run(["tc", "-batch", "-"], batch_text(commands.pop(None)))
        self._shape_hosts({place: batch for place, batch in commands.items() if place is not None})
        if self.fabric.losses and not self._abilities.has_netem_seed:
            LOG.warning("tc or the kernel does not know netem's seed: losses differ from run to run")

    def _shape_hosts(self, commands: Mapping[int, list[list[str]]]) -> None:
        """Runs the commands of each host's port.

        In a kernel of the run's own, a port gets a copy of what tc has made of the same commands at another, without
        another process of tc.
        """
        models: dict[str, tuple[list[QdiscEntry], list[QdiscEntry]]] = {}
        for host, batch in commands.items():
            (interface,) = self._interfaces([self.fabric.endpoint_names()[host]])
            text = batch_text(batch).replace(interface, "port")
            with network_namespace(namespace_of(self.host_pid(host))), Kernel() as kernel:
                index = known_index(interface)
                if text in models:
                    kernel.do(copying(*models[text], index, interface))
                    continue
                run(["tc", "-batch", "-"], batch_text(batch))
                # Others have filters, which are not read.
                is_whole = self.classify is Classify.SKB_PRIORITY and not self.fabric.routing.policy.writes_ways
                if self._owns_kernel and is_whole and can_be_copied(qdiscs := parts(kernel, index)):
                    models[text] = qdiscs, parts(kernel, index, classes=True)

    def _end_nodes(self) -> None:
        """Ends the hosts with their processes. Shells that nobody opened are left alone, unlike in Mininet's own
        nodes."""
        self._mininet().stop()

    def _delete_links(self) -> None:
        """Deletes one end of each link, which takes the other with it. A batch that failed half way made only some of
        them."""
        ends = [self._naming.interface(near_end(link, self._naming)) for link in self.fabric.links()]
        ends += [end for link in self.fabric.links() if (end := inner_end_of_far(link, self._naming))]
        names = [name for name in ends if Path("/sys/class/net", name).exists()]
        run(["ip", "-batch", "-"], batch_text([["link", "del", name] for name in names]))

    def _delete_bridges(self) -> None:
        bridges = [self._naming.device(name) for name in self.fabric.switch_names()]
        words = [word for bridge in bridges for word in ("--", "--if-exists", "del-br", bridge)]
        run(asked_of_switches("ovs-vsctl", *words[1:]))


def _read_ports_here(
    ports: dict[str, Port], parse: Callable[[list[dict[str, Any]], dict[str, Port]], list[Read]]
) -> list[Read]:
    """Applies `parse` to the queues of those ports that are in the caller's network namespace."""
    names = {index: name for name in ports if (index := index_of(name)) is not None}
    with Kernel() as kernel:
        return parse(shown(kernel, names), ports)
