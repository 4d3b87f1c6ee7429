"""What lies in the place of a file, where no file does: links, pipes, sockets, devices, folders, and files of absurd sizes."""

from __future__ import annotations

import os
import shutil
import socket
import stat
from collections.abc import Callable
from pathlib import Path
from random import Random

NULL, ZERO = os.makedev(1, 3), os.makedev(1, 5)


def put(path: Path, random: Random) -> None:
    """Puts one of them in the place of a file."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    random.choice(STAND_INS)(path)


def _linked_to(target: str) -> Callable[[Path], None]:
    return lambda path: path.symlink_to(target)


def _linked_to_itself(path: Path) -> None:
    path.symlink_to(path.name)


def _linked_to_another(path: Path) -> None:
    """To a file of the same folder, which is what it should be, but not where."""
    others = sorted(each for each in path.parent.iterdir() if each.is_file())
    path.symlink_to(others[0] if others else path.parent)


def _device(number: int) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        try:
            os.mknod(path, stat.S_IFCHR | 0o666, number)
        except PermissionError:  # only root may
            path.symlink_to("/dev/zero")

    return make


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        folder = os.open(path.parent, os.O_RDONLY)  # the path may be longer than the name of a socket may be
        try:
            made.bind(f"/proc/self/fd/{folder}/{path.name}")
        finally:
            os.close(folder)


def _sparse(size_bytes: int) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        path.touch()
        os.truncate(path, size_bytes)

    return make


def _unreadable(path: Path) -> None:
    path.write_bytes(b"{}")
    path.chmod(0)


STAND_INS: tuple[Callable[[Path], None], ...] = (
    *map(_linked_to, ("/dev/zero", "/dev/stdin", "/proc/self/mem", "nowhere", "/etc/passwd", "/", ".")),
    *(_linked_to_itself, _linked_to_another, os.mkfifo, Path.mkdir, _socket),
    *map(_device, (NULL, ZERO)),
    *map(_sparse, (1, 5000, 100 << 20, 1 << 43)),
    *(() if os.geteuid() == 0 else (_unreadable,)),
)
