"""A filter of system calls (seccomp(2)) that keeps a process, and its successors in it, from starting other processes
and from becoming other programs.

Python's audit events, which it raises when code starts a process, are not enough: ctypes and `_posixsubprocess` bypass
them.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct

from gradwire.faults import MachineFault

SET_NO_NEW_PRIVILEGES, SET_SECCOMP, MODE_FILTER = 38, 22, 2
"""PR_SET_NO_NEW_PRIVS and PR_SET_SECCOMP (linux/prctl.h), SECCOMP_MODE_FILTER (linux/seccomp.h)."""
ALLOW, KILL, REFUSE, UNKNOWN = 0x7FFF0000, 0x80000000, 0x00050000 | errno.EPERM, 0x00050000 | errno.ENOSYS
"""SECCOMP_RET_ALLOW, _KILL_PROCESS, and _ERRNO with an error."""
NUMBER_AT, MACHINE_AT, FIRST_ARGUMENT_AT = 0, 4, 16
"""Offsets in struct seccomp_data of the call's number, the machine's, and the lower half of the first argument."""
LOAD, IF_EQUAL, IF_AT_LEAST, IF_BITS, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
"""BPF_LD|W|ABS, BPF_JMP with JEQ, JGE and JSET by a constant, BPF_RET (linux/bpf_common.h)."""
OF_A_THREAD = 0x00010000
"""CLONE_THREAD: what clone(2) starts is a thread of the same process."""
X32 = 0x40000000
"""First number of the calls of x86-64's other interface (x32)."""
CALLS = {
    "x86_64": (0xC000003E, 56, 435, (57, 58, 59, 322)),
    "aarch64": (0xC00000B7, 220, 435, (221, 281)),
}
"""By machine: its number in audit.h; clone; clone3; fork, vfork, execve and execveat, as far as it has them."""


def forbid_processes() -> None:
    """From now on, the calling thread's process starts no other and becomes no other program; threads it may start.

    clone3 is said not to be there, as its flags are out of a filter's sight: the C library then uses clone. Raises
    MachineFault on a machine whose calls are not known, or whose kernel has no such filters.
    """
    if platform.machine() not in CALLS:
        raise MachineFault(
            f"a Topo's code is run on {' and '.join(CALLS)} alone, and this machine is {platform.machine()}"
        )
    program = filter_of(*CALLS[platform.machine()])
    content = ctypes.create_string_buffer(program, len(program))
    described = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(content))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0) or libc.prctl(SET_SECCOMP, MODE_FILTER, described, 0, 0):
        raise MachineFault(f"a Topo's code cannot be run: seccomp: {os.strerror(ctypes.get_errno())}")


def filter_of(machine: int, clone: int, clone3: int, refused: tuple[int, ...]) -> bytes:
    """The filter's program, 8 bytes a step. Each test ends in an answer or goes on with the step behind it."""
    steps = [
        (LOAD, 0, 0, MACHINE_AT),
        (IF_EQUAL, 1, 0, machine),
        (RETURN, 0, 0, KILL),
        (LOAD, 0, 0, NUMBER_AT),
        *_answer(IF_AT_LEAST, X32, KILL),
        *_answer(IF_EQUAL, clone3, UNKNOWN),
        *(step for number in refused for step in _answer(IF_EQUAL, number, REFUSE)),
        (IF_EQUAL, 1, 0, clone),
        (RETURN, 0, 0, ALLOW),
        (LOAD, 0, 0, FIRST_ARGUMENT_AT),
        *_answer(IF_BITS, OF_A_THREAD, ALLOW),
        (RETURN, 0, 0, REFUSE),
    ]
    return b"".join(struct.pack("HBBI", *step) for step in steps)


def _answer(test: int, value: int, answer: int) -> list[tuple[int, int, int, int]]:
    return [(test, 0, 1, value), (RETURN, 0, 0, answer)]
