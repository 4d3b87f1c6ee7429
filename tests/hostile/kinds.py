"""The kinds of hostile input beside traces, each with what tries the input of a number."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.hostile import captures, named_code, named_files, readers, recorded_scripts, run_folders, scenarios, wire
from tests.hostile.limits import Outcome

KINDS: dict[str, Callable[[int, Path], Outcome]] = {
    "scenario": scenarios.tried,
    "file": named_files.tried,
    "wire": lambda number, _: wire.tried(number),
    "capture": captures.tried,
    "run": run_folders.tried,
    "code": named_code.tried,
    "reader": readers.tried,
    "script": recorded_scripts.tried,
}
