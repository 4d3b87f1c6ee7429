"""Turns priority flow control on in a network whose ports are shaped, and reads the pauses."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Protocol

import numpy as np

from gradwire.datatypes.pauses import PauseEvents, PauseState
from gradwire.faults import MachineFault
from gradwire.network.fabric import Fabric, Port
from gradwire.network.lossless import Lossless
from gradwire.network_namespace import network_namespace
from gradwire.topo.lossless import CONTROL_FILE, EVENTS_FILE, link_lines, opening_lines, parse_pauses, port_lines


class BuiltNetwork(Protocol):
    """The part of a network's interface (topo/network.py) that flow control needs."""

    @property
    def fabric(self) -> Fabric:
        """The fabric that the network was built from."""

    def interface(self, port: Port) -> str:
        """Name of a port's interface on the machine."""

    def namespace_of_port(self, port: Port) -> str:
        """The /proc path of its network namespace, or "" for the machine's initial one."""


class FlowControl:
    """Priority flow control of a network, turned on when an instance is made. Raises MachineFault if the kernel has
    none."""

    def __init__(self, network: BuiltNetwork, wanted: Lossless) -> None:
        fabric = network.fabric
        if not Path(CONTROL_FILE).exists():
            raise MachineFault(
                "fabric.lossless: this kernel has no priority flow control; use the virtual clock, with the kernel that "
                "`gradwire kernel` builds from linux-source-6.12"
            )
        ends = [(end, link) for link in fabric.links() for end in (link.a, link.b)]
        self._ports = [port for port, _ in ends]
        self._headroom_bytes = [wanted.headroom_of(link, fabric) for _, link in ends]
        names = {port: network.interface(port) for port in self._ports}
        _say(opening_lines(fabric, wanted))
        by_device = port_lines(fabric, wanted, names)
        for port in self._ports:
            if lines := by_device.pop(port.device, None):
                place = network.namespace_of_port(port)
                with network_namespace(place) if place else nullcontext():
                    _say(lines)
        _say(link_lines(fabric))

    def forget(self) -> None:
        """Sets all counters to zero."""
        _say(["anew"])

    def state(self) -> PauseState:
        """Reads the pauses of all ports: their counts since they were last set to zero, and their present state."""
        return parse_pauses(Path(CONTROL_FILE).read_text(), self._ports, self._headroom_bytes)

    def events(self, start_ns: int) -> PauseEvents:
        """Reads the times at which ports paused their far ends and let them continue, in nanoseconds after `start_ns`
        of the monotonic clock."""
        text = Path(EVENTS_FILE).read_text()
        rows = np.array(text.split(), dtype=np.int64).reshape(-1, 4)
        names = tuple(port.interface for port in self._ports)
        return PauseEvents(names, rows[:, 0] - start_ns, rows[:, 1], rows[:, 2], rows[:, 3])

    def far_ends(self) -> dict[str, str]:
        """The port at the other end of each port's link."""
        return far_ends(self._ports)


def far_ends(ports: Sequence[Port]) -> dict[str, str]:
    """The port at the other end of each port's link. ports: in the order of `Fabric.ports`."""
    names = [port.interface for port in ports]
    return {name: names[number ^ 1] for number, name in enumerate(names)}


def _say(lines: Sequence[str]) -> None:
    try:
        with open(CONTROL_FILE, "w") as file:  # noqa: PTH123 (a line at a time: a write is whole or refused)
            for line in lines:
                file.write(line + "\n")
                file.flush()
    except OSError as error:
        raise MachineFault(f"the kernel's priority flow control refused {line!r}: {error.strerror}") from error
