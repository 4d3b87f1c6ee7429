"""Sockets of processes that others of the machine can reach, by what the kernel says of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

PROC = Path("/proc")
TCP_LISTENING = "0A"
"""tcp_states.h, TCP_LISTEN."""
ACCEPTS = 0x10000
"""include/uapi/linux/net.h, __SO_ACCEPTCON: a Unix socket that takes connections."""
STATE, TCP_INODE, UNIX_FLAGS, UNIX_TYPE, UNIX_INODE, UNIX_PATH = 3, 9, 3, 4, 6, 7
DATAGRAMS = 2


def process_tree(pid: int) -> Iterator[int]:
    """A process and all that it started."""
    yield pid
    for task in PROC.glob(f"{pid}/task/*/children"):
        with suppress(OSError):
            for child in task.read_text().split():
                yield from process_tree(int(child))


def reachable_sockets(pid: int) -> set[str]:
    """What a process and all that it started take connections or datagrams at: TCP, UDP, and Unix sockets with a name."""
    own = set(_inodes(pid))
    found = {
        f"{table} {row[1]}"
        for table in ("tcp", "tcp6")
        for row in _rows(table)
        if row[STATE] == TCP_LISTENING and row[TCP_INODE] in own
    }
    found |= {
        f"{table} {row[1]}" for table in ("udp", "udp6", "raw", "raw6") for row in _rows(table) if row[TCP_INODE] in own
    }
    for row in _rows("unix"):
        takes = int(row[UNIX_FLAGS], 16) & ACCEPTS or int(row[UNIX_TYPE], 16) == DATAGRAMS
        if takes and len(row) > UNIX_PATH and row[UNIX_INODE] in own:
            found.add(f"unix {row[UNIX_PATH]}")
    return found


def _inodes(pid: int) -> Iterator[str]:
    for process in process_tree(pid):
        with suppress(OSError):
            for descriptor in (PROC / str(process) / "fd").iterdir():
                with suppress(OSError):
                    name = str(descriptor.readlink())
                    if name.startswith("socket:["):
                        yield name.removeprefix("socket:[").removesuffix("]")


def _rows(table: str) -> list[list[str]]:
    return [line.split() for line in (PROC / "net" / table).read_text().splitlines()[1:]]
