"""Records of a run as frozen data: what every op did and when, the counters of ports, and how a point's run went.

Times are nanoseconds of the run's clock since the agents' common start. Imports nothing but numpy and the standard
library.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import numpy.typing as npt

from gradwire.array_files import ANY_WIDTH, ArrayColumn, lengths_in, read_arrays
from gradwire.datatypes.host_settings import HostParameter
from gradwire.datatypes.network_counts import NetworkCounts
from gradwire.datatypes.pauses import PauseState

Int64 = npt.NDArray[np.int64]
CAPTURE_FOLDER = "capture"
"""Folder of captured packets, inside the point's folder."""
MOST_CAPTURED_PACKETS = 20_000_000
"""Limit of packets captured at a port, whose rows take 5 GB when they are read: 24 s of full frames at 10 Gbit/s, or 17
minutes of bursts of 64 KiB."""
MOST_CAPTURED_BYTES = 32 << 30
"""Limit of the size of a port's capture file: that many full frames take as much."""
COMPILED, IN_PYTHON = "compiled", "python"
"""Kinds of agents."""
NOT_SERVED = "python, because this kernel has no compiled agent or does not serve it"
"""The latter where the former was asked for."""
TENANTS_CLASS = 0
"""The traffic class of other tenants: that of a strategy with one class, and of the most urgent messages of others."""


@dataclass(frozen=True)
class OpLog:
    """The log of ops in columns: one row per op and iteration."""

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
        """Reads what `save` wrote. Raises OSError, or ValueError and others for what is not a log's file."""
        return OpLog(**read_arrays(path, _columns_of(OpLog)))

    @staticmethod
    def rows_in(path: Path) -> int:
        """Returns the number of rows that a log's file claims to have. Raises what `load` raises."""
        return max(lengths_in(path, _columns_of(OpLog)).values())

    @staticmethod
    def concatenate(logs: list[OpLog]) -> OpLog:
        """Joins the logs of several agents."""
        names = [field.name for field in fields(OpLog)]
        return OpLog(**{name: np.concatenate([getattr(log, name) for log in logs]) for name in names})


def _columns_of(log: type[OpLog]) -> dict[str, ArrayColumn]:
    return {field.name: ArrayColumn("i8") for field in fields(log)}


@dataclass(frozen=True)
class SocketState:
    """The congestion control of a connection and its outcome, at the sending end. Windows are in segments."""

    connection: int
    src_host: int
    dst_host: int
    #: By the kernel's name for it, as read back from the socket.
    congestion: str
    #: At the end of the replay.
    window: int
    #: The smallest and the largest at the end of an iteration.
    least_window: int
    most_window: int
    #: 2^31 - 1 before the first loss or mark.
    slow_start_threshold: int
    #: Segments that were sent again, arrived, and arrived with a mark, as the receiver said.
    retransmits: int
    delivered: int
    delivered_marked: int


@dataclass(frozen=True)
class WindowState:
    """The windows of a connection, and how long they limited it, at the sending end when the replay ended.

    The kernel counts these times in ticks of 10 ms.
    """

    connection: int
    src_host: int
    dst_host: int
    #: The sending socket's buffer, as read back.
    buffer_bytes: int
    #: The window that the receiver offered.
    receive_bytes: int
    #: The congestion window.
    congestion_bytes: int
    #: The smoothed round trip.
    round_trip_us: int
    #: How long there was something to send or not acknowledged; how long of that the receiver's window was the limit,
    #: and how long the socket's buffer was.
    busy_us: int
    receive_limited_us: int
    buffer_limited_us: int
    #: What the other end has acknowledged.
    acknowledged_bytes: int

    @property
    def limited_us(self) -> int:
        """Returns how long one of the sockets' buffers was the limit, in microseconds."""
        return self.receive_limited_us + self.buffer_limited_us


@dataclass(frozen=True)
class FlowletCount:
    """The data that a connection sent one way (`fabric.routing = "flowlet"`)."""

    connection: int
    src_host: int
    dst_host: int
    way: int
    #: Flowlets that began.
    flowlets: int
    #: Payload and framing of their messages.
    size_bytes: int


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
    #: Faults of this agent's workers.
    faults: tuple[FaultRecord, ...] = ()
    #: One for each connection that begins here, if a congestion control was asked for.
    sockets: tuple[SocketState, ...] = ()
    #: The congestion controls of the connections that end here, each once, if one was asked for.
    accepted_congestion: tuple[str, ...] = ()
    #: One for each connection that begins here, if links have a delay.
    windows: tuple[WindowState, ...] = ()
    #: One for each connection that begins here and each of its ways, if ways are chosen by flowlets.
    flowlets: tuple[FlowletCount, ...] = ()
    #: How long the run's threads waited for a core, all together, as a share of the replay; 0 on the virtual clock.
    cpu_wait: float = 0.0
    #: Parameters of hosts' kernels that the scenario sets (`fabric.host`).
    host_parameters: tuple[HostParameter, ...] = ()
    #: Which agent this was: COMPILED, IN_PYTHON, or the latter for want of a kernel that serves the former.
    code: str = "python"


@dataclass(frozen=True)
class QueueLengths:
    """The lengths of the queues of switches' ports, at equal intervals."""

    #: Interface names, a column of `waiting_bytes` for each.
    ports: tuple[str, ...]
    time_ns: Int64
    #: Bytes of frames in all bands together, a row for each time.
    waiting_bytes: Int64
    #: Packets that were marked so far, a row for each time.
    marks: Int64

    def save(self, path: Path) -> None:
        """Writes an .npz file."""
        np.savez_compressed(
            path, ports=np.array(self.ports), time_ns=self.time_ns, waiting_bytes=self.waiting_bytes, marks=self.marks
        )

    @staticmethod
    def load(path: Path) -> QueueLengths:
        """Reads what `save` wrote. Raises OSError, or ValueError and others for what is not such a file."""
        lengths = {
            "ports": ArrayColumn("U"),
            "time_ns": ArrayColumn("i8"),
            "waiting_bytes": ArrayColumn("i8", ANY_WIDTH),
        }
        stored = read_arrays(path, {**lengths, "marks": ArrayColumn("i8", ANY_WIDTH)}, compressed=True)
        waiting, marks = stored["waiting_bytes"], stored["marks"]
        table = (len(stored["time_ns"]), len(stored["ports"]))
        if waiting.shape != table or marks.shape != table:
            raise ValueError("its columns do not fit together")
        return QueueLengths(tuple(stored["ports"].tolist()), stored["time_ns"], waiting, marks)


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


LOSING = ("link-down", "flapping", "switch-restart", "loss")
"""Kinds of faults that lose packets."""


@dataclass(frozen=True)
class PlannedFault:
    """A fault that a scenario asks for, as the machine carries it out (scenario/sections/fault.py says what each kind
    is)."""

    name: str
    kind: str
    #: When it begins: after the replay begins, or after `iteration` does.
    at_ns: int
    #: The iteration after whose beginning it begins; -1 if it is the replay's.
    iteration: int = -1
    #: How long it lasts; -1 to the end of the replay.
    duration_ns: int = -1
    #: For a fault of a link, one of its ports, by the name of its interface; for a restart, the switch.
    place: str = ""
    #: Number of the worker, among those of all jobs; -1 for faults of other things.
    worker: int = -1
    #: The kind's parameter: a share lost, a delay or a period in seconds, a rate in bit/s, a factor.
    value: float = 0.0
    #: For a tenant, indices of the hosts that its flow comes from and goes to; -1 for other faults.
    source: int = -1
    destination: int = -1
    #: For a worker of one of several jobs, the job's name and the worker's number in it.
    job: str = ""
    worker_of_job: int = -1
    #: For a fault of a link, its name in words: "h3", "leaf1-spine2".
    link: str = ""

    @property
    def is_of_worker(self) -> bool:
        """Returns whether the fault is of a worker, so that agents carry it out; all others are of the network."""
        return self.worker >= 0

    @property
    def where(self) -> str:
        """Its place in words."""
        if self.job:
            return f"worker {self.worker_of_job} of job {self.job}"
        if self.is_of_worker:
            return f"worker {self.worker}"
        if self.source >= 0:
            return f"a tenant from h{self.source + 1} to h{self.destination + 1}"
        if not self.place:
            return "the controller"
        return f"switch {self.place}" if self.kind == "switch-restart" else f"link {self.link or self.place}"

    @property
    def what(self) -> str:
        """Returns the fault in words: "link leaf1-spine2 is down"."""
        return f"{self.where} {self._happens}"

    @property
    def _happens(self) -> str:
        words = {
            "link-down": "is down",
            "flapping": f"flaps every {self.value:g} s",
            "loss": f"loses {self.value:.3%}",
            "delay": f"is {self.value * 1e3:g} ms longer",
            "rate": f"has {self.value / 1e9:g} Gbit/s",
            "slow-worker": f"computes {self.value:g} times slower",
            "dead-worker": "dies",
            "tenant": f"sends {self.value / 1e9:g} Gbit/s",
        }
        return words.get(self.kind, "restarts")


@dataclass(frozen=True)
class FaultRecord:
    """The course of a fault in a run. Times count from the agents' common start."""

    fault: PlannedFault
    #: When it should have begun; -1 if its iteration never did.
    due_ns: int
    #: When it had begun: after its commands had been carried out. -1 if it never did.
    begun_ns: int
    #: When it had been undone; -1 if it never was.
    ended_ns: int
    #: How often something was done to the network or a worker.
    changes: int = 0
    #: For a tenant, the payload that its TCP sent.
    sent_bytes: int = 0

    def overlaps(self, begin_ns: int, end_ns: int) -> bool:
        """Returns whether the fault was active at any time between these two."""
        return self.begun_ns >= 0 and self.begun_ns < end_ns and (self.ended_ns < 0 or self.ended_ns > begin_ns)


@dataclass(frozen=True)
class PointRecord:
    """The record of a point's run: all that analysis needs besides the plan and the op log."""

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
    #: Share of the replay during which the busiest of the run's threads, or of the machine's interrupts, was; 0 on the
    #: virtual clock.
    cpu_saturation: float
    #: How bands, and flows within a band, are served, such as "prio, fq".
    shaping: str
    notes: tuple[str, ...] = ()
    #: One per captured port.
    captures: tuple[CaptureRecord, ...] = ()
    #: The agents' common start on the clock that stamps packets, in nanoseconds since 1970; 0 without captures.
    capture_start_ns: int = 0
    #: The course of each of the scenario's faults.
    faults: tuple[FaultRecord, ...] = ()
    #: How long the run's threads waited for a core, all together, as a share of the replay; 0 on the virtual clock.
    cpu_wait: float = 0.0
    #: Parameters of hosts' kernels that the scenario sets (`fabric.host`).
    host_parameters: tuple[HostParameter, ...] = ()
    #: The ways that the flows of a user's controller gave (network/read_ways.py); empty without one.
    ways: tuple[tuple[int, ...], ...] = ()
    #: The effects of priority flow control; None without it.
    pauses: PauseState | None = None
