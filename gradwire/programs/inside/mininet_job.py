"""Runs a Mininet script until it ends. `python -m gradwire.programs.inside.mininet_job FOLDER KEY`, inside the kernel.

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
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from gradwire.faults import Fault, InternalFault
from gradwire.programs.inside.channel import Channel
from gradwire.programs.inside.computation import charge_computation
from gradwire.programs.inside.host import become_a_program
from gradwire.programs.inside.kernel_messages import killed_for_memory
from gradwire.programs.inside.namespaces import BIND, NEW_HOSTNAME, NEW_MOUNTS, enter, mount, unshare
from gradwire.programs.inside.processes import READ_BYTES, STDOUT, Processes, Running, Streams
from gradwire.programs.inside.sandbox import ProcessNamespace, cover
from gradwire.programs.program_protocol import FOLDER, Asked, Given, Interrupt, Passed, Refused, ScriptReport, Typed
from gradwire.programs.stock_mininet.start import END_OF_INPUT, NOT_TYPED, TYPED
from gradwire.programs.stock_mininet.task import INPUT, MODULES, PROGRAMS, TEMPORARY, ScriptTask, read_task
from gradwire.programs.stock_mininet.tools import copy_changed, programs

SCRIPT = 0
"""In the place of a host's index: there is one program."""
UNKILLABLE = "-1000"
HOSTNAME = "mininet"
START = Path(__file__).parent.parent / "stock_mininet" / "start.py"
TICK_S = 0.5
"""Of virtual time, after which a person is asked whether more may pass."""
QUESTION_BYTES = 1 << 20
"""More than the words and lines that start.py sends."""
RECURSIVE, PRIVATE = 0x4000, 0x40000
"""MS_REC and MS_PRIVATE (linux/mount.h)."""


class Input:
    """Answers a script that asks for lines. Meanwhile nothing else happens, and no virtual time passes.

    stdin: what a person types without having been asked can be read there.
    """

    def __init__(self, processes: Processes, channel: Channel) -> None:
        self._processes, self._channel = processes, channel
        self.stdin, self._typed = os.pipe()
        os.set_blocking(self._typed, False)
        #: How many lines were asked for.
        self.count = 0
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(INPUT))
        self._listening.listen()
        processes.watch(self._listening.fileno(), self._accept)

    def _accept(self) -> None:
        asker, _ = self._listening.accept()
        self._processes.watch(asker.fileno(), lambda: self._answer(asker))

    def _answer(self, asker: socket.socket) -> None:
        question = _whole_line(asker)
        if not question:
            self._processes.unwatch(asker.fileno())
            asker.close()
            return
        self.count += 1
        self._processes.pass_on_what_is_there()
        self._channel.say(msgspec.json.decode(question, type=Asked))
        while not isinstance(command := self._channel.next(), Given | Interrupt):
            pass
        line = command.line.decode(errors="replace") if isinstance(command, Given) else None
        with suppress(OSError):  # the script is gone
            asker.sendall(json.dumps(line).encode() + b"\n")

    def let_pass(self) -> None:
        """Waits until the person wants time to pass, and passes on what they have typed. What nobody has read for long is
        dropped when the pipe is full."""
        self._channel.say(Passed(time.monotonic()))
        answer = self._channel.answer()
        if isinstance(answer, Typed):
            with suppress(BlockingIOError):
                os.write(self._typed, answer.data or END_OF_INPUT)


def _whole_line(asker: socket.socket) -> bytes:
    """A line of the script's; empty if it is gone, or writes what no such line is."""
    line = bytearray()
    while not line.endswith(b"\n"):
        part = asker.recv(READ_BYTES)
        if not part or len(line) > QUESTION_BYTES:
            return b""
        line += part
    return bytes(line)


def run_script(task: ScriptTask, folder: Path, channel: Channel) -> ScriptReport:
    """Runs the script, and ends all that it has started. Raises a Fault."""
    Path("/proc/self/oom_score_adj").write_text(UNKILLABLE)
    FOLDER.mkdir()
    install(task)
    machine = MininetMachine(folder, task)
    killed_before = killed_for_memory()
    processes = Processes([machine], machine, channel, task.output_limit_bytes)
    asked = Input(processes, channel)
    charge_computation(task.cpu_time)
    begin_s = time.monotonic()
    how = TYPED if task.typed else NOT_TYPED
    argv = [task.python, str(FOLDER / START.name), str(INPUT), how, task.script, *task.arguments]
    program = processes.start(SCRIPT, argv, task.env, task.folder, streams=_streams(asked.stdin, one=task.one_output))
    deadline_s, on_interrupt = begin_s + task.time_limit_s, _Interrupting(program, asked)
    while (now_s := time.monotonic()) < deadline_s:
        next_s = now_s + TICK_S if task.typed else deadline_s
        is_over = lambda: program.status is not None  # noqa: E731
        if processes.follow(is_over, deadline_s=min(next_s, deadline_s), on_interrupt=on_interrupt):
            break
        if task.typed:
            asked.let_pass()
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


class _Interrupting:
    """What Ctrl-C does to a script: the first asks it to end, a second one ends it, unless it has asked for a line in
    between."""

    def __init__(self, program: Running, asked: Input) -> None:
        self._program, self._asked, self._seen = program, asked, -1

    def __call__(self) -> None:
        number = signal.SIGKILL if self._seen == self._asked.count else signal.SIGINT
        self._seen = self._asked.count
        self._program.signal(number)


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
    """Where a script runs. folder: the job's. Raises MachineFault if the kernel refuses any of it."""

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
    """What the first process does; from then on it reaps what others leave."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    unshare(NEW_MOUNTS | NEW_HOSTNAME, "give a script separate mounts")
    mount("none", "/", "", RECURSIVE | PRIVATE)
    socket.sethostname(HOSTNAME)
    mount("proc", "/proc", "proc")
    _make_temporary(job / TEMPORARY, task.seen)
    cover([*task.covered, str(job)])


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
