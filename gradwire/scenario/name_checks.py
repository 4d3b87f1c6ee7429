"""The names in a scenario: models, devices, strategies and their options, wherever they stand, also where a sweep overrides them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence

from pydantic import ValidationError

from gradwire.documents import DocumentTable
from gradwire.faults import InputFault
from gradwire.scenario.definitions.conversion import catalogue_of
from gradwire.scenario.expansion import ScenarioPart
from gradwire.scenario.explanations import OPTIONS_KEY, option_defects, validated, value_at
from gradwire.scenario.file_references import is_file
from gradwire.scenario.sections.defined import DefinedSection
from gradwire.workloads.strategy import Strategy
from gradwire.workloads.strategy_registry import strategy


def name_defects(parts: Sequence[ScenarioPart], points: Sequence[DocumentTable]) -> Iterator[str]:
    """Yields a line for every name that does not exist, and every option that its strategy does not take.

    points: the documents of all points, sweeps merged in. Files that could not be read are reported elsewhere.
    """
    defined = _defined(parts)
    for part in parts:
        yield from _unknown_names(part, points, defined)
    yield from _option_defects(parts, points, defined.strategies)


def _defined(parts: Sequence[ScenarioPart]) -> DefinedSection:
    """The definitions in the scenario itself; empty if they are not valid, which is reported elsewhere."""
    try:
        return validated(DefinedSection, parts[0].document.get("defined", {}))
    except ValidationError:
        return DefinedSection()


def _unknown_names(part: ScenarioPart, points: Sequence[DocumentTable], defined: DefinedSection) -> Iterator[str]:
    everywhere = [part.document, *points]
    catalogue = catalogue_of(defined)
    looked_up: tuple[tuple[str, str, Callable[[str], object], tuple[str, ...]], ...] = (
        ("strategy", "name", lambda name: strategy(name, defined.strategies), ()),
        ("model", "name", catalogue.model, ("layers", "trace")),
        ("model", "device", catalogue.device, ("iteration_time",)),
        ("model", "modules_device", catalogue.device, ()),
    )
    for section, key, look_up, frees in looked_up:
        name = value_at(part.document, [section, key])
        alike = (document for document in everywhere if value_at(document, [section, key]) == name)
        # A model whose layers are in the scenario or in a trace, and a device whose time is given, may have any name.
        is_free = any(value_at(document, [section, free]) for document in alike for free in frees)
        if isinstance(name, str) and not is_free and not is_file(f"{section}.{key}", name):
            try:
                look_up(name)
            except InputFault as fault:
                yield f"{part.prefix}{section}.{key}: {fault}"


def _option_defects(
    parts: Sequence[ScenarioPart], points: Sequence[DocumentTable], files: Mapping[str, str]
) -> Iterator[str]:
    users = _strategies(points, files)
    reported: set[str] = set()
    for part in parts:
        options = value_at(part.document, ["strategy", "options"])
        for name, value in options.items() if isinstance(options, dict) else ():
            # A value that a sweep overrides has to suit one of the strategies, as if it were used.
            lines = [option_defects(user, {name: value}).get(name) for user in users]
            if lines and all(lines):
                reported.add(name)
                yield f"{part.prefix}{lines[0]}"
    for chosen, options in _distinct(points, users):
        for name, line in option_defects(chosen, options).items():
            if name not in reported:
                yield _of_another(name, options, chosen, users) or line


def _of_another(name: str, options: DocumentTable, chosen: Strategy, users: Sequence[Strategy]) -> str:
    """Message on an option that another strategy of the scenario has and `chosen` has not; "" for other options."""
    owner = next((user for user in users if name in user.options.model_fields), None)
    if owner is None or name in chosen.options.model_fields:
        return ""
    value = json.dumps(options[name], default=str)
    example = (
        f'strategy = [{{ name = "{owner.name}", options = {{ {name} = {value} }} }}, {{ name = "{chosen.name}" }}]'
    )
    return (
        f"{OPTIONS_KEY}.{name}: no option of '{chosen.name}', which gets it too, because swept values are merged into the file's tables "
        f"and combined with other sweeps; give it to '{owner.name}' alone, like {example} in [sweep], or sweep each in one of [[cases]]"
    )


def _strategies(points: Sequence[DocumentTable], files: Mapping[str, str]) -> list[Strategy]:
    found: dict[str, Strategy] = {}
    for document in points:
        name = value_at(document, ["strategy", "name"])
        if isinstance(name, str) and name not in found:
            try:
                found[name] = strategy(name, files)
            except InputFault:
                continue  # reported as an unknown name
    return list(found.values())


def _distinct(points: Sequence[DocumentTable], users: Sequence[Strategy]) -> Iterator[tuple[Strategy, DocumentTable]]:
    """Every strategy with every table of options that it gets."""
    known = {user.name: user for user in users}
    seen: set[str] = set()
    for document in points:
        table = document.get("strategy")
        name = value_at(document, ["strategy", "name"])
        if not isinstance(table, dict) or not isinstance(name, str) or name not in known:
            continue
        options = table.get("options", {})
        text = json.dumps([name, options], default=str, sort_keys=True)
        if isinstance(options, dict) and text not in seen:
            seen.add(text)
            yield known[name], options
