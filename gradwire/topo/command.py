"""Runs the network's command-line tools and sets kernel parameters; a failure raises MachineFault with the tool's own
words.

Both act on the network namespace that the caller is in. A new process costs tens of milliseconds in the virtual-time
kernel, so callers batch their work into one process per namespace, and enter the namespace themselves
(gradwire/network_namespace.py) instead of running `ip netns exec` or `nsenter`.
"""

from __future__ import annotations

import os
import select
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from gradwire.faults import MachineFault

TIMEOUT_S = 60.0


def run(command: Sequence[str], text: str = "") -> str:
    """Runs `command` with `text` on its standard input; returns its standard output.

    Raises MachineFault, with the command and its standard error, if the command is missing, fails, or hangs for a
    minute.
    """
    return _checked(attempt(command, text), text)


def run_promptly(command: Sequence[str], text: str = "") -> None:
    """Like `run`, for a command in the middle of a replay, which writes less than a pipe holds.

    It returns when the command has ended. `subprocess` looks for that only now and then where it has a time limit,
    first after 1 ms, and by the virtual clock the network is replayed meanwhile.
    """
    try:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
    except FileNotFoundError as missing:
        raise _missing(command) from missing
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        with suppress(BrokenPipeError):  # it ended without reading; its status says whether that was right
            process.stdin.write(text)
            process.stdin.close()
        if not ends_within(process.pid, TIMEOUT_S):
            process.kill()
            raise _hung(command)
        written = process.stdout.read(), process.stderr.read()
    _checked(subprocess.CompletedProcess(command, process.returncode, *written), text)


def ends_within(pid: int, timeout_s: float) -> bool:
    """Waits until a child process has ended, whose status is then still to be read; False if it takes longer."""
    descriptor = os.pidfd_open(pid)
    try:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        return bool(poll.poll(timeout_s * 1e3))
    finally:
        os.close(descriptor)


def _checked(result: subprocess.CompletedProcess[str], text: str) -> str:
    if result.returncode:
        command = " ".join(result.args)
        raise MachineFault(f"`{command}` failed with {result.returncode}: {_complaint(result.stderr, text)}")
    return result.stdout


def _missing(command: Sequence[str]) -> MachineFault:
    return MachineFault(f"program {command[0]} is missing; `gradwire doctor` names the package")


def _hung(command: Sequence[str]) -> MachineFault:
    return MachineFault(f"`{' '.join(command)}` gave no answer for {TIMEOUT_S:.0f} s")


def attempt(command: Sequence[str], text: str = "") -> subprocess.CompletedProcess[str]:
    """Like `run`, but leaves a failure to the caller. Raises MachineFault if the command is missing or hangs."""
    try:
        return subprocess.run(command, input=text, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except FileNotFoundError as missing:
        raise _missing(command) from missing
    except subprocess.TimeoutExpired as hung:
        raise _hung(command) from hung


def write_sysctl(name: str, value: str) -> None:
    """Sets a kernel parameter ("net/ipv4/tcp_rmem") in the caller's network namespace. Raises MachineFault if that
    fails."""
    path = Path("/proc/sys") / name
    try:
        path.write_text(value)
    except OSError as refused:
        raise MachineFault(f"cannot write {value!r} to {path}: {refused.strerror}") from refused


def read_sysctl(name: str) -> str:
    """A kernel parameter in the caller's network namespace; "" for one that cannot be read."""
    try:
        return (Path("/proc/sys") / name).read_text()
    except OSError:
        return ""


def _complaint(stderr: str, text: str) -> str:
    """The tool's own words, with the batch line that they mean, of which tc and ip give only the number ("Command
    failed -:3")."""
    words = stderr.strip()
    number = words.rpartition("Command failed -:")[2]
    if not number.isdigit() or not text:
        return words
    return f"{words} ({text.splitlines()[int(number) - 1]!r})"
