"""Messages that a computation leaves in the cache, so that the next one to ask need not compute them again.

The cache is a folder like others: a file of it may be cut off, of another version, or no file at all. Whatever cannot
be read is as good as absent, and what cannot be written is computed again the next time. That takes time and changes no
result, so it ends no command: `saving_time` is around all that is written only for that, and says once what was not kept.
"""

from __future__ import annotations

import fcntl
import logging
import mmap
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from gradwire.files import replacing
from gradwire.regular_files import MESSAGE_BYTES, read_bytes
from gradwire.typed_json import Message, decoded

_SAID = mmap.mmap(-1, 1)
"""1 once a command, or a process that it forked, has said that the cache cannot be written."""


@contextmanager
def saving_time(path: Path) -> Iterator[None]:
    """Context manager around code that writes a file of the cache, or what else only saves time: a command goes on without
    it, with one warning."""
    try:
        yield
    except OSError as error:
        warn_of_unkept(path, error)


def warn_of_unkept(path: Path, error: OSError) -> None:
    """Says that a file of the cache could not be kept, unless this command, or one that it was forked by, has said so."""
    if _is_first():
        logging.getLogger(__name__).warning(
            "%s: cannot be written: %s; so what takes long is not kept in the cache, and is computed again the next time: "
            "make room, or make the folder writable, or set GRADWIRE_CACHE to one that is",
            path.parent,
            error.strerror or error,
        )


def _is_first() -> bool:
    with Path(__file__).open("rb") as lock:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(lock, fcntl.LOCK_EX)
        said, _SAID[0] = _SAID[0], 1
    return not said


def kept(path: Path, kind: type[Message]) -> Message | None:
    """The message in a file of the cache; None if there is none that can be read."""
    with suppress(OSError, msgspec.DecodeError):
        # A message of a type is read in one go; a budget for each of hundreds of small files would take longer.
        return decoded(read_bytes(path, MESSAGE_BYTES, bounded=True), kind)
    return None


def keep(path: Path, message: object) -> None:
    """Writes a message to a file of the cache, and its folder, if that is possible."""
    with saving_time(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path, on_disk=False) as partial:
            partial.write_bytes(msgspec.json.encode(message))


def cached(path: Path, kind: type[Message], computed: Callable[[], Message]) -> Message:
    """The message in a file of the cache, or else what is computed, which is then kept there."""
    message = kept(path, kind)
    if message is None:
        message = computed()
        keep(path, message)
    return message
