"""Follows the output of child processes line by line, under a time limit, and ends a whole process group for certain."""

from __future__ import annotations

import fcntl
import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from enum import Enum, auto
from pathlib import Path
from typing import BinaryIO

from gradwire.faults import MachineFault

LineTaker = Callable[[str], None]
POLL_S = 0.25
"""Longest wait between two looks at the stop event and at the clock."""
READ_BYTES = 65536
KILL_LIMIT_S = 20.0
KILL_POLL_S = 0.005
PIPE_BYTES = 1 << 20
"""Room for output that the caller has not read yet: a job that must wait for its reader loses virtual time."""


class FollowEnd(Enum):
    """Why `follow` came back."""

    CLOSED = auto()
    FINISHED = auto()
    TIMED_OUT = auto()
    STOPPED = auto()


class LineSplitter:
    """Turns chunks of bytes into lines; a terminal's `\\r\\n` counts as one line end."""

    def __init__(self, take: LineTaker) -> None:
        self._take = take
        self._rest = b""

    def feed(self, chunk: bytes) -> None:
        """Takes the next bytes; hands on every line that they complete."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            self._take(line.rstrip(b"\r").decode(errors="replace"))

    def close(self) -> None:
        """Hands on what came after the last line end, if anything did."""
        if self._rest:
            self._take(self._rest.rstrip(b"\r").decode(errors="replace"))
            self._rest = b""


def follow(
    outputs: Mapping[int, LineTaker],
    *,
    time_limit_s: float,
    finished: Callable[[], bool] = lambda: False,
    stop: threading.Event | None = None,
) -> FollowEnd:
    """Hands every line of the given file descriptors to its taker, as it comes, until the first of:

    all descriptors are closed at the far end (CLOSED), `finished()` is true (FINISHED: what had been written until
    then is still handed on), `time_limit_s` of wall time is over (TIMED_OUT), `stop` is set (STOPPED).
    What a taker raises passes through. Descriptors become non-blocking.
    """
    end_s = time.monotonic() + time_limit_s
    splitters = {fd: LineSplitter(take) for fd, take in outputs.items()}
    with selectors.DefaultSelector() as selector:
        for fd in outputs:
            os.set_blocking(fd, False)
            selector.register(fd, selectors.EVENT_READ)
        while selector.get_map():
            left_s = end_s - time.monotonic()
            if left_s <= 0:
                return FollowEnd.TIMED_OUT
            if stop is not None and stop.is_set():
                return FollowEnd.STOPPED
            over = finished()
            for key, _ in selector.select(0 if over else min(left_s, POLL_S)):
                if not _drain(key.fd, splitters[key.fd], end_s):
                    selector.unregister(key.fd)
            if over or finished():
                return FollowEnd.FINISHED
    return FollowEnd.CLOSED


def _drain(fd: int, splitter: LineSplitter, end_s: float) -> bool:
    """Reads what is there now, not past `end_s`; False when the far end is closed."""
    while time.monotonic() < end_s:
        try:
            chunk = os.read(fd, READ_BYTES)
        except BlockingIOError:
            return True
        if not chunk:
            splitter.close()
            return False
        splitter.feed(chunk)
    return True


def dies_with_parent(argv: list[str], death_signal: str = "KILL") -> list[str]:
    """`argv` as a command that gets `death_signal` from the kernel when the thread that started it ends, however it ends.

    Through setpriv and not through a function between fork and exec: that one would run Python code in a forked
    copy of a program that has threads.
    """
    return ["setpriv", "--pdeathsig", death_signal, *argv]


@contextmanager
def pipe() -> Iterator[tuple[int, BinaryIO]]:
    """A pipe with much room: the descriptor to read from, and the end to write to, which may be closed before."""
    read_end, write_end = os.pipe()
    fcntl.fcntl(write_end, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    with os.fdopen(read_end, "rb"), os.fdopen(write_end, "wb") as writer:
        yield read_end, writer


@contextmanager
def process_group(
    argv: list[str],
    *,
    env: Mapping[str, str],
    stdout: int,
    stdin: int = subprocess.DEVNULL,
    cwd: Path | None = None,
    death_signal: str = "KILL",
) -> Iterator[subprocess.Popen[bytes]]:
    """Starts `argv` in a session of its own, stderr to stdout; on leaving kills every process of its group.

    Raises OSError when the program cannot be started.
    """
    process = subprocess.Popen(
        dies_with_parent(argv, death_signal),
        env=dict(env),
        stdin=stdin,
        stdout=stdout,
        stderr=subprocess.STDOUT,
        cwd=cwd,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        kill_group(process)


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kills the process group that `process` leads, and waits until none of it lives.

    Raises MachineFault where some still do after KILL_LIMIT_S: SIGKILL waits only for a device.
    """
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    # The others are not this process's children: init waits for them, and on a busy machine they are gone a little later.
    end_s = time.monotonic() + KILL_LIMIT_S
    while left := living_of_group(process.pid):
        if time.monotonic() > end_s:
            raise MachineFault(
                f"processes {left} live on {KILL_LIMIT_S:g} s after SIGKILL: see `ps -o stat,wchan {left[0]}`"
            )
        time.sleep(KILL_POLL_S)


def living_of_group(group: int) -> list[int]:
    """Processes of a process group, without zombies, which only wait for their parent to take note of them."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                # After the name, which may hold any character: state, parent, process group.
                state, _, of_group = (folder / "stat").read_text().rpartition(")")[2].split()[:3]
            except (FileNotFoundError, ProcessLookupError):
                continue
            if int(of_group) == group and state not in "ZX":
                found.append(int(folder.name))
    return found
