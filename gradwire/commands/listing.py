"""Commands that list what a scenario may say: `scenarios`, `models`, `devices`, `strategies` and `explain`."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from gradwire.commands import terminal
from gradwire.commands.scenarios import SCENARIOS, scenario_names
from gradwire.faults import InputFault
from gradwire.workloads.models import model, model_names
from gradwire.workloads.models.device_facts import DEVICES, GIB, Device
from gradwire.workloads.registry import strategy, strategy_names, strategy_origins
from gradwire.workloads.scenario.reference import (
    REQUIRED,
    KeyFacts,
    SectionFacts,
    explained,
    json_schema,
    markdown,
    option_facts,
    sections,
)
from gradwire.workloads.strategy import Strategy


def scenarios(*, as_json: bool) -> None:
    """`gradwire scenarios`."""
    titles = {name: tomllib.loads((SCENARIOS / f"{name}.toml").read_text())["title"] for name in scenario_names()}
    if as_json:
        _print_json([{"name": name, "title": title} for name, title in titles.items()])
        return
    _print_table(("scenario", "title"), titles.items())


def models(*, as_json: bool) -> None:
    """`gradwire models`."""
    rows = [_model_facts(name) for name in model_names()]
    if as_json:
        _print_json(rows)
        return
    _print_table(
        ("model", "layers", "tensors", "parameters", "fp32", "batch", "source"),
        (
            (
                row["name"],
                f"{row['layers']}",
                f"{row['tensors']}",
                f"{row['parameters']:,}",
                f"{row['parameters'] * 4 / 1e6:,.1f} MB",
                f"{row['batch']}",
                row["source"],
            )
            for row in rows
        ),
        numbers=(1, 2, 3, 4, 5),
    )


def _model_facts(name: str) -> dict[str, Any]:
    profile = model(name)
    return {
        "name": name,
        "layers": len(profile.layers),
        "tensors": len(profile.tensors),
        "parameters": profile.parameters,
        "batch": profile.batch,
        "source": profile.source,
    }


def devices(*, as_json: bool) -> None:
    """`gradwire devices`."""
    if as_json:
        _print_json([_device_facts(name, device) for name, device in DEVICES.items()])
        return
    rows = ((name, _memory(device), ", ".join(_timed(device)), device.description) for name, device in DEVICES.items())
    _print_table(("device", "memory", "models with a time", "what it is"), rows)


def _device_facts(name: str, device: Device) -> dict[str, Any]:
    return {
        "name": name,
        "description": device.description,
        "models": _timed(device),
        "any_model": device.flops_per_s is not None,
        "memory_bytes": device.memory_bytes,
    }


def _timed(device: Device) -> list[str]:
    """Models that have a time on the device: printed, of a model alike, or by the device's rate."""
    names = list(dict.fromkeys([*(fact.model for fact in device.facts), *device.alike]))
    return names or (["any, by its FLOPs"] if device.flops_per_s else [])


def _memory(device: Device) -> str:
    return f"{device.memory_bytes / GIB:.0f} GiB" if device.memory_bytes else ""


def strategies(*, as_json: bool) -> None:
    """`gradwire strategies`. Raises InputFault at the end if some did not load."""
    loaded, faults = _loaded_strategies()
    if as_json:
        _print_json([_strategy_facts(each) for each in loaded])
    else:
        for each in loaded:
            _print_strategy(each)
        terminal.console.print("`gradwire explain NAME` says what the options of a strategy mean.", style="dim")
    if faults:
        raise InputFault("\n".join(faults))


def _loaded_strategies() -> tuple[list[Strategy], list[str]]:
    """All strategies that load, and what is wrong with the others."""
    loaded, faults = [], []
    for name in strategy_names():
        try:
            loaded.append(strategy(name))
        except InputFault as fault:
            faults.append(str(fault))
    return loaded, faults


def _strategy_facts(chosen: Strategy) -> dict[str, Any]:
    return {
        "name": chosen.name,
        "summary": chosen.summary,
        "source": chosen.source,
        "from": strategy_origins(chosen.name),
        "needs_servers": chosen.needs_servers,
        "options": [asdict(facts) for facts in option_facts(chosen.options)],
    }


def _print_strategy(chosen: Strategy) -> None:
    origin = ", ".join(strategy_origins(chosen.name))
    options = ", ".join(_with_default(facts) for facts in option_facts(chosen.options))
    text = Text.assemble((chosen.name, "bold"), f"  {chosen.summary}\n", (f"  {chosen.source}; from {origin}\n", "dim"))
    terminal.console.print(text.append(f"  options: {options or 'none'}"), highlight=False)


def _with_default(facts: KeyFacts) -> str:
    return (
        f"{facts.name} {facts.default}" if facts.default in (REQUIRED, "unset") else f"{facts.name} = {facts.default}"
    )


def explain(key: str | None, *, as_json: bool, as_schema: bool, as_markdown: bool) -> None:
    """`gradwire explain`."""
    loaded, _ = _loaded_strategies()
    if as_schema:
        _print_json(json_schema())
    elif as_markdown:
        print(markdown([each for each in loaded if strategy_origins(each.name) == ["gradwire"]]), end="")
    else:
        told = explained(key, loaded) if key else list(sections())
        if as_json:
            _print_json([asdict(section) for section in told])
            return
        for section in told:
            for line in _section_shown(section, whole=key is None):
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
            yield Padding(Text(facts.meaning), (0, 0, 0, 6))
            yield Padding(Text(facts.value, style="dim"), (0, 0, 0, 6))


def _print_table(columns: Sequence[str], rows: Any, numbers: Sequence[int] = ()) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for index, column in enumerate(columns):
        table.add_column(column, justify="right" if index in numbers else "left", no_wrap=index == 0)
    for row in rows:
        table.add_row(*map(Text, row))
    terminal.console.print(table, highlight=False)


def _print_json(value: Mapping[str, Any] | Sequence[Any]) -> None:
    print(json.dumps(value, indent=1, ensure_ascii=False))
