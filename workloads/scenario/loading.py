"""Scenario files: TOML with sweeps, resolved into points. A sweep lists values for dotted keys, and their product makes the points."""

from __future__ import annotations

import copy
import itertools
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from gradwire.faults import InputFault
from gradwire.topo.fabric import BITS_PER_S
from gradwire.workloads.scenario.explanations import explain
from gradwire.workloads.scenario.schema import FileSection, PointSection, PrintedSection
from gradwire.workloads.scenario.settings import apply_setting, flattened, set_key

Model = TypeVar("Model", bound=BaseModel)
FILE_KEYS = frozenset(FileSection.model_fields)


@dataclass(frozen=True)
class Point:
    """One point of a scenario."""

    #: The values that identify the point in tables, by name.
    parameters: dict[str, str]
    #: Everything that decides the point's result.
    section: PointSection
    #: The file that the point comes from, for error messages.
    origin: str = field(default="", compare=False)


@dataclass(frozen=True)
class Scenario:
    """A resolved scenario. `FileSection` documents the fields that a file sets by the same name."""

    name: str
    title: str
    about: str
    labels: dict[str, str]
    printed: tuple[PrintedSection, ...]
    points: tuple[Point, ...]
    #: The file's content after `--set`, from which an equal scenario can be resolved.
    document: dict[str, Any]
    chart: str = "auto"
    left_out: Mapping[str, str] = field(default_factory=dict)
    printed_claims: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    #: What `--set` set, as it was written.
    settings: tuple[str, ...] = ()


def load_scenario(path: Path, settings: Sequence[str] = ()) -> Scenario:
    """Reads a scenario file and applies `key=value` settings.

    Raises InputFault, naming the file, the key and what would be right, if the file cannot be read or is not a valid scenario.
    """
    try:
        document = tomllib.loads(path.read_text())
    except FileNotFoundError as error:
        raise InputFault(f"{path}: no such scenario file") from error
    except OSError as error:
        raise InputFault(f"{path}: cannot be read as a scenario file: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputFault(f"{path}: not valid TOML: {error}") from error
    for setting in settings:
        apply_setting(document, setting)
    if settings and isinstance(document.get("title"), str):
        document["title"] += f", with {', '.join(settings)}"
    return replace(resolve(document, str(path), path.stem), settings=tuple(settings))


def resolve(document: dict[str, Any], origin: str, name: str) -> Scenario:
    """Validates a scenario's content and expands its sweeps into points.

    Raises InputFault, with a message that begins with `origin`, if the content is not a valid scenario.
    """
    common = {key: value for key, value in document.items() if key not in FILE_KEYS}
    about_file = _validated(FileSection, {k: v for k, v in document.items() if k in FILE_KEYS}, origin)
    sweeps = [{**about_file.sweep, **case} for case in about_file.cases] or [about_file.sweep]
    for sweep in sweeps:
        for key, values in sweep.items():
            if not values:
                raise InputFault(f"{origin}: sweep.{key}: the list of values is empty")
    points = _distinct_points(point for sweep in sweeps for point in _points(common, sweep, origin))
    if about_file.chart == "ranking":
        _check_one_network(points, origin)
    return Scenario(
        name,
        about_file.title,
        about_file.about,
        about_file.labels,
        tuple(about_file.printed),
        points,
        document,
        about_file.chart,
        about_file.left_out,
        tuple(about_file.printed_claims),
        tuple(about_file.notes),
    )


@contextmanager
def origin_named(point: Point) -> Iterator[None]:
    """Prefixes the message of any InputFault that the block raises with the point's origin."""
    try:
        yield
    except InputFault as fault:
        raise InputFault(f"{point.origin}: {fault}" if point.origin else str(fault)) from fault


def _points(common: dict[str, Any], sweep: Mapping[str, list[Any]], origin: str) -> Iterator[Point]:
    """Yields the points of one sweep, whose first key varies slowest.

    Keys that sweep tables come last, sorted by name, because TOML writers put tables wherever they like. Where both a table and a key
    inside it are swept, the key is set after the table.
    """
    tables = sorted(key for key, values in sweep.items() if any(isinstance(value, dict) for value in values))
    sweep = {key: sweep[key] for key in (*(key for key in sweep if key not in tables), *tables)}
    outer_first = sorted(sweep, key=lambda key: key.count("."))
    for values in itertools.product(*sweep.values()):
        document = copy.deepcopy(common)
        swept = dict(zip(sweep, values, strict=True))
        for key in outer_first:
            set_key(document, key, copy.deepcopy(swept[key]))
        section = _validated(PointSection, document, origin)
        yield Point(_parameters(section, swept), section, origin)


def _distinct_points(points: Iterable[Point]) -> tuple[Point, ...]:
    """Drops points whose sections equal an earlier point's: cases may differ only in keys that `--set` overrides."""
    distinct: dict[str, Point] = {}
    for point in points:
        distinct.setdefault(point.section.model_dump_json(), point)
    return tuple(distinct.values())


def _check_one_network(points: Sequence[Point], origin: str) -> None:
    """Rejects rankings of points that differ in network, model, cluster or costs: a ranking compares strategies at one setting."""
    sections = {
        (p.section.cluster, p.section.fabric, p.section.model.model_dump_json(), p.section.costs) for p in points
    }
    if len(sections) > 1:
        raise InputFault(
            f'{origin}: chart = "ranking" ranks strategies at one setting; leave it out, or sweep nothing but strategy and run.seed'
        )


KNOWN_BY = {
    "model": "model.name",
    "strategy": "strategy.name",
    "workers": "cluster.workers",
    "rate": "fabric.rate",
    "seed": "run.seed",
}
"""The parameters that every point has, and their keys."""


def parameter_names(keys: Sequence[str]) -> dict[str, str]:
    """Maps swept keys to their names in tables: a key's last part, or the whole key where that part would be ambiguous."""
    short = {key: key.rpartition(".")[2] for key in keys}
    counts = Counter([*short.values(), *KNOWN_BY])
    fixed_names = {key: name for name, key in KNOWN_BY.items()}
    return {key: fixed_names.get(key) or (name if counts[name] == 1 else key) for key, name in short.items()}


def _parameters(section: PointSection, swept: Mapping[str, Any]) -> dict[str, str]:
    """Returns the parameters of a point: model, strategy, workers, rate, seed, the workers stood for, and whatever the scenario sweeps."""
    standard = {
        "model": section.model.name,
        "strategy": section.strategy.name,
        "workers": str(section.cluster.workers),
        "rate": rate_text(section.fabric.rate),
        "seed": str(section.run.seed),
    }
    names = parameter_names(list(swept))
    if section.cluster.stands_for is not None:
        standard["stands_for"] = str(section.cluster.stands_for)
    others = {names[key]: _value_text(value) for key, value in swept.items()}
    if "strategy" in swept:
        others["options"] = _value_text(section.strategy.options)
        del others[names["strategy"]]
    return {**others, **standard}


def _value_text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}={_value_text(item)}" for key, item in value.items())
    return str(value)


def rate_text(rate_bps: float) -> str:
    """Formats a rate as scenario files do: 10gbit, 2.5gbit, 100mbit."""
    for unit in ("gbit", "mbit", "kbit"):
        if rate_bps >= BITS_PER_S[unit]:
            return f"{rate_bps / BITS_PER_S[unit]:g}{unit}"
    return f"{rate_bps:g}bit"


def _validated(kind: type[Model], document: dict[str, Any], origin: str) -> Model:
    if "sweep" in document:
        document = {**document, "sweep": flattened(document["sweep"])}
    if isinstance(document.get("cases"), list):
        document = {**document, "cases": [flattened(case, "cases") for case in document["cases"]]}
    try:
        return kind.model_validate(document)
    except ValidationError as error:
        lines = [f"{origin}: {explain(kind, defect)}" for defect in error.errors()]
        raise InputFault("\n".join(lines)) from error
