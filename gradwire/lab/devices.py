"""Hosts, switches and links of a lab: programs run on them, and faults happen to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from gradwire.datatypes.records import PlannedFault
from gradwire.lab.drawing import line_rate_bps, seconds, share
from gradwire.lab.programs import Process, Result
from gradwire.network.links import Port

S_NS = 1_000_000_000
TO_THE_END_NS = -1
Time = str | float | None


class Laboratory(Protocol):
    """The part of a network that its devices call."""

    def start(self, host: Host, command: str | Sequence[str], env: dict[str, str], stdin: str) -> Process:
        """Starts a program on a host."""

    def inject(self, fault: PlannedFault) -> None:
        """Plans a fault."""

    def fault_name(self, kind: str) -> str:
        """A name that no other fault has."""

    def fault_time_ns(self, at: Time) -> int:
        """Begin of a fault, in nanoseconds of the lab's clock."""

    def port_of(self, link: int) -> str:
        """The fabric's name of a port at the link with this number."""

    def fabric_name(self, label: str) -> str:
        """The fabric's name of a device."""

    def address_of(self, host: Host) -> str:
        """The IPv4 address of a host."""


class NetworkDevice:
    """Something with a name in a network."""

    def __init__(self, network: Laboratory, name: str) -> None:
        self.network, self.name = network, name

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"<{type(self).__name__.lower()} {self.name}>"


class Host(NetworkDevice):
    """A host, on which programs run. Made by `Network.host`."""

    @property
    def address(self) -> str:
        """Its IPv4 address. It is found by its name as well."""
        return self.network.address_of(self)

    @property
    def interface(self) -> str:
        """Name of the host's network interface."""
        return Port(self.name, 0).interface

    def start(self, command: str | Sequence[str], *, env: Mapping[str, str] | None = None, stdin: str = "") -> Process:
        """Starts a program and returns at once: it runs while something waits, and is ended with the lab.

        command: a line for `sh`, or a program's words. env: in addition to the caller's environment. Raises InputFault
        for a program that is missing.
        """
        return self.network.start(self, command, dict(env or {}), stdin)

    def run(
        self,
        command: str | Sequence[str],
        *,
        timeout: str | float | None = None,
        check: bool = False,
        env: Mapping[str, str] | None = None,
        stdin: str = "",
    ) -> Result:
        """Starts a program and waits for its end. check: whether one that fails raises ProgramFailed. Raises
        LimitReached after `timeout` of virtual time."""
        result = self.start(command, env=env, stdin=stdin).wait(timeout)
        return result.check() if check else result


class Switch(NetworkDevice):
    """A switch. Made by `Network.switch`."""

    def restart(self, duration: str | float = "1s", *, at: Time = None) -> None:
        """Restarts it at a time of the lab's clock, by default now: all its links are down for `duration`, and then it
        gets its rules anew."""
        name = self.network.fabric_name(self.name)
        self.network.inject(
            PlannedFault(
                self.network.fault_name("switch-restart"),
                "switch-restart",
                self.network.fault_time_ns(at),
                duration_ns=round(seconds("duration", duration) * S_NS),
                place=name,
            )
        )


class Link:
    """A link. Made by `Network.link`. What happens to it begins at a time of the lab's clock, by default now, and lasts
    for a duration, by default to the end; several things can be in force at once."""

    def __init__(self, network: Laboratory, number: int, name: str) -> None:
        self.network, self.name = network, name
        self._number = number

    def __repr__(self) -> str:
        return f"<link {self.name}>"

    def down(self, *, at: Time = None, duration: Time = None) -> None:
        """Takes the link down: nothing gets through, and hosts see that there is no carrier."""
        self._inject("link-down", 0.0, at, duration)

    def flap(self, every: str | float, *, at: Time = None, duration: Time = None) -> None:
        """Takes the link down for the first half of each period."""
        self._inject("flapping", seconds("every", every), at, duration)

    def lose(self, loss: str | float, *, at: Time = None, duration: Time = None) -> None:
        """A share of the packets of each direction is lost, in addition to others."""
        self._inject("loss", share("loss", loss), at, duration)

    def delay(self, delay: str | float, *, at: Time = None, duration: Time = None) -> None:
        """Packets take so much longer in each direction."""
        self._inject("delay", seconds("delay", delay), at, duration)

    def slow(self, rate: str | float, *, at: Time = None, duration: Time = None) -> None:
        """Gives the link a lower line rate."""
        self._inject("rate", line_rate_bps("rate", rate), at, duration)

    def _inject(self, kind: str, value: float, at: Time, duration: Time) -> None:
        duration_ns = TO_THE_END_NS if duration is None else round(seconds("duration", duration) * S_NS)
        self.network.inject(
            PlannedFault(
                self.network.fault_name(kind),
                kind,
                self.network.fault_time_ns(at),
                duration_ns=duration_ns,
                place=self.network.port_of(self._number),
                value=value,
            )
        )
