"""Gives commands to gradwire as a user does, each in a process of its own, which need not import everything anew."""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path

from gradwire import PACKAGE

WALL_LIMIT_S = 300.0
"""More than any run of the tests takes on a busy machine."""


class _Server:
    """`tests/shared/command_server.py`, begun when it is needed first."""

    def __init__(self, prefix: tuple[str, ...]) -> None:
        root = PACKAGE.parent
        self._process = subprocess.Popen(
            [*prefix, sys.executable, "-m", "tests.shared.command_server"],
            cwd=root,
            env={**os.environ, "PYTHONPATH": str(root)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        atexit.register(self.end)

    def end(self) -> None:
        """Ends the server, which ends when nothing more can be asked."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def carry_out(self, request: dict[str, object], limit_s: float) -> tuple[int, bool]:
        """The status of a command, and whether it was killed because it took too long."""
        assert self._process.stdin is not None
        print(json.dumps(request), file=self._process.stdin, flush=True)
        pid = int(self._answer())
        late = threading.Event()

        def kill() -> None:
            late.set()
            os.kill(pid, signal.SIGKILL)

        timer = threading.Timer(limit_s, kill)
        timer.start()
        status = int(self._answer())
        timer.cancel()
        return status, late.is_set()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise AssertionError(f"the server of commands ended with status {self._process.wait()}")
        return line


_servers: dict[tuple[str, ...], _Server] = {}
_CACHE = os.environ.get("GRADWIRE_CACHE")


def gradwire_command(
    *words: str,
    cwd: Path = PACKAGE.parent,
    env: Mapping[str, str] | None = None,
    typed: str = "",
    limit_s: float = WALL_LIMIT_S,
    prefix: tuple[str, ...] = (),
    gone: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Runs `gradwire WORDS` with this process's environment and what `env` adds, and says what it wrote and its status.

    `prefix` is a command that starts Python for it, with fewer rights for instance. If `gone`, the empty folder `cwd` is removed once the
    command is in it.
    """
    known = {**os.environ, "PYTHONPATH": str(PACKAGE.parent), **(env or {})}
    assert known.get("GRADWIRE_CACHE") == _CACHE, "a cache of its own needs a process that starts with it"
    if prefix not in _servers:
        _servers[prefix] = _Server(prefix)
    with tempfile.TemporaryDirectory(prefix="gradwire-command-") as streams:
        for name in ("in", "out", "err"):
            Path(streams, name).write_text(typed if name == "in" else "")
        request: dict[str, object] = {"words": words, "cwd": str(cwd), "env": known, "streams": streams, "gone": gone}
        status, late = _servers[prefix].carry_out(request, limit_s)
        out, err = (Path(streams, name).read_text() for name in ("out", "err"))
    if late:
        raise subprocess.TimeoutExpired(["gradwire", *words], limit_s, out, err)
    return subprocess.CompletedProcess(["gradwire", *words], status, out, err)
