"""Records of a run as frozen data: what every op did and when, the counters of ports, and how a point's run went.

Times are nanoseconds of the run's clock since the agents' common start. Imports nothing but numpy and the standard library.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import numpy.typing as npt

Int64 = npt.NDArray[np.int64]
CAPTURE_FOLDER = "capture"
"""Folder of captured packets, inside the point's folder."""


@dataclass(frozen=True)
class OpLog:
    """What ops did, in columns: one row per op and iteration."""

    iteration: Int64
    op: Int64
    #: When the op's dependencies and its stream allowed it to start, computed from nominal times.
    nominal_start_ns: Int64
    #: When it started. For a SEND: first byte handed to the kernel. For a RECV: first byte taken from it.
    start_ns: Int64
    #: When it ended. For a SEND: last byte handed to the kernel. For a RECV: last byte taken from it.
    end_ns: Int64

    def save(self, path: Path) -> None:
        """Writes the log to an .npz file."""
        np.savez(path, **{field.name: getattr(self, field.name) for field in fields(self)})

    @staticmethod
    def load(path: Path) -> OpLog:
        """Reads what `save` wrote."""
        with np.load(path) as stored:
            return OpLog(**{key: stored[key] for key in stored.files})

    @staticmethod
    def concatenate(logs: list[OpLog]) -> OpLog:
        """Joins the logs of several agents."""
        names = [field.name for field in fields(OpLog)]
        return OpLog(**{name: np.concatenate([getattr(log, name) for log in logs]) for name in names})


@dataclass(frozen=True)
class AgentSummary:
    """The report that one agent process makes at its end."""

    #: Indices of the hosts that it ran.
    hosts: tuple[int, ...]
    messages_sent: int
    messages_received: int
    #: Payload and framing of messages that crossed the network.
    bytes_sent: int
    bytes_received: int
    #: Longest time from a timer's nominal end until the agent acted on it.
    lateness_ns_max: int
    #: 99th percentile of these times.
    lateness_ns_p99: int
    #: Lost multicast datagrams that were resent.
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
    """Counters of the whole network over the run."""

    bands: tuple[BandCount, ...]
    #: TCP segments, summed over hosts.
    tcp_segments_sent: int
    #: Retransmitted TCP segments, summed over hosts.
    tcp_retransmits: int
    #: Packets that the datapath had to ask the switch process about.
    upcalls: int
    #: Packets that the switch dropped because they matched no flow.
    table_miss_packets: int


@dataclass(frozen=True)
class CaptureRecord:
    """Expected content of the capture file of one port."""

    port: str
    #: Name of the file in the point's capture folder.
    file: str
    #: Packets written to the file.
    packets: int
    #: Packets that the kernel saw.
    seen: int
    #: Packets among those seen that were dropped for lack of room.
    dropped: int


@dataclass(frozen=True)
class PointRecord:
    """Everything about a point's run that analysis needs beside the plan and the op log."""

    #: "virtual" or "wall".
    clock: str
    #: Number of iterations, including the warm-up.
    iterations: int
    #: Iterations at the beginning that are not measured.
    warmup: int
    agents: tuple[AgentSummary, ...]
    counts: NetworkCounts
    #: Measured time over ideal time of short bursts between all hosts before iteration 0; 1.0 is exact.
    rate_probe: float
    #: Share of the replay during which the machine's busiest core was busy; 0 on the virtual clock.
    cpu_saturation: float
    #: How bands, and flows within a band, are served, such as "prio, fq".
    shaping: str
    notes: tuple[str, ...] = ()
    #: One per captured port.
    captures: tuple[CaptureRecord, ...] = ()
    #: The agents' common start on the clock that stamps packets, in nanoseconds since 1970; 0 without captures.
    capture_start_ns: int = 0
