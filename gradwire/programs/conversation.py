"""The conversation of a command with its job in the kernel: signed events one way, commands and answers the other. The
same for programs, scripts and labs."""

from __future__ import annotations

import secrets
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from gradwire import faults
from gradwire.faults import Fault, InternalFault
from gradwire.inside.program_protocol import Event, Full, Refused, Taken, line_of
from gradwire.inside.signatures import KEY_BYTES, SignedEvents
from gradwire.vm.machine import JOB_FOLDER, KEY_INSIDE, Boot
from gradwire.vm.machines import compiled_modules
from gradwire.vm.session import JobSession, PaceListener, SessionLimits, last_cpu, session
from gradwire.vm.streaming import Watch


class Conversation:
    """A job that is talked with. Made by `conversation`."""

    def __init__(self, running: JobSession, key: bytes) -> None:
        self.running = running
        self._events = SignedEvents(key)
        #: The fault that the job has reported; None without.
        self.refused: Refused | None = None

    def follow(
        self,
        take: Callable[[Event], None],
        finished: Callable[[], bool],
        limits: SessionLimits,
        *,
        stop: threading.Event | None = None,
        watched: Watch | None = None,
    ) -> bool:
        """Passes each event of the job to `take`, but for a fault that it reports, until `finished()`; returns False if the
        limit of wall time comes before. Raises what `JobSession.follow` raises, and InputFault for lines that others have
        changed."""

        def hear(line: str) -> None:
            match event := self._events.event_of(line):
                case Full():
                    self.running.answer(line_of(Taken()))
                case Refused():
                    self.refused = event
                case None:  # what others wrote to the same terminal
                    pass
                case _:
                    take(event)

        return self.running.follow(hear, finished, limits, stop=stop, watched=watched)

    def raise_refused(self) -> None:
        """Raises the fault that the job has reported, if it has."""
        if self.refused is not None:
            kind = getattr(faults, self.refused.kind, InternalFault)
            fault: Fault = kind(self.refused.message)
            raise fault


@contextmanager
def conversation(
    module: str,
    folder: Path,
    *,
    memory_mb: int,
    job_name: str = "its job",
    cpu: int | None = None,
    listener: PaceListener | None = None,
) -> Iterator[Conversation]:
    """Boots a kernel that runs one of the jobs in inside/, with the task in `folder`, and ends all of it when the block
    ends. Raises what `session` raises.

    job_name: as for `Boot`. cpu: the one that the kernel is pinned to; by default the last that this process may use.
    listener: hears how the job is getting on.
    """
    argv = [sys.executable, "-m", f"gradwire.inside.{module}", JOB_FOLDER, KEY_INSIDE]
    key = secrets.token_bytes(KEY_BYTES)
    with compiled_modules() as env:
        boot = Boot(argv, env, last_cpu() if cpu is None else cpu, folder, memory_mb, job_name=job_name)
        with session(boot, key, listener) as running:
            yield Conversation(running, key)
