"""Which folder of a run a point lies in: named after what the scenario sets, so that a key with a default renames none.

Folders of versions whose names say something else are found by the parameters that their names begin with, where that is unambiguous.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gradwire.workloads.scenario.loading import Point

WORDS_MAX = 80
"""Characters of a name's readable part."""
HASH_DIGITS = 8
OLDER_NAME = re.compile(r"(.*)-[0-9a-f]{6}")
"""Six digits are a hash of all keys, defaults included, by a version that may have had others: it cannot be told from a scenario."""


def in_words(parameters: Mapping[str, str]) -> str:
    """What a point's parameters say; numbers and sizes, which say nothing by themselves, with their names."""
    return " ".join(_said(key, value) for key, value in parameters.items() if value)


def _said(key: str, value: str) -> str:
    speaks = not value[0].isdigit() or value.endswith("bit")
    return value if speaks else f"{key.rpartition('.')[2].replace('_', ' ')} {value}"


def folder_name(point: Point) -> str:
    """Readable, and the same whatever else the scenario sweeps; a hash of what it sets tells points apart that read alike."""
    settings = json.dumps(point.section.model_dump(mode="json", exclude_defaults=True), sort_keys=True)
    return f"{_words(point)}-{hashlib.sha256(settings.encode()).hexdigest()[:HASH_DIGITS]}"


def _words(point: Point) -> str:
    words = "_".join(value for value in point.parameters.values() if value)
    return "".join(c if c.isalnum() or c in ".-" else "_" for c in words)[:WORDS_MAX]


@dataclass(frozen=True)
class Held:
    """Where a point of a run lies. folder: there or not.

    by_words: it was found by the parameters in its name alone. alike: folders of other versions that read like the point, of which it
    cannot be told whether one is this point's.
    """

    point: Point
    folder: Path
    by_words: bool = False
    alike: tuple[str, ...] = ()

    @property
    def absence(self) -> str:
        """What to say where the folder is not there."""
        if not self.alike:
            return f"{self.folder}: this point has not run; `gradwire run` completes the folder"
        return (
            f"{self.folder.parent}: another version of gradwire made {', '.join(self.alike)}, and it cannot be told which is of the point "
            f"'{in_words(self.point.parameters)}' with the settings of scenario.toml: run it again with `gradwire run`"
        )


def held_points(run: Path, points: Sequence[Point]) -> list[Held]:
    """Where each of the scenario's points lies in a run folder.

    One that has no folder of its name is looked for among those of other versions, unless this version has begun to run the scenario
    there: what is missing then has not run with the scenario's settings.
    """
    names = [folder_name(point) for point in points]
    begun = any((run / "points" / name).is_dir() for name in names)
    older = {} if begun else _older_folders(run)
    readers = Counter(map(_words, points))
    held = []
    for point, name in zip(points, names, strict=True):
        words = _words(point)
        alike = older.get(words, [])
        if len(alike) == 1 and readers[words] == 1:
            held.append(Held(point, run / "points" / alike[0], by_words=True))
        else:
            held.append(Held(point, run / "points" / name, alike=tuple(alike)))
    return held


def older_folders(run: Path, point: Point) -> list[Path]:
    """Folders that other versions made in a run folder for a point that reads like this one."""
    return [run / "points" / name for name in _older_folders(run).get(_words(point), [])]


def _older_folders(run: Path) -> dict[str, list[str]]:
    """Names of the folders in which another version began a point, by the parameters that they say."""
    found: dict[str, list[str]] = {}
    for task in sorted((run / "points").glob("*/task.json")):
        name = task.parent.name
        if match := OLDER_NAME.fullmatch(name):
            found.setdefault(match[1], []).append(name)
    return found
