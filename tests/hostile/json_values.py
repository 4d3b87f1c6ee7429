"""Values in JSON as other versions, or other people, write them: of another type, out of all ranges, or with other keys."""

from __future__ import annotations

import json
from contextlib import suppress
from random import Random
from typing import Any

ABSURD: tuple[Any, ...] = (
    *(None, True, -1, 0, 1, 2, 1.5, -0.0, 1e300, 10**18, 10**30, -(10**30), 10**300, 2**63, float("nan"), float("inf")),
    *("", "x" * 3000, "\x1b[2J\x07", "\x00", "../../etc/passwd", "/dev/zero", "plan-1.npz", "h1-eth0", "virtual"),
    *([], {}, [[1]], [None] * 50, {"a": {}}, "\N{GRINNING FACE}\N{RIGHT-TO-LEFT OVERRIDE}"),
)


def otherwise(value: Any, random: Random) -> Any:
    """A JSON value with one thing in it changed: a field more, one less, another number, or something of another type."""
    if isinstance(value, dict) and value:
        return _in_table(value, random)
    if isinstance(value, list) and value and random.random() < 0.8:
        return _in_list(value, random)
    if isinstance(value, str) and value[:1] in ("{", "[") and random.random() < 0.4:  # JSON in a text
        with suppress(ValueError, RecursionError):
            return json.dumps(otherwise(json.loads(value), random))
    if isinstance(value, int | float) and not isinstance(value, bool) and random.random() < 0.5:
        return random.choice(
            (value + 1, value - 1, -value, value * 2, value * 1000, value / 3 if value % 2 else value // 2)
        )
    return random.choice(ABSURD)


def _in_table(table: dict[str, Any], random: Random) -> dict[str, Any]:
    key, how = random.choice(sorted(table)), random.random()
    if how < 0.1:
        return {name: item for name, item in table.items() if name != key}
    if how < 0.15:
        return {**table, random.choice(("since_then", "", "x" * 3000)): [1]}
    return {**table, key: otherwise(table[key], random)}


def _in_list(items: list[Any], random: Random) -> list[Any]:
    index, how = random.randrange(len(items)), random.random()
    if how < 0.1:
        return [*items[:index], *items[index + 1 :]]
    if how < 0.2:
        return [*items, items[index]]
    return [*items[:index], otherwise(items[index], random), *items[index + 1 :]]
