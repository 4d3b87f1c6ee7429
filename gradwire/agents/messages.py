"""Messages over the pipes between the run loop and the processes that it starts: typed, one JSON object per line.

An agent process takes commands and gives answers; the capturing process only answers. Settings, which they read
before anything else, are a file of the same form. Both ends of a pipe are one version of gradwire, and nothing of it
is kept.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TypeVar

import msgspec

from gradwire.agents.connections import HostEntry, SocketOptions
from gradwire.datatypes.records import AgentSummary, CaptureRecord, PlannedFault
from gradwire.network.fabric import Fabric

Message = TypeVar("Message")


class AgentSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of an agent process: the hosts that it carries, their fabric and their sockets."""

    hosts: tuple[HostEntry, ...]
    #: The fabric as text (`Fabric.to_json`).
    fabric_json: str
    sockets: SocketOptions
    #: Where the compiled agent lies; "" to replay in Python.
    compiled_agent: str = ""

    @property
    def fabric(self) -> Fabric:
        """Returns the fabric, from its text."""
        return Fabric.from_json(self.fabric_json)


class Carry(msgspec.Struct, frozen=True, tag_field="command", tag="carry"):
    """Carry hosts; the first command, and not answered."""

    #: The file of its AgentSettings.
    settings: str


class LoadPlan(msgspec.Struct, frozen=True, tag_field="command", tag="load"):
    """Read a plan and listen; answered by Listening."""

    #: The plan's file.
    plan: str
    #: How often to replay it.
    iterations: int
    #: Where to write the log.
    log: str
    #: What happens to workers meanwhile.
    faults: tuple[PlannedFault, ...] = ()
    #: How long nothing may move before the agent gives up; 0 for ever.
    stall_limit_ns: int = 0


class Connect(msgspec.Struct, frozen=True, tag_field="command", tag="connect"):
    """Open all connections; answered by Connected."""


class Go(msgspec.Struct, frozen=True, tag_field="command", tag="go"):
    """Replay; answered by a RanksIterated after each iteration, and by Replayed."""

    #: When to begin, by the monotonic clock.
    start_ns: int


class Finish(msgspec.Struct, frozen=True, tag_field="command", tag="finish"):
    """Close all connections; answered by Finished."""


Command = Carry | LoadPlan | Connect | Go | Finish


class Listening(msgspec.Struct, frozen=True, tag_field="event", tag="listening"):
    """The agent listens on every host, or the capturing process captures."""


class Connected(msgspec.Struct, frozen=True, tag_field="event", tag="connected"):
    """All connections are open."""


class RanksIterated(msgspec.Struct, frozen=True, tag_field="event", tag="iteration"):
    """The agent's ranks have done an iteration."""

    #: Iterations done.
    done: int


class Died(msgspec.Struct, frozen=True, tag_field="event", tag="died"):
    """A worker of the agent died, as a scenario's fault says; the agent's other ranks continue."""

    #: Who, when and in which iteration, in words.
    what: str


class CutShort(msgspec.Struct, frozen=True, tag_field="event", tag="cut short"):
    """The replay cannot continue, and the agent ends."""

    reason: str
    #: What each of its ranks that live waits for, in words.
    awaited: tuple[str, ...]


class Replayed(msgspec.Struct, frozen=True, tag_field="event", tag="replayed"):
    """The replay has ended, and its log is written."""

    summary: AgentSummary


class Finished(msgspec.Struct, frozen=True, tag_field="event", tag="finished"):
    """All connections are closed."""


class Captured(msgspec.Struct, frozen=True, tag_field="event", tag="captured"):
    """The capture has ended, and its files are complete."""

    records: tuple[CaptureRecord, ...]


Answer = Listening | Connected | RanksIterated | Died | CutShort | Replayed | Finished | Captured

_encoder = msgspec.json.Encoder()
_commands: msgspec.json.Decoder[Command] = msgspec.json.Decoder(Command)
_answers: msgspec.json.Decoder[Answer] = msgspec.json.Decoder(Answer)


def encode_line(message: Command | Answer) -> bytes:
    """A message as a line."""
    return _encoder.encode(message) + b"\n"


def decode_command(line: bytes | str) -> Command:
    """The command that a line is. Raises msgspec.DecodeError for any other line."""
    return _commands.decode(line)


def decode_answer(line: bytes | str) -> Answer:
    """The answer that a line is. Raises msgspec.DecodeError for any other line."""
    return _answers.decode(line)


def say(answer: Answer) -> None:
    """Gives an answer, on standard output."""
    sys.stdout.write(encode_line(answer).decode())
    sys.stdout.flush()


def write_settings(path: Path, settings: object) -> None:
    """Writes a process's settings."""
    path.write_bytes(_encoder.encode(settings))


def read_settings(path: Path, kind: type[Message]) -> Message:
    """Reads what `write_settings` wrote."""
    return msgspec.json.decode(path.read_bytes(), type=kind)
