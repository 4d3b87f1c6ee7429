"""A terminal that is typed into as a person does."""

from __future__ import annotations

import os
import pty
import select
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.end_to_end.programs.running import ENVIRONMENT, INTERRUPTIBLE

LIMIT_S = 120.0
INTERRUPT, END_OF_INPUT = b"\x03", b"\x04"


@contextmanager
def terminal_with(folder: Path, words: Sequence[str], prompt: str) -> Iterator[Typist]:
    """A terminal at whose prompt a command has come, and which is gone afterwards."""
    typist = Typist(folder, words, prompt)
    typist.until(prompt)
    yield typist
    try:
        os.kill(typist.pid, signal.SIGKILL)
        os.waitpid(typist.pid, 0)
    except (ProcessLookupError, ChildProcessError):
        pass


class Typist:
    """A terminal with a command in it that prompts. prompt: with which its prompt ends."""

    def __init__(self, folder: Path, words: Sequence[str], prompt: str) -> None:
        self.folder, self._prompt = folder, prompt
        environment = {**ENVIRONMENT, "TMPDIR": str(folder), "TERM": "dumb"}
        self.pid, self._terminal = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            os.execve(sys.executable, [*INTERRUPTIBLE, *words], environment)

    def until(self, mark: str, *, at_end: bool = True) -> str:
        """What comes up to a mark; at_end: after which nothing comes for now."""
        seen, end_s = "", time.monotonic() + LIMIT_S
        while not (seen.endswith(mark) if at_end else mark in seen):
            assert time.monotonic() < end_s, seen
            if select.select([self._terminal], [], [], 1.0)[0]:
                seen += os.read(self._terminal, 65536).decode()
        return seen.replace("\r\n", "\n")

    def answers(self, limit_s: float) -> bool:
        """Whether anything comes."""
        return bool(select.select([self._terminal], [], [], limit_s)[0])

    def press(self, keys: bytes) -> None:
        """Types without waiting."""
        os.write(self._terminal, keys)

    def ask(self, line: str) -> str:
        """What a line answers."""
        self.press(line.encode() + b"\n")
        return self.until(self._prompt).removeprefix(f"{line}\n").removesuffix(self._prompt)

    def virtual_s(self) -> float:
        """The virtual clock."""
        return float(self.ask("py __import__('time').monotonic()").split()[0])

    def status(self) -> int:
        """The shell's exit status, once it has ended."""
        end_s = time.monotonic() + LIMIT_S
        while time.monotonic() < end_s:
            try:
                if not select.select([self._terminal], [], [], 1.0)[0] or os.read(self._terminal, 65536):
                    continue
            except OSError:  # nobody has the terminal open any more
                pass
            return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        raise AssertionError("the shell did not end")

    def hang_up(self) -> None:
        """Closes the window."""
        os.close(self._terminal)
