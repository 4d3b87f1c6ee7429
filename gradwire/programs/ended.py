"""What a machine notes of programs that it ran beside a strategy: a file in the point's folder."""

from __future__ import annotations

import msgspec

PROGRAMS_FILE = "programs.json"
"""In a point's folder: the programs, as programs/protocol.py has a Task."""
ENDED_FILE = "programs-ended.json"


class EndedBeside(msgspec.Struct, frozen=True):
    """What became of the programs: the content of programs-ended.json."""

    #: Those that started, by program and host (`place_name`).
    started: tuple[str, ...]
    #: By program and host: the exit status, or 128 + n after signal n, of those that ended before the last iteration did.
    statuses: dict[str, int]
    #: And when, in seconds of virtual time after the replay began.
    ended_s: dict[str, float]
    #: What they wrote beyond OUTPUT_LIMIT_BYTES, which was not kept.
    dropped_output_bytes: int = 0

    @property
    def failed(self) -> dict[str, int]:
        """Those that failed."""
        return {place: status for place, status in self.statuses.items() if status}
