"""Effects of priority flow control in a run, as frozen data: pauses by port and class, memory, and who waits for whom.

A port tells the far end of its link to pause a class, and obeys its far end. Imports numpy and the standard
library.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gradwire.array_files import ArrayColumn, read_arrays

Int64 = npt.NDArray[np.int64]
PAUSES_FILE = "pauses.npz"
"""File in the folder of a run with its PauseEvents."""
MOST_EVENTS = 1 << 17
"""The most pauses and resumptions whose times the kernel's patch keeps (EVENTS_MAX)."""


@dataclass(frozen=True)
class PauseCount:
    """One band of one port during the replay. Bytes are those of frames, as tc counts them."""

    port: str
    band: int
    #: How often it paused the far end and let it continue, and for how long it did not want more.
    pauses: int
    resumes: int
    paused_ns: int
    #: Since when it has not wanted more, by the clock of `PauseState.now_ns`; -1 if it wants more.
    paused_since_ns: int
    #: The most that was charged to it as a port by which frames come, without headroom; and in its headroom.
    most_bytes: int
    most_headroom_bytes: int
    headroom_bytes: int
    #: Frames, or bursts, that did not fit into its headroom.
    dropped: int
    #: How often it was paused by its far end, and for how long.
    stops: int
    stopped_ns: int
    is_stopped: bool
    #: Bytes that wait in it to leave.
    waiting_bytes: int
    #: Bytes that came by it and are still in the switch, headroom included.
    charged_bytes: int


class HeldBandBytes(NamedTuple):
    """The bytes that wait in a band of a switch's port, for one of the ports by which they came."""

    port: str
    band: int
    came_by: str
    size_bytes: int


@dataclass(frozen=True)
class PauseState:
    """All of a network's ports at one moment, and what they counted until then."""

    now_ns: int
    #: Pauses that the kernel had no memory to tell.
    lost: int
    counts: tuple[PauseCount, ...]
    held: tuple[HeldBandBytes, ...] = ()
    #: Pauses and resumes, all together; of these, the first MOST_EVENTS are kept.
    told: int = 0


@dataclass(frozen=True)
class PauseEvents:
    """The times at which ports paused their far ends or let them continue, in columns."""

    #: Interface names, which `port` numbers.
    ports: tuple[str, ...]
    #: Since the agents' common start, or that of the first program.
    time_ns: Int64
    port: Int64
    band: Int64
    #: 1 to pause, 0 to continue.
    pauses: Int64

    def save(self, path: Path) -> None:
        """Writes an .npz file."""
        columns = {"time_ns": self.time_ns, "port": self.port, "band": self.band, "pauses": self.pauses}
        np.savez_compressed(path, ports=np.array(self.ports), **columns)  # type: ignore[arg-type] # numpy's own signature

    @staticmethod
    def load(path: Path) -> PauseEvents:
        """Reads what `save` wrote. Raises OSError, or ValueError and others for what is not such a file."""
        columns = {"ports": ArrayColumn("U"), **dict.fromkeys(("time_ns", "port", "band", "pauses"), ArrayColumn("i8"))}
        stored = read_arrays(path, columns, compressed=True)
        names = tuple(stored["ports"].tolist())
        if len({len(stored[name]) for name in columns if name != "ports"}) > 1 or (
            len(stored["port"]) and not 0 <= stored["port"].min() <= stored["port"].max() < len(names)
        ):
            raise ValueError("its columns do not fit together")
        return PauseEvents(names, stored["time_ns"], stored["port"], stored["band"], stored["pauses"])


class PausedBand(NamedTuple):
    """A band of a port that is paused by the far end of its link."""

    port: str
    by: str
    band: int


def deadlock_in(state: PauseState, far_ends: Mapping[str, str]) -> tuple[PausedBand, ...]:
    """A circle of ports each of which is paused by a switch where what came from it waits for the next one; empty if
    there is none.

    far_ends: the port at the other end of each port's link. What came by a port may also wait for ports that are not
    paused, so a circle is a deadlock only when it lasts.
    """
    stopped = {(count.port, count.band) for count in state.counts if count.is_stopped}
    behind: dict[tuple[str, int], list[str]] = {}
    for held in state.held:
        if (held.port, held.band) in stopped:
            behind.setdefault((held.came_by, held.band), []).append(held.port)
    for port, band in sorted(stopped):
        if circle := _circle(port, band, behind, far_ends):
            return tuple(PausedBand(each, far_ends[each], band) for each in circle)
    return ()


def circle_in_words(circle: Sequence[PausedBand]) -> str:
    """Describes a circle of ports that wait for one another."""
    return "; ".join(
        f"{each.port} is paused by {each.by}, behind which its frames wait for {following.port}"
        for each, following in zip(circle, (*circle[1:], circle[0]), strict=True)
    )


def _circle(
    start: str, band: int, behind: Mapping[tuple[str, int], Sequence[str]], far_ends: Mapping[str, str]
) -> list[str]:
    """The ports from `start` back to it, each of which waits for the next; empty if nothing leads back."""
    came_from: dict[str, str | None] = {start: None}
    waiting = [start]
    for port in waiting:
        for following in sorted(behind.get((far_ends[port], band), ())):
            if following == start:
                way: list[str] = []
                at: str | None = port
                while at is not None:
                    way.append(at)
                    at = came_from[at]
                return way[::-1]
            if following not in came_from:
                came_from[following] = port
                waiting.append(following)
    return []
