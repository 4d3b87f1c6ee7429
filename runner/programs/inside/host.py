"""The hosts that programs enter: each has a network, a hostname and mounts of its own, held by a sleeping process."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from gradwire.faults import MachineFault
from gradwire.network_namespace import namespace_of

NEW_MOUNTS, NEW_HOSTNAME, NEW_NETWORK = 0x00020000, 0x04000000, 0x40000000
"""CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWNET (linux/sched.h)."""
MOUNTS, BIND = 0, 0x1000
"""No flag, and MS_BIND (linux/mount.h)."""
SET_TIMER_SLACK = 29
"""PR_SET_TIMERSLACK (linux/prctl.h)."""
TEMPORARY = Path("/run/tmp")
_libc = ctypes.CDLL(None, use_errno=True)


class Host:
    """A host by its name, made around the network namespace of process `network_pid`.

    Beside the network, it has a hostname, a /sys that shows its own interfaces, shared memory, and a folder for temporary files.
    Raises MachineFault if the kernel refuses any of these.
    """

    def __init__(self, name: str, network_pid: int) -> None:
        self.name = name
        self.temporary = TEMPORARY / name
        self.temporary.mkdir(parents=True, exist_ok=True)
        self.pid = _held(lambda: self._make(network_pid))

    def _make(self, network_pid: int) -> None:
        _enter(namespace_of(network_pid), NEW_NETWORK)
        _check(_libc.unshare(NEW_HOSTNAME | NEW_MOUNTS), f"give {self.name} a hostname and mounts of its own")
        socket.sethostname(self.name)
        mount("sysfs", "/sys", "sysfs")
        mount("tmpfs", "/dev/shm", "tmpfs")

    def enter(self, folder: str) -> None:
        """Moves the calling process to this host, into a folder. For a process that is about to become a program, and has one thread."""
        for kind, flag in (("net", NEW_NETWORK), ("uts", NEW_HOSTNAME), ("mnt", NEW_MOUNTS)):
            _enter(f"/proc/{self.pid}/ns/{kind}", flag)
        os.chdir(folder)
        become_a_program()

    def end(self) -> None:
        """Ends the process that holds the host."""
        with suppress(ProcessLookupError, ChildProcessError):
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)


def become_a_program() -> None:
    """What holds for a program on any host: timers to the nanosecond, and the kernel may end it if memory runs out."""
    _check(_libc.prctl(SET_TIMER_SLACK, 1, 0, 0, 0), "make timers exact")
    Path("/proc/self/oom_score_adj").write_text("0")


def mount(source: str, target: str, kind: str, flags: int = MOUNTS, options: str = "") -> None:
    """mount(2). Raises MachineFault."""
    _check(
        _libc.mount(source.encode(), target.encode(), kind.encode(), flags, options.encode() or None),
        f"mount {kind or source} on {target}",
    )


def _held(make: Callable[[], None]) -> int:
    """A process that has done `make` and then sleeps for good; its id. Raises MachineFault with what `make` raised."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            make()
            os.close(write_end)
        except BaseException as fault:  # noqa: BLE001 (a forked copy must not go on as its parent would)
            os.write(write_end, str(fault).encode())
            os._exit(1)
        while True:
            signal.pause()
    os.close(write_end)
    with os.fdopen(read_end) as said:
        trouble = said.read()
    if trouble:
        os.waitpid(pid, 0)
        raise MachineFault(trouble)
    return pid


def _enter(path: str, flag: int) -> None:
    namespace = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _check(_libc.setns(namespace, flag), f"enter {path}")
    finally:
        os.close(namespace)


def _check(status: int, action: str) -> None:
    if status:
        raise MachineFault(f"cannot {action}: {os.strerror(ctypes.get_errno())}")
