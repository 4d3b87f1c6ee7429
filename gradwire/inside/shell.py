"""Mininet's command line on a scenario's network, which `gradwire shell` runs inside the kernel as a Mininet script.
`shell.py FILE`: the fabric, as JSON, which is removed when it has been read."""

from __future__ import annotations

import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

from gradwire.datatypes.records import PlannedFault
from gradwire.faults import Fault
from gradwire.inside.injection import Act, NetworkPatient
from gradwire.inside.lab import network_of_programs
from gradwire.inside.namespaces import name_hosts
from gradwire.inside.testbed import Testbed
from gradwire.network.fabric import Fabric
from gradwire.topo.prompt import Prompt
from gradwire.workloads.units import rate_text

STALE_S = 1.0
"""After a switch has its rules again, what it decided without them holds for up to half a second (max-revalidator)."""


class Changes:
    """Links and switches that are out of the network."""

    def __init__(self, bed: Testbed) -> None:
        self._patient = bed.patient(NetworkPatient)
        self._out: list[PlannedFault] = []

    def change(self, kind: str, place: str, is_out: bool) -> None:
        """Takes something out of the network, or puts it back; nothing for what is so already. Raises MachineFault."""
        fault = PlannedFault(place, kind, 0, place=place)
        if is_out == (fault in self._out):
            return
        out = [*self._out, fault] if is_out else [each for each in self._out if each != fault]
        self._patient.apply(fault, Act.BEGIN if is_out else Act.END, out)
        self._out = out
        if kind == "switch-restart" and not is_out:
            self._patient.settle()
            time.sleep(STALE_S)


def greeting(fabric: Fabric) -> str:
    """Returns the line that describes the network before the first prompt."""
    network = f"h1 to h{fabric.hosts} at {rate_text(fabric.rate_bps)} on {', '.join(fabric.switch_names())}"
    return f"{network}. The clock stands still between commands; `help` lists them."


def main() -> None:
    """Builds the network, and reads commands until the input ends. The kernel takes down what is left."""
    file = Path(sys.argv[1])
    fabric = replace(Fabric.from_json(file.read_text()), ipv6=True)
    file.unlink()
    # Ctrl-C goes to all that this process started in its session, and is for programs of nodes alone.
    usual = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        name_hosts(fabric)
        with network_of_programs(fabric, (), {}) as bed:
            bed.wait_ready()
            signal.signal(signal.SIGINT, usual)
            print(greeting(fabric))
            Prompt(bed.network, Changes(bed).change)
            sys.stdout.flush()
            os._exit(0)
    except Fault as fault:
        print(f"error ({fault.at_fault}): {fault}", file=sys.stderr)
        sys.exit(fault.exit_status)


if __name__ == "__main__":
    main()
