"""Messages of a type out of JSON, whoever wrote it: a text is such a message, or raises one error.

msgspec raises RecursionError for lists in thousands of lists, and UnicodeDecodeError for what is no text, and neither is
a msgspec.DecodeError. Here all that a text can lead to is one.
"""

from __future__ import annotations

import threading
from typing import TypeVar

import msgspec

Message = TypeVar("Message")
_DECODING = threading.Lock()


def decoded(text: bytes | str, kind: type[Message]) -> Message:
    """A typed message out of JSON. Raises msgspec.DecodeError, a ValueError, for what is not a message of that type.

    One thread at a time: msgspec 0.22 ends the process with a segmentation fault where two threads are the first to
    meet a type, which points that end at the same moment are.
    """
    try:
        with _DECODING:
            return msgspec.json.decode(text, type=kind)
    except RecursionError as error:
        raise msgspec.DecodeError("lists and objects are nested too deeply") from error
    except UnicodeDecodeError as error:
        raise msgspec.DecodeError(f"is not text in UTF-8: {error.reason}") from error
