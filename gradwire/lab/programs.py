"""Programs of a lab, and their results."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from gradwire.faults import InputFault, MachineFault
from gradwire.inside.program_protocol import how_it_ended

TAIL_LINES = 5


class LimitReached(MachineFault):
    """Something did not end within its limit of virtual or wall time."""


class ProgramFailed(InputFault):
    """A program that was to succeed did not."""


@dataclass(frozen=True)
class Result:
    """The result of a program that has ended."""

    command: str
    host: str
    #: Its exit status, or 128 + n after signal n.
    returncode: int
    stdout: str
    stderr: str
    #: Virtual time from its start to its end, and both on the lab's clock.
    duration_s: float
    began_s: float
    ended_s: float

    def json(self) -> Any:
        """Its standard output as JSON. Raises InputFault for other text."""
        try:
            return json.loads(self.stdout)
        except ValueError as error:
            raise InputFault(f"{self.command} on {self.host}: its output is not JSON: {error}") from error

    def check(self) -> Result:
        """Returns this result if the program succeeded. Raises ProgramFailed."""
        if self.returncode:
            raise ProgramFailed(f"{self.command} on {self.host} {how_it_ended(self.returncode)}{tail(self.stderr)}")
        return self


def tail(text: str) -> str:
    """The end of a program's output, for a message."""
    lines = text.rstrip().splitlines()[-TAIL_LINES:]
    return "".join(f"\n  {line}" for line in lines)


@dataclass
class ProgramState:
    """Messages about a program so far: its start, its output and its end."""

    began_ns: int
    written: dict[int, bytearray] = field(default_factory=lambda: {1: bytearray(), 2: bytearray()})
    status: int | None = None
    ended_ns: int = -1


class Process:
    """A program that was started on a host. Made by `Host.start`."""

    def __init__(
        self,
        host: str,
        command: str,
        heard: ProgramState,
        wait: Callable[[Process, str | float | None], None],
        send: Callable[[int], None],
    ) -> None:
        #: The name of its host.
        self.host = host
        self.command = command
        self._heard, self._wait, self._send = heard, wait, send

    def __repr__(self) -> str:
        state = "runs" if self.is_running else how_it_ended(self._heard.status or 0)
        return f"<{self.command} on {self.host} {state}>"

    @property
    def is_running(self) -> bool:
        """Whether the program has not ended."""
        return self._heard.status is None

    @property
    def stdout(self) -> str:
        """Standard output so far."""
        return self._heard.written[1].decode(errors="replace")

    @property
    def stderr(self) -> str:
        """Standard error so far."""
        return self._heard.written[2].decode(errors="replace")

    @property
    def result(self) -> Result:
        """The result of the program. Raises InputFault while it runs."""
        heard = self._heard
        if heard.status is None:
            raise InputFault(f"{self.command} on {self.host} has not ended; wait() for it, or stop() it")
        times_s = heard.began_ns / 1e9, heard.ended_ns / 1e9
        duration_s = (heard.ended_ns - heard.began_ns) / 1e9
        return Result(
            self.command, self.host, heard.status, self.stdout, self.stderr, duration_s, times_s[0], times_s[1]
        )

    def wait(self, timeout: str | float | None = None) -> Result:
        """Lets virtual time pass until it has ended, `timeout` at most. Raises LimitReached, after which it still
        runs."""
        self._wait(self, timeout)
        return self.result

    def signal(self, number: int = signal.SIGTERM) -> None:
        """Sends a signal to it and to all that it started."""
        self._send(number)

    def stop(self, grace: str | float = "5s") -> Result:
        """Asks it to end, and ends it if it has not after `grace` of virtual time."""
        self.signal(signal.SIGTERM)
        try:
            return self.wait(grace)
        except LimitReached:
            self.signal(signal.SIGKILL)
            return self.wait(grace)
