"""Agreements of stored runs in the cache, each by what decides it: what ran, what it logged, and the code that compares."""

from __future__ import annotations

import functools
import hashlib
import importlib
from pathlib import Path

import msgspec

from gradwire.analysis.agreement.causes import Agreement
from gradwire.files import replacing
from gradwire.runner.code_digest import SOURCE_ROOT
from gradwire.runner.protocol import TASK_FILE, read_json, write_json
from gradwire.runner.stored.files import reading
from gradwire.runner.stored.stored_run import COMPLETION_FILE, LOG_FILE, StoredRun
from gradwire.vm.kernel import cache_folder

CODE = ("analysis", "analysis/agreement", "analysis/fluid", "analysis/path", "runner/agreement")
"""The folders of the code that compares."""
EXAMINATION = "gradwire.runner.agreement.examination"
"""Loads the engine, which takes half a second, and is imported when a run is not in the cache."""


def kept_agreement(stored: StoredRun) -> Agreement | None:
    """The agreement of a run as it was last examined by this code; None if it was not. Raises InputFault for a file that cannot be read."""
    path = _path(stored)
    try:
        return read_json(path, Agreement)
    except (OSError, msgspec.DecodeError):
        return None


def examine_and_keep(stored: StoredRun) -> Agreement:
    """Examines a run, and keeps the agreement where the cache can be written."""
    agreement: Agreement = importlib.import_module(EXAMINATION).examine(stored)
    path = _path(stored)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as partial:
            write_json(partial, agreement, indent=1)
    except OSError:
        # A cache that cannot be written makes the next report slower, and is no reason to have none.
        return agreement
    return agreement


def _path(stored: StoredRun) -> Path:
    return cache_folder() / "agreement" / f"{_key(stored)}.json"


def _key(stored: StoredRun) -> str:
    sha = hashlib.sha256(_code_digest().encode())
    completion = stored.completion()
    label = completion.plan if completion else ""
    plan_file = stored.task().plan_file(label) if label else TASK_FILE
    for name in (TASK_FILE, COMPLETION_FILE, plan_file, LOG_FILE):
        with reading(stored.folder / name):
            sha.update((stored.folder / name).read_bytes())
    return sha.hexdigest()[:24]


@functools.cache
def _code_digest() -> str:
    sha = hashlib.sha256()
    for folder in CODE:
        for source in sorted((SOURCE_ROOT / "gradwire" / folder).glob("*.py")):
            sha.update(source.read_bytes())
    return sha.hexdigest()
