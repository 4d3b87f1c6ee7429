"""A job in the virtual-time kernel that is run from beginning to end: its lines are passed on, and its exit status is
returned. vm/session.py has jobs that are talked with while they run."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from gradwire.faults import UnfitMachine
from gradwire.files import refuse_full_disk
from gradwire.vm.kernel_death import DeathCause, KernelFault, last_words
from gradwire.vm.kernel_source import agent_in
from gradwire.vm.machine import BOX_NAME, JOB_FOLDER, ONE_WAY, Boot, Terminal, booted, whole_kernel
from gradwire.vm.streaming import pipe

AGENT_FILE = "agent.so"
COMPILED_AGENT = f"{JOB_FOLDER}/{BOX_NAME}/{AGENT_FILE}"
"""Path inside the kernel of the compiled agent, if the kernel's file has one."""
TIME_LIMIT = "time limit"
"""Name of the cause that is not a fault of the kernel's."""


def run_virtual(
    boot: Boot, *, time_limit_s: float, on_line: Callable[[str], None], stop: threading.Event | None = None
) -> int:
    """Boots a kernel for one job; returns the job's exit status (128 + n after signal n).

    time_limit_s: limit in wall seconds. on_line: called with each line of the job's output (stdout and stderr) as it
    arrives. stop: ends the run early when another thread sets it. Raises what `booted` and `BootedKernel.follow` raise, and
    KernelFault if the time limit is reached.
    """
    kernel, token = whole_kernel(boot.kernel), secrets.token_hex(16)
    boot = replace(boot, kernel=kernel, token=token)
    agent, output = agent_in(kernel), TokenWatch(token, on_line)
    with (
        pipe() as (near_fd, far_end),
        booted(boot, Terminal(ONE_WAY, near_fd, far_end), {AGENT_FILE: agent} if agent else {}) as job,
    ):
        if not job.follow(output.take, finished=lambda: output.seen, time_limit_s=time_limit_s, stop=stop):
            raise _time_over(time_limit_s, job.console.lines)
        return _noted_status(job.status_file)


def _noted_status(file: Path) -> int:
    """The job's exit status, which the kernel's first process has noted. Raises UnfitMachine if it could not be."""
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    if text.strip().isdigit():
        return int(text)
    folder = file.parent.parent
    refuse_full_disk(folder)
    raise UnfitMachine(
        f"{folder}: what the kernel wrote there has not arrived ({file.name} has {len(text)} bytes); see whether its "
        "disk fails (`dmesg`), and give the command again"
    )


class TokenWatch:
    """Passes lines on until the token that the kernel's first process writes after the job's last line."""

    def __init__(self, token: str, take: Callable[[str], None]) -> None:
        self._token = token
        self._take = take
        self.seen = False

    def take(self, line: str) -> None:
        """Takes one line. The line that ends in the token is the last; it may begin with the job's unfinished line."""
        if self.seen:
            return
        if line.endswith(self._token):
            self.seen = True
            line = line.removesuffix(self._token)
            if not line:
                return
        self._take(line)


def _time_over(time_limit_s: float, console: Sequence[str]) -> KernelFault:
    cause = DeathCause(
        TIME_LIMIT,
        f"it reached its limit of {time_limit_s:g} s of wall time",
        "give it more (`--set run.time_limit=...`), or keep other work off the machine",
    )
    return KernelFault("the run was ended", cause, last_words(console))
