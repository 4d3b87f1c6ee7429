"""Reads files that a run left. What is wrong with one of them becomes one message that names the file and says what to do."""

from __future__ import annotations

import json
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from gradwire.faults import InputFault

DAMAGED = (
    *(msgspec.DecodeError, json.JSONDecodeError, UnicodeDecodeError, zipfile.BadZipFile, zlib.error, EOFError),
    *(
        RuntimeError,
        MemoryError,
    ),  # an archive that claims to be encrypted or compressed otherwise, and arrays that claim to be huge
)
"""What is raised for a file that ends too early or was overwritten."""
OTHERWISE_WRITTEN = (KeyError, TypeError, AttributeError, ValueError, OverflowError)
"""What is raised for a whole file with other fields or values than this version writes; so is msgspec.ValidationError."""


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
        raise InputFault(f"{path}: is damaged: {error}; {remedy}") from error
    except OTHERWISE_WRITTEN as error:
        raise InputFault(_otherwise_written(path, error, remedy)) from error


def _otherwise_written(path: Path, error: Exception, remedy: str) -> str:
    return f"{path}: was made by another version of gradwire, or changed ({type(error).__name__}: {error}); {remedy}"


def _real_folder(path: Path) -> Path:
    """The folder of a point's file; where a run folder only has a link into the store, the folder in the store."""
    return path.parent.resolve() if path.parent.is_symlink() else path.parent
