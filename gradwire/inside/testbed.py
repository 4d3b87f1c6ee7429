"""The network inside the machine, with the controller that programs its switches: the same for plans, for programs and for
a person at a prompt. Who builds on it adds agents or the sandboxes of programs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from gradwire.controller.process import ControllerProcess
from gradwire.inside.injection import NetworkPatient
from gradwire.network.fabric import Fabric, Port
from gradwire.topo.abilities import Abilities, probe_kernel
from gradwire.topo.network import Network

P = TypeVar("P", bound=NetworkPatient)
CONTROLLER_PORT = 6653
CONTROLLER_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class TestbedOptions:
    """How a testbed is to be built, where that is not as for a network of programs."""

    #: Whether the kernel is this run's alone, as on the virtual clock.
    owns_kernel: bool = True
    #: Whether the controller is a fork of this process, which must have one thread then.
    by_fork: bool = False
    #: The code of a user's controller; "" for gradwire's.
    controller_app: str = ""
    #: As for `Network`.
    switch_prefix: str = ""
    impaired: Collection[Port] = ()
    socket_bytes: int = 0
    first_window: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Testbed:
    """A network, and the controller that programs its switches."""

    network: Network
    controller: ControllerProcess
    abilities: Abilities

    def wait_ready(self) -> None:
        """Waits until every switch has its rules. Raises MachineFault if they do not come."""
        self.controller.wait_ready(CONTROLLER_TIMEOUT_S)

    def patient(self, kind: type[P]) -> P:
        """Returns an object of this kind that carries out faults on the network."""
        return kind(self.network, self.controller, CONTROLLER_PORT, has_seed=self.abilities.has_netem_seed)


@contextmanager
def build_testbed(
    fabric: Fabric, folder: Path, options: TestbedOptions, forked: AbstractContextManager[Any] | None = None
) -> Iterator[Testbed]:
    """Starts the controller and builds the network; takes both down at the end. Rules may still be on their way
    (`Testbed.wait_ready`). Raises MachineFault.

    folder: where the controller's files lie. forked: further processes that are forks of this one, which start before
    the network is built, for its namespaces are held by threads.
    """
    with (
        ControllerProcess(
            fabric,
            CONTROLLER_PORT,
            folder,
            by_fork=options.by_fork,
            switch_prefix=options.switch_prefix,
            own_app=options.controller_app,
        ) as controller,
        forked or nullcontext(),
    ):
        abilities = probe_kernel()
        network = Network(
            fabric,
            abilities,
            controller_port=CONTROLLER_PORT,
            switch_prefix=options.switch_prefix,
            owns_kernel=options.owns_kernel,
            impaired=options.impaired,
            socket_bytes=options.socket_bytes,
            first_window=options.first_window,
            labels=options.labels,
        )
        with network:
            yield Testbed(network, controller, abilities)
