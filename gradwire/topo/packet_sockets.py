"""Enlarges the buffers of the packet sockets through which Open vSwitch's userspace datapath receives and sends.

With Linux's default of 208 KiB, a datapath that is scheduled 6 ms late drops what arrives at 200 Mbit/s, and the deep
FIFOs of all ports together hold 90 frames at most, because what waits there counts as unsent. The default could be
raised, but for the whole machine. So the sockets are borrowed from the process that opened them (pidfd_getfd, Linux
5.6), and nobody else's change.
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


def enlarge_packet_sockets(pid: int) -> int:
    """Gives all packet sockets of a process large buffers; returns how many there are. Raises MachineFault."""
    enlarged = 0
    for packet_socket in _packet_sockets(pid):
        for option in (SO_RCVBUFFORCE, SO_SNDBUFFORCE):
            packet_socket.setsockopt(socket.SOL_SOCKET, option, BUFFER_BYTES // 2)  # the kernel doubles it
        enlarged += 1
    return enlarged


def _packet_sockets(pid: int) -> Iterator[socket.socket]:
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
                    if found.family == socket.AF_PACKET:
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
