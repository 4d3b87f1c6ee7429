"""Where captured ports are in the network: at a host, at the other end of its link, or between switches."""

from __future__ import annotations

from dataclasses import dataclass

from gradwire.datatypes.fabric import Fabric
from gradwire.faults import InternalFault


@dataclass(frozen=True)
class Place:
    """Location of a port in the fabric."""

    #: Interface name of the port.
    port: str
    #: The port at the other end of its link.
    far_port: str
    #: Index of the host or aggregator at its link; None between switches.
    endpoint: int | None
    #: Whether the port belongs to that endpoint.
    is_near: bool


def place_of(fabric: Fabric, port: str) -> Place:
    """The place of a port by its interface name. Raises InternalFault if the fabric has no such port."""
    names = fabric.endpoint_names()
    for link in fabric.links():
        if port in (link.a.interface, link.b.interface):
            near = link.a.interface == port
            far = link.b if near else link.a
            endpoint = names.index(link.a.device) if link.a.device in names else None
            return Place(port, far.interface, endpoint, near and endpoint is not None)
    raise InternalFault(f"a capture names port {port}, which the fabric does not have")
