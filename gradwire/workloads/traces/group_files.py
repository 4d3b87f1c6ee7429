"""Files with the ranks of process groups by name: what --groups takes, and what STAGE writes next to its traces.

Such a file is a JSON object, {"1": [0, 1]}, or {"1": [[0, 1], [2, 3]]} where a name is another group on other ranks.
STAGE (astra-sim/symbolic_tensor_graph, --comm_group_file of main.py) writes the first form, and ASTRA-sim reads it.
"""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from gradwire.faults import InputFault
from gradwire.reading_budget import reading_budget
from gradwire.regular_files import MESSAGE_BYTES, read_text
from gradwire.strict_json import parse_json

EXAMPLE = 'such as {"1": [0, 1]}, or {"1": [[0, 1], [2, 3]]} where it is another group on other ranks'
BEGINNING = re.compile(rb'\s*\{\s*("[^"\\]{0,200}"\s*:\s*\[\s*(\[\s*)?[0-9]|\}\s*$)')
Lists = dict[str, tuple[tuple[int, ...], ...]]


def is_group_file(beginning: bytes) -> bool:
    """Returns whether a file that begins so is of process groups: the first value in it is a list of numbers."""
    return BEGINNING.match(beginning) is not None


def read_groups(path: Path, what: str) -> Lists:
    """Ranks of process groups by name, of which one may have several.

    what: what the file is called in messages. Raises InputFault for a file that says something else.
    """
    try:
        with reading_budget(path):
            given = parse_json(read_text(path, MESSAGE_BYTES, follow=True))
            read = msgspec.convert(given, type=dict[str, list[int | list[int]]])
    except OSError as error:
        raise InputFault(f"{what}: {error.strerror}") from error
    except ValueError as error:  # msgspec.ValidationError is one
        raise InputFault(f"{what}: {error}; it has the ranks of each group by its name, {EXAMPLE}") from error
    groups: Lists = {}
    for name, listed in read.items():
        ranks = [entry for entry in listed if isinstance(entry, int)]
        lists = [entry for entry in listed if isinstance(entry, list)] or [ranks]
        everyone = [rank for entry in lists for rank in entry]
        mixed = bool(ranks) and lists != [ranks]
        if mixed or not all(lists) or len(set(everyone)) != len(everyone) or min(everyone) < 0:
            raise InputFault(f"{what}: group '{name}' has the ranks {listed}: give each rank from 0 on once, {EXAMPLE}")
        groups[name] = tuple(map(tuple, lists))
    return groups


def split_names(groups: Lists) -> tuple[dict[str, tuple[int, ...]], Lists]:
    """Returns the groups that alone have their name, and those of names for several."""
    one = {name: lists[0] for name, lists in groups.items() if len(lists) == 1}
    return one, {name: lists for name, lists in groups.items() if len(lists) > 1}
