"""Mininet's command line on a network that `Network` built.

Two commands would undo what the network has set up, because Mininet does not know of it: an interface that goes down
loses its neighbours' addresses, and a bridge that Mininet makes anew has no queues. So `link` and `switch` ask whoever
breaks and mends the network for scenarios as well.
"""

from __future__ import annotations

from collections.abc import Callable

from mininet.cli import CLI
from mininet.log import error

from gradwire.faults import MachineFault
from gradwire.topo.network import Network

Change = Callable[[str, str, bool], None]
"""Takes something out of the network (True), or puts it back: the kind of a fault, "link-down" or "switch-restart", and
one of the link's ports or the switch. Raises MachineFault."""


class Prompt(CLI):  # type: ignore[misc]
    """Reads and carries out commands when it is made, until the input ends."""

    prompt = "gradwire> "

    def __init__(self, network: Network, change: Change) -> None:
        self._network, self._change = network, change
        super().__init__(network.net)

    def do_link(self, line: str) -> None:
        """Bring link(s) between two nodes up or down.
        Usage: link node1 node2 [up/down]"""
        words = line.split()
        if len(words) != 3 or words[2] not in ("up", "down"):
            error("usage: link node1 node2 up|down\n")
            return
        ports = [
            link.a.interface
            for link in self._network.fabric.links()
            if {link.a.device, link.b.device} == set(words[:2])
        ]
        if not ports:
            error(f"no link between {words[0]} and {words[1]}; `links` lists those that there are\n")
        for port in ports:
            self._do("link-down", port, is_out=words[2] == "down")

    def do_switch(self, line: str) -> None:
        """Starts or stops a switch.
        Usage: switch name start|stop"""
        words = line.split()
        switches = self._network.fabric.switch_names()
        if len(words) != 2 or words[1] not in ("start", "stop"):
            error("usage: switch name start|stop\n")
        elif words[0] not in switches:
            error(f"{words[0]}: no such switch; there are {' '.join(switches)}\n")
        else:
            self._do("switch-restart", words[0], is_out=words[1] == "stop")

    def _do(self, kind: str, place: str, *, is_out: bool) -> None:
        try:
            self._change(kind, place, is_out)
        except MachineFault as fault:
            error(f"{fault}\n")
