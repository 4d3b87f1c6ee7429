"""A channel for tests without a kernel."""

from __future__ import annotations

import os


class Listener:
    """Keeps what is said; nothing comes."""

    def __init__(self) -> None:
        self.said: list[object] = []
        self._read_end, self._write_end = os.pipe()

    def fileno(self) -> int:
        return self._read_end

    def say(self, event: object) -> None:
        self.said.append(event)

    def heard(self) -> None:
        return None
