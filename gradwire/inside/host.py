"""The hosts that programs enter: each has a network, its own hostname and mounts, held by a sleeping process."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from gradwire.inside.namespaces import (
    NEW_HOSTNAME,
    NEW_MOUNTS,
    NEW_NETWORK,
    end_held,
    enter,
    held,
    mount,
    set_of_process,
    unshare,
)
from gradwire.inside.sandbox import Sandbox, give_up_capabilities
from gradwire.network_namespace import namespace_of

SET_TIMER_SLACK = 29
"""PR_SET_TIMERSLACK (linux/prctl.h)."""
TEMPORARY = Path("/run/tmp")
NAMESPACES = {"net": NEW_NETWORK, "uts": NEW_HOSTNAME, "mnt": NEW_MOUNTS}
"""What makes a host, by its name in /proc/PID/ns, in the order in which it is entered: /proc goes with the mounts."""


class Host:
    """A host by its name, made in a sandbox around the network namespace of process `network_pid`, or without a network
    if that is None.

    Besides the network, it has a hostname, a /sys that shows its own interfaces, shared memory, and a folder for
    temporary files. Raises MachineFault if the kernel refuses any of these.
    """

    def __init__(self, name: str, network_pid: int | None, sandbox: Sandbox) -> None:
        self.name = name
        self.temporary = TEMPORARY / name
        self.temporary.mkdir(parents=True, exist_ok=True)
        self.pid = held(lambda: self._make(network_pid, sandbox))

    def _make(self, network_pid: int | None, sandbox: Sandbox) -> None:
        if network_pid is None:
            unshare(NEW_NETWORK, f"give {self.name} a separate network")
        else:
            enter(namespace_of(network_pid), NEW_NETWORK)
        enter(sandbox.mounts, NEW_MOUNTS)
        unshare(NEW_HOSTNAME | NEW_MOUNTS, f"give {self.name} its own hostname and mounts")
        socket.sethostname(self.name)
        mount("sysfs", "/sys", "sysfs")
        mount("tmpfs", "/dev/shm", "tmpfs")

    def enter(self, folder: str) -> None:
        """Moves the calling process to this host, into a folder. For a process that is about to become a program, and
        has one thread."""
        for kind, flag in NAMESPACES.items():
            enter(f"/proc/{self.pid}/ns/{kind}", flag)
        os.chdir(folder)
        become_a_program()
        give_up_capabilities()

    def opened(self) -> tuple[int, ...]:
        """Descriptors of its namespaces, in the order in which they are entered, which the caller closes."""
        return tuple(os.open(f"/proc/{self.pid}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC) for kind in NAMESPACES)

    def end(self) -> None:
        """Ends the process that holds the host."""
        end_held(self.pid)


def become_a_program() -> None:
    """Gives the calling process what every program on a host has: timers to the nanosecond, and the kernel may end it
    if memory runs out."""
    set_of_process(SET_TIMER_SLACK, 1, "make timers exact")
    Path("/proc/self/oom_score_adj").write_text("0")
