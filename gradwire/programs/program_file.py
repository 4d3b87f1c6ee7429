"""Finds the file of a program as a shell does, refuses it before anything boots if this machine cannot execute it, and
lists the folders that the program does not see.

These are /dev, /proc, /run and /sys, and those of `covered_folders`, for which inside/sandbox.py has the reason.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from gradwire.faults import InputFault
from gradwire.files import without_links

OWN_OF_THE_KERNEL = ("/dev", "/proc", "/run", "/sys")
"""Folders that are the kernel's own: the machine's are not seen in it."""
MOUNTS = Path("/proc/self/mountinfo")
OCTAL = re.compile(r"\\([0-7]{3})")
"""Blanks and backslashes in mountinfo (proc_pid_mountinfo(5))."""
ELF_MAGIC = b"\x7fELF"
MACHINES: Mapping[int, str] = {
    0x03: "x86",
    0x28: "ARM",
    0x3E: "x86-64",
    0xB7: "AArch64",
    0xF3: "RISC-V",
    0x15: "PowerPC",
}
"""ELF's numbers of processors (e_machine), of those that a file may come from."""
X86_64 = 0x3E


def check_program(argv: Sequence[str], search_path: str) -> None:
    """Raises InputFault, with the reason, if the program of `argv` cannot be executed here."""
    name = argv[0]
    found = shutil.which(name, path=search_path)
    if found is None:
        raise InputFault(f"{name}: {_why_not_found(name)}")
    defect = file_defect(without_links(Path(found)))
    if defect:
        raise InputFault(f"{found}: {defect}")


def check_folder(folder: Path) -> None:
    """Raises InputFault if programs cannot start in a folder, because this user may not enter it, or the kernel has another
    in its place."""
    try:
        os.stat(os.path.join(folder, "."))  # noqa: PTH116, PTH118 (pathlib leaves the dot out)
    except PermissionError as error:
        raise InputFault(
            f"{folder}: programs start in the current folder, which this user may not enter; start elsewhere"
        ) from error
    except OSError:
        pass  # that it is gone, what needs it says
    for own in OWN_OF_THE_KERNEL:
        if folder.is_relative_to(own):
            raise InputFault(
                f"{folder}: programs start in the current folder, and {own} is not seen in the kernel; start elsewhere"
            )


def covered_folders(results: Path, start: Path) -> tuple[str, ...]:
    """Folders that are covered: the one that a run's results go to, and each /proc of the machine that the kernel would
    show.

    start: the folder that programs start in. Raises InputFault if it would be covered.
    """
    results = without_links(results)
    if start.is_relative_to(results):
        raise InputFault(
            f"{start}: programs start in the current folder, and {results}, where what is noted of them goes, is not "
            "shown to them; start elsewhere, or give another --out"
        )
    return (str(results), *process_folders(MOUNTS.read_text(encoding="utf-8")))


def process_folders(mounts: str) -> list[str]:
    """Places at which a list of mounts has file systems of processes, except the kernel's own."""
    found = []
    for line in mounts.splitlines():
        place, _, kind = line.partition(" - ")
        folder = OCTAL.sub(lambda octal: chr(int(octal[1], 8)), place.split()[4])
        own = any(Path(folder).is_relative_to(path) for path in OWN_OF_THE_KERNEL)
        if kind.split()[0] == "proc" and not own:
            found.append(folder)
    return found


def file_defect(path: Path) -> str:
    """Why a file is not a program for this machine, by its place and its first bytes; "" if nothing speaks against
    it."""
    for own in OWN_OF_THE_KERNEL:
        if path.is_relative_to(own):
            return f"{own} is not seen in the kernel, which has another; copy the program elsewhere"
    with path.open("rb") as file:
        head = file.read(20)
    if not head.startswith(ELF_MAGIC):
        return ""
    machine = int.from_bytes(head[18:20], "little" if head[5:6] == b"\x01" else "big")
    if machine == X86_64:
        return ""
    return (
        f"is built for {MACHINES.get(machine, f'another processor (ELF machine {machine})')}, and this machine is "
        f"{platform.machine()}"
    )


def _why_not_found(name: str) -> str:
    if "/" not in name:
        return "no such program on the PATH; give its path, such as ./program, or install it"
    path = Path(name)
    if not path.exists():
        return "no such file"
    return "is a folder" if path.is_dir() else "may not be executed; `chmod +x` allows it"
