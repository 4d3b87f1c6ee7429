"""Runs `gradwire exec` in a process of its own, as a user does."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from gradwire import PACKAGE
from gradwire.datatypes.network_counts import NetworkCounts
from tests.shared.commands import gradwire_command

WALL_LIMIT_S = 300.0
"""More than any run here takes on a busy machine."""
END_LIMIT_S = 60.0
"""More than a process that is ending needs on a busy machine; one that was forgotten lives for ever."""
END_PERIOD_S = 0.02
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(PACKAGE.parent)}
GRADWIRE = (sys.executable, "-m", "gradwire")
_INTERRUPTIBLE = """
import runpy, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started the tests may have it ignored, as a shell does for `&`
sys.argv = ["gradwire", *sys.argv[1:]]
runpy.run_module("gradwire", run_name="__main__")
"""
INTERRUPTIBLE = (sys.executable, "-c", _INTERRUPTIBLE)
"""The same, for tests that press Ctrl-C."""


@dataclass(frozen=True)
class Executed:
    """A run that has ended."""

    status: int
    out: str
    err: str
    folder: Path

    def output(self, host: str, stream: str = "out") -> str:
        """What a host's program wrote."""
        return (self.folder / "output" / f"{host}.{stream}").read_text()

    def summary(self) -> dict[str, Any]:
        """The run's summary.json."""
        decoded: dict[str, Any] = msgspec.json.decode((self.folder / "summary.json").read_bytes())
        return decoded

    def counts(self) -> NetworkCounts:
        """What the network counted."""
        return counts_in(self.folder / "summary.json")


def counts_in(summary: Path) -> NetworkCounts:
    """The counts in a summary.json."""
    return msgspec.convert(msgspec.json.decode(summary.read_bytes())["report"]["counts"], NetworkCounts)


def execute(folder: Path, *words: str, wall_limit_s: float = WALL_LIMIT_S) -> Executed:
    """`gradwire exec WORDS` in a folder, with its run in folder/run."""
    done = gradwire_command("exec", "--out", "run", *words, cwd=folder, limit_s=wall_limit_s)
    return Executed(done.returncode, done.stdout, done.stderr, folder / "run")


def left_behind(folder: Path) -> list[int]:
    """Processes that were started in a folder or below it and do not end.

    A process whose last act somebody saw (a closed window, a byte at the end of a pipe) may still be on its way out.
    """
    gives_up_s = time.monotonic() + END_LIMIT_S
    while (found := _living(folder)) and time.monotonic() < gives_up_s:
        time.sleep(END_PERIOD_S)
    return found


def _living(folder: Path) -> list[int]:
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                place, state = (
                    (process / "cwd").readlink(),
                    (process / "stat").read_text().rpartition(")")[2].split()[0],
                )
            except OSError:
                continue
            if place.is_relative_to(folder) and state != "Z":
                found.append(int(process.name))
    return found
