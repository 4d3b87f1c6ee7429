"""Runs the network's command-line tools, in a network namespace of choice, and refuses to go on when one fails.

A new process costs tens of milliseconds in the virtual-time kernel, so callers batch their work into one process a namespace,
and the namespace is entered here (setns) and not by one more program.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from gradwire.faults import MachineFault

CLONE_NEWNET = 0x40000000
TIMEOUT_S = 60.0
_libc = ctypes.CDLL(None, use_errno=True)


@contextmanager
def network_namespace(pid: int) -> Iterator[None]:
    """Puts the calling thread, and what it starts, into the network namespace of process `pid` until the block ends.

    Raises MachineFault if the process is gone or we may not enter.
    """
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        _set_namespace(Path(f"/proc/{pid}/ns/net"))
        try:
            yield
        finally:
            _check(_libc.setns(home, CLONE_NEWNET), "go back to the first network namespace")
    finally:
        os.close(home)


@contextmanager
def fresh_network_namespace() -> Iterator[None]:
    """Puts the calling thread into a new, empty network namespace, which vanishes when the block ends."""
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        _check(_libc.unshare(CLONE_NEWNET), "make a network namespace (it needs root, or the virtual clock)")
        try:
            yield
        finally:
            _check(_libc.setns(home, CLONE_NEWNET), "go back to the first network namespace")
    finally:
        os.close(home)


def run(command: Sequence[str], text: str = "") -> str:
    """Runs `command` with `text` on its standard input; returns its standard output.

    Raises MachineFault with the command and what it wrote to standard error if it is missing, fails, or hangs for a minute.
    """
    result = attempt(command, text)
    if result.returncode:
        raise MachineFault(f"`{' '.join(command)}` failed with {result.returncode}: {_complaint(result.stderr, text)}")
    return result.stdout


def attempt(command: Sequence[str], text: str = "") -> subprocess.CompletedProcess[str]:
    """Like `run`, but a failing command is the caller's to judge. Raises MachineFault if it is missing or hangs."""
    try:
        return subprocess.run(command, input=text, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except FileNotFoundError as missing:
        raise MachineFault(f"program {command[0]} is missing; `gradwire doctor` names the package") from missing
    except subprocess.TimeoutExpired as hung:
        raise MachineFault(f"`{' '.join(command)}` gave no answer for {TIMEOUT_S:.0f} s") from hung


def write_sysctl(name: str, value: str) -> None:
    """Sets a kernel parameter ("net/ipv4/tcp_rmem") of the network namespace that the caller is in. Raises MachineFault."""
    path = Path("/proc/sys") / name
    try:
        path.write_text(value)
    except OSError as refused:
        raise MachineFault(f"cannot write {value!r} to {path}: {refused.strerror}") from refused


@contextmanager
def sysctl(name: str, value: str) -> Iterator[None]:
    """Sets a kernel parameter for the length of the block and puts back what was there. Raises MachineFault."""
    before = (Path("/proc/sys") / name).read_text().strip()
    write_sysctl(name, value)
    try:
        yield
    finally:
        write_sysctl(name, before)


def _set_namespace(path: Path) -> None:
    try:
        target = os.open(path, os.O_RDONLY)
    except OSError as gone:
        raise MachineFault(f"cannot open network namespace {path}: {gone.strerror}") from gone
    try:
        _check(_libc.setns(target, CLONE_NEWNET), f"enter network namespace {path}")
    finally:
        os.close(target)


def _check(status: int, deed: str) -> None:
    if status:
        raise MachineFault(f"cannot {deed}: {os.strerror(ctypes.get_errno())}")


def _complaint(stderr: str, text: str) -> str:
    """The tool's own words, with the batch line that it means: tc and ip only give its number ("Command failed -:3")."""
    words = stderr.strip()
    number = words.rpartition("Command failed -:")[2]
    if not number.isdigit() or not text:
        return words
    return f"{words} ({text.splitlines()[int(number) - 1]!r})"
