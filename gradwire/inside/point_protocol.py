"""Messages between the two halves of the run loop: tasks as JSON files on the way in, events as JSON lines on the way
out.

The outer half (runs/campaign.py, runs/replay.py) writes a task into a folder and boots a machine that starts there.
The inner half (inside/point.py, or inside/replay_job.py) reads the task and prints events on standard output, where
other programs' lines may stand between them. Both halves are one version of gradwire, but files stay: what this module
adds to a stored message has a default, and fields that it no longer knows are ignored.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import msgspec

from gradwire.agents.connections import SocketOptions
from gradwire.datatypes.network_counts import NetworkCounts
from gradwire.datatypes.pauses import PAUSES_FILE as PAUSES_FILE  # noqa: PLC0414 (beside the other files of a point)
from gradwire.datatypes.pauses import PauseState
from gradwire.datatypes.plan import Plan
from gradwire.datatypes.records import PlannedFault, SocketState
from gradwire.faults import InternalFault
from gradwire.network.fabric import Fabric, MulticastGroup
from gradwire.typed_json import Message, decoded

TASK_FILE = "task.json"
REPLAY_TASK_FILE = "replay.json"
QUEUES_FILE = "queues.npz"


def write_json(path: Path, message: object, *, indent: int | None = None) -> None:
    """Writes a typed message or a frozen dataclass; `indent` makes it readable and ends it with a newline."""
    encoded = msgspec.json.encode(message)
    path.write_bytes(encoded if indent is None else msgspec.json.format(encoded, indent=indent) + b"\n")


def read_json(path: Path, kind: type[Message]) -> Message:
    """Reads a message of a type. Raises OSError, or msgspec.DecodeError for what is not a message of that type."""
    return decoded(path.read_bytes(), kind)


class PlanFile(msgspec.Struct, frozen=True, array_like=True):
    """A plan of a task, by its label and the name of its file in the task's folder."""

    label: str
    file: str


class PointTask(msgspec.Struct, frozen=True, kw_only=True):
    """The task of a machine for a point: choose one of the plans, replay it, and record what happened."""

    #: The fabric without its multicast groups, as text (`Fabric.to_json`).
    fabric_json: str = msgspec.field(name="fabric")
    #: The candidates. Of several, each is tried and the fastest is replayed.
    plans: tuple[PlanFile, ...]
    #: All iterations of the replay, the `warmup` first ones included.
    iterations: int
    #: Iterations that are not measured.
    warmup: int
    #: Iterations that each of several candidates is tried for, after one of warm-up.
    search_iterations: int
    sockets: SocketOptions
    #: One agent process per host instead of one for all.
    per_host: bool
    #: "virtual" or "wall".
    clock: str
    #: What names of switches begin with, so that machines that share a kernel differ.
    switch_prefix: str
    #: Names of the ports whose packets are captured during the replay (`Fabric.ports_named`).
    capture: tuple[str, ...] = ()
    #: Bytes that are kept of each captured packet.
    capture_snaplen: int = 160
    #: Whether programs run beside the replay (inside/beside_job.py).
    programs: bool = False
    #: What fails during the replay.
    faults: tuple[PlannedFault, ...] = ()
    #: With faults, how long nothing may move before the run ends.
    stall_limit_ns: int = 0
    #: How often the queues of switches' ports are read during the replay; 0 for never.
    queue_period_ns: int = 0
    #: The code of a user's controller, which the machine runs in place of gradwire's; "" without one.
    controller_app: str = ""
    #: Where the machine has the compiled agent; "" if agents are to be in Python.
    compiled_agent: str = ""

    @property
    def fabric(self) -> Fabric:
        """The fabric, without its multicast groups."""
        return Fabric.from_json(self.fabric_json)

    def plan_file(self, label: str) -> str:
        """Name of a plan's file. Raises KeyError if the task has no plan of this label."""
        return {plan.label: plan.file for plan in self.plans}[label]


class ReplayTask(msgspec.Struct, frozen=True, kw_only=True):
    """The task of a machine for `replay_plans`: replay each of the plans, one after the other."""

    #: The fabric with the multicast groups of all plans, as text (`Fabric.to_json`).
    fabric_json: str
    #: Number of plans, whose files are named by `replay_files`.
    plans: int
    #: Iterations of each plan.
    iterations: int
    clock: str
    sockets: SocketOptions
    #: Read the network's counters before and after each plan.
    count: bool
    #: As for a point, both.
    compiled_agent: str = ""
    queue_period_ns: int = 0


class ReplayNote(msgspec.Struct, frozen=True):
    """A machine's notes on a replayed plan, in addition to its log."""

    #: Multicast datagrams that were sent again.
    repairs: int
    #: What the network counted, if the task asked for it.
    counts: NetworkCounts | None
    #: What flow control did, if there is any.
    pauses: PauseState | None = None
    #: What became of sending sockets, if the task asked for counters.
    sockets: tuple[SocketState, ...] = ()


def built_fabric(fabric: Fabric, plans: Iterable[Plan]) -> Fabric:
    """The fabric as the machine builds it: with all multicast groups of the plans."""
    trees = sorted({tree for plan in plans for tree in plan.multicasts()})
    return replace(fabric, groups=tuple(MulticastGroup(source, members) for source, members in trees))


class NetworkStarted(msgspec.Struct, frozen=True, tag_field="event", tag="network"):
    """The machine has booted and begins to build the network."""


class AgentsStarted(msgspec.Struct, frozen=True, tag_field="event", tag="agents"):
    """The network is there, and the agents are being started."""


class FirstByte(msgspec.Struct, frozen=True, tag_field="event", tag="first_byte"):
    """Everything is ready, and the first byte of the rate probe goes out."""


class Probed(msgspec.Struct, frozen=True, tag_field="event", tag="probe"):
    """The rate probe has done an iteration."""

    #: Iterations done.
    done: int


class CandidateIterated(msgspec.Struct, frozen=True, tag_field="event", tag="search"):
    """A candidate plan has done an iteration."""

    #: Iterations done.
    done: int


class ReplayStarted(msgspec.Struct, frozen=True, tag_field="event", tag="replay"):
    """The replay begins that is measured."""


class Iterated(msgspec.Struct, frozen=True, tag_field="event", tag="iteration"):
    """All agents have done an iteration of the replay."""

    #: Iterations done.
    done: int


class ReplayEnded(msgspec.Struct, frozen=True, tag_field="event", tag="replayed"):
    """The last agent has ended the replay."""


class PlanReplayed(msgspec.Struct, frozen=True, tag_field="event", tag="plan_replayed"):
    """One of a ReplayTask's plans is done."""

    #: Number of the plan, from 0 on.
    number: int


class PointRecorded(msgspec.Struct, frozen=True, tag_field="event", tag="done"):
    """The point came to its end, and its log and record are written."""

    #: Label of the plan that was replayed.
    plan: str


class Faulted(msgspec.Struct, frozen=True, tag_field="event", tag="fault"):
    """The job ends early, with a fault that was foreseen."""

    #: Name of the fault's class.
    kind: str
    message: str


Event = (
    NetworkStarted
    | AgentsStarted
    | FirstByte
    | Probed
    | CandidateIterated
    | ReplayStarted
    | Iterated
    | ReplayEnded
    | PlanReplayed
    | PointRecorded
    | Faulted
)
EVENT_START = '{"event":'
_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)


def say(event: Event) -> None:
    """Tells the outer half of the run loop what happens."""
    sys.stdout.write(_encoder.encode(event).decode() + "\n")
    sys.stdout.flush()


def heard(line: str) -> Event | None:
    """The event that a line of the machine's output is; None for other programs' lines, and for one that breaks off.

    Raises InternalFault for an event that this module does not define.
    """
    if not line.startswith(EVENT_START):
        return None
    try:
        return _decoder.decode(line)
    except msgspec.ValidationError as error:
        raise InternalFault(f"the machine's output has a line that is not an event: {line!r}: {error}") from error
    except msgspec.DecodeError:
        return None
