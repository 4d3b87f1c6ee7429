"""Links in run folders, which may come from others: none is followed, whatever it points to.

A link in the place of a file or of a point's folder would have a command read, overwrite or empty what lies elsewhere.
The one kind that gradwire makes itself is that of `gradwire reproduce`: `points/NAME` in its run folders is a link to
a folder of the store, whose name is a run's key.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from gradwire.faults import InputFault
from gradwire.files import without_links
from gradwire.vm.kernel import cache_folder
from gradwire.vm.machine import BOX_NAME

POINTS_FOLDER = "points"
KEY = re.compile(r"[0-9a-f]{16}")
"""A run's key, which its folder in the store is named after (runs/planned.py)."""
MOST_DEEP = 32
"""Folders in folders; a reproduction has five. Removing more than some 900 would end in a RecursionError
(shutil.rmtree)."""


def store_folder() -> Path:
    """Folder in which `gradwire reproduce` keeps its runs, each in a folder named after its key."""
    return cache_folder() / POINTS_FOLDER


def refuse_links(folder: Path, store: Path | None = None) -> None:
    """Raises InputFault for the first link below a folder, unless `gradwire reproduce` made it into its store.

    The folder itself may be a link: whoever named it chose it. store: by default this user's. Nothing is opened but
    folders, and a folder that does not exist has no links. Raises InputFault for folders in folders without end as
    well.
    """
    for link in _links(folder, store or store_folder()):
        raise InputFault(
            f"{link}: is a link, to {link.readlink()}, and no link in a run folder is followed, since the folder may "
            "be somebody else's: "
            "remove it, or put what it points to in its place. Links that `gradwire reproduce` made into another "
            "store it makes anew"
        )


def make_empty(folder: Path) -> None:
    """Makes an empty folder at a path, and removes the files that an earlier run left there. A link there is removed,
    and its target stays."""
    if folder.is_symlink():
        folder.unlink()
    folder.mkdir(parents=True, exist_ok=True)
    for entry in _entries(folder):
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path)
        else:
            Path(entry.path).unlink()


def files_below(folder: Path) -> Iterator[Path]:
    """Regular files and folders below a folder, each folder before its contents; nothing behind a link."""
    for entry in _below(folder):
        if entry.is_dir(follow_symlinks=False) or entry.is_file(follow_symlinks=False):
            yield Path(entry.path)


def copy_of_run(there: Path, folder: Path) -> None:
    """Copies the folder of a point, in the place of another. Files that are not regular, and the leftovers of a killed
    kernel, are not copied.

    there: the folder, or a link into the store, none of whose files is a link (`refuse_links`).
    """
    source = without_links(there)
    copied = [path.relative_to(source) for path in files_below(source) if BOX_NAME not in path.parts]
    make_empty(folder)
    for path in copied:
        if (source / path).is_dir():
            (folder / path).mkdir()
        else:
            shutil.copy2(source / path, folder / path, follow_symlinks=False)


def _links(folder: Path, store: Path) -> Iterator[Path]:
    """Links below a folder that do not lead into the store, and links below the folders in the store that the others
    lead to."""
    for entry in _below(folder):
        if not entry.is_symlink():
            continue
        kept = _kept_run(Path(entry.path), store)
        if kept is None:
            yield Path(entry.path)
        else:
            yield from (Path(each.path) for each in _below(kept) if each.is_symlink())


def _kept_run(link: Path, store: Path) -> Path | None:
    """The folder of the store that a link `points/NAME` leads to, which may be gone since; None for any other link."""
    target = link.readlink()
    if link.parent.name != POINTS_FOLDER or not KEY.fullmatch(target.name) or not target.is_absolute():
        return None
    kept = without_links(store) / target.name
    return kept if without_links(target) == kept else None


def _below(folder: Path) -> Iterator[os.DirEntry[str]]:
    """Everything below a folder by name, and nothing behind a link. Raises InputFault for more folders in folders than
    any run has."""
    waiting = [(entry, 1) for entry in reversed(_entries(folder))]
    while waiting:
        entry, depth = waiting.pop()
        yield entry
        if not entry.is_dir(follow_symlinks=False):
            continue
        if depth > MOST_DEEP:
            raise InputFault(f"{folder}: has more than {MOST_DEEP} folders in each other, which no run makes")
        waiting += [(each, depth + 1) for each in reversed(_entries(Path(entry.path)))]


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    """Entries of a folder, sorted by name; empty if it is gone, or is no folder."""
    try:
        with os.scandir(folder) as found:
            return sorted(found, key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return []
