"""Enters Linux network namespaces, for the code that builds the network and the code that sends through it."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gradwire.faults import MachineFault

CLONE_NEWNET = 0x40000000
OWN_NAMESPACE = "/proc/thread-self/ns/net"
_libc = ctypes.CDLL(None, use_errno=True)


def namespace_of(pid: int) -> str:
    """Returns the /proc path of a process's network namespace."""
    return f"/proc/{pid}/ns/net"


@contextmanager
def network_namespace(path: str) -> Iterator[None]:
    """Moves the calling thread into the network namespace at a /proc path until the block ends.

    Sockets created inside belong to that namespace for good, and processes started inside live in it. Raises
    MachineFault if the namespace is gone or may not be entered.
    """
    try:
        target = os.open(path, os.O_RDONLY)
    except OSError as error:
        raise MachineFault(f"cannot open network namespace {path}: {error.strerror}") from error
    try:
        with _entered(
            lambda: _libc.setns(target, CLONE_NEWNET), f"enter network namespace {path} (it needs CAP_SYS_ADMIN)"
        ):
            yield
    finally:
        os.close(target)


@contextmanager
def fresh_network_namespace() -> Iterator[None]:
    """Moves the calling thread into a new, empty network namespace, which disappears when the block ends."""
    with _entered(
        lambda: _libc.unshare(CLONE_NEWNET), "make a network namespace (it needs root, or the virtual clock)"
    ):
        yield


@contextmanager
def _entered(enter: Callable[[], int], action: str) -> Iterator[None]:
    """Enters a namespace, and returns to the current one when the block ends. To return takes the same rights as to
    enter."""
    home = os.open(OWN_NAMESPACE, os.O_RDONLY)
    try:
        _check(enter(), action)
        try:
            yield
        finally:
            _check(_libc.setns(home, CLONE_NEWNET), "return to the original network namespace")
    finally:
        os.close(home)


def _check(status: int, action: str) -> None:
    if status:
        raise MachineFault(f"cannot {action}: {os.strerror(ctypes.get_errno())}")
