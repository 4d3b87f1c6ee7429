"""Reads the files that a run left. Any defect of a file becomes one message that names the file and says what to do.

A log or a counter with a flipped bit may be as well formed as the true one. So hashes of all files are taken when a run
ends, and a file that has changed since is never taken for a result. A run that did not come to its end has none, and is
read without.

Hashes show damage, but not who wrote a file: anyone who changes a file can compute its hash anew. So the contents of a
file are examined whether it has a hash or not, and only files of runs that this very process made are trusted: a defect
in those is a bug in gradwire.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from gradwire.array_files import NOT_SUCH_AN_ARCHIVE, DamagedArchiveError, most_bytes
from gradwire.faults import InputFault, MachineFault
from gradwire.files import replacing, without_links
from gradwire.inside.point_protocol import write_json
from gradwire.reading_budget import reading_budget
from gradwire.regular_files import CHUNK_BYTES, MESSAGE_BYTES, opened, read_bytes
from gradwire.runs.stored.value_limits import refuse_absurd
from gradwire.typed_json import Message, decoded
from gradwire.workloads.doubled_keys import refuse_doubled_keys

SEALS_FILE = "seals.json"
OTHERWISE_WRITTEN = (LookupError, TypeError, AttributeError, ValueError, ArithmeticError)
"""Errors that a whole file raises if it has other fields or values than this version writes; msgspec.ValidationError is
one of them."""
DAMAGED = (
    *(msgspec.DecodeError, json.JSONDecodeError, UnicodeDecodeError),
    *(kind for kind in NOT_SUCH_AN_ARCHIVE if not issubclass(kind, OTHERWISE_WRITTEN)),
    DamagedArchiveError,
)
"""Errors that a file raises if it ends too early or was overwritten: an archive may then claim to be encrypted, and an
array to be huge."""

MOST_SAID = 200
"""Characters of an error that a message repeats."""


_made_here: set[Path] = set()
"""Folders of the points that this process ran."""


def note_made_here(folder: Path) -> None:
    """Notes that this process ran the point of a folder, so that defects of its files are shown as bugs."""
    _made_here.add(without_links(folder))


def is_ours(folder: Path) -> bool:
    """Returns whether this process ran the point of a folder, and its files are as the run left them."""
    if without_links(folder) not in _made_here:
        return False
    if not (folder / SEALS_FILE).exists():  # runs of programs have none
        return True
    try:
        with reading_budget(folder / SEALS_FILE):
            sealed = read_message(folder / SEALS_FILE, Seals).sha256
        return all(_hash_of(folder / name) == known for name, known in sealed.items())
    except (OSError, ValueError, InputFault):
        return False


@contextmanager
def reading(path: Path, remedy: str = "") -> Iterator[None]:
    """Context manager around the reading of `path`. Raises InputFault instead of the errors of reading, and if it takes
    more time or memory than a file may.

    remedy: how to get a new file; by default, the file is taken to be in a point's folder.
    """
    remedy = (
        remedy
        or f"remove the folder {_real_folder(path)}, and the next `gradwire run` or `gradwire reproduce` runs it anew"
    )
    try:
        with reading_budget(path):
            yield
    except OSError as error:
        # The captures of a point are read together.
        raise InputFault(f"{error.filename or path}: cannot be read: {error.strerror or error}; {remedy}") from error
    except msgspec.ValidationError as error:
        raise InputFault(_otherwise_written(path, error, remedy)) from error
    except DAMAGED as error:
        raise InputFault(f"{path}: is damaged: {_brief(error)}; {remedy}") from error
    except OTHERWISE_WRITTEN as error:
        if is_ours(path.parent):
            raise
        raise InputFault(_otherwise_written(path, error, remedy)) from error


def read_message(path: Path, kind: type[Message], most_bytes: int = MESSAGE_BYTES) -> Message:
    """Reads a message of a type from a file of at most so many bytes.

    Raises OSError, msgspec.DecodeError for what is not a message of that type, and ValueError for one with a number
    that no run has, or a key that is given twice.
    """
    text = read_bytes(path, most_bytes)
    message = decoded(text, kind)
    refuse_doubled_keys(text)
    refuse_absurd(message)
    return message


def _brief(error: Exception) -> str:
    """Beginning of an error's message. The rest may be a whole file: zipfile repeats the name that a damaged archive
    gives."""
    text = " ".join(str(error).split())
    return text if len(text) <= MOST_SAID else f"{text[:MOST_SAID]}..."


def _otherwise_written(path: Path, error: Exception, remedy: str) -> str:
    said = f"{type(error).__name__}: {_brief(error)}"
    return f"{path}: was made by another version of gradwire, or changed ({said}); {remedy}"


def _real_folder(path: Path) -> Path:
    """The folder of a point's file; where a run folder only has a link into the store, the folder in the store."""
    return without_links(path.parent) if path.parent.is_symlink() else path.parent


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
    if not seals.exists() and not seals.is_symlink():
        return
    with reading(seals):
        known = read_message(seals, Seals).sha256.get(path.name)
    with reading(path):
        if known is not None and _hash_of(path) != known:
            raise ChangedError("its content is not what the run left")


class ChangedError(msgspec.ValidationError):
    """A file is not as the run left it, whichever process ran it."""


@contextmanager
def fitting(folder: Path) -> Iterator[None]:
    """Context manager around computations on several files of a point's folder. Each of them may be sound and still not
    belong to the others.

    Raises InputFault where that fails; what it fails with is its cause. A run that this process made raises what it
    failed with.
    """
    try:
        yield
    # An OSError is of what is written meanwhile: `reading` tells those of what is read.
    except (InputFault, MachineFault, OSError):
        raise
    except Exception as error:
        if is_ours(folder):
            raise
        raise InputFault(
            f"{folder}: its files contradict each other ({type(error).__name__}: {_brief(error)}); remove it, and the "
            "next `gradwire run` runs the point anew"
        ) from error


def _hash_of(path: Path) -> str:
    sha = hashlib.sha256()
    update(sha, path)
    return sha.hexdigest()


def update(sha: hashlib._Hash, path: Path) -> None:
    """Adds a file's content to a hash. Raises OSError."""
    with opened(path, most_bytes(), bounded=True) as file:
        while chunk := file.read(CHUNK_BYTES):
            sha.update(chunk)
