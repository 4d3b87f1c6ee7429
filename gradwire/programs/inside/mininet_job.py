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
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from gradwire.faults import Fault, InternalFault
from gradwire.programs.inside.channel import Channel
from gradwire.programs.inside.host import become_a_program
from gradwire.programs.inside.kernel_messages import killed_for_memory
from gradwire.programs.inside.namespaces import BIND, NEW_HOSTNAME, NEW_MOUNTS, enter, mount, unshare
from gradwire.programs.inside.processes import STDOUT, Processes, Running, Streams
from gradwire.programs.inside.sandbox import ProcessNamespace, cover
from gradwire.programs.program_protocol import FOLDER, Asked, Given, Interrupt, Refused, ScriptReport
from gradwire.programs.stock_mininet.task import INPUT, MODULES, PROGRAMS, TEMPORARY, ScriptTask, read_task
from gradwire.programs.stock_mininet.tools import copy_changed, programs

SCRIPT = 0
"""In the place of a host's index: there is one program."""
UNKILLABLE = "-1000"
HOSTNAME = "mininet"
START = Path(__file__).parent.parent / "stock_mininet" / "start.py"
RECURSIVE, PRIVATE = 0x4000, 0x40000
"""MS_REC and MS_PRIVATE (linux/mount.h)."""


class Input:
    """Answers a script that asks for lines. Meanwhile nothing else happens, and no virtual time passes."""

    def __init__(self, processes: Processes, channel: Channel) -> None:
        self._processes, self._channel = processes, channel
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(INPUT))
        self._listening.listen()
        processes.watch(self._listening.fileno(), self._accept)

    def _accept(self) -> None:
        asker, _ = self._listening.accept()
        self._processes.watch(asker.fileno(), lambda: self._answer(asker))

    def _answer(self, asker: socket.socket) -> None:
        if not asker.recv(1):
            self._processes.unwatch(asker.fileno())
            asker.close()
            return
        self._processes.pass_on_what_is_there()
        self._channel.say(Asked())
        while not isinstance(command := self._channel.next(), Given | Interrupt):
            pass
        line = command.line.decode(errors="replace") if isinstance(command, Given) else None
        with suppress(OSError):  # the script is gone
            asker.sendall(json.dumps(line).encode() + b"\n")


def run_script(task: ScriptTask, folder: Path, channel: Channel) -> ScriptReport:
    """Runs the script, and ends all that it has started. Raises a Fault."""
    Path("/proc/self/oom_score_adj").write_text(UNKILLABLE)
    FOLDER.mkdir()
    install(task)
    machine = MininetMachine(folder, task)
    killed_before = killed_for_memory()
    processes = Processes([machine], machine, channel, task.output_limit_bytes)
    Input(processes, channel)
    begin_s = time.monotonic()
    silent, _held = os.pipe()  # never readable: its other end stays open, and nobody writes to it
    argv = [task.python, str(FOLDER / START.name), str(INPUT), task.script, *task.arguments]
    program = processes.start(SCRIPT, argv, task.env, task.folder, streams=_streams(silent, one=task.one_output))
    processes.follow(
        lambda: program.status is not None,
        deadline_s=begin_s + task.time_limit_s,
        on_interrupt=_interrupting(program),
    )
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


def _interrupting(program: Running) -> Callable[[], None]:
    """What Ctrl-C does to a script: the first asks it to end, a second one ends it."""
    signals = iter([signal.SIGINT])
    return lambda: program.signal(next(signals, signal.SIGKILL))


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
