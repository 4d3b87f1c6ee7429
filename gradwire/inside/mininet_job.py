"""Runs a Mininet script until it ends. `python -m gradwire.inside.mininet_job FOLDER KEY`, inside the kernel.

The script is root there, with the switches, and separate processes and temporary files. It makes namespaces, devices
and switches, so it keeps all capabilities, and it is not kept from the kernel that it runs in. To the machine outside
it has its caller's rights, as every program that the caller starts.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import sys
import time
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from gradwire.faults import Fault, InternalFault
from gradwire.inside.channel import Channel
from gradwire.inside.computation import charge_computation
from gradwire.inside.host import become_a_program
from gradwire.inside.kernel_messages import killed_for_memory
from gradwire.inside.namespaces import BIND, NEW_HOSTNAME, NEW_MOUNTS, enter, mount, unshare
from gradwire.inside.processes import READ_BYTES, STDOUT, Processes, Running, Streams
from gradwire.inside.program_protocol import FOLDER, Refused, ScriptReport
from gradwire.inside.sandbox import ProcessNamespace, cover, judging_folders, protect
from gradwire.inside.stock_mininet.start import END_OF_INPUT, NOT_TYPED, TYPED
from gradwire.inside.stock_mininet.task import INPUT, MODULES, PROGRAMS, TEMPORARY, ScriptTask, read_task
from gradwire.inside.stock_mininet.tools import copy_changed, programs
from gradwire.inside.terminals import COMPUTING, SETTLE_S, TICK_S, WINDOW, ShellWindows
from gradwire.inside.typed_protocol import (
    Interrupt,
    Keys,
    LineAsked,
    LineGiven,
    Open,
    Opening,
    Resized,
    Shut,
    Typed,
    WindowAsked,
)
from gradwire.typed_json import decoded

SCRIPT = 0
"""In the place of a host's index: there is one program."""
UNKILLABLE = "-1000"
HOSTNAME = "mininet"
START = Path(__file__).parent / "stock_mininet" / "start.py"
ANSWER_S = 1.0
"""Of virtual time, in which a script has to make room for an answer."""
QUESTION_BYTES = 1 << 20
"""More than the words and lines that start.py sends."""
RECURSIVE, PRIVATE = 0x4000, 0x40000
"""MS_REC and MS_PRIVATE (linux/mount.h)."""


class Input:
    """Takes what a script asks for: lines, and windows of its nodes. Nothing else happens meanwhile, and no virtual time
    passes, unless commands run in windows.

    stdin: what a person types without having been asked can be read there. typed: whether a person types.
    """

    def __init__(self, processes: Processes, channel: Channel, *, typed: bool) -> None:
        self._processes, self._channel, self._is_typed = processes, channel, typed
        self.stdin, self._typed = os.pipe()
        os.set_blocking(self._typed, False)
        #: How many lines were asked for.
        self.count = 0
        #: By window: the node that it is for.
        self.wanted: dict[int, WindowAsked] = {}
        #: Takes what comes meanwhile.
        self.hear: Callable[[object], None] = lambda _: None
        self._askers: deque[socket.socket] = deque()
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(INPUT))
        self._listening.listen()
        processes.watch(self._listening.fileno(), self._accept)

    @property
    def is_asked(self) -> bool:
        """Whether the script waits for a line."""
        return bool(self._askers)

    def give(self, command: LineGiven | Interrupt) -> None:
        """Gives the script the line that it has asked for."""
        line = command.line.decode(errors="replace") if isinstance(command, LineGiven) else None
        _answer(self._askers.popleft(), line)

    def _accept(self) -> None:
        asker, _ = self._listening.accept()
        asker.settimeout(ANSWER_S)
        begun = bytearray()
        self._processes.watch(asker.fileno(), lambda: self._hear(asker, begun))

    def _hear(self, asker: socket.socket, begun: bytearray) -> None:
        """Hears a part of a question. begun: what has come of it. Who asks what cannot be read is heard no more."""
        try:
            part = asker.recv(READ_BYTES)
            begun += part
            if part and len(begun) <= QUESTION_BYTES and not begun.endswith(b"\n"):
                return
            asked = decoded(bytes(begun), cast(Any, LineAsked | WindowAsked))
        except (OSError, ValueError):
            self._processes.unwatch(asker.fileno())
            asker.close()
            return
        begun.clear()
        match asked:
            case LineAsked():
                self.count += 1
                self._processes.pass_on_what_is_there(self.hear)
                self._askers.append(asker)
                self._channel.say(asked)
            case WindowAsked():
                _answer(asker, self._opened(asked))

    def _opened(self, wanted: WindowAsked) -> list[object]:
        """The number of a window that is being opened, or -1, and what the script says of it."""
        if not self._is_typed:
            return [-1, f"no window for {wanted.node}: nobody types at a terminal here"]
        self._channel.say(wanted)
        answer = self._channel.answer()
        assert isinstance(answer, Opening)
        if answer.window >= 0:
            self.wanted[answer.window] = wanted
        return [answer.window, answer.said]

    def let_pass(self) -> None:
        """Waits until the person wants time to pass, and passes on what they have typed. What nobody has read for long is
        dropped when the pipe is full."""
        answer = self._channel.let_pass()
        if isinstance(answer, Typed):
            with suppress(BlockingIOError):
                os.write(self._typed, answer.data or END_OF_INPUT)


def _answer(asker: socket.socket, answer: object) -> None:
    with suppress(OSError):  # the script is gone
        asker.sendall(json.dumps(answer).encode() + b"\n")


def run_script(task: ScriptTask, folder: Path, channel: Channel) -> ScriptReport:
    """Runs the script, and ends all that it has started. Raises a Fault."""
    Path("/proc/self/oom_score_adj").write_text(UNKILLABLE)
    FOLDER.mkdir()
    install(task)
    machine = MininetMachine(folder, task)
    killed_before = killed_for_memory()
    processes = Processes([machine], machine, channel, task.output_limit_bytes)
    asked = Input(processes, channel, typed=task.typed)
    charge_computation(task.cpu_time)
    begin_s = time.monotonic()
    how = TYPED if task.typed else NOT_TYPED
    argv = [task.python, str(FOLDER / START.name), str(INPUT), how, task.script, *task.arguments]
    program = processes.start(SCRIPT, argv, task.env, task.folder, streams=_streams(asked.stdin, one=task.one_output))
    _Typing(task, processes, channel, asked, program).follow(begin_s + task.time_limit_s)
    status, duration_s = program.status, time.monotonic() - begin_s
    processes.end_all()
    machine.end()
    return ScriptReport(
        status=status,
        duration_s=duration_s,
        killed_for_memory=killed_for_memory() - killed_before,
        dropped_output_bytes=processes.dropped_bytes,
    )


def _streams(stdin: int, *, one: bool) -> Streams:
    """One pipe for both outputs, or two."""
    out_read, out_write = os.pipe()
    os.set_blocking(out_read, False)
    if one:
        return Streams({out_read: STDOUT}, (out_write, out_write), stdin)
    err_read, err_write = os.pipe()
    os.set_blocking(err_read, False)
    return Streams({out_read: STDOUT, err_read: STDOUT + 1}, (out_write, err_write), stdin)


class _Typing:
    """Follows a script with a person who types to it, and to windows of its nodes."""

    def __init__(
        self, task: ScriptTask, processes: Processes, channel: Channel, asked: Input, program: Running
    ) -> None:
        self._task, self._processes, self._channel = task, processes, channel
        self._asked, self._program = asked, program
        self._interrupted_at = -1
        asked.hear = self._hear
        settle_s = SETTLE_S * (COMPUTING if task.cpu_time else 1)
        self._windows = ShellWindows(processes, channel, self._name_of, self._begin, settle_s)

    def follow(self, deadline_s: float) -> None:
        """Until it has ended, or the virtual clock has come so far."""
        tick_s = self._next_tick_s()
        while self._program.status is None and (now_s := time.monotonic()) < deadline_s:
            if self._rests():
                self._hear(self._channel.rest())
                tick_s = self._next_tick_s()
                continue
            if now_s >= tick_s:
                self._asked.let_pass()
                tick_s = self._next_tick_s()
            until = lambda: self._program.status is not None or self._rests()  # noqa: E731
            self._windows.follow(until, min(deadline_s, tick_s), self._hear)

    def _next_tick_s(self) -> float:
        return time.monotonic() + TICK_S if self._task.typed else float("inf")

    def _rests(self) -> bool:
        return self._asked.is_asked and self._windows.at_rest()

    def _hear(self, command: object) -> None:
        match command:
            case LineGiven() | Interrupt() if self._asked.is_asked:
                self._asked.give(command)
            case Interrupt():
                self._interrupt()
            case Open() | Keys() | Resized() | Shut():
                self._windows.obey(command)

    def _interrupt(self) -> None:
        """The first Ctrl-C asks the script to end, a second one ends it, unless it has asked for a line in between."""
        number = signal.SIGKILL if self._interrupted_at == self._asked.count else signal.SIGINT
        self._interrupted_at = self._asked.count
        self._program.signal(number)

    def _name_of(self, command: Open) -> str:
        return self._asked.wanted[command.window].node

    def _begin(self, command: Open, argv: list[str], streams: Streams) -> Running:
        node = ["mnexec", "-a", str(self._asked.wanted[command.window].pid)]
        env = {**self._task.env, "TERM": command.kind}
        return self._processes.start(SCRIPT, [*node, *argv], env, self._task.folder, name=WINDOW, streams=streams)


def main() -> None:
    """The job. Whatever ends it early is raised as a Refused."""
    folder, key_file = map(Path, sys.argv[1:])
    channel = Channel(key_file)
    try:
        channel.say(run_script(read_task(folder), folder, channel))
    except Fault as fault:
        channel.say(Refused(type(fault).__name__, str(fault)))
    except Exception:  # noqa: BLE001 (the caller outside cannot see it otherwise)
        channel.say(Refused(InternalFault.__name__, traceback.format_exc()))


class MininetMachine(ProcessNamespace):
    """The namespaces that a script runs in. folder: the job's. Raises MachineFault if the kernel refuses any of it."""

    name = HOSTNAME

    def __init__(self, folder: Path, task: ScriptTask) -> None:
        super().__init__(lambda: _make_view(folder, task))

    def enter(self, folder: str) -> None:
        """Moves the calling process there, into a folder. For one that is about to become a program."""
        for kind, flag in (("uts", NEW_HOSTNAME), ("mnt", NEW_MOUNTS)):
            enter(f"{self.namespaces}/{kind}", flag)
        os.chdir(folder)
        become_a_program()


def install(task: ScriptTask) -> None:
    """Puts the changed copy of Mininet and the programs that it calls in their places."""
    MODULES.mkdir(parents=True)
    copy_changed(Path(task.mininet), MODULES)
    shutil.copy(START, MODULES.parent / START.name)
    PROGRAMS.mkdir()
    for name, text in programs(task.own_python, task.own_path).items():
        file_of = PROGRAMS / name
        file_of.write_text(text)
        file_of.chmod(0o755)


def _make_view(job: Path, task: ScriptTask) -> None:
    """Makes the script's view of the file system, in its first process, which from then on reaps what others leave."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    unshare(NEW_MOUNTS | NEW_HOSTNAME, "give a script separate mounts")
    mount("none", "/", "", RECURSIVE | PRIVATE)
    socket.sethostname(HOSTNAME)
    mount("proc", "/proc", "proc")
    _make_temporary(job / TEMPORARY, task.seen)
    cover([*task.covered, str(job)])
    protect(judging_folders())


def _make_temporary(own: Path, seen: Sequence[str]) -> None:
    """A /tmp that nobody else uses, in which the script's own folders are where they were."""
    kept = {Path(folder): os.open(folder, os.O_PATH) for folder in seen}
    mount(str(own), "/tmp", "", BIND)
    for folder, descriptor in kept.items():
        folder.mkdir(parents=True, exist_ok=True)
        mount(f"/proc/self/fd/{descriptor}", str(folder), "", BIND)
        os.close(descriptor)


if __name__ == "__main__":
    main()
