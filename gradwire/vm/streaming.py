"""Follows the output of child processes line by line under a time limit, and reliably kills whole process groups."""

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
from typing import BinaryIO, NamedTuple

from gradwire.faults import MachineFault

LineTaker = Callable[[str], None]
POLL_S = 0.25
"""Longest wait between two checks of the stop event and the clock."""
MOST_COUNTED_S = 4 * POLL_S
"""The most that the time between two such checks counts towards a limit. If more has passed, this process did not
run."""
READ_BYTES = 65536
LINE_BYTES = 1 << 24
"""Kept of a line that has not ended; a longer one is passed on in parts. The longest that a job writes, its report of
512 hosts' ports, has a hundredth of that."""
KILL_LIMIT_S = 20.0
KILL_POLL_S = 0.005
PIPE_BYTES = 1 << 20
"""Room for output that the caller has not read yet: a job that waits for its reader loses virtual time."""


class FollowEnd(Enum):
    """The reasons for which `follow` returns."""

    CLOSED = auto()
    FINISHED = auto()
    TIMED_OUT = auto()
    STOPPED = auto()


class Watch(NamedTuple):
    """Something that may be readable, as the outputs are, and what is done then."""

    fd: int
    act: Callable[[], None]


class LineSplitter:
    """Turns chunks of bytes into lines; a terminal's `\\r\\n` counts as one line end.

    line_bytes: what is kept of a line that has not ended. A longer one is passed on in parts, so that time and memory
    stay in proportion.
    """

    def __init__(self, take: LineTaker, line_bytes: int = LINE_BYTES) -> None:
        self._take, self._line_bytes = take, line_bytes
        self._rest: list[bytes] = []
        self._rest_bytes = 0

    def feed(self, chunk: bytes) -> None:
        """Takes the next bytes and passes on every line that they complete."""
        first, *others = chunk.split(b"\n")
        self._keep(first)
        for line in others:
            self._pass_on()
            self._keep(line)

    def close(self) -> None:
        """Passes on what came after the last line end, if anything."""
        if self._rest_bytes:
            self._pass_on()

    def _keep(self, part: bytes) -> None:
        while self._rest_bytes + len(part) > self._line_bytes:
            taken, part = part[: self._line_bytes - self._rest_bytes], part[self._line_bytes - self._rest_bytes :]
            self._rest.append(taken)
            self._pass_on()
        self._rest.append(part)
        self._rest_bytes += len(part)

    def _pass_on(self) -> None:
        line, self._rest, self._rest_bytes = b"".join(self._rest), [], 0
        self._take(line.rstrip(b"\r").decode(errors="replace"))


HELD_PERIOD_S = 0.1
"""How often it is asked whether what is waited for is stopped, which is a file of /proc: output may come a hundred
times as often."""


class TimeLimit:
    """A limit of wall time. The time in which a signal has stopped this process, or what it waits for, does not count.

    To be looked at all the while: what passes between two looks counts as MOST_COUNTED_S at most.
    """

    def __init__(
        self, limit_s: float, held: Callable[[], bool] = lambda: False, wall_s: Callable[[], float] = time.monotonic
    ) -> None:
        """held: returns whether the process that is waited for is stopped."""
        self._left_s, self._held, self._wall_s = limit_s, held, wall_s
        self._looked_s = wall_s()

    def left_s(self) -> float:
        """Returns the seconds that are left of the limit; 0 or less once it has passed."""
        now_s = self._wall_s()
        since_s = now_s - self._looked_s
        if since_s < HELD_PERIOD_S and since_s < self._left_s:
            return self._left_s - since_s
        if not self._held():
            self._left_s -= min(now_s - self._looked_s, MOST_COUNTED_S)
        self._looked_s = now_s
        return self._left_s


def follow(
    outputs: Mapping[int, LineTaker],
    *,
    time_limit_s: float | TimeLimit,
    finished: Callable[[], bool] = lambda: False,
    stop: threading.Event | None = None,
    held: Callable[[], bool] = lambda: False,
    watched: Watch | None = None,
) -> FollowEnd:
    """Passes every line of the given file descriptors to its taker as it arrives, and returns the first of:

    - CLOSED: all descriptors are closed at the far end,
    - FINISHED: `finished()` is true; what was written until then is still passed on,
    - TIMED_OUT: `time_limit_s` of wall time have passed, without those in which this process was stopped or `held()`
      was true,
    - STOPPED: `stop` is set.

    watched: what else may be readable, and what is done then. Exceptions of a taker propagate. The descriptors become
    non-blocking. A TimeLimit is one for several calls together.
    """
    limit = time_limit_s if isinstance(time_limit_s, TimeLimit) else TimeLimit(time_limit_s, held)
    splitters = {fd: LineSplitter(take) for fd, take in outputs.items()}
    with selectors.DefaultSelector() as selector:
        for fd in outputs:
            os.set_blocking(fd, False)
            selector.register(fd, selectors.EVENT_READ)
        if watched is not None:
            selector.register(watched.fd, selectors.EVENT_READ)
        left = set(outputs)
        while left:
            is_finished = finished()  # asked before reading, so that what was written until then is read
            left_s = limit.left_s()
            if not is_finished and left_s <= 0:
                return FollowEnd.TIMED_OUT
            if not is_finished and stop is not None and stop.is_set():
                return FollowEnd.STOPPED
            for key, _ in selector.select(0 if is_finished else min(left_s, POLL_S)):
                if watched is not None and key.fd == watched.fd:
                    watched.act()
                elif not _drain(key.fd, splitters[key.fd], limit):
                    selector.unregister(key.fd)
                    left.discard(key.fd)
            if is_finished:
                return FollowEnd.FINISHED
    return FollowEnd.FINISHED if finished() else FollowEnd.CLOSED


def _drain(fd: int, splitter: LineSplitter, limit: TimeLimit) -> bool:
    """Reads what is available, not past the limit; False if the far end is closed."""
    while limit.left_s() > 0:
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
    """`argv` as a command that gets `death_signal` from the kernel when the thread that started it ends for any reason.

    This uses setpriv and not a function between fork and exec, which would run Python code in a forked copy of a
    program with threads.
    """
    return ["setpriv", "--pdeathsig", death_signal, *argv]


@contextmanager
def pipe() -> Iterator[tuple[int, BinaryIO]]:
    """A pipe with a large buffer: the descriptor to read from, and the file to write to, which may be closed early."""
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
    """Starts `argv` in its own session, with stderr going to stdout; kills every process of its group on exit.

    Raises OSError if the program cannot be started.
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
    """Kills the process group that `process` leads and waits until all its processes are gone.

    Raises MachineFault if some are still alive after KILL_LIMIT_S: only a wait for a device delays SIGKILL.
    """
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    # The others are not children of this process: init reaps them, a little later on a busy machine.
    end_s = time.monotonic() + KILL_LIMIT_S
    while left := living_of_group(process.pid):
        if time.monotonic() > end_s:
            raise MachineFault(
                f"processes {left} are still alive {KILL_LIMIT_S:g} s after SIGKILL: see `ps -o stat,wchan {left[0]}`"
            )
        time.sleep(KILL_POLL_S)


def living_of_group(group: int) -> list[int]:
    """Processes of a process group, without zombies, which only wait for their parent to reap them."""
    pids = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                state, of_group = _state_and_group(int(folder.name))
            except (FileNotFoundError, ProcessLookupError):
                continue
            if of_group == group and state not in "ZX":
                pids.append(int(folder.name))
    return pids


def is_stopped(pid: int) -> bool:
    """Returns whether a signal has stopped a process, which stays so until another signal resumes it. False for a
    process that is gone."""
    try:
        return _state_and_group(pid)[0] == "T"
    except (FileNotFoundError, ProcessLookupError):
        return False


def _state_and_group(pid: int) -> tuple[str, int]:
    # The name may hold any character; the fields after it are state, parent and process group.
    state, _, group = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[:3]
    return state, int(group)
