"""Lists of system calls (agents/compiled/calls.h), made by a process of the virtual-time kernel: prints what became of them, as JSON."""

from __future__ import annotations

import ctypes
import json
import os
import select
import socket
import subprocess
import time

CALLS, EACH_READY, NOTHING = 0x6777, 0x6778, 0x6779
READ, WRITE, GETPID, EPOLL_WAIT, CLOCK_GETTIME = 0, 1, 39, 232, 228
CLOCK_MONOTONIC = 1
NOT_MADE = -(1 << 63)
EFAULT, EAGAIN, ENOSYS = 14, 11, 38
MESSAGES = 10
READING_NS = 16


class Call(ctypes.Structure):
    """struct call of calls.h."""

    _fields_ = (
        ("number", ctypes.c_uint64),
        ("arguments", ctypes.c_uint64 * 6),
        ("result", ctypes.c_int64),
        ("expected", ctypes.c_int64),
        ("then_skip", ctypes.c_uint8),
        ("else_skip", ctypes.c_uint8),
        ("is_news", ctypes.c_uint8),
        ("waits", ctypes.c_uint8),
        ("events", ctypes.c_uint32),
    )


libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long


def call(number: int, *arguments: int, **how: int) -> Call:
    return Call(number=number, arguments=(ctypes.c_uint64 * 6)(*arguments), result=NOT_MADE, **how)


def carry_out(*calls: Call) -> tuple[int, list[int]]:
    """Where the list ended, or a negative error number; and the calls' results."""
    array = (Call * len(calls))(*calls)
    ended = libc.syscall(CALLS, array, len(calls))
    return (-ctypes.get_errno() if ended < 0 else ended), [each.result for each in array]


def spent_ns(act: object) -> int:
    """How far the clock goes on meanwhile."""
    began_ns = time.monotonic_ns()
    act()  # type: ignore[operator]
    return time.monotonic_ns() - began_ns


def spent_on_tcp(address: int) -> tuple[int, list[int]]:
    """What ten messages take that are handed over and read by TCP, in a list and call by call."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as one:
        other, _ = server.accept()
        with other:
            pair = call(WRITE, one.fileno(), address, 8), call(READ, other.fileno(), address, 8)
            return (
                spent_ns(lambda: carry_out(*pair * MESSAGES)),
                [
                    spent_ns(
                        lambda: [
                            (libc.write(one.fileno(), address, 8), libc.read(other.fileno(), address, 8))
                            for _ in range(MESSAGES)
                        ]
                    )
                ],
            )


def main() -> None:
    """Tries what the patch says."""
    pid, here = os.getpid(), ctypes.create_string_buffer(64)
    address = ctypes.addressof(here)
    empty, full = os.pipe2(os.O_NONBLOCK), os.pipe2(os.O_NONBLOCK)
    os.write(full[1], b"abc")
    tried = {
        "none": carry_out(),
        "results": carry_out(
            call(GETPID), call(WRITE, full[1], address, 2), call(9999), call(READ, empty[0], address, 8)
        ),
        "expected": carry_out(
            call(GETPID, expected=pid, then_skip=1), call(GETPID), call(GETPID, expected=1, else_skip=2), call(GETPID)
        ),
        "news": carry_out(call(GETPID, expected=pid, is_news=1), call(GETPID), call(GETPID, waits=1), call(GETPID)),
        "no news": carry_out(call(GETPID, expected=1, is_news=1), call(GETPID, waits=1)),
        "fault": carry_out(call(READ, full[0], 8, 3), call(GETPID)),
        "no list": (libc.syscall(CALLS, 8, 1), [ctypes.get_errno()]),
    }
    poll = select.epoll()
    poll.register(empty[0], select.EPOLLIN)
    poll.register(full[0], select.EPOLLIN)
    # The data of an event is its descriptor, which is a place in this table.
    table = (Call * 64)(*[call(NOTHING, events=0xFFFFFFFF)] * 64)
    table[full[0]] = call(READ, full[0], address, 64, events=select.EPOLLIN)
    ready = (ctypes.c_uint8 * 1200)()
    wait = call(EPOLL_WAIT, poll.fileno(), ctypes.addressof(ready), 10, (1 << 64) - 1, waits=1)
    each = call(EACH_READY, ctypes.addressof(ready), ctypes.addressof(table))
    tried["ready"] = carry_out(wait, each)
    tried["read"] = (table[full[0]].result, [table[empty[0]].result, *here.raw[:5]])
    table[full[0]] = call(READ, full[0], address, 64, events=select.EPOLLOUT)
    os.write(full[1], b"abc")
    tried["other events"] = carry_out(wait, each)
    tried["not read"] = (table[full[0]].result, [])
    failing = call(READ, empty[0], address, 8)
    tried["time"] = (
        spent_ns(lambda: carry_out(*[failing] * 10, call(CLOCK_GETTIME, CLOCK_MONOTONIC, address))),
        [spent_ns(lambda: [libc.read(empty[0], address, 8) for _ in range(10)] and time.monotonic_ns())],
    )
    tried["tcp"] = spent_on_tcp(address)
    print(json.dumps({**tried, "pid": pid}))


if __name__ == "__main__":
    main()
