"""The machine as a Mininet script sees it: it is root there, with the switches, and separate processes and temporary files.

A script makes namespaces, devices and switches, so it keeps all capabilities, and it is not kept from the kernel that it runs
in. To the machine outside it has its caller's rights, as every program that the caller starts.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
from collections.abc import Sequence
from pathlib import Path

from gradwire.programs.inside.host import become_a_program
from gradwire.programs.inside.namespaces import BIND, NEW_HOSTNAME, NEW_MOUNTS, enter, mount, unshare
from gradwire.programs.inside.sandbox import ProcessNamespace, cover
from gradwire.programs.stock_mininet.copy import copy_changed
from gradwire.programs.stock_mininet.task import MODULES, PROGRAMS, TEMPORARY, ScriptTask
from gradwire.programs.stock_mininet.tools import programs

HOSTNAME = "mininet"
START = Path(__file__).parent.parent / "stock_mininet" / "start.py"
RECURSIVE, PRIVATE = 0x4000, 0x40000
"""MS_REC and MS_PRIVATE (linux/mount.h)."""


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
