"""From what a scenario says of its network's shape to a graph of switches and links, and to its table of routes. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from gradwire.datatypes.fabric import Fabric
from gradwire.datatypes.host_settings import RdmaDevice
from gradwire.datatypes.network_graph import Graph, GraphLink, dragonfly, full_mesh, linear, places, ring, spread, torus
from gradwire.datatypes.read_ways import MOST_HOSTS
from gradwire.datatypes.shape import Topology
from gradwire.datatypes.static_routes import route_defects
from gradwire.faults import InputFault
from gradwire.scenario.limits import listed
from gradwire.scenario.sections.defined import ControllerDefinition
from gradwire.scenario.sections.fabric import FabricSection
from gradwire.scenario.sections.network import (
    MOST_LINKS,
    MOST_SWITCHES,
    NetworkDefinition,
    NetworkLink,
    RoutesDefinition,
)


def graph_of(wanted: FabricSection, hosts: int, networks: Mapping[str, NetworkDefinition]) -> Graph | None:
    """The graph of a fabric whose switches are in no tiers, with at least so many hosts; None for other fabrics.

    networks: those that the scenario defines, by name. Raises InputFault, with the key, for what cannot be built.
    """
    if not wanted.topology.is_graph:
        return None
    if wanted.topology is Topology.CUSTOM:
        assert wanted.file is not None  # the section wants one
        if wanted.file not in networks:
            raise InputFault(
                f"fabric.file = '{wanted.file}': no such network; give a .graphml, .json or .yaml file, or a class like lab.py:Campus"
            )
        return _defined(wanted, hosts, networks[wanted.file])
    switches, pairs, title = _built_in(wanted)
    if switches > MOST_SWITCHES:
        raise InputFault(
            f"fabric.topology = '{wanted.topology}': has {switches:,} switches; must be at most {MOST_SWITCHES:,}"
        )
    if len(pairs) > MOST_LINKS:
        raise InputFault(
            f"fabric.topology = '{wanted.topology}': has {len(pairs):,} links between switches; must be at most {MOST_LINKS:,}"
        )
    return spread(hosts, switches, pairs, wanted.rate, title)


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
        raise InputFault(listed(lines))
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


def refuse_sprayed(wanted: FabricSection) -> None:
    """Raises InputFault for programs where a burst's way is written by its host."""
    if wanted.routing.is_by_burst:
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


def _built_in(wanted: FabricSection) -> tuple[int, list[tuple[int, int]], str]:
    """Number of switches, the links between them, and what the network is."""
    if wanted.topology is Topology.TORUS:
        sizes = " x ".join(map(str, wanted.dimensions))
        count = math.prod(wanted.dimensions)
        return count, torus(wanted.dimensions) if count <= MOST_SWITCHES else [], f"a torus of {sizes} switches"
    if wanted.topology is Topology.DRAGONFLY:
        count = wanted.groups * wanted.routers
        title = f"a dragonfly of {wanted.groups} groups of {wanted.routers} switches"
        fits = count <= MOST_SWITCHES
        return count, dragonfly(wanted.groups, wanted.routers, wanted.global_links) if fits else [], title
    makers = {Topology.RING: ring, Topology.LINEAR: linear, Topology.FULL_MESH: full_mesh}
    words = {Topology.RING: "a ring", Topology.LINEAR: "a line", Topology.FULL_MESH: "a full mesh"}
    fits = wanted.switches <= MOST_SWITCHES
    pairs = makers[wanted.topology](wanted.switches) if fits else []
    return wanted.switches, pairs, f"{words[wanted.topology]} of {wanted.switches} switches"


def _defined(wanted: FabricSection, hosts: int, network: NetworkDefinition) -> Graph:
    if network.hosts and len(network.hosts) < hosts:
        raise InputFault(
            f"fabric.file = '{wanted.file}': has {len(network.hosts)} hosts, and the point needs {hosts}; use fewer workers and servers"
        )
    switches = {name: number for number, name in enumerate(network.switches)}
    host_numbers = {name: number for number, name in enumerate(network.hosts)}
    of_hosts: dict[int, GraphLink] = {}
    trunks: list[GraphLink] = []
    for link in network.links:
        near, far = (link.b, link.a) if link.b in host_numbers else (link.a, link.b)
        made = _link(wanted, link, host_numbers[near] if near in host_numbers else switches[near], switches[far])
        if near in host_numbers:
            of_hosts[host_numbers[near]] = made
        else:
            trunks.append(made)
    host_links = tuple(of_hosts[host] for host in range(len(network.hosts)))
    if not network.hosts:
        ends = enumerate(places(hosts, len(switches)))
        host_links = tuple(GraphLink(host, switch, wanted.rate, wanted.delay) for host, switch in ends)
    return Graph(
        len(switches), host_links, tuple(trunks), network.hosts, network.switches, f"the network '{wanted.file}'"
    )


def _link(wanted: FabricSection, link: NetworkLink, a: int, b: int) -> GraphLink:
    return GraphLink(
        a,
        b,
        link.rate or wanted.rate,
        wanted.delay if link.delay is None else link.delay,
        link.jitter,
        link.loss,
        link.buffer or 0,
        link.ecn or 0,
    )
