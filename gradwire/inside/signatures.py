"""Signs the lines of the job in the kernel, so that what others write to its terminal is never taken for them.

The command outside makes a key for each run. The job reads it from a file that it removes before any program starts,
and has it in its memory alone. The signature of a line covers its number as well: no line can be changed, repeated,
left out or put between others.
"""

from __future__ import annotations

import hashlib

from gradwire.faults import InputFault
from gradwire.inside.program_protocol import Event, event_of

KEY_BYTES = 32
SIGNATURE_BYTES = 16
_NUMBER_BYTES = 8
EVENT_MARK = '"event":'
"""What every event has in its line, and the words of no other software that writes to the terminal."""


class Signatures:
    """Signs lines one after the other at one end, and tells at the other whether each is the next."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._lines = 0

    def signed(self, line: str) -> str:
        """The next line, behind its signature."""
        signature = self._signature(line)
        self._lines += 1
        return f"{signature}{line}"

    def opened(self, signed: str) -> str | None:
        """The line behind its signature; None for what was not signed as the next line, after which the next is still
        awaited."""
        signature, line = signed[: 2 * SIGNATURE_BYTES], signed[2 * SIGNATURE_BYTES :]
        if signature != self._signature(line):
            return None
        self._lines += 1
        return line

    def _signature(self, line: str) -> str:
        numbered = self._lines.to_bytes(_NUMBER_BYTES, "big") + line.encode(errors="surrogateescape")
        return hashlib.blake2b(numbered, key=self._key, digest_size=SIGNATURE_BYTES).hexdigest()


class SignedEvents:
    """Decodes the events of the job for the command outside, among lines that others may write to the same terminal."""

    def __init__(self, key: bytes) -> None:
        self._signatures = Signatures(key)

    def event_of(self, line: str) -> Event | None:
        """The event that a line is; None for what others wrote. Raises InputFault for an event that is not the job's,
        or was changed."""
        opened = self._signatures.opened(line)
        if opened is not None:
            return event_of(opened)
        if EVENT_MARK in line:
            raise InputFault(
                "a program tampered with the run: what came over the job's terminal is not what the job wrote, so "
                "nothing that was said of the run can be trusted"
            )
        return None
