"""Makes a graph of switches and links, and a table of routes, from the settings of a scenario's network. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from gradwire.datatypes.host_settings import RdmaDevice
from gradwire.faults import InputFault
from gradwire.network.fabric import ETHERNET_HEADER_BYTES, Fabric
from gradwire.network.lossless import GSO_BYTES
from gradwire.network.network_graph import GraphLink, NetworkGraph, places, spread
from gradwire.network.read_ways import MOST_HOSTS
from gradwire.network.static_routes import route_defects
from gradwire.network.structures.graph_structure import GraphStructure
from gradwire.scenario.file_references import NETWORK_ENDINGS
from gradwire.scenario.sections.defined import ControllerDefinition
from gradwire.scenario.sections.fabric import FabricSection
from gradwire.scenario.sections.network import (
    MOST_LINKS,
    MOST_SWITCHES,
    NetworkDefinition,
    NetworkLink,
    RoutesDefinition,
)

FIBRE_S_PER_KM = 5e-6
"""Delay of light in fibre: 200,000 km/s. Group indices of 1.467 to 1.468 (ITU-T G.652 fibre at 1310 and 1550 nm, Corning's SMF-28)
give 4.9 us; fibres are longer than the great circle, by more than that."""


class Definitions(Protocol):
    """Contents of the files that a fabric's section names, by the names of the things in them."""

    @property
    def networks(self) -> Mapping[str, NetworkDefinition]:
        """Networks."""

    @property
    def routes(self) -> Mapping[str, RoutesDefinition]:
        """Tables of routes."""

    @property
    def controllers(self) -> Mapping[str, ControllerDefinition]:
        """Controllers."""


def fabric_of(
    wanted: FabricSection,
    hosts: int,
    defined: Definitions,
    *,
    classes: int,
    seed: int,
    nics_per_host: int = 1,
    faulty: bool = False,
) -> Fabric:
    """The network that a scenario describes, for at least so many hosts; NICs of one host count as hosts.

    classes: traffic classes that are needed, unless the section says more. faulty: whether faults may lose packets.
    Raises InputFault, with the key, for what cannot be built.
    """
    graph = graph_of(wanted, hosts, defined.networks, nics_per_host)
    network = defined.networks.get(wanted.file or "")
    # Where a file gives ports queues that drop or mark, they must see single frames, as those that the section gives.
    sees_frames = wanted.gso is None and network is not None and network.drops_or_marks
    gso_bytes = wanted.mtu_bytes + ETHERNET_HEADER_BYTES if sees_frames else wanted.gso_bytes
    if wanted.gso is None and network is not None and network.is_slow:
        # Shorter bursts, for each waits for the end of the one before it at every switch; but not single frames, whose ACKs would take
        # 2 to 3 % of the way back (Cernet of the Topology Zoo, with links of 2 Mbit/s: the rate probe was 1.022 of its ideal time).
        gso_bytes = min(gso_bytes, max(GSO_BYTES, wanted.mtu_bytes + ETHERNET_HEADER_BYTES))
    made = Fabric(
        hosts=hosts if graph is None else len(graph.host_links),
        rate_bps=wanted.rate,
        graph=graph,
        topology=wanted.topology,
        leaves=wanted.leaves,
        spines=wanted.spines,
        oversubscription=wanted.oversubscription,
        pods=wanted.pods,
        cores=wanted.cores,
        core_oversubscription=wanted.core_oversubscription,
        nics_per_host=nics_per_host,
        rails=wanted.rails,
        classes=wanted.classes or classes,
        mtu_bytes=wanted.mtu_bytes,
        gso_bytes=gso_bytes,
        buffer_bytes=wanted.buffer_bytes,
        ecn_bytes=wanted.ecn_bytes,
        ecn_most_bytes=wanted.ecn_most_bytes,
        ecn_share=wanted.ecn_share,
        lossless=wanted.flow_control,
        loss=wanted.loss,
        fair_queues=wanted.fair_queues is not False,
        routing=wanted.routing_in_effect,
        host_tcp=wanted.hosts,
        rdma=wanted.rdma,
        seed=seed,
        delay_s=wanted.delay_of_all_s,
        link_settings=wanted.link_settings,
        host_settings=wanted.host_settings,
        flow_rate_bps=wanted.flow_rate or 0.0,
        flowlet_gap_s=wanted.gap_of_flowlets_s,
        faulty=faulty,
    )
    return with_controller(with_routes(made, wanted, defined.routes), wanted, defined.controllers)


def graph_of(
    wanted: FabricSection, hosts: int, networks: Mapping[str, NetworkDefinition], nics_per_host: int = 1
) -> NetworkGraph | None:
    """The graph of a fabric whose switches are in no tiers, with at least so many hosts; None for other fabrics.

    networks: those that the scenario defines, by name. nics_per_host: a machine with several NICs is as many hosts of the
    graph, one after the other. Raises InputFault, with the key, for what cannot be built.
    """
    structure = wanted.topology.structure
    if not isinstance(structure, GraphStructure):
        return None
    if wanted.file is not None:
        if wanted.file not in networks:
            raise InputFault(
                f"fabric.file = '{wanted.file}': no such network; give a file ({', '.join(NETWORK_ENDINGS)}), or a class like lab.py:Campus"
            )
        return _defined(wanted, hosts, networks[wanted.file], nics_per_host)
    shape = structure.shape(dict(wanted))
    if defect := shape.defect():
        raise InputFault(defect)
    for count, what, most in (
        (shape.switch_count, "switches", MOST_SWITCHES),
        (shape.link_count, "links between switches", MOST_LINKS),
    ):
        if count > most:
            raise InputFault(f"fabric.topology = '{wanted.topology}': has {count:,} {what}; must be at most {most:,}")
    return spread(hosts, shape.switch_count, shape.pairs(), wanted.rate, shape.title, nics_per_host)


def with_routes(fabric: Fabric, wanted: FabricSection, tables: Mapping[str, RoutesDefinition]) -> Fabric:
    """The fabric with its table of routes, if it goes by one. tables: those that the scenario defines, by name.

    Raises InputFault, with row and key, for names that the fabric does not have and pairs of hosts without a way.
    """
    if wanted.routes is None:
        return fabric
    if wanted.routes not in tables:
        raise InputFault(f"fabric.routes = '{wanted.routes}': no such table; give a .toml or .csv file")
    found = replace(fabric, routes=tables[wanted.routes].routes)
    if lines := route_defects(found):
        raise InputFault("\n".join(lines))
    return found


def with_controller(fabric: Fabric, wanted: FabricSection, controllers: Mapping[str, ControllerDefinition]) -> Fabric:
    """The fabric with the user's controller, if it has one. controllers: those that the scenario defines.

    Raises InputFault for one that is not defined, and for what such a controller does not know of.
    """
    if wanted.controller is None:
        return fabric
    if wanted.controller not in controllers:
        raise InputFault(f"fabric.controller = '{wanted.controller}': no such controller; give a .py file")
    if fabric.hosts > MOST_HOSTS:
        raise InputFault(
            f"fabric.controller: the network has {fabric.hosts} hosts; ways through flows of a controller of your own are followed for at "
            f"most {MOST_HOSTS}"
        )
    return replace(fabric, controller=controllers[wanted.controller].sha256)


def refuse_sprayed(wanted: FabricSection, *, programs: bool) -> None:
    """Raises InputFault for programs where a burst's way is written by its host."""
    if programs and wanted.routing.policy.writes_ways:
        raise InputFault(
            f"fabric.routing = '{wanted.routing}': not with programs ([program.NAME]): hosts choose ways by the segments that TCP "
            "counts for a plan's connections, and datagrams and pings of programs would all take one way; use 'ecmp', which "
            "spreads the connections of programs as well, or leave the programs out"
        )


def refuse_rdma(wanted: FabricSection) -> None:
    """Raises InputFault where a network that carries strategies is to have RDMA devices."""
    if wanted.rdma is not RdmaDevice.NONE:
        raise InputFault(
            f"fabric.rdma = '{wanted.rdma}': is for scenarios of programs alone; strategies send by TCP and UDP"
        )


def _defined(wanted: FabricSection, hosts: int, network: NetworkDefinition, nics_per_host: int) -> NetworkGraph:
    names, host_links, trunks = _links(wanted, network)
    if lines := list(_nic_defects(network, names, nics_per_host)):
        raise InputFault("\n".join([f"fabric.file = '{wanted.file}': {line}" for line in lines]))
    if names and len(names) < hosts:
        ends = "hosts" if nics_per_host == 1 else "NICs of hosts"
        raise InputFault(
            f"fabric.file = '{wanted.file}': has {len(names)} {ends}, and the point needs {hosts}; use fewer workers and servers"
        )
    if not names:
        ends_of = enumerate(places(hosts, len(network.switches), nics_per_host))
        host_links = [GraphLink(host, switch, wanted.rate, wanted.delay) for host, switch in ends_of]
    return NetworkGraph(
        len(network.switches),
        tuple(host_links),
        tuple(trunks),
        tuple(names),
        network.switches,
        f"the network '{wanted.file}'",
    )


def _links(wanted: FabricSection, network: NetworkDefinition) -> tuple[list[str], list[GraphLink], list[GraphLink]]:
    """The names of the graph's hosts, the link of each, and the links between switches. A host with several links is a graph's
    host for each of them, its NICs, in the order of the links."""
    switches = {name: number for number, name in enumerate(network.switches)}
    of_hosts: dict[str, list[tuple[NetworkLink, str]]] = {name: [] for name in network.hosts}
    trunks: list[GraphLink] = []
    for link in network.links:
        near, far = (link.b, link.a) if link.b in of_hosts else (link.a, link.b)
        if near in of_hosts:
            of_hosts[near].append((link, far))
        else:
            trunks.append(_link(wanted, link, switches[near], switches[far]))
    names: list[str] = []
    host_links: list[GraphLink] = []
    for host, found in of_hosts.items():
        for number, (link, far) in enumerate(found, start=1):
            host_links.append(_link(wanted, link, len(names), switches[far]))
            names.append(host if len(found) == 1 else f"{host}.nic{number}")
    return names, host_links, trunks


def _nic_defects(network: NetworkDefinition, names: Sequence[str], nics_per_host: int) -> Iterator[str]:
    """Why the network's hosts are not machines of so many NICs each: hosts with as many links, or as many hosts in a row, which
    InfraGraph calls by the device that they are of."""
    key = f"cluster.nics_per_host = {nics_per_host}"
    links = Counter(end for link in network.links for end in (link.a, link.b))
    most = max((links[host] for host in network.hosts), default=1)
    if most > 1:
        other = [host for host in network.hosts if links[host] != nics_per_host]
        if other:
            count, more = links[other[0]], f" (and {len(other) - 1} more hosts)" if len(other) > 1 else ""
            has = f"host '{other[0]}'{more} has {count} link{'s' if count > 1 else ''}"
            wants = (
                f"set cluster.nics_per_host = {most}"
                if nics_per_host == 1
                else f"{key} wants as many links of every host"
            )
            yield f"{has}, each of which is a NIC: {wants}, or leave every host one link"
        repeated = [name for name, count in Counter((*names, *network.switches)).items() if count > 1]
        if repeated:
            yield f"'{repeated[0]}' is the name of a node, and of a NIC of a host with several links: rename the node"
        return
    if nics_per_host == 1 or not names:
        return
    if len(names) % nics_per_host:
        yield f"has {len(names)} hosts with one link each, which are NICs: must be a multiple of {key}"
        return
    of_devices = any(_device_of(name) != name for name in names)
    for first in range(0, len(names), nics_per_host):
        machine = names[first : first + nics_per_host]
        devices = {_device_of(name) for name in machine} if of_devices else {""}
        if len(devices) > 1:
            yield f"'{machine[0]}' and '{machine[-1]}' are NICs of different devices: {key} must be how many each device has"
            return


def _device_of(name: str) -> str:
    """The device of an interface as InfraGraph names it, "server.0" of "server.0.nic.1"; other names are devices."""
    parts = name.split(".")
    return ".".join(parts[:-2]) if len(parts) >= 4 else name


def _delay_s(wanted: FabricSection, link: NetworkLink) -> float:
    """The link's own delay, or that of its distance if the scenario asks for it, or that of all links."""
    if link.delay is not None:
        return link.delay
    if wanted.delay_from_coordinates and link.distance_km is not None:
        return link.distance_km * FIBRE_S_PER_KM
    return wanted.delay


def _link(wanted: FabricSection, link: NetworkLink, a: int, b: int) -> GraphLink:
    return GraphLink(
        a,
        b,
        link.rate or wanted.rate,
        _delay_s(wanted, link),
        link.jitter,
        link.loss,
        link.buffer or 0,
        link.ecn or 0,
    )
