"""Reads files that a run left. What is wrong with one of them becomes one message that names the file and says what to do.

A log or a counter with a flipped bit may be as well formed as the true one. So hashes of all files are taken when a run ends, and a file
that has changed since is never taken for a result. Runs of versions that kept no hashes are read without.
"""

from __future__ import annotations

import hashlib
import json
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from gradwire.faults import InputFault, MachineFault
from gradwire.files import replacing
from gradwire.runner.protocol import read_json, write_json

SEALS_FILE = "seals.json"
DAMAGED = (
    *(msgspec.DecodeError, json.JSONDecodeError, UnicodeDecodeError, zipfile.BadZipFile, zlib.error, EOFError),
    *(RuntimeError, MemoryError),
)
"""What is raised for a file that ends too early or was overwritten: an archive may then claim to be encrypted, and an array to be huge."""
OTHERWISE_WRITTEN = (KeyError, TypeError, AttributeError, ValueError, OverflowError)
"""What is raised for a whole file with other fields or values than this version writes; so is msgspec.ValidationError."""

MOST_SAID = 200
"""Characters of an error that a message repeats."""


@contextmanager
def reading(path: Path, remedy: str = "") -> Iterator[None]:
    """Wraps the reading of `path`. Raises InputFault instead of what reading raises.

    remedy: how to get a new file; by default, the file is taken to be in a point's folder.
    """
    remedy = (
        remedy
        or f"remove the folder {_real_folder(path)}, and the next `gradwire run` or `gradwire reproduce` runs it anew"
    )
    try:
        yield
    except OSError as error:
        raise InputFault(f"{path}: cannot be read: {error.strerror or error}; {remedy}") from error
    except msgspec.ValidationError as error:
        raise InputFault(_otherwise_written(path, error, remedy)) from error
    except DAMAGED as error:
        raise InputFault(f"{path}: is damaged: {_brief(error)}; {remedy}") from error
    except OTHERWISE_WRITTEN as error:
        raise InputFault(_otherwise_written(path, error, remedy)) from error


def _brief(error: Exception) -> str:
    """What an error says, without the rest of what may be a whole file: zipfile repeats the name that a damaged archive gives."""
    text = str(error)
    return text if len(text) <= MOST_SAID else f"{text[:MOST_SAID]}..."


def _otherwise_written(path: Path, error: Exception, remedy: str) -> str:
    said = f"{type(error).__name__}: {_brief(error)}"
    return f"{path}: was made by another version of gradwire, or changed ({said}); {remedy}"


def _real_folder(path: Path) -> Path:
    """The folder of a point's file; where a run folder only has a link into the store, the folder in the store."""
    return path.parent.resolve() if path.parent.is_symlink() else path.parent


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
            f"{folder}: its files contradict each other ({type(error).__name__}: {_brief(error)}); remove it, and the next `gradwire run` "
            "runs the point anew"
        ) from error


def _hash_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
