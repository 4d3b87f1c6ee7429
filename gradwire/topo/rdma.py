"""Software RDMA devices of hosts: one at each host's interface, in the host's own network namespace."""

from __future__ import annotations

from gradwire.datatypes.host_settings import RdmaDevice
from gradwire.faults import MachineFault
from gradwire.network.fabric import Port
from gradwire.network_namespace import namespace_of, network_namespace
from gradwire.topo.command import attempt
from gradwire.topo.network import Network


def device_name(kind: RdmaDevice) -> str:
    """Name of the RDMA device on every host. Hosts share the name, because each sees only its own device."""
    return f"{kind}0"


def add_rdma_devices(network: Network) -> None:
    """Gives every host of a network the device that its fabric asks for. Raises MachineFault for a kernel without
    them."""
    kind = network.fabric.rdma
    if kind is RdmaDevice.NONE:
        return
    for host, name in enumerate(network.fabric.host_names()):
        with network_namespace(namespace_of(network.host_pid(host))):
            _add(kind, Port(name, 0).interface)


def _add(kind: RdmaDevice, interface: str) -> None:
    command = ["rdma", "link", "add", device_name(kind), "type", kind.value, "netdev", interface]
    result = attempt(command)
    if result.returncode:
        raise MachineFault(
            f"fabric.rdma = '{kind}': `{' '.join(command)}` failed: {result.stderr.strip()}; it needs a kernel that this "
            "gradwire has built or brought (`gradwire kernel` builds it)"
        )
