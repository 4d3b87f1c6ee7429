"""Reads the messages that the kernel has written about itself."""

from __future__ import annotations

import os

MESSAGE_BYTES = 8192
"""Room for one message of the kernel (Documentation/ABI/testing/dev-kmsg)."""


def killed_for_memory() -> int:
    """How many processes the kernel has killed because its memory was full, by its messages: it keeps no counters."""
    killed = 0
    messages = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
    try:
        while True:
            killed += b"Out of memory: Killed process" in os.read(messages, MESSAGE_BYTES)
    except BlockingIOError:
        return killed
    finally:
        os.close(messages)
