"""Records of a run as frozen data: what every op did and when, what ports counted, and how a point went.

Times are nanoseconds of the run's clock since the agents' common start. Imports nothing but numpy and the standard library.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Int64 = npt.NDArray[np.int64]
CAPTURE_FOLDER = "capture"
"""Of captured packets, in the point's folder."""


@dataclass(frozen=True)
class OpLog:
    """One row an op and iteration that was carried out, in columns.

    nominal_start_ns: when it could start by its dependencies and its stream, computed from nominal times.
    start_ns, end_ns: when it did. For a SEND: first and last byte handed to the kernel. For a RECV: first and last byte taken from it.
    """

    iteration: Int64
    op: Int64
    nominal_start_ns: Int64
    start_ns: Int64
    end_ns: Int64

    def save(self, path: Path) -> None:
        """Writes the log to an .npz file."""
        np.savez(
            path,
            **{name: getattr(self, name) for name in ("iteration", "op", "nominal_start_ns", "start_ns", "end_ns")},
        )

    @staticmethod
    def load(path: Path) -> OpLog:
        """Reads what `save` wrote."""
        with np.load(path) as stored:
            return OpLog(**{key: stored[key] for key in stored.files})

    @staticmethod
    def concatenate(logs: list[OpLog]) -> OpLog:
        """One log out of those of several agents."""
        names = ("iteration", "op", "nominal_start_ns", "start_ns", "end_ns")
        return OpLog(**{name: np.concatenate([getattr(log, name) for log in logs]) for name in names})


@dataclass(frozen=True)
class AgentSummary:
    """What one agent process says at its end.

    bytes_sent, bytes_received: payload and framing of messages that crossed the network. lateness_ns_max: the longest time
    between a timer's nominal end and the moment the agent acted on it. lateness_ns_p99: its 99th percentile.
    multicast_repairs: lost datagrams that were sent again.
    """

    hosts: tuple[int, ...]
    messages_sent: int
    messages_received: int
    bytes_sent: int
    bytes_received: int
    lateness_ns_max: int
    lateness_ns_p99: int
    multicast_repairs: int = 0


@dataclass(frozen=True)
class BandCount:
    """Counters of one priority band of one port over the run."""

    port: str
    band: int
    bytes_sent: int
    packets_sent: int
    drops: int


@dataclass(frozen=True)
class NetworkCounts:
    """Counters of the whole network over the run.

    tcp_segments_sent, tcp_retransmits: summed over hosts. upcalls: packets that the datapath had to ask the switch process about.
    table_miss_packets: packets that no flow matched, which the switch dropped.
    """

    bands: tuple[BandCount, ...]
    tcp_segments_sent: int
    tcp_retransmits: int
    upcalls: int
    table_miss_packets: int

    @staticmethod
    def from_fields(fields: dict[str, Any]) -> NetworkCounts:
        """From what `asdict` gave."""
        return NetworkCounts(**{**fields, "bands": tuple(BandCount(**band) for band in fields["bands"])})


@dataclass(frozen=True)
class CaptureRecord:
    """What one captured port's file should hold. file: its name, in the point's folder of captures.

    packets: written to the file. seen, dropped: packets that the kernel saw, and those of them for which there was no room.
    """

    port: str
    file: str
    packets: int
    seen: int
    dropped: int


@dataclass(frozen=True)
class PointRecord:
    """Everything about a point's run that analysis needs beside the plan and the op log.

    rate_probe: measured over ideal time of a short burst between all hosts before iteration 0 (ring pattern), 1.0 is exact.
    first_byte_wall_s: wall time from starting the machine to the first byte. replay_wall_s: wall time of the replay alone.
    cpu_saturation: share of the replay that the machine's busiest core was busy (wall clock only, else 0).
    captures: of the ports whose packets were captured. capture_start_ns: the agents' common start by the clock that stamps packets,
    nanoseconds since 1970; 0 without captures.
    """

    clock: str
    iterations: int
    warmup: int
    start_ns: int
    agents: tuple[AgentSummary, ...]
    counts: NetworkCounts
    rate_probe: float
    first_byte_wall_s: float
    replay_wall_s: float
    cpu_saturation: float
    shaping: str
    notes: tuple[str, ...] = ()
    captures: tuple[CaptureRecord, ...] = ()
    capture_start_ns: int = 0

    def save(self, path: Path) -> None:
        """Writes the record as JSON."""
        path.write_text(json.dumps(asdict(self), indent=1) + "\n")

    @staticmethod
    def load(path: Path) -> PointRecord:
        """Reads what `save` wrote."""
        stored = json.loads(path.read_text())
        agents = tuple(AgentSummary(**{**a, "hosts": tuple(a["hosts"])}) for a in stored.pop("agents"))
        counts = NetworkCounts.from_fields(stored.pop("counts"))
        captures = tuple(CaptureRecord(**capture) for capture in stored.pop("captures", ()))
        return PointRecord(agents=agents, counts=counts, notes=tuple(stored.pop("notes")), captures=captures, **stored)
