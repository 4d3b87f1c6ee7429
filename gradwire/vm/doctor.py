"""Checks what this machine has and lacks for gradwire, with a command that fixes each problem. Changes nothing, boots
nothing."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gradwire.datatypes.machine_size import DEFAULT_MEMORY_MB
from gradwire.faults import Fault, InputFault
from gradwire.vm.host import NAMESPACES, SCHEMA
from gradwire.vm.kernel import cache_folder, cached_kernel
from gradwire.vm.kernel_source import (
    BUILD_ROOM_MB,
    SOURCE_VARIABLE,
    find_source,
    missing_tools,
    note_of,
    source_damage,
)
from gradwire.vm.memory_addresses import fixed_addresses
from gradwire.vm.memory_folders import memory_folders, memory_remedy, room_for_memory_mb, room_seen
from gradwire.vm.packages import install_command, source_remedy
from gradwire.vm.trial import kernel_file_damage

MIB = 1 << 20

PROGRAMS = ("tc", "ip", "setpriv", "taskset", "bash")
"""Programs that a run calls."""

WALL_PROGRAMS = ("ethtool", "unshare", "chrt")
"""Programs that only runs on the wall clock call."""

TEST_PROGRAMS = ("tshark",)
"""Programs that only tests call; tshark brings the part of Wireshark that gradwire's dissector needs."""

RDMA_PROGRAMS = ("rdma", "ibv_devices", "ib_write_bw")
"""rdma gives hosts RDMA devices; with the others come the libraries that programs use them by, and perftest."""

PACKAGES = (
    "numpy",
    "scipy",
    "pydantic",
    "typer",
    "rich",
    "matplotlib",
    "mininet",
    "os_ken",
    "scapy",
    "jinja2",
    "msgspec",
    "filelock",
)

WALL_PROBES: Mapping[str, tuple[list[str], str]] = {
    "openvswitch": (
        ["ovs-dpctl", "add-dp", "gradwire-probe"],
        "without it, runs use Open vSwitch's slower userspace datapath",
    ),
    "sch_htb": (["tc", "qdisc", "add", "dev", "lo", "root", "handle", "1:", "htb"], "without it, no rate can be set"),
    "sch_prio": (
        ["tc", "qdisc", "add", "dev", "lo", "root", "handle", "1:", "prio"],
        "without it, runs use HTB's class priorities",
    ),
}
"""Features of the machine's own kernel: a command that works only with the feature, and the consequence of lacking
it."""


PRIVILEGES = "give root all its capabilities: a container needs --privileged"


@dataclass(frozen=True)
class Diagnosis:
    """The state of one thing that gradwire needs."""

    #: What was checked.
    name: str
    #: Whether it is there and works.
    ok: bool
    #: What was seen.
    detail: str
    #: Command that fixes it; "" if nothing is wrong.
    mend: str = ""
    #: False for what only tests, only `--clock wall` or only a first build needs.
    required: bool = True


def diagnose() -> list[Diagnosis]:
    """Checks all that a run needs, in the order in which to fix it. Missing things are findings, not exceptions."""
    return [
        machine_finding(platform.machine(), len(os.sched_getaffinity(0))),
        *packages_findings(lambda name: importlib.util.find_spec(name) is not None),
        *program_findings(find_program, PROGRAMS),
        openvswitch_finding(find_program, SCHEMA),
        *kernel_findings(),
        memory_finding({folder: room_for_memory_mb(folder) for folder in memory_folders()}),
        addresses_finding(are_fixed=bool(fixed_addresses())),
        *program_findings(find_program, TEST_PROGRAMS, only_for="tests"),
        *program_findings(find_program, RDMA_PROGRAMS, only_for="fabric.rdma"),
        *program_findings(find_program, WALL_PROGRAMS, only_for="--clock wall"),
        *wall_findings(os.geteuid() == 0),
    ]


def find_program(name: str) -> str | None:
    """Path of a program. Searches sbin too: it is on the PATH of root in the virtual-time kernel, but not of ordinary
    users."""
    return shutil.which(name, path=f"{os.environ['PATH']}:/usr/local/sbin:/usr/sbin:/sbin")


def machine_finding(architecture: str, cpus: int) -> Diagnosis:
    """Checks that this is an x86-64 machine, and says how many points run side by side."""
    ok = architecture == "x86_64"
    mend = "" if ok else "use an x86-64 machine, or --clock wall"
    return Diagnosis("machine", ok, f"{architecture}, {cpus} CPUs: up to {cpus} points side by side", mend)


def addresses_finding(*, are_fixed: bool) -> Diagnosis:
    """Reports whether a kernel's memory has the same addresses in each run (vm/memory_addresses.py); its absence is no
    error."""
    if are_fixed:
        return Diagnosis("addresses", True, "a kernel's memory has the same addresses in each run")
    return Diagnosis(
        "addresses",
        False,
        "the machine chooses a kernel's addresses at random: what programs see of the memory does not repeat",
        "install setarch (util-linux) and allow personality(2): a container needs --security-opt seccomp=unconfined",
        required=False,
    )


def packages_findings(importable: Callable[[str], bool]) -> list[Diagnosis]:
    """One finding for all Python packages if they are installed, otherwise one per missing package."""
    missing = [name for name in PACKAGES if not importable(name)]
    if not missing:
        return [Diagnosis("Python packages", True, f"Python {platform.python_version()}, all {len(PACKAGES)} import")]
    return [Diagnosis(f"Python package {name}", False, "cannot be imported", "make setup") for name in missing]


def program_findings(
    which: Callable[[str], str | None], programs: Sequence[str], *, only_for: str = ""
) -> list[Diagnosis]:
    """One finding per program. `only_for` names the caller of programs that no run on the virtual clock calls."""
    findings = []
    for program in programs:
        path = which(program)
        mend = "" if path else install_command(program)
        missing = f"not on the PATH (only for {only_for})" if only_for else "not on the PATH"
        findings.append(Diagnosis(program, path is not None, path or missing, mend, required=not only_for))
    return findings


def openvswitch_finding(which: Callable[[str], str | None], schema: Path) -> Diagnosis:
    """Open vSwitch's daemons, its tools and its database schema."""
    programs = ("ovs-vswitchd", "ovsdb-server", "ovsdb-tool", "ovs-vsctl", "ovs-ofctl")
    missing = [name for name in programs if which(name) is None] + ([] if schema.exists() else [str(schema)])
    if missing:
        return Diagnosis("Open vSwitch", False, f"missing: {', '.join(missing)}", install_command("openvswitch"))
    return Diagnosis("Open vSwitch", True, str(which("ovs-vswitchd")))


def kernel_findings() -> list[Diagnosis]:
    """The cached virtual-time kernel, and the source, tools and room to build it, which are required only if there is
    none."""
    try:
        kernel_source = find_source()
        damage = source_damage(kernel_source, cache_folder())
        source, source_fault = str(kernel_source.tarball), damage and f"{kernel_source.tarball}: is damaged: {damage}"
    except (Fault, OSError) as fault:
        source, source_fault = "", str(fault)
    try:
        kernel = cached_kernel()
    except InputFault:  # GRADWIRE_KERNEL_SOURCE is wrong, as source_fault says
        kernel = None
    found_kernel = kernel_finding(kernel)
    built = found_kernel.ok
    missing = missing_tools()
    source_mend = source_remedy(SOURCE_VARIABLE) if source_fault else ""
    room_mb = free_mb(cache_folder())
    enough_room = room_mb >= BUILD_ROOM_MB
    return [
        Diagnosis("kernel source", not source_fault, source_fault or source, source_mend, not built),
        Diagnosis(
            "build tools",
            not missing,
            f"missing: {', '.join(missing)}" if missing else "all there",
            install_command(*missing) if missing else "",
            not built,
        ),
        Diagnosis(
            "room to build",
            enough_room,
            f"{room_mb} MiB free in {cache_folder()}, {BUILD_ROOM_MB} needed",
            "" if enough_room else "free some, or set GRADWIRE_CACHE to a folder with room",
            not built,
        ),
        found_kernel,
    ]


def kernel_finding(kernel: Path | None) -> Diagnosis:
    """The kernel that runs boot, and whether its file is whole."""
    name = "virtual-time kernel"
    if kernel is None:
        return Diagnosis(name, False, "not built yet", "gradwire run builds it (some minutes), as does make setup")
    if damage := kernel_file_damage(kernel):
        return Diagnosis(name, False, damage.what, damage.remedy)
    noted = note_of(kernel).exists()
    return Diagnosis(
        name,
        True,
        f"{kernel}, {'with the content that it was built with' if noted else 'of which no content is noted'}",
    )


def free_mb(folder: Path) -> int:
    """Free MiB on the disk where `folder` is or will be."""
    existing = next(parent for parent in (folder, *folder.absolute().parents) if parent.exists())
    return shutil.disk_usage(existing).free // MIB


def memory_finding(rooms_mb: Mapping[Path, int]) -> Diagnosis:
    """The folder for the kernels' memory, and how many kernels at once it has room for."""
    folder, room_mb = next(((f, r) for f, r in rooms_mb.items() if r >= DEFAULT_MEMORY_MB), (None, 0))
    if folder is None:
        rooms = ", ".join(room_seen(f, r) for f, r in rooms_mb.items())
        return Diagnosis("kernel memory", False, rooms, memory_remedy(DEFAULT_MEMORY_MB))
    kernels = room_mb // DEFAULT_MEMORY_MB
    return Diagnosis(
        "kernel memory", True, f"{folder}: {room_mb} MiB, room for {kernels} kernels of {DEFAULT_MEMORY_MB} MiB"
    )


def wall_findings(root: bool) -> list[Diagnosis]:
    """Checks which parts of `--clock wall` work on this machine, by trying each in a network namespace that ends with
    the probe."""
    if not root:
        return [Diagnosis("wall clock", False, "--clock wall needs root", "run as root (only for --clock wall)", False)]
    apart = _works([*NAMESPACES, "true"])
    detail = "each run has its own" if apart else "cannot be made"
    findings = [Diagnosis("wall clock: namespaces", apart, detail, "" if apart else PRIVILEGES, False)]
    for part, (probe, meaning) in WALL_PROBES.items():
        ok = _works(["unshare", "--net", *probe])
        findings.append(
            Diagnosis(f"wall clock: {part}", ok, "works" if ok else meaning, "" if ok else f"modprobe {part}", False)
        )
    return findings


def _works(command: list[str]) -> bool:
    tried = next(word for word in command[1:] if not word.startswith("-"))
    if any(find_program(program) is None for program in (command[0], tried)):
        return False
    return subprocess.run(command, capture_output=True, check=False, timeout=10).returncode == 0
