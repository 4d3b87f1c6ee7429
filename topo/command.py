"""Runs the network's command-line tools and sets kernel parameters; a failure raises MachineFault with the tool's own words.

Both act on the network namespace that the caller is in. A new process costs tens of milliseconds in the virtual-time kernel, so callers
batch their work into one process per namespace, and enter the namespace themselves (gradwire/network_namespace.py) instead of running
`ip netns exec` or `nsenter`.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from gradwire.faults import MachineFault

TIMEOUT_S = 60.0


def run(command: Sequence[str], text: str = "") -> str:
    """Runs `command` with `text` on its standard input; returns its standard output.

    Raises MachineFault, with the command and its standard error, if the command is missing, fails, or hangs for a minute.
    """
    result = attempt(command, text)
    if result.returncode:
        raise MachineFault(f"`{' '.join(command)}` failed with {result.returncode}: {_complaint(result.stderr, text)}")
    return result.stdout


def attempt(command: Sequence[str], text: str = "") -> subprocess.CompletedProcess[str]:
    """Like `run`, but leaves a failure to the caller. Raises MachineFault if the command is missing or hangs."""
    try:
        return subprocess.run(command, input=text, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except FileNotFoundError as missing:
        raise MachineFault(f"program {command[0]} is missing; `gradwire doctor` names the package") from missing
    except subprocess.TimeoutExpired as hung:
        raise MachineFault(f"`{' '.join(command)}` gave no answer for {TIMEOUT_S:.0f} s") from hung


def write_sysctl(name: str, value: str) -> None:
    """Sets a kernel parameter ("net/ipv4/tcp_rmem") in the caller's network namespace. Raises MachineFault if that fails."""
    path = Path("/proc/sys") / name
    try:
        path.write_text(value)
    except OSError as refused:
        raise MachineFault(f"cannot write {value!r} to {path}: {refused.strerror}") from refused


def _complaint(stderr: str, text: str) -> str:
    """The tool's own words, with the batch line that they mean, of which tc and ip give only the number ("Command failed -:3")."""
    words = stderr.strip()
    number = words.rpartition("Command failed -:")[2]
    if not number.isdigit() or not text:
        return words
    return f"{words} ({text.splitlines()[int(number) - 1]!r})"
