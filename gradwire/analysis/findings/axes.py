"""The parameters that a run varies, each with its part in a conclusion: what is chosen, what is given, and what changes
the work itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from gradwire.analysis.parameters import parameter_number

Where = tuple[tuple[str, str], ...]
"""Parameters with their values, in the order of the scenario."""


class KeyRole(StrEnum):
    """The part of a parameter in a conclusion."""

    CHOICE = "choice"
    """Whoever trains chooses it: it has a best value."""
    CONDITION = "condition"
    """It is given, or costs money: times depend on it."""
    BATCH = "batch"
    """It changes how many samples a worker processes in an iteration."""
    WORKERS = "workers"
    """It changes how many workers there are."""
    MODEL = "model"
    """It changes what is trained, so that times of two values are not of the same work."""
    SEED = "seed"
    """Its values are repetitions."""


CHOICES = (
    *("strategy", "transport", "cluster.servers", "cluster.colocated", "model.fused_parameters"),
    *("fabric.routing", "fabric.routes", "fabric.controller", "fabric.classes", "fabric.mtu_bytes", "fabric.gso"),
    *("fabric.ecn", "fabric.lossless", "fabric.flowlet_gap", "fabric.fair_queues", "fabric.hosts", "fabric.host"),
    *("fabric.rails", "job.hosts", "job.placement", "job.start", "job.priority"),
)
"""Keys that whoever trains chooses, with all keys inside them."""
OF_WORKERS = ("cluster.workers", "cluster.stands_for")
OF_MODELS = ("model", "model.name", "model.layers", "model.blocks", "model.trace", "model.grow")
BY_NAME = {"strategy": "strategy.name", "workers": "cluster.workers", "model": "model.name", "seed": "run.seed"}
"""Keys of parameters that every point has."""
UNITS = {
    **{"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0},
    **{"b": 1.0, "kb": 1e3, "mb": 1e6, "gb": 1e9, "kib": 2.0**10, "mib": 2.0**20, "gib": 2.0**30, "%": 0.01},
}
"""Units of durations and sizes; rates have their own."""
WITH_UNIT = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)\s*([a-z%]+)")


def role_of(key: str) -> KeyRole:
    """The part of a scenario's key in a conclusion."""
    key = re.sub(r"^job\.[^.]+\.", "", key) if key.startswith("job.") else key
    if key in ("hosts", "placement", "start", "priority"):
        key = f"job.{key}"
    if key == "run.seed":
        return KeyRole.SEED
    if key in OF_WORKERS:
        return KeyRole.WORKERS
    if key == "model.batch":
        return KeyRole.BATCH
    if key in OF_MODELS or key.startswith("model.layers"):
        return KeyRole.MODEL
    chosen = any(key == choice or key.startswith(f"{choice}.") for choice in CHOICES)
    return KeyRole.CHOICE if chosen else KeyRole.CONDITION


def number_of(value: str) -> float | None:
    """A value as a number, to order it by: of rates, durations, sizes and plain numbers; None for words."""
    number = parameter_number(value)
    if number is None and (match := WITH_UNIT.fullmatch(value.strip().lower())):
        factor = UNITS.get(match[2])
        return None if factor is None else float(match[1]) * factor
    return number


@dataclass(frozen=True)
class VariedAxis:
    """A parameter that varies, or several that vary only together."""

    #: Names of the parameters, the one that says most first.
    names: tuple[str, ...]
    role: KeyRole
    #: Its values: of each name one. In order of size if they are numbers, else as they appear.
    values: tuple[Where, ...]
    #: Whether the values have an order.
    ordered: bool

    def of(self, settings: Mapping[str, str]) -> Where:
        """Its value in these settings."""
        return tuple((name, settings.get(name, "")) for name in self.names)


def axes_of(settings: Sequence[Mapping[str, str]], keys: Mapping[str, str]) -> tuple[VariedAxis, ...]:
    """The parameters that take several values.

    settings: of each point. keys: the scenario's keys, by names of parameters. A parameter that another one decides
    belongs to that one, for their effects cannot be told apart.
    """
    names = [
        name
        for name in dict.fromkeys(name for each in settings for name in each)
        if len({each.get(name, "") for each in settings}) > 1
    ]
    # What has more values decides what has fewer, and of two that decide each other the swept one.
    count = {name: len({each.get(name, "") for each in settings}) for name in names}
    groups: list[list[str]] = []
    for name in sorted(names, key=lambda name: -count[name]):
        into = next((group for group in groups if _decides(group[0], name, settings)), None)
        if into is None:
            groups.append([name])
        else:
            into.append(name)
    groups.sort(key=lambda group: names.index(group[0]))
    return tuple(_axis(group, settings, keys) for group in groups)


def _decides(name: str, other: str, settings: Sequence[Mapping[str, str]]) -> bool:
    pairs = {(each.get(name, ""), each.get(other, "")) for each in settings}
    return len(pairs) == len({first for first, _ in pairs})


PRECEDENCE = (KeyRole.MODEL, KeyRole.WORKERS, KeyRole.BATCH, KeyRole.CONDITION, KeyRole.CHOICE)
"""The part of parameters that vary together: the first that one of them has."""


def _axis(names: Sequence[str], settings: Sequence[Mapping[str, str]], keys: Mapping[str, str]) -> VariedAxis:
    roles = {role_of(keys.get(name) or BY_NAME.get(name, name)) for name in names}
    role = next((each for each in PRECEDENCE if each in roles), KeyRole.CONDITION)
    values = dict.fromkeys(tuple((name, each.get(name, "")) for name in names) for each in settings)
    first = {value: number_of(value[0][1]) for value in values}
    ordered = all(number is not None for number in first.values())
    shown = _shown(names, settings)
    listed = sorted(values, key=lambda value: first[value] or 0.0) if ordered else list(values)
    kept = tuple(tuple(pair for pair in value if pair[0] in shown) for value in listed)
    return VariedAxis(tuple(name for name in names if name in shown), role, kept, ordered)


def _shown(names: Sequence[str], settings: Sequence[Mapping[str, str]]) -> list[str]:
    """The names without those that the value of a table names itself: "workers=2, servers=1" says the workers."""
    tables = [name for name in names if all("=" in each.get(name, "") for each in settings)]
    said = {
        name
        for table in tables
        for name in names
        if name != table and all(re.search(rf"\b{re.escape(name)}=", each.get(table, "")) for each in settings)
    }
    return [name for name in names if name not in said]
