"""What a shell answers from the fabric alone: nodes, links, addresses, in Mininet's words. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gradwire.datatypes.fabric import Fabric
from gradwire.workloads.units import rate_text


def nodes(fabric: Fabric) -> str:
    """The names of all nodes."""
    return f"available nodes are:\n{' '.join(['c0', *fabric.host_names(), *fabric.switch_names()])}"


def links(fabric: Fabric) -> Iterator[str]:
    """A line per link, with its rate."""
    for link in fabric.links():
        yield f"{link.a.interface}<->{link.b.interface} ({rate_text(link.rate_bps)})"


def net(fabric: Fabric) -> Iterator[str]:
    """A line per node: its ports, each with the port at the other end."""
    far = {end: other for link in fabric.links() for end, other in ((link.a, link.b), (link.b, link.a))}
    for name in (*fabric.host_names(), *fabric.switch_names()):
        ends = [f"{port.interface}:{other.interface}" for port, other in far.items() if port.device == name]
        yield " ".join([name, *ends])
    yield "c0"


def dump(fabric: Fabric, pids: Sequence[int]) -> Iterator[str]:
    """A line per node: its addresses, and of a host the process that holds it."""
    for host, (name, pid) in enumerate(zip(fabric.host_names(), pids, strict=True)):
        yield f"<Host {name}: {name}-eth0:{fabric.host_ip(host)} pid={pid}>"
    for name in fabric.switch_names():
        ports = sorted(end.number for link in fabric.links() for end in (link.a, link.b) if end.device == name)
        yield f"<OVSSwitch {name}: {','.join(f'{name}-eth{number}' for number in ports)}>"
    yield "<RemoteController c0: 127.0.0.1:6653>"
