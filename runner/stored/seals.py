"""Hashes of the files that a run left, taken when it ended, so that one that has changed since is never taken for a result.

A log or a counter with a flipped bit may be as well formed as the true one. Runs of versions that kept no hashes are read without.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from gradwire.faults import InputFault, MachineFault
from gradwire.files import replacing
from gradwire.runner.protocol import read_json, write_json
from gradwire.runner.stored.files import reading

SEALS_FILE = "seals.json"


class Seals(msgspec.Struct, frozen=True):
    """The content of seals.json."""

    #: SHA-256 of each file, by its name.
    sha256: dict[str, str]


def seal(folder: Path, contents: dict[str, bytes], files: Iterable[str]) -> None:
    """Notes the hashes of files in a point's folder. contents: of files that are about to be written."""
    hashes = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
    hashes |= {name: _hash_of(folder / name) for name in files}
    with replacing(folder / SEALS_FILE) as partial:
        write_json(partial, Seals(hashes), indent=1)


def refuse_changed(path: Path) -> None:
    """Raises InputFault if a file of a point's folder is not as the run left it."""
    seals = path.with_name(SEALS_FILE)
    if not seals.exists():
        return
    with reading(seals):
        known = read_json(seals, Seals).sha256.get(path.name)
    with reading(path):
        if known is not None and _hash_of(path) != known:
            raise ValueError("its content is not what the run left")


@contextmanager
def vouched(folder: Path) -> Iterator[None]:
    """Wraps what is computed from several files of a point's folder.

    Raises InputFault where that fails and no hashes vouch for the files: they may be well formed, and not belong together.
    """
    try:
        yield
    except (InputFault, MachineFault):
        raise
    except Exception as error:
        if (folder / SEALS_FILE).exists():
            raise
        raise InputFault(
            f"{folder}: its files contradict each other ({type(error).__name__}: {error}); remove it, and the next `gradwire run` runs "
            "the point anew"
        ) from error


def _hash_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
