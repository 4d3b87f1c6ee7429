"""Processes that a job starts with its own Python: as separate programs, or as forks that have what the job has
imported.

In the virtual-time kernel, where all processes share a CPU, the imports of a point's job, its agents and its
controller are most of what a point costs before its first byte, and they import nearly the same. So there the others
are forks.
"""

from __future__ import annotations

import gc
import importlib
import os
import select
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import IO, NoReturn, Protocol

from gradwire.faults import InternalFault

ALL_DESCRIPTORS = 1 << 30
SOURCES = Path(__file__).resolve().parent.parent
"""Folder of the package, in which child processes find its modules."""


def signal_name(number: int) -> str:
    """The name of a signal, such as SIGTERM; "signal 40" for one of the real-time signals without a name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


class Child(Protocol):
    """A process, as `subprocess.Popen` has it."""

    pid: int
    returncode: int | None

    @property
    def stdin(self) -> IO[bytes] | None:
        """The pipe on which it hears, not buffered; None without pipes."""

    @property
    def stdout(self) -> IO[bytes] | None:
        """The pipe on which it answers, not buffered; None without pipes."""

    def poll(self) -> int | None:
        """Its exit status, -n after signal n; None while it runs."""

    def wait(self, timeout: float | None = None) -> int:
        """Its exit status once it has ended. Raises subprocess.TimeoutExpired after `timeout` seconds."""

    def terminate(self) -> None:
        """Sends SIGTERM."""

    def kill(self) -> None:
        """Sends SIGKILL."""


def start(module: str, arguments: Sequence[str], errors: IO[bytes], *, by_fork: bool, talks: bool = False) -> Child:
    """Starts `python -m module arguments` where the package lies, or a fork of this process that calls that module's
    `main`.

    errors: where standard error goes. talks: whether standard input and output are pipes of the caller's; otherwise
    there is no input, and output goes to `errors`. Raises InternalFault for a fork in a process with several threads,
    of which it would have only one.
    """
    if by_fork:
        return _Forked(module, arguments, errors, talks=talks)
    return subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        stdin=subprocess.PIPE if talks else subprocess.DEVNULL,
        stdout=subprocess.PIPE if talks else errors,
        stderr=errors,
        bufsize=0,  # what a dead process has not read must not be written again when its input is closed
        cwd=SOURCES,
    )


class _Forked:
    """A fork of this process that calls a module's `main` instead of continuing here."""

    def __init__(self, module: str, arguments: Sequence[str], errors: IO[bytes], *, talks: bool) -> None:
        if threading.active_count() > 1:
            raise InternalFault(f"{module} was to be a fork of a process with {threading.active_count()} threads")
        self.returncode: int | None = None
        self.stdin: IO[bytes] | None = None
        self.stdout: IO[bytes] | None = None
        theirs = [os.open(os.devnull, os.O_RDONLY), os.dup(errors.fileno())]
        if talks:
            for descriptor in theirs:
                os.close(descriptor)
            hear, tell = os.pipe()
            answer, say = os.pipe()
            theirs = [hear, say]
            self.stdin, self.stdout = os.fdopen(tell, "wb", buffering=0), os.fdopen(answer, "rb", buffering=0)
        sys.stdout.flush()
        sys.stderr.flush()
        # What is there now is never looked through again, in either process: the collector would copy all of it.
        gc.freeze()
        self.pid = os.fork()
        if self.pid == 0:
            _become(module, arguments, (*theirs, errors.fileno()))
        for descriptor in theirs:
            os.close(descriptor)

    def poll(self) -> int | None:
        """See Child."""
        if self.returncode is None:
            self._reap(os.WNOHANG)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """See Child."""
        if self.returncode is None and timeout is not None:
            self._await(timeout)
        if self.returncode is None:
            self._reap(0)
        assert self.returncode is not None
        return self.returncode

    def terminate(self) -> None:
        """See Child."""
        self._send(signal.SIGTERM)

    def kill(self) -> None:
        """See Child."""
        self._send(signal.SIGKILL)

    def _await(self, timeout_s: float) -> None:
        descriptor = os.pidfd_open(self.pid)
        try:
            has_ended = select.poll()
            has_ended.register(descriptor, select.POLLIN)
            if not has_ended.poll(timeout_s * 1000):
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout_s)
        finally:
            os.close(descriptor)

    def _reap(self, options: int) -> None:
        pid, status = os.waitpid(self.pid, options)
        if pid:
            self.returncode = os.waitstatus_to_exitcode(status)

    def _send(self, number: signal.Signals) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)


def _become(module: str, arguments: Sequence[str], descriptors: Sequence[int]) -> NoReturn:
    """In the fork: has nothing open but these as standard streams, calls the module's `main`, and ends with what it
    returns."""
    status = 1
    try:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        for stream, descriptor in enumerate(descriptors):
            os.dup2(descriptor, stream)
        os.closerange(3, ALL_DESCRIPTORS)
        sys.stdin = open(0, closefd=False)  # noqa: SIM115 (open for as long as the process)
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115
        Path("/proc/self/comm").write_text(module)  # whose first 15 characters tell it from its parent
        os.chdir(SOURCES)
        sys.argv = [module, *arguments]
        status = importlib.import_module(f"{module}.__main__").main() or 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            sys.stderr.write(f"{end.code}\n")
    except BaseException:  # noqa: BLE001 (the fork must not continue in its parent's place)
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        # Not `sys.exit`: that would run what the parent does at its end.
        os._exit(status)
