"""Which folder of this machine holds a kernel's memory, which is a file there, and whether it has room."""

from __future__ import annotations

import os
from pathlib import Path

from gradwire.faults import MachineFault

MIB = 1 << 20


def memory_folders() -> list[Path]:
    """Folders that may hold the kernel's memory, best first: a tmpfs is faster and never written to a disk."""
    return [Path("/dev/shm"), Path(os.environ.get("TMPDIR", "/tmp")), Path("/tmp")]


def room_for_memory_mb(folder: Path) -> int:
    """Free MiB for a kernel's memory in `folder`; 0 if it is missing, read-only or forbids running code (noexec)."""
    if not os.access(folder, os.W_OK) or forbids_programs(folder):
        return 0
    status = os.statvfs(folder)
    return status.f_bavail * status.f_frsize // MIB


def forbids_programs(folder: Path) -> bool:
    """Returns whether `folder` is on a file system mounted noexec: the kernel maps its memory as code too."""
    return folder.exists() and bool(os.statvfs(folder).f_flag & os.ST_NOEXEC)


def memory_remedy(memory_mb: int) -> str:
    """Returns the instruction for making room for a kernel's memory on this machine."""
    barred = [folder for folder in memory_folders() if forbids_programs(folder)]
    if barred:
        return (
            f"allow programs in {barred[0]} with `mount -o remount,exec {barred[0]}` as root, or set TMPDIR to a "
            "folder with room that allows them; start a container with `--tmpfs "
            f"/dev/shm:rw,exec,size={2 * memory_mb}M`"
        )
    return (
        f"run fewer points at once (--jobs), enlarge /dev/shm with `mount -o remount,exec,size={2 * memory_mb}M "
        "/dev/shm` as root, or set TMPDIR to a folder with room"
    )


def room_seen(folder: Path, room_mb: int) -> str:
    """Describes a folder and its room."""
    return f"{folder}: mounted noexec" if forbids_programs(folder) else f"{folder}: {room_mb} MiB usable"


def choose_memory_folder(memory_mb: int) -> Path:
    """The first of `memory_folders` with enough room; raises MachineFault if none has it."""
    rooms = {folder: room_for_memory_mb(folder) for folder in memory_folders()}
    for folder, room_mb in rooms.items():
        if room_mb >= memory_mb:
            return folder
    listing = ", ".join(room_seen(folder, room_mb) for folder, room_mb in rooms.items())
    raise MachineFault(f"no room for {memory_mb} MiB of kernel memory ({listing})\nremedy: {memory_remedy(memory_mb)}")
