"""Linux's namespaces and mounts, for what programs run in: made, entered, and held by a sleeping process.

What is mounted there tells hosts how to find each other by name, and scripts how to find this package.
"""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path

from gradwire import PACKAGE
from gradwire.faults import MachineFault
from gradwire.inside.program_protocol import FOLDER, PYTHON_FOLDER
from gradwire.network.fabric import Fabric
from gradwire.network.ipv6 import host_ip6

NEW_MOUNTS, NEW_HOSTNAME, NEW_PIDS, NEW_NETWORK = 0x00020000, 0x04000000, 0x20000000, 0x40000000
"""CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWPID, CLONE_NEWNET (linux/sched.h)."""
MOUNTS, READ_ONLY, NO_DEVICES, REMOUNT, BIND = 0, 0x1, 0x4, 0x20, 0x1000
"""No flag, MS_RDONLY, MS_NODEV, MS_REMOUNT, MS_BIND (linux/mount.h)."""
ADDRESS_CHOICE = Path("/etc/gai.conf")
"""Says to the C library of GNU which of several addresses of a name come first (gai.conf(5))."""
IPV4_FIRST = "precedence ::ffff:0:0/96 100\n"
_libc = ctypes.CDLL(None, use_errno=True)


def unshare(flags: int, action: str) -> None:
    """unshare(2). Raises MachineFault with what it was for."""
    _check(_libc.unshare(flags), action)


def enter(namespace: int | str, flag: int) -> None:
    """Moves the calling thread into a namespace, by its descriptor or by a path in /proc. Raises MachineFault."""
    opened = namespace if isinstance(namespace, int) else os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _check(_libc.setns(opened, flag), f"enter {namespace}")
    finally:
        if opened is not namespace:
            os.close(opened)


def mount(source: str, target: str, kind: str, flags: int = MOUNTS, options: str = "") -> None:
    """mount(2). Raises MachineFault."""
    _check(
        _libc.mount(source.encode(), target.encode(), kind.encode(), flags, options.encode() or None),
        f"mount {kind or source} on {target}",
    )


def set_of_process(option: int, value: int, action: str) -> None:
    """prctl(2) with one argument. Raises MachineFault with what it was for."""
    _check(_libc.prctl(option, value, 0, 0, 0), action)


def held(make: Callable[[], None]) -> int:
    """A process that has done `make` and then sleeps for good; its id. Raises MachineFault with what `make` raised."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            make()
            os.close(write_end)
        except BaseException as fault:  # noqa: BLE001 (a forked copy must not go on as its parent would)
            os.write(write_end, str(fault).encode())
            os._exit(1)
        while True:
            signal.pause()
    os.close(write_end)
    with os.fdopen(read_end) as said:
        trouble = said.read()
    if trouble:
        os.waitpid(pid, 0)
        raise MachineFault(trouble)
    return pid


def end_held(pid: int) -> None:
    """Ends a process of `held`, and waits until it is gone."""
    try:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    except (ProcessLookupError, ChildProcessError):
        pass


def _check(status: int, action: str) -> None:
    if status:
        raise MachineFault(f"cannot {action}: {os.strerror(ctypes.get_errno())}")


def name_hosts(fabric: Fabric, host_names: Sequence[str] = ()) -> None:
    """Lets all hosts find each other by name; the machine's own file stays as it is. Raises MachineFault.

    And lets scripts find this package, for gradwire.devices.
    """
    FOLDER.mkdir(exist_ok=True)
    PYTHON_FOLDER.mkdir(exist_ok=True)
    (PYTHON_FOLDER / PACKAGE.name).symlink_to(PACKAGE)
    names = FOLDER / "etc-hosts"
    prefers_ipv4 = ADDRESS_CHOICE.exists()
    names.write_text(names_of_hosts(fabric, prefers_ipv4=prefers_ipv4, host_names=host_names))
    mount(str(names), "/etc/hosts", "", BIND)
    if prefers_ipv4:
        choice = FOLDER / "etc-gai.conf"
        choice.write_text(IPV4_FIRST)
        mount(str(choice), str(ADDRESS_CHOICE), "", BIND)


def names_of_hosts(fabric: Fabric, *, prefers_ipv4: bool, host_names: Sequence[str] = ()) -> str:
    """The text of /etc/hosts: each host by its name, and its IPv6 address by "ip6-" and its name besides.

    prefers_ipv4: whether who takes either address gets the IPv4 one first. Otherwise IPv6 addresses have the second name
    alone, for a program must not take another protocol than it had before. host_names: by default the fabric's.
    """
    hosts = list(enumerate(host_names or fabric.host_names()))
    lines = ["127.0.0.1 localhost", *(f"{fabric.host_ip(index)} {name}" for index, name in hosts)]
    if fabric.ipv6:
        lines.append("::1 localhost ip6-localhost" if prefers_ipv4 else "::1 ip6-localhost")
        lines += [
            f"{host_ip6(i)} {name} ip6-{name}" if prefers_ipv4 else f"{host_ip6(i)} ip6-{name}" for i, name in hosts
        ]
    return "\n".join([*lines, ""])
