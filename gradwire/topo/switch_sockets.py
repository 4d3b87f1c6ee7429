"""Enlarges the buffers of the sockets through which Open vSwitch's process receives packets.

In the userspace datapath they are packet sockets, which send as well. With Linux's default of 208 KiB, a datapath that
is scheduled 6 ms late drops what arrives at 200 Mbit/s, and the deep FIFOs of all ports together hold 90 frames at
most, because what waits there counts as unsent.

In the kernel's datapath they are netlink sockets, to which go the packets of flows that the datapath does not know yet:
of a burst each frame. Open vSwitch gives them 1 MiB, which holds some 900 frames. With `fabric.routing = "spray"`, 16
hosts whose bursts began new ways at one moment lost 1,400 of 60,000 frames there, and waited for TCP's timers.

A default could be raised, but for the whole machine. So the sockets are borrowed from the process that opened them
(pidfd_getfd, Linux 5.6), and nobody else's change.
"""

from __future__ import annotations

import ctypes
import os
import socket
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

from gradwire.faults import MachineFault

SYS_PIDFD_GETFD = 438
"""Number of the system call on all architectures (include/uapi/asm-generic/unistd.h)."""
SO_SNDBUFFORCE, SO_RCVBUFFORCE = 32, 33
"""Options of asm-generic/socket.h that Python does not name: sizes beyond the machine's limits, for root."""
BUFFER_BYTES = 67_108_864
_libc = ctypes.CDLL(None, use_errno=True)


def switch_process() -> int:
    """Returns the id of the ovs-vswitchd that `ovs-vsctl` talks to. Raises MachineFault if its file is not there."""
    file = Path(os.environ.get("OVS_RUNDIR", "/var/run/openvswitch"), "ovs-vswitchd.pid")
    try:
        return int(file.read_text())
    except (OSError, ValueError) as error:
        raise MachineFault(f"{file} does not say which process Open vSwitch is: {error}") from error


def enlarge_switch_sockets(pid: int) -> int:
    """Gives all packet and netlink sockets of a process large buffers; returns how many there are. Raises
    MachineFault."""
    enlarged = 0
    for switch_socket in _switch_sockets(pid):
        for option in (SO_RCVBUFFORCE, SO_SNDBUFFORCE):
            switch_socket.setsockopt(socket.SOL_SOCKET, option, BUFFER_BYTES // 2)  # the kernel doubles it
        enlarged += 1
    return enlarged


def _switch_sockets(pid: int) -> Iterator[socket.socket]:
    try:
        process = os.pidfd_open(pid)
    except OSError as error:
        raise MachineFault(f"process {pid} of Open vSwitch is gone: {error.strerror}") from error
    try:
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(FileNotFoundError):  # closed meanwhile
                if not str(entry.readlink()).startswith("socket:"):
                    continue
                with closing(socket.socket(fileno=_borrowed(process, int(entry.name)))) as found:
                    if found.family in (socket.AF_PACKET, socket.AF_NETLINK):
                        yield found
    finally:
        os.close(process)


def _borrowed(process: int, descriptor: int) -> int:
    """A descriptor of another process as one of this process."""
    own = _libc.syscall(SYS_PIDFD_GETFD, process, descriptor, 0)
    if own < 0:
        reason = os.strerror(ctypes.get_errno())
        raise MachineFault(f"cannot borrow a socket of Open vSwitch: {reason} (it needs CAP_SYS_PTRACE and Linux 5.6)")
    return int(own)
