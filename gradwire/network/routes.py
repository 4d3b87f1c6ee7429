"""The lines that a packet passes on its way through a fabric. Pure; imports only frozen data.

A line is one direction of a link. Lines are numbered: out of each host, into each host, then those of the links
between switches in the order of `Fabric.trunk_links`, all from `a` to `b` ("up") and all from `b` to `a` ("down").
Aggregators' links have no rate and do not count. Everything that has to know ways asks `routes_of`: estimates, loads
of links, checks, and, for graphs, the switches' rules.
"""

from __future__ import annotations

from gradwire.network.fabric import Fabric, Link
from gradwire.network.line_routes import Routes
from gradwire.network.line_routes import SummitOf as SummitOf  # noqa: PLC0414 (whoever asks for routes has it from here)


def routes_of(fabric: Fabric, summit_of: SummitOf | None = None) -> Routes:
    """The ways through a fabric. summit_of: chooses where switches are in tiers; a graph's routes need nothing else."""
    return fabric.routing.policy.routes(fabric, summit_of)


def most_trunks_on_way(fabric: Fabric) -> int:
    """Links between switches that a packet passes at most."""
    return fabric.routing.policy.most_trunks(fabric)


def lines_of(fabric: Fabric) -> list[Link]:
    """The link of each line."""
    links = fabric.links()
    hosts, trunks = links[: fabric.hosts], fabric.trunk_links()
    return [*hosts, *hosts, *trunks, *trunks]


def line_interfaces(fabric: Fabric) -> list[str]:
    """The port that sends on each line, by the name of its interface."""
    hosts, trunks = fabric.links()[: fabric.hosts], fabric.trunk_links()
    return [
        *(link.a.interface for link in hosts),
        *(link.b.interface for link in hosts),
        *(link.a.interface for link in trunks),
        *(link.b.interface for link in trunks),
    ]


def line_ends(fabric: Fabric) -> list[tuple[str, str]]:
    """The devices at the near and the far end of each line."""
    up = [(link.a.device, link.b.device) for link in (*fabric.links()[: fabric.hosts], *fabric.trunk_links())]
    hosts, trunks = up[: fabric.hosts], up[fabric.hosts :]
    return [*hosts, *(ends[::-1] for ends in hosts), *trunks, *(ends[::-1] for ends in trunks)]


def line_titles(fabric: Fabric) -> list[str]:
    """The name of each line in all that users read: "h3 out" and "h3 in" for those of a host's link, and else the link
    with the device that it leads to: "leaf1-spine2 to spine2"."""
    hosts = [fabric.link_title(link) for link in fabric.links()[: fabric.hosts]]
    trunks = [(fabric.link_title(link), link) for link in fabric.trunk_links()]
    return [
        *(f"{name} out" for name in hosts),
        *(f"{name} in" for name in hosts),
        *(f"{name} to {fabric.title_of(link.b.device)}" for name, link in trunks),
        *(f"{name} to {fabric.title_of(link.a.device)}" for name, link in trunks),
    ]


def port_lines(fabric: Fabric) -> dict[str, str]:
    """The name of the line that each port sends on, by its interface; of an aggregator's link, which is none, the interface itself."""
    titles = dict(zip(line_interfaces(fabric), line_titles(fabric), strict=True))
    return {port.interface: titles.get(port.interface, port.interface) for port, _ in fabric.ports()}


def ports_in_words(fabric: Fabric) -> dict[str, str]:
    """The same with the interface behind it, for those who look into captures: "leaf1-spine2 to spine2 (s1-eth6)"."""
    lines = port_lines(fabric)
    return {name: line if line == name else f"{line} ({name})" for name, line in lines.items()}
