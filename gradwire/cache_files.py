"""Messages that a computation leaves in the cache, so that the next one to ask need not compute them again.

The cache is a folder like others: a file of it may be cut off, of another version, or no file at all. Whatever cannot
be read is as good as absent, and what cannot be written is computed again the next time.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from gradwire.files import replacing
from gradwire.regular_files import MESSAGE_BYTES, read_bytes
from gradwire.typed_json import Message, decoded


def kept(path: Path, kind: type[Message]) -> Message | None:
    """The message in a file of the cache; None if there is none that can be read."""
    with suppress(OSError, msgspec.DecodeError):
        # A message of a type is read in one go; a budget for each of hundreds of small files would take longer.
        return decoded(read_bytes(path, MESSAGE_BYTES, bounded=True), kind)
    return None


def keep(path: Path, message: object) -> None:
    """Writes a message to a file of the cache, and its folder, if that is possible."""
    with suppress(OSError):
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
