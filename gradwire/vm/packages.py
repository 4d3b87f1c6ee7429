"""The packages that provide each program on the distributions that gradwire knows, and the commands that install
them."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from functools import lru_cache

INSTALLERS = {
    "debian": "apt-get install --no-install-recommends",
    "fedora": "dnf install",
    "arch": "pacman -S --needed",
}
"""Commands that install packages, by family of distributions."""

PACKAGES: Mapping[str, Mapping[str, str]] = {
    "bash": {},
    "bc": {},
    "bison": {},
    "ethtool": {},
    "flex": {},
    "ib_write_bw": {"": "perftest"},
    "ibv_devices": {"": "rdma-core", "debian": "ibverbs-utils ibverbs-providers", "fedora": "libibverbs-utils"},
    "gcc": {"debian": "gcc libc6-dev", "fedora": "gcc glibc-devel"},
    "ip": {"": "iproute2", "fedora": "iproute"},
    "make": {},
    "openvswitch": {"debian": "openvswitch-switch"},
    "patch": {},
    "rdma": {"": "iproute2", "fedora": "iproute"},
    "setpriv": {"": "util-linux"},
    "unshare": {"": "util-linux"},
    "chrt": {"": "util-linux"},
    "strip": {"": "binutils"},
    "tar": {},
    "taskset": {"": "util-linux"},
    "tc": {"": "iproute2", "fedora": "iproute-tc"},
    "tshark": {"": "wireshark-cli", "debian": "tshark"},
    "xz": {"debian": "xz-utils"},
}
"""Packages that provide a program (or component), by family. "" stands for all families not listed; the default is the
program's name."""

SOURCE_PACKAGE = "linux-source-6.12"
SOURCE_URL = "https://cdn.kernel.org/pub/linux/kernel/v6.x/linux-6.12.tar.xz"


@lru_cache
def family() -> str:
    """The family of this machine's distribution, a key of INSTALLERS; "" if it is unknown."""
    try:
        return family_of(platform.freedesktop_os_release())
    except OSError:
        return ""


def family_of(release: Mapping[str, str]) -> str:
    """The family according to an os-release file: its ID or, for derived distributions, its ID_LIKE."""
    names = [release.get("ID", ""), *release.get("ID_LIKE", "").split()]
    return next((name for name in names if name in INSTALLERS), "")


def install_command(*programs: str, of: str | None = None) -> str:
    """The command that installs programs of PACKAGES on this machine, or on the family `of`."""
    chosen = family() if of is None else of
    names = [PACKAGES[program].get(chosen, PACKAGES[program].get("", program)) for program in programs]
    packages = " ".join(dict.fromkeys(" ".join(names).split()))
    if chosen not in INSTALLERS:
        return f"install {packages} (the names differ between distributions)"
    return f"{INSTALLERS[chosen]} {packages}"


def source_remedy(variable: str, of: str | None = None, *, anew: bool = False) -> str:
    """Returns the instruction for getting the kernel's source: a package if there is one, else a download that the
    environment variable names.

    anew: whether it replaces one that is there.

    anew: in the place of one that is there.
    """
    if (family() if of is None else of) == "debian":
        return f"{INSTALLERS['debian']}{' --reinstall' if anew else ''} {SOURCE_PACKAGE}"
    return f"download {SOURCE_URL}, name it {SOURCE_PACKAGE}.tar.xz, and set {variable} to its path"
