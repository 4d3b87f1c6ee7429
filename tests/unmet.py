"""What a test may be skipped for: only what no user can install. Everything else that a test needs is in the Makefile's lists."""

from __future__ import annotations

import os
import socket
import stat
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from gradwire.agents.connections import mark
from gradwire.faults import MachineFault
from gradwire.network.fabric import CONTROL_BAND
from gradwire.network_namespace import fresh_network_namespace
from tests.shared.rccl import FOLDER_VARIABLE, has_rccl


@dataclass(frozen=True)
class Need:
    """Something that a user, a processor or a container has or has not. A test says so by the marker of this name."""

    #: Whether it is there.
    is_met: Callable[[], bool]
    #: What the end of a run says of the tests that were skipped.
    reason: str


def may_make_namespaces() -> bool:
    """Whether this process may make and enter a network namespace."""
    try:
        with fresh_network_namespace():
            return True
    except MachineFault:
        return False


def may_prioritise() -> bool:
    """Whether this process may give a socket the priority of the control band."""
    with socket.socket() as tried:
        try:
            mark(tried, CONTROL_BAND)
        except PermissionError:
            return False
        return True


def may_make_devices() -> bool:
    """Whether this process may make a device node."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            os.mknod(f"{folder}/zero", stat.S_IFCHR | 0o666, os.makedev(1, 5))
        except PermissionError:
            return False
        return True


NEEDS = {
    "root": Need(lambda: os.geteuid() == 0, "needs root: `make test-root`"),
    "ordinary_user": Need(lambda: os.geteuid() != 0, "is about an ordinary user, and this is root"),
    "namespaces": Need(may_make_namespaces, "needs CAP_SYS_ADMIN, to make network namespaces: `make test-root`"),
    "net_admin": Need(may_prioritise, "needs CAP_NET_ADMIN, for sockets before all others: `make test-root`"),
    "devices": Need(may_make_devices, "needs CAP_MKNOD, to make device nodes: `make test-root`"),
    "avx": Need(lambda: " avx " in Path("/proc/cpuinfo").read_text(), "needs a processor with AVX registers"),
    "rccl": Need(
        has_rccl,
        f"needs RCCL 2.13: Debian 13's librccl1, or its packages unpacked in a folder that {FOLDER_VARIABLE} names",
    ),
}
"""By marker. Nothing else skips a test: tests/conftest.py fails one that is skipped for another reason."""


@cache
def is_met(name: str) -> bool:
    """Whether a need is met here, looked at once."""
    return NEEDS[name].is_met()
