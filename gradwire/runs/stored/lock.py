"""A lock on a run folder: two commands that run points in one folder would damage each other's."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import msgspec
from filelock import FileLock, Timeout

from gradwire.faults import MachineFault
from gradwire.files import replacing
from gradwire.regular_files import MESSAGE_BYTES, read_bytes
from gradwire.runs.point_protocol import decoded, write_json
from gradwire.runs.stored.symbolic_links import refuse_links

LOCK_FILE = ".lock"
HOLDER_FILE = ".lock.json"
"""Who holds the lock. It is not written to the lock's own file, because whoever tries for the lock may empty that."""


class Holder(msgspec.Struct, frozen=True):
    """Who runs points in a folder."""

    pid: int
    host: str
    #: Local time at which the command began, to the second.
    since: str
    #: The command's words.
    command: str

    @classmethod
    def this(cls, command: str) -> Holder:
        """This process, which carries out `command`."""
        now = datetime.now().astimezone().isoformat(sep=" ", timespec="seconds")
        return cls(os.getpid(), platform.node(), now, command)


@contextmanager
def locked(folder: Path, command: str) -> Iterator[None]:
    """Makes the folder and keeps every other command from running points in it. The lock ends with the process,
    however that ends.

    command: what runs points there, for the message to others.

    Raises MachineFault, with who holds the lock, if another has it, and InputFault for a link in the folder.
    """
    refuse_links(folder)
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / LOCK_FILE, fallback_to_soft=False)
    try:
        lock.acquire(blocking=False)
    except Timeout as taken:
        raise MachineFault(_taken(folder)) from taken
    try:
        with replacing(folder / HOLDER_FILE) as partial:
            write_json(partial, Holder.this(command))
        yield
    finally:
        (folder / HOLDER_FILE).unlink(missing_ok=True)
        lock.release()


def _taken(folder: Path) -> str:
    who = "another command"
    try:
        holder = decoded(read_bytes(folder / HOLDER_FILE, MESSAGE_BYTES), Holder)
        who = f"process {holder.pid} on {holder.host} since {holder.since} (`{holder.command}`)"
    except (OSError, msgspec.DecodeError):
        pass  # it has just begun, or has just ended
    return f"{folder}: is in use by {who}; wait until that ends, or give another --out"
