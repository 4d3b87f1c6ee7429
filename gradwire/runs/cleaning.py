"""Finds and removes what commands that were killed have left behind.

Nothing of a command that still runs is touched, and nothing of other users.

| left | how one knows that nobody needs it |
|---|---|
| processes of a kernel, or of a run on the wall clock | their environment names a command, which is dead |
| temporary folders | their name does |
| in run folders: locks' notes, exchange folders, half-written files | the lock is free, and is held meanwhile |
| in the cache: half-built kernels | the lock of builds is free, and is held meanwhile |
| in the cache: files that were being written | nobody has written to them for an hour, where it takes milliseconds |

Namespaces, interfaces, bridges and qdiscs of a run on the wall clock end with its processes, and so does the memory of
a kernel.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from filelock import BaseFileLock, FileLock, Timeout

from gradwire.faults import MachineFault
from gradwire.files import PARTIAL_SUFFIX
from gradwire.runs.stored.run_folder import HOLDER_FILE, LOCK_FILE, SCENARIO_FILE
from gradwire.runs.stored.symbolic_links import POINTS_FOLDER
from gradwire.vm.machine import BOX_NAME
from gradwire.vm.owners import FOLDER_PREFIX, is_gone, owner_of_folder, owner_of_process

BUILDS, BUILDS_LOCK = "build-*", "lock"
"""Half-built kernels and the lock of builds in the cache (vm/kernel.py)."""
STALE_S = 3600.0
KILL_LIMIT_S = 20.0


@dataclass(frozen=True)
class Leaving:
    """A leftover of a killed command."""

    #: "process", "temporary folder", ...
    kind: str
    #: Its path, or its number and name.
    what: str
    remove: Callable[[], None]


def clean(run_folders: Sequence[Path], cache: Path, *, dry_run: bool) -> Iterator[Leaving]:
    """Removes leftovers, or only finds them with `dry_run`; yields each when it is gone.

    run_folders: where to look for runs: run folders, and folders of them. Raises MachineFault if a process does not
    end.
    """
    for leaving in [*_processes(), *_temporary_folders(_temporary_root())]:
        yield _done(leaving, dry_run)
    for folder in _runs_in(run_folders):
        with _free(folder) as is_free:
            for leaving in _left_in_run(folder) if is_free else ():
                yield _done(leaving, dry_run)
    with _builds_stopped(cache) as stopped:
        for leaving in _files("half-built kernel", cache.glob(BUILDS)) if stopped else ():
            yield _done(leaving, dry_run)
    for leaving in _files("unfinished file", filter(_is_stale, _partial_files(cache))):
        yield _done(leaving, dry_run)


def _done(leaving: Leaving, dry_run: bool) -> Leaving:
    if not dry_run:
        leaving.remove()
    return leaving


def _processes() -> list[Leaving]:
    """Processes whose command is dead. One that ended meanwhile is none."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        pid = int(folder.name)
        owner = owner_of_process(pid)
        if owner is not None and is_gone(owner):
            with suppress(OSError):
                handle = os.pidfd_open(pid)
                name = (folder / "comm").read_text(encoding="utf-8").strip()
                found.append(Leaving("process", f"{pid} ({name})", lambda pid=pid, handle=handle: _end(pid, handle)))  # type: ignore[misc]
    return found


def _end(pid: int, handle: int) -> None:
    """Kills the very process that was found, even if its number has been given to another since."""
    with suppress(ProcessLookupError):
        signal.pidfd_send_signal(handle, signal.SIGKILL)
    os.close(handle)
    end_s = time.monotonic() + KILL_LIMIT_S
    while (owner := owner_of_process(pid)) is not None and is_gone(owner):
        if time.monotonic() > end_s:
            raise MachineFault(
                f"process {pid} is still there {KILL_LIMIT_S:g} s after SIGKILL: see `ps -o stat,wchan {pid}`"
            )
        time.sleep(0.01)


def _temporary_root() -> Path:
    """Folder that temporary folders are in, also on a full disk, on which Python finds none that it can write."""
    try:
        return Path(tempfile.gettempdir())
    except FileNotFoundError:
        return Path(os.environ.get("TMPDIR") or "/tmp")


def _temporary_folders(place: Path) -> list[Leaving]:
    mine = filter(_is_mine, place.glob(f"{FOLDER_PREFIX}*"))
    owned = ((folder, owner_of_folder(folder)) for folder in mine)
    return list(_files("temporary folder", (folder for folder, owner in owned if owner and is_gone(owner))))


def _is_mine(path: Path) -> bool:
    """Returns whether a path belongs to the user who cleans; False if it has been removed since it was listed."""
    with suppress(FileNotFoundError):
        return path.stat(follow_symlinks=False).st_uid == os.geteuid()
    return False


def _runs_in(folders: Sequence[Path]) -> Iterator[Path]:
    """Run folders, and those in folders of them, such as runs/ and a reproduction's. Folders behind links are left
    out."""
    for folder in folders:
        yield from (each for each in (folder, *_folders_in(folder)) if _is_file(each / LOCK_FILE, each / SCENARIO_FILE))


def _folders_in(folder: Path) -> list[Path]:
    """Folders in a folder by name, without links to folders."""
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as found:
        return sorted(Path(entry.path) for entry in found if entry.is_dir(follow_symlinks=False))
    return []


def _is_file(*paths: Path) -> bool:
    """Returns whether one of these is a regular file, and no link to one."""
    return any(path.is_file() and not path.is_symlink() for path in paths)


@contextmanager
def _held(lock: BaseFileLock) -> Iterator[bool]:
    """Holds a lock, and says whether it could be had at once."""
    try:
        lock.acquire(blocking=False)
    except Timeout:
        yield False
        return
    try:
        yield True
    finally:
        lock.release()


@contextmanager
def _free(folder: Path) -> Iterator[bool]:
    """Holds the lock of a run folder, and says whether it could be had. A folder that never had a lock is left without
    one."""
    if not _is_file(folder / LOCK_FILE):
        yield True
        return
    with _held(FileLock(folder / LOCK_FILE, fallback_to_soft=False)) as is_ours:
        yield is_ours


def _left_in_run(folder: Path) -> Iterator[Leaving]:
    yield from _files("lock", filter(_is_file, [folder / HOLDER_FILE]))
    places = _folders_in(folder)
    places += [point for place in places if place.name == POINTS_FOLDER for point in _folders_in(place)]
    boxes = [box for place in places for box in _folders_in(place) if box.name == BOX_NAME]
    yield from _files("kernel's folder", boxes)
    yield from _files("unfinished file", _partial_files(folder))


def _partial_files(folder: Path) -> Iterator[Path]:
    """Files of `gradwire.files.replacing` that are not complete, wherever they are below a folder, but not behind
    links."""
    for place, _, names in os.walk(folder, followlinks=False):
        yield from filter(_is_file, (Path(place) / name for name in names if name.endswith(PARTIAL_SUFFIX)))


@contextmanager
def _builds_stopped(cache: Path) -> Iterator[bool]:
    """Holds the lock of builds, and says whether it could be had."""
    if not (cache / BUILDS_LOCK).exists():
        yield True
        return
    with _held(FileLock(cache / BUILDS_LOCK)) as is_ours:
        yield is_ours


def _is_stale(path: Path) -> bool:
    with suppress(FileNotFoundError):
        return time.time() - path.stat().st_mtime > STALE_S
    return False


def _files(kind: str, paths: Iterator[Path] | Sequence[Path]) -> Iterator[Leaving]:
    for path in sorted(paths):
        yield Leaving(kind, str(path), lambda path=path: _remove(path))  # type: ignore[misc]


def _remove(path: Path) -> None:
    """Removes a leftover, but never the target of a link (shutil.rmtree refuses a link, and follows none).

    Another command may be cleaning at the same time.
    """
    if path.is_dir() and not path.is_symlink():
        while path.exists():
            with suppress(FileNotFoundError):
                shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
