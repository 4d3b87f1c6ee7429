"""Does faults to a network and its controller, inside the machine, and undoes them."""

from __future__ import annotations

import time
from collections.abc import Collection

from gradwire.controller.process import ControllerProcess
from gradwire.datatypes.fabric import Link
from gradwire.datatypes.records import PlannedFault
from gradwire.faults import MachineFault
from gradwire.injection.agenda import Act
from gradwire.network_namespace import namespace_of, network_namespace
from gradwire.topo.command import run, run_promptly
from gradwire.topo.fault_commands import (
    LinkState,
    NetworkCommands,
    find_controller,
    forget_rules,
    leave_controller,
    link_commands,
    links_of,
    state_of,
)
from gradwire.topo.network import Network
from gradwire.topo.tc import batch_text
from gradwire.topo.wiring import asked_of_switches

RULES_TIMEOUT_S = 10.0
"""Ten times what a switch waits at most before it tries to reach its controller again (topo/wiring.py)."""
RULES_POLL_S = 0.01
TABLE_MISS = "priority=0 "
"""The controller's last rule, as ovs-ofctl shows it."""


class Patient:
    """The network and its controller, to whom faults are done, but those of workers and tenants."""

    def __init__(
        self, network: Network, controller: ControllerProcess, controller_port: int, *, has_seed: bool
    ) -> None:
        self._network, self._controller = network, controller
        self._controller_port, self._has_seed = controller_port, has_seed
        self._states: dict[Link, LinkState] = {}
        self._restarted: list[str] = []

    def apply(self, fault: PlannedFault, act: Act, active: Collection[PlannedFault]) -> None:
        """Begins or ends a fault; `active` are those that are in the network afterwards. Raises MachineFault if a
        command fails."""
        naming = self._network.naming
        if fault.kind == "controller-restart":
            (self._controller.stop if act is Act.BEGIN else self._controller.restart)()
            return
        if fault.kind == "switch-restart":
            commands = leave_controller(fault.place, naming) if act is Act.BEGIN else forget_rules(fault.place, naming)
            for command in commands:
                run_promptly(command)
        for link in links_of(self._network.fabric, fault):
            self._bring(link, state_of(self._network.fabric, link, active))
        if fault.kind == "switch-restart" and act is Act.END:
            for command in find_controller(fault.place, naming, self._controller_port):
                run_promptly(command)
            self._restarted.append(naming.device(fault.place))

    def settle(self) -> None:
        """Waits until switches that restarted have their rules again. Raises MachineFault if they do not get them."""
        for bridge in self._restarted:
            deadline_s = time.monotonic() + RULES_TIMEOUT_S
            while TABLE_MISS not in run(asked_of_switches("ovs-ofctl", "-O", "OpenFlow13", "dump-flows", bridge)):
                if time.monotonic() > deadline_s:
                    raise MachineFault(f"switch {bridge} had no rules {RULES_TIMEOUT_S:g} s after its restart")
                time.sleep(RULES_POLL_S)

    def _bring(self, link: Link, wanted: LinkState) -> None:
        commands = link_commands(
            link,
            self._states.get(link, LinkState()),
            wanted,
            self._network.naming,
            exact_timers=True,
            has_seed=self._has_seed,
            own_loss=self._network.loss_of,
        )
        self._run(commands)
        self._states[link] = wanted

    def _run(self, commands: NetworkCommands) -> None:
        for tool, batches in (("ip", commands.ip), ("tc", commands.tc)):
            for device, batch in batches.items():
                if not device:
                    run_promptly([tool, "-batch", "-"], batch_text(batch))
                    continue
                host = self._network.fabric.endpoint_names().index(device)
                with network_namespace(namespace_of(self._network.host_pid(host))):
                    run_promptly([tool, "-batch", "-"], batch_text(batch))
