"""Which folder of a run folder a point's run lies in.

Folders are named after what the scenario sets, so that a new key with a default renames none of them. Folders of versions that
named them otherwise are found by the parameters that their names begin with, where these leave no doubt.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from gradwire.runs.protocol import TASK_FILE
from gradwire.runs.stored.stored_run import StoredRun
from gradwire.scenario.loading import ScenarioPoint

WORDS_MAX = 80
"""Characters of a name's readable part."""
HASH_DIGITS = 8
OLDER_NAME = re.compile(r"(.*)-[0-9a-f]{6}")
"""Six digits are a hash of all keys, defaults included, by a version that may have had others: a scenario does not tell it."""


FORMER_DEFAULTS = (("run", "warmup", 1),)
"""Defaults of other versions: section, key and value. They left these values out of names."""


P = TypeVar("P", bound=ScenarioPoint)


def folder_name(point: ScenarioPoint) -> str:
    """A readable name that does not depend on what else the scenario sweeps; a hash of what is set tells apart points that read alike."""
    return _name_with(point, _set_of(point))


def _former_name(point: ScenarioPoint) -> str:
    """The name by a version with other defaults; today's, if the point says nothing that was a default."""
    settings = _set_of(point)
    for section, key, value in FORMER_DEFAULTS:
        if settings.get(section, {}).get(key) == value:
            settings[section] = {name: other for name, other in settings[section].items() if name != key}
    return _name_with(point, {name: table for name, table in settings.items() if table != {}})


def _set_of(point: ScenarioPoint) -> dict[str, Any]:
    return point.section.model_dump(mode="json", exclude_defaults=True)


def _name_with(point: ScenarioPoint, settings: dict[str, Any]) -> str:
    text = json.dumps(settings, sort_keys=True)
    return f"{_words(point)}-{hashlib.sha256(text.encode()).hexdigest()[:HASH_DIGITS]}"


def _name_in(run: Path, point: ScenarioPoint) -> str:
    """The name of a point's folder in a run folder: the one that another version gave it if there is no other."""
    name, former = folder_name(point), _former_name(point)
    return former if not (run / "points" / name).is_dir() and (run / "points" / former).is_dir() else name


def _words(point: ScenarioPoint) -> str:
    words = "_".join(value for value in point.parameters.values() if value)
    return "".join(c if c.isalnum() or c in ".-" else "_" for c in words)[:WORDS_MAX]


def runs_of(run: Path, points: Sequence[P]) -> list[StoredRun[P]]:
    """The run of each of the scenario's points in a run folder, whether it exists or not.

    A point without a folder of its name is looked for among those of other versions, unless this version has begun to run the
    scenario there: what is missing then has not run with the scenario's settings.
    """
    names = [_name_in(run, point) for point in points]
    begun = any((run / "points" / name).is_dir() for name in names)
    older = {} if begun else _older_names(run)
    readers = Counter(map(_words, points))
    runs = []
    for point, name in zip(points, names, strict=True):
        words = _words(point)
        look_alikes = older.get(words, [])
        if len(look_alikes) == 1 and readers[words] == 1:
            runs.append(StoredRun(run / "points" / look_alikes[0], point, found_by_words=True))
        else:
            runs.append(StoredRun(run / "points" / name, point, look_alikes=tuple(look_alikes)))
    return runs


def older_folders(run: Path, point: ScenarioPoint) -> list[Path]:
    """Folders that other versions made in a run folder for a point that reads like this one."""
    former = run / "points" / _former_name(point)
    return [
        *([former] if former.is_dir() else []),
        *(run / "points" / name for name in _older_names(run).get(_words(point), [])),
    ]


def _older_names(run: Path) -> dict[str, list[str]]:
    """Names of the folders in which another version began a point, by the parameters that they say."""
    names: dict[str, list[str]] = {}
    for task in sorted((run / "points").glob(f"*/{TASK_FILE}")):
        if match := OLDER_NAME.fullmatch(task.parent.name):
            names.setdefault(match[1], []).append(task.parent.name)
    return names
