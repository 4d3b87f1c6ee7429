"""Reference of a scenario's keys: every key with its meaning, its requirements, and its default, taken from the schema
itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from gradwire.faults import InputFault
from gradwire.nearest_names import did_you_mean, nearest_names, question
from gradwire.scenario.effective import value_text
from gradwire.scenario.explanations import ALMOST, OPTIONS_KEY
from gradwire.scenario.program_scenarios import ProgramFileSection, ProgramPointSection
from gradwire.scenario.schema import AboutSection, FileSection, PointSection
from gradwire.scenario.synonyms import meant_by
from gradwire.scenario.toml_documents import key_by_first_names
from gradwire.workloads.fields import ValueKind
from gradwire.workloads.strategy import Options, Strategy
from gradwire.workloads.strategy_registry import strategies_meant_by

REQUIRED = "required"


@dataclass(frozen=True)
class KeyFacts:
    """A key of a scenario, or an option of a strategy."""

    #: Dotted, as --set takes it; [] after a key whose value is a list of tables.
    name: str
    meaning: str
    #: Requirement on the value.
    value: str
    #: The default as a scenario would write it, or REQUIRED.
    default: str


@dataclass(frozen=True)
class SectionFacts:
    """A table of a scenario."""

    #: Dotted; "" for the file's own keys.
    name: str
    meaning: str
    keys: tuple[KeyFacts, ...]


def sections() -> Iterator[SectionFacts]:
    """Every table of a scenario file, first the file's own keys."""
    yield _section("", FileSection)
    yield from _tables(FileSection, "")
    for name, field in PointSection.model_fields.items():
        place, kind = _table_of(name, field)
        yield _section(place, kind)
        yield from _tables(kind, f"{place}.")


def _table_of(name: str, field: FieldInfo) -> tuple[str, type[BaseModel]]:
    """Name and section of a table of a point, from its name and field."""
    kind = ValueKind(field.annotation, field.metadata)
    inner = kind.element.section if kind.is_table else kind.section
    assert inner is not None, "a point consists of tables"
    return f"{name}.NAME" if kind.is_table else name, inner


def program_sections() -> Iterator[SectionFacts]:
    """The tables of a scenario of programs, as far as they differ from those of other scenarios: first the file's own keys."""
    yield _section("", ProgramFileSection, without=AboutSection)
    for name, field in ProgramPointSection.model_fields.items():
        if name not in PointSection.model_fields or field.annotation != PointSection.model_fields[name].annotation:
            yield _section(*_table_of(name, field))


def _tables(parent: type[BaseModel], prefix: str) -> Iterator[SectionFacts]:
    """The tables inside a table."""
    for name, field in parent.model_fields.items():
        kind = ValueKind(field.annotation, field.metadata)
        inner = kind.element.section if kind.is_list or kind.is_table else kind.section
        if inner is not None:
            place = f"{prefix}{name}{'[]' if kind.is_list else '.NAME' if kind.is_table else ''}"
            yield _section(place, inner)
            yield from _tables(inner, f"{place}.")


def _section(name: str, kind: type[BaseModel], without: type[BaseModel] | None = None) -> SectionFacts:
    left_out = without.model_fields if without else {}
    fields = {key: field for key, field in kind.model_fields.items() if key not in left_out}
    keys = tuple(_facts(f"{name}.{key}" if name else key, field) for key, field in fields.items())
    return SectionFacts(name, _one_line(kind.__doc__ or ""), keys)


def option_facts(options: type[Options]) -> tuple[KeyFacts, ...]:
    """The options of a strategy."""
    return tuple(_facts(name, field) for name, field in options.model_fields.items())


def option_tables(strategies: Sequence[Strategy]) -> list[SectionFacts]:
    """The tables that options of strategies have as their values, such as `nccl`, each once."""
    tables = (table for each in strategies for table in _tables(each.options, f"{OPTIONS_KEY}."))
    return list({table.name: table for table in tables}.values())


def _facts(name: str, field: FieldInfo) -> KeyFacts:
    kind = ValueKind(field.annotation, field.metadata)
    default = field.get_default(call_default_factory=True)
    return KeyFacts(
        name,
        _one_line(field.description or ""),
        kind.words or "any value",
        REQUIRED if field.is_required() else _default(default, kind),
    )


def _default(value: Any, kind: ValueKind) -> str:
    return '""' if value == "" else value_text(value, kind)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def explained(words: str, strategies: Sequence[Strategy]) -> list[SectionFacts]:
    """Facts about a section, a key, an option of strategies, or a strategy, by its name or a word that means it; or else
    about all keys and options that these words speak of.

    Raises InputFault, with the nearest names, if there are none.
    """
    key = key_by_first_names(words)
    everything = [*sections(), *option_tables(strategies)]
    by_strategy = [_options_of(strategy) for strategy in strategies]
    if key == OPTIONS_KEY:
        return by_strategy
    for strategy in strategies:
        if key in (strategy.name, f"strategy.{strategy.name}"):
            return [_options_of(strategy)]
    matching = [section for section in everything if section.name in (key, f"{key}.NAME", f"{OPTIONS_KEY}.{key}")]
    searched = [*by_strategy, *everything] if key.startswith(f"{OPTIONS_KEY}.") else everything
    matching = matching or [_only(section, key) for section in searched]
    if not any(section.keys for section in matching):
        matching = [_ending_in(section, key) for section in everything]
    if kept := [section for section in matching if section.keys]:
        return kept
    word = key.rpartition(".")[2]
    if meant := [*meant_by(word), *strategies_meant_by(word)]:
        return [section for name in meant for section in explained(name, strategies)]
    names = [facts.name for section in (*everything, *by_strategy) for facts in section.keys]
    names += [section.name for section in everything if section.name] + [strategy.name for strategy in strategies]
    if mistyped := nearest_names(key, names, ALMOST):
        raise InputFault(f"{words}: no such key, section or strategy; {did_you_mean(mistyped)}")
    return found_by_words(words, every_section(strategies), question(key, names))


def every_section(strategies: Sequence[Strategy]) -> list[SectionFacts]:
    """All tables and options: the tables of scenarios, those of programs, and the options of strategies."""
    return [*sections(), *program_sections(), *map(_options_of, strategies), *option_tables(strategies)]


def found_by_words(words: str, searched: Sequence[SectionFacts], otherwise: str = "") -> list[SectionFacts]:
    """The keys for which all words occur: in their name, their meaning, their values or their table's meaning, or as
    another word for the key.

    Raises InputFault if there are none, with the question `otherwise`.
    """
    wanted = words.lower().split()
    found: dict[str, SectionFacts] = {}
    for section in searched:
        keys = tuple(facts for facts in section.keys if _says(wanted, section, facts))
        if keys and section.name not in found:
            found[section.name] = SectionFacts(section.name, section.meaning, keys)
    if not found:
        raise InputFault(
            f"{words}: no key, section or strategy has this name, and no key's meaning has all these words; "
            f"{otherwise or 'give fewer words, or others; `gradwire explain` lists all keys'}"
        )
    return list(found.values())


def _says(wanted: Sequence[str], section: SectionFacts, facts: KeyFacts) -> bool:
    of_key = f"{facts.name} {facts.meaning} {facts.value}".lower()
    everything = f"{of_key} {section.name} {section.meaning}".lower()
    own = [word for word in wanted if _stem(word) in of_key or facts.name in meant_by(word)]
    return bool(own) and all(word in own or _stem(word) in everything for word in wanted)


ENDINGS = ("ing", "ed", "es", "s")
SHORTEST_STEM = 3
"""Letters that are left of a word at least: fewer are in too many others."""


def _stem(word: str) -> str:
    """A word without its ending, such as flap of flapping: the same words with other endings have it in them."""
    ending = next((each for each in ENDINGS if word.endswith(each) and not word.endswith("ss")), "")
    bare = word.removesuffix(ending)
    if ending in ("ing", "ed") and bare[-1:] == bare[-2:-1]:
        bare = bare[:-1]
    return bare if len(bare) >= SHORTEST_STEM else word


def _only(section: SectionFacts, key: str) -> SectionFacts:
    return SectionFacts(section.name, section.meaning, tuple(facts for facts in section.keys if facts.name == key))


def _ending_in(section: SectionFacts, word: str) -> SectionFacts:
    """The keys whose last part is this word."""
    ends = tuple(facts for facts in section.keys if facts.name.rpartition(".")[2] == word)
    return SectionFacts(section.name, section.meaning, ends)


def _options_of(chosen: Strategy) -> SectionFacts:
    keys = tuple(
        KeyFacts(f"{OPTIONS_KEY}.{facts.name}", facts.meaning, facts.value, facts.default)
        for facts in option_facts(chosen.options)
    )
    return SectionFacts(f"strategy '{chosen.name}'", f"{chosen.summary} ({chosen.source})", keys)


def json_schema() -> dict[str, Any]:
    """The JSON Schema of scenario files, for editors. A key that a sweep may give is not required, so the title alone is."""
    schema = FileSection.model_json_schema()
    of_points = PointSection.model_json_schema()
    of_programs = ProgramPointSection.model_json_schema()
    definitions = {**of_programs.pop("$defs"), **of_points.pop("$defs"), **schema.pop("$defs", {})}
    either = {
        key: {"anyOf": [of_points["properties"][key], of_programs["properties"][key]]}
        for key in of_points["properties"].keys() & of_programs["properties"].keys()
    }
    for table in definitions.values():
        if table["title"] not in ("PrintedSection",) and not table["title"].startswith("Sourced"):
            table.pop("required", None)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "gradwire scenario",
        "type": "object",
        "additionalProperties": False,
        "properties": {
            **ProgramFileSection.model_json_schema()["properties"],
            **schema["properties"],
            **of_programs["properties"],
            **of_points["properties"],
            **either,
        },
        "required": ["title"],
        "$defs": definitions,
    }


def markdown(strategies: Sequence[Strategy]) -> str:
    """docs/scenario-reference.md: every key, and every option of every strategy."""
    parts = [
        "# What a scenario may say",
        "Written by `gradwire explain --markdown`. `gradwire explain fabric.rate` says the same of a single key, and "
        "`gradwire explain --json-schema > scenario.schema.json` writes a JSON Schema, with which editors complete and "
        "check a scenario whose first line is `#:schema ./scenario.schema.json`: VS Code with *Even Better TOML*, and "
        "all that use Taplo's language server. In a clone, `.taplo.toml` does so for the scenarios there. "
        "Any value may be set on the command line (`--set fabric.rate=25gbit`), and any key of a point may be swept: "
        "`[sweep]` takes lists of values, and so does `--set`.",
    ]
    for section in sections():
        parts += [f"## {f'`[{section.name}]`' if section.name else 'The file'}", section.meaning, _table(section.keys)]
    parts += [
        "## Scenarios of programs",
        "They have no model and no strategy, and programs alone ([your own program](your-own-program.md#in-a-scenario)). "
        "`[program.NAME]`, `[fabric]` and the file's keys `title`, `about`, `labels`, `sweep`, `cases` and `notes` are as above. "
        "These are not:",
    ]
    for section in program_sections():
        heading = f"### `[{section.name}]`" if section.name else "### The file of a scenario of programs"
        parts += [heading, section.meaning, _table(section.keys)]
    parts += ["## Options of strategies", f"Written as `{OPTIONS_KEY}.NAME`."]
    for strategy in strategies:
        options = option_facts(strategy.options)
        parts += [
            f"### `{strategy.name}`",
            f"{strategy.summary} ({strategy.source}).",
            _table(options) if options else "No options.",
        ]
    return "\n\n".join(parts) + "\n"


def _table(keys: Sequence[KeyFacts]) -> str:
    rows = [
        f"| `{facts.name}` | {_cell(facts.meaning)} | {_cell(facts.value)} | {_code(facts.default)} |" for facts in keys
    ]
    return "\n".join(["| key | meaning | value | default |", "|---|---|---|---|", *rows])


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _code(default: str) -> str:
    return default if default in (REQUIRED, "unset") else f"`{_cell(default)}`"
