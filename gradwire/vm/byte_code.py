"""The byte code that jobs in the virtual-time kernel find: always the same, so that runs repeat.

A module that Python has to compile first leaves other memory behind than one whose byte code lies there, and the
kernel's tables that go by addresses are then gone through in another order: an iteration of AlexNet took 0.867102 s
with the packages' byte code, and 0.867120 s without. Which byte code lies next to the sources is chance: what was
imported before, by whom, and who may write there. So jobs look for it in a separate folder, which is filled before the
first job. Each installation has one, for byte code is found by its source's path.
"""

from __future__ import annotations

import errno
import hashlib
import os
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import msgspec
from filelock import FileLock

from gradwire import PACKAGE
from gradwire.cache_files import kept
from gradwire.faults import UnfitMachine
from gradwire.files import NO_ROOM, replacing, unfit_for_writing
from gradwire.vm.kernel import cache_folder

FOLDER_VARIABLE = "PYTHONPYCACHEPREFIX"
MANIFEST = "sources.json"
IMPORT_LIMIT_S = 300.0
LISTED = """
import importlib, json, os, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
files = {module.__file__ for module in list(sys.modules.values()) if getattr(module, "__file__", None)}
print(json.dumps(sorted(file for file in files if file.endswith(".py"))))
"""
"""Imports modules, which writes their byte code, and prints the sources that this took."""


class CompiledSource(msgspec.Struct, frozen=True):
    """A source as it was compiled."""

    path: str
    size_bytes: int
    modified_ns: int

    @classmethod
    def of(cls, path: str) -> CompiledSource | None:
        """The source as it is; None if it is gone."""
        try:
            status = Path(path).stat()
        except FileNotFoundError:
            return None
        return cls(path, status.st_size, status.st_mtime_ns)


class Manifest(msgspec.Struct, frozen=True):
    """The modules that a folder has byte code of, with the sources that it was compiled from and the version of
    Python."""

    python: str
    modules: tuple[str, ...]
    sources: tuple[CompiledSource, ...]

    @property
    def up_to_date(self) -> bool:
        """Returns whether this version of Python wrote the byte code and no source has changed since."""
        return self.python == sys.version and all(CompiledSource.of(source.path) == source for source in self.sources)


def byte_code_folder(modules: tuple[str, ...]) -> Path:
    """The folder with the byte code of these modules and of all that they import, written if it is not up to date.

    Raises UnfitMachine if the modules cannot be imported, or the folder cannot be written.
    """
    folder = _filled_folder(cache_folder(), modules)
    if not is_filled(folder):  # somebody has emptied the cache since
        _filled_folder.cache_clear()
        folder = _filled_folder(cache_folder(), modules)
    return folder


def is_filled(folder: Path) -> bool:
    """Returns whether a folder of byte code is complete, which it stays unless somebody removes it."""
    return (folder / MANIFEST).exists()


@cache
def _filled_folder(cache: Path, modules: tuple[str, ...]) -> Path:
    folder = cache / "byte-code" / f"{sys.implementation.cache_tag}-{_installation()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / ".lock", fallback_to_soft=False):
            if not _is_up_to_date(folder, modules):
                _fill(folder, modules)
    except OSError as error:
        if error.errno in NO_ROOM:
            raise unfit_for_writing(error, folder) from error
        remedy = "make it writable, or set GRADWIRE_CACHE to a folder that is"
        raise UnfitMachine(f"{folder}: cannot be written: {error.strerror}; {remedy}") from error
    return folder


def _installation() -> str:
    """A short digest of where gradwire and the packages that it imports are."""
    return hashlib.sha256("\0".join([str(PACKAGE.parent), sys.prefix]).encode()).hexdigest()[:12]


def _is_up_to_date(folder: Path, modules: tuple[str, ...]) -> bool:
    manifest = kept(folder / MANIFEST, Manifest)
    return manifest is not None and manifest.modules == modules and manifest.up_to_date


def _fill(folder: Path, modules: Sequence[str]) -> None:
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        "PYTHONPATH": str(PACKAGE.parent),
        FOLDER_VARIABLE: str(folder),
    }
    command = [sys.executable, "-c", LISTED, *modules]
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False, timeout=IMPORT_LIMIT_S
        )
    except subprocess.TimeoutExpired as error:
        raise UnfitMachine(
            f"to import gradwire's own modules took more than {IMPORT_LIMIT_S:g} s; try again"
        ) from error
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]
        if os.strerror(errno.ENOSPC) in done.stderr:  # Python itself takes byte code that it cannot write for none
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))
        raise UnfitMachine(f"gradwire's own modules cannot be imported: {last}")
    sources = map(CompiledSource.of, msgspec.json.decode(done.stdout.splitlines()[-1], type=list[str]))
    manifest = Manifest(sys.version, tuple(modules), tuple(source for source in sources if source))
    with replacing(folder / MANIFEST, on_disk=False) as partial:
        partial.write_bytes(msgspec.json.encode(manifest))
