"""Agreements of stored runs in the cache, each by what decides it: what ran, what it logged, and the code that looks for causes."""

from __future__ import annotations

import functools
import hashlib
from contextlib import suppress
from pathlib import Path

import msgspec

from gradwire.analysis.agreement.causes import Agreement
from gradwire.files import replacing
from gradwire.runs.agreement.examination import examine
from gradwire.runs.protocol import TASK_FILE, read_json, write_json
from gradwire.runs.stored.files import reading, update
from gradwire.runs.stored.stored_run import COMPLETION_FILE, LOG_FILE, StoredRun
from gradwire.scenario.loading import Point
from gradwire.vm.code_digest import sources_digest
from gradwire.vm.kernel import cache_folder

CODE = ("gradwire.runs.agreement.examination",)


def kept_agreement(stored: StoredRun, point: Point) -> Agreement | None:
    """The agreement of a run as this code examined it before; None if it did not. Raises InputFault for a file that cannot be read."""
    try:
        return read_json(_path(stored, point), Agreement)
    except (OSError, msgspec.DecodeError):
        return None


def examine_and_keep(stored: StoredRun, point: Point, ideal_s: float) -> Agreement:
    """Examines a run, whose measured iterations take `ideal_s` on an ideal network, and keeps the agreement. Raises what `examine` does."""
    agreement = examine(stored, point, ideal_s)
    path = _path(stored, point)
    with suppress(OSError):  # without it, the next report examines the run again
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path, on_disk=False) as partial:
            write_json(partial, agreement, indent=1)
    return agreement


def _path(stored: StoredRun, point: Point) -> Path:
    sha = hashlib.sha256(f"{_code_digest()} {point.section.transport!r}".encode())
    completion = stored.completion()
    plan_file = stored.task().plan_file(completion.plan) if completion else TASK_FILE
    for name in (TASK_FILE, COMPLETION_FILE, plan_file, LOG_FILE):
        with reading(stored.folder / name):
            update(sha, stored.folder / name)
    return cache_folder() / "agreement" / f"{sha.hexdigest()[:24]}.json"


@functools.cache
def _code_digest() -> str:
    return sources_digest(CODE)
