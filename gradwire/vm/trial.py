"""Boots the virtual-time kernel once on trial, so that a problem of all points is reported before the first, with its
remedy."""

from __future__ import annotations

import os
import struct
import time
from pathlib import Path

from gradwire.faults import MachineFault
from gradwire.vm.batch_job import TIME_LIMIT, run_virtual
from gradwire.vm.kernel import renewal
from gradwire.vm.kernel_death import NESTED, DeathCause, KernelFault, Surroundings, unless_stopped
from gradwire.vm.kernel_source import agent_in
from gradwire.vm.machine import Boot, content_damage
from gradwire.vm.owners import temporary_folder
from gradwire.vm.packages import install_command

HEADLINE = "the virtual-time kernel does not run here"
TRIAL_LIMIT_S = 60.0
"""Wall time, some hundred times as long as a boot takes."""
SMALL_MEMORY_MB = 256
X86_64 = 62
ELF_HEADER = struct.Struct("<4sBB10xHHIQQQIHHHHHH")
ELF_SEGMENT = struct.Struct("<IIQQQQQQ")


def try_kernel(
    kernel: Path,
    memory_mb: int = SMALL_MEMORY_MB,
    *,
    openvswitch: bool = True,
    time_limit_s: float = TRIAL_LIMIT_S,
) -> float:
    """Boots `kernel` once, as for a point but with a job that does nothing; returns the wall seconds that it took.

    memory_mb: memory of the kernel; the points' own value checks that there is room for them.
    openvswitch: whether to start Open vSwitch too.

    Raises KernelFault with cause and remedy if the kernel does not run, MachineFault if there is no room or the
    machine lacks a program.
    """
    damage = kernel_file_damage(kernel)
    if damage is not None:
        raise KernelFault(HEADLINE, damage)
    begin_s = time.monotonic()
    output: list[str] = []

    def boot() -> int:
        with temporary_folder() as folder:
            return run_virtual(
                Boot(
                    ["true"],
                    env={},
                    cpu=max(os.sched_getaffinity(0)),
                    memory_mb=memory_mb,
                    workdir=folder,
                    openvswitch=openvswitch,
                    kernel=kernel,
                ),
                time_limit_s=time_limit_s,
                on_line=output.append,
            )

    try:
        status, _ = unless_stopped(boot, output.clear)
    except KernelFault as fault:
        if fault.cause.name == TIME_LIMIT:
            fault = KernelFault(HEADLINE, _not_booted(kernel, time_limit_s), fault.last_words)
        raise fault.under(HEADLINE) from None
    except MachineFault as fault:
        # A user-mode kernel offers little room too, but more of it would not help.
        raise KernelFault(HEADLINE, NESTED) if Surroundings.here().nested else fault from None
    except OSError as error:
        if error.filename == "setpriv":
            raise MachineFault(f"{HEADLINE}: setpriv is missing: run `{install_command('setpriv')}`") from error
        raise MachineFault(f"{HEADLINE}: {error}; set TMPDIR to a folder you can write") from error
    if status:
        raise MachineFault(f"{HEADLINE}: its first job ended with status {status}: {' '.join(output) or 'no output'}")
    return time.monotonic() - begin_s


def _not_booted(kernel: Path, limit_s: float) -> DeathCause:
    return DeathCause(
        "no boot",
        f"{kernel} had not booted after {limit_s:g} s, which takes 1 s where the machine is idle",
        f"its file may be damaged: {renewal(kernel)}; if other work holds the machine up, wait for it",
    )


def kernel_file_damage(kernel: Path) -> DeathCause | None:
    """Returns a cause if a kernel's file is damaged, judged by its permissions, headers, size, and content if that was
    noted; None if it is not."""
    try:
        head = kernel.read_bytes()
    except OSError as error:
        return DeathCause("kernel file", f"{kernel} cannot be read: {error.strerror}", renewal(kernel))
    problem = ""
    if not os.access(kernel, os.X_OK):
        problem = "is not executable"
    elif len(head) < ELF_HEADER.size or head[:5] != b"\x7fELF\x02":
        problem = f"is not a kernel: it has {len(head)} bytes and begins with {head[:8]!r}"
    else:
        machine, needed = _machine_and_size(head)
        if machine != X86_64:
            problem = f"was built for another processor than x86-64 (ELF machine {machine})"
        elif len(head) < needed:
            problem = f"is cut short: it has {len(head)} of {needed} bytes"
        elif len(head) > needed and agent_in(kernel) is None:
            problem = "is cut short: the compiled agent at its end is not whole"
    return DeathCause("kernel file", f"{kernel} {problem}", renewal(kernel)) if problem else content_damage(kernel)


def _machine_and_size(elf: bytes) -> tuple[int, int]:
    """The processor that an ELF program is built for, and its size in bytes according to its headers."""
    header = ELF_HEADER.unpack_from(elf)
    machine, segments_at, sections_at = header[4], header[7], header[8]
    segment_bytes, segments, section_bytes, sections = header[11:15]
    ends = [sections_at + sections * section_bytes, segments_at + segments * segment_bytes]
    for at in range(segments_at, min(ends[1], len(elf) - ELF_SEGMENT.size), max(segment_bytes, 1)):
        _, _, offset, _, _, size, *_ = ELF_SEGMENT.unpack_from(elf, at)
        ends.append(offset + size)
    return machine, max(ends)
