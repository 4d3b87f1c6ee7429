"""Commands that list the contents that scenarios can have: `scenarios`, `models`, `devices`, `strategies` and
`explain`."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TypeVar

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from gradwire.analysis.report.text_table import TextTable
from gradwire.cli import terminal
from gradwire.documents import DocumentTable, table_at
from gradwire.faults import InputFault
from gradwire.named_code import COMMAND_LINE
from gradwire.scenario.definitions.conversion import catalogue_of, device_file, device_text, model_file, model_text
from gradwire.scenario.definitions.inlining import inlined
from gradwire.scenario.reference import (
    REQUIRED,
    KeyFacts,
    SectionFacts,
    explained,
    json_schema,
    markdown,
    option_facts,
    sections,
)
from gradwire.scenario.scenario_files import SCENARIOS, scenario_names
from gradwire.scenario.sections.defined import DefinedSection
from gradwire.workloads.installed_packages import DEVICES, GRADWIRE, MODELS
from gradwire.workloads.models.catalogue import BUILT_IN, Catalogue
from gradwire.workloads.models.data_sheets import GIB
from gradwire.workloads.models.device_facts import ByKind, Device
from gradwire.workloads.models.profile import Profile
from gradwire.workloads.strategy import AS_THEY_LEAVE, Strategy
from gradwire.workloads.strategy_registry import strategy, strategy_names, strategy_origins
from gradwire.workloads.trace_replay.replay_strategy import REPLAY
from gradwire.workloads.units import byte_rate_text

Thing = TypeVar("Thing")


def scenarios(*, as_json: bool) -> None:
    """`gradwire scenarios`."""
    titles = {
        name: tomllib.loads((SCENARIOS / f"{name}.toml").read_text(encoding="utf-8"))["title"]
        for name in scenario_names()
    }
    if as_json:
        _print_json([{"name": name, "title": title} for name, title in titles.items()])
        return
    _print_table(("scenario", "title"), titles.items(), 2)


def models(name: str | None, *, as_toml: bool, as_json: bool) -> None:
    """`gradwire models`. Raises InputFault at the end if some did not load."""
    catalogue, chosen = _chosen("models", name)
    if as_toml:
        print(model_text(model_file(catalogue.model(_only(chosen, "models")))), end="")
        return
    profiles, faults = _loaded(chosen, catalogue.model)
    if as_json:
        _print_json([_model_facts(name, profile) for name, profile in profiles.items()])
    else:
        _print_table(
            ("model", "layers", "tensors", "parameters", "fp32", "batch", "source"),
            (_model_row(name, profile) for name, profile in profiles.items()),
            1,
            *("source", "tensors", "layers", "batch"),
        )
    _tell_of(faults)


def _model_facts(name: str, profile: Profile) -> dict[str, object]:
    return {
        "name": name,
        "layers": len(profile.layers),
        "tensors": len(profile.tensors),
        "parameters": profile.parameters,
        "batch": profile.batch,
        "source": profile.source,
        "from": MODELS.origins(name, BUILT_IN.models),
    }


def _model_row(name: str, profile: Profile) -> tuple[str, ...]:
    return (
        name,
        f"{len(profile.layers)}",
        f"{len(profile.tensors)}",
        f"{profile.parameters:,}",
        f"{profile.parameters * 4 / 1e6:,.1f} MB",
        f"{profile.batch}",
        profile.source + _of_package(MODELS.origins(name, BUILT_IN.models)),
    )


def devices(name: str | None, *, as_toml: bool, as_json: bool) -> None:
    """`gradwire devices`. Raises InputFault at the end if some did not load."""
    catalogue, chosen = _chosen("devices", name)
    if as_toml:
        only = _only(chosen, "devices")
        print(device_text(device_file(only, catalogue.device(only))), end="")
        return
    found, faults = _loaded(chosen, catalogue.device)
    if as_json:
        _print_json([_device_facts(name, device) for name, device in found.items()])
    else:
        rows = (
            (
                name,
                _memory(device),
                _link(device),
                ", ".join(_timed(device)),
                device.description + _of_package(DEVICES.origins(name, BUILT_IN.devices)),
            )
            for name, device in found.items()
        )
        _print_table(
            ("device", "memory", "link", "models with a time", "what it is"), rows, 5, "models with a time", "link"
        )
    _tell_of(faults)


def _device_facts(name: str, device: Device) -> dict[str, object]:
    return {
        "name": name,
        "description": device.description,
        "models": _timed(device),
        "any_model": device.flops_per_s is not None,
        "memory_bytes": device.memory_bytes,
        "link_bytes_per_s": device.link_bytes_per_s,
        "from": DEVICES.origins(name, BUILT_IN.devices),
    }


def _chosen(table: str, name: str | None) -> tuple[Catalogue, list[str]]:
    """The models or devices to be shown: the one of that name, the one in that file, or all."""
    section, key = ("model", "name") if table == "models" else ("model", "device")
    given: DocumentTable = {section: {key: name}} if name else {}
    document, lines = inlined(given, Path.cwd(), COMMAND_LINE) if name else ({}, [])
    if lines:
        raise InputFault("\n".join(line.removeprefix(f"{section}.{key}: ") for line in lines))
    catalogue = catalogue_of(DefinedSection.model_validate(document.get("defined", {})))
    if name is None:
        return catalogue, list(catalogue.models if table == "models" else catalogue.devices)
    return catalogue, [str(table_at(document, section)[key])]


def _only(chosen: Sequence[str], table: str) -> str:
    if len(chosen) > 1:
        raise InputFault(f"--toml: say which of the {table}, like `gradwire {table} {chosen[0]} --toml`")
    return chosen[0]


def _loaded(names: Sequence[str], look_up: Callable[[str], Thing]) -> tuple[dict[str, Thing], list[str]]:
    """Things with these names that can be loaded, by name, and the faults of the others."""
    loaded: dict[str, Thing] = {}
    faults = []
    for name in names:
        try:
            loaded[name] = look_up(name)
        except InputFault as fault:
            faults.append(str(fault))
    return loaded, faults


def _tell_of(faults: Sequence[str]) -> None:
    if faults:
        raise InputFault("\n".join(faults))


def _of_package(origins: Sequence[str]) -> str:
    """Words for the package that something comes from; "" for gradwire itself."""
    packages = [origin for origin in origins if origin != GRADWIRE]
    return f" (from {', '.join(packages)})" if packages else ""


def _timed(device: Device) -> list[str]:
    """Models that have a time on the device: printed, of a model alike, or by the device's rate."""
    names = list(dict.fromkeys([*(fact.model for fact in device.facts), *device.alike]))
    if names or not device.flops_per_s:
        return names
    if not device.shares:
        return ["any, by its FLOPs"]
    return [
        "any, by kind of layer"
        if device.by_kind is ByKind.ALL
        else "any: convolutional by kind of layer, others by FLOPs"
    ]


def _memory(device: Device) -> str:
    return f"{device.memory_bytes / GIB:.0f} GiB" if device.memory_bytes else ""


def _link(device: Device) -> str:
    return byte_rate_text(device.link_bytes_per_s) if device.link_bytes_per_s else ""


def strategies(*, as_json: bool) -> None:
    """`gradwire strategies`. Raises InputFault at the end if some did not load."""
    by_name, faults = _loaded(sorted([*strategy_names(), REPLAY.name]), strategy)
    loaded = list(by_name.values())
    if as_json:
        _print_json([_strategy_facts(named) for named in loaded])
    else:
        for named in loaded:
            _print_strategy(named)
        terminal.console.print("`gradwire explain NAME` says what the options of a strategy mean.", style="dim")
    _tell_of(faults)


def _strategy_facts(chosen: Strategy) -> dict[str, object]:
    return {
        "name": chosen.name,
        "summary": chosen.summary,
        "source": chosen.source,
        "from": _origins(chosen),
        "needs_servers": chosen.needs_servers,
        "senders": asdict(chosen.senders),
        "options": [asdict(facts) for facts in option_facts(chosen.options)],
    }


def _origins(chosen: Strategy) -> list[str]:
    return [GRADWIRE] if chosen is REPLAY else strategy_origins(chosen.name)


def _print_strategy(chosen: Strategy) -> None:
    origin = ", ".join(_origins(chosen))
    options = ", ".join(_with_default(facts) for facts in option_facts(chosen.options))
    # That of collectives, which most have, would be most of the list.
    why = "" if chosen.senders is AS_THEY_LEAVE else f": {chosen.senders.source}"
    senders = f"  transport.send_ends = {chosen.senders.rule}{why}\n"
    text = Text.assemble(
        (chosen.name, "bold"), f"  {chosen.summary}\n", (f"  {chosen.source}; from {origin}\n{senders}", "dim")
    )
    terminal.console.print(text.append(f"  options: {options or 'none'}"), highlight=False)


def _with_default(facts: KeyFacts) -> str:
    return (
        f"{facts.name} {facts.default}" if facts.default in (REQUIRED, "unset") else f"{facts.name} = {facts.default}"
    )


def explain(words: str, *, as_json: bool, as_schema: bool, as_markdown: bool) -> None:
    """`gradwire explain`."""
    loaded = [*_loaded(strategy_names(), strategy)[0].values(), REPLAY]
    if as_schema:
        _print_json(json_schema())
    elif as_markdown:
        print(markdown([each for each in loaded if _origins(each) == [GRADWIRE]]), end="")
    else:
        explained_sections = explained(words, loaded) if words else list(sections())
        if as_json:
            _print_json([asdict(section) for section in explained_sections])
            return
        for section in explained_sections:
            for line in _section_shown(section, whole=not words):
                terminal.console.print(line)


def _section_shown(section: SectionFacts, *, whole: bool) -> Iterator[RenderableType]:
    """A section with its keys: a line for each in the overview of the whole, and otherwise all there is to say."""
    name = section.name if " " in section.name else f"[{section.name}]"
    yield Text.assemble((name if section.name else "the file", "bold"), f"  {section.meaning}")
    for facts in section.keys:
        if whole:
            yield Text.assemble(f"  {facts.name}  ", (facts.meaning, "dim"), overflow="ellipsis", no_wrap=True)
        else:
            default = facts.default if facts.default == REQUIRED else f"default: {facts.default}"
            yield Text.assemble("  ", (facts.name, "bold"), f"  {default}")
            yield Padding(Text(facts.meaning), (0, 0, 0, 6), expand=False)
            yield Padding(Text(facts.value, style="dim"), (0, 0, 0, 6), expand=False)


def _print_table(headers: tuple[str, ...], rows: Iterable[tuple[str, ...]], left: int, *gives_way: str) -> None:
    body = tuple(rows)
    table = TextTable("", headers, body, left, ("",) * len(body), gives_way=gives_way)
    terminal.show(table)


def _print_json(value: object) -> None:
    print(json.dumps(value, indent=1, ensure_ascii=False))
