"""HTML pages from templates: those of this folder, and those of a caller's own. Every text is escaped, with its control
characters; only drawings are taken as they are.

A page is one file that needs nothing else: its style and its script are in it. Its security policy forbids it to load
anything, and lets a browser take just this style and this script, by their hashes: markup that came into a page by
another way would do nothing.

A report's page has all settings of its points: what is common to all, and where each point differs.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from gradwire.analysis.report.tables import MEANINGS
from gradwire.analysis.report.text_table import TextTable
from gradwire.terminal_text import visible

TEMPLATES = Path(__file__).with_name("templates")
SENTENCE_LETTERS = 40
"""A longer cell is not a number, whatever its column, and is folded like words."""
PARAGRAPH_LETTERS = 240
"""A longer cell gets a wide column, if its column is for words."""
THEMED = {
    "#ffffff": "var(--paper)",
    "#000000": "currentColor",
    "#dddddd": "var(--rule)",
    "#666666": "var(--faint)",
    "#777777": "var(--faint)",
    "#999999": "var(--faint)",
}
"""Colours of drawings that follow the page's, so that a drawing is
readable in the dark; the others tell strategies apart."""
METADATA = re.compile(r"<metadata>.*?</metadata>", re.DOTALL)
OWN_STYLE = re.compile(r"<style [^>]*>\*\{([^{}]*)\}</style>")
"""The style sheet of a drawing by matplotlib: one rule, for all its elements."""
STYLE_ATTRIBUTE = re.compile(r' style="([^"]*)"')
STYLE, SCRIPT = (re.compile(rf"<{name}>(.*?)</{name}>", re.DOTALL) for name in ("style", "script"))
POLICY = "policy-of-this-page"
"""Placeholder in the page's head until its style and its script are written, whose hashes the policy has."""
BY_SCENARIO, BY_DEFAULT = "scenario", "default"
"""Origins of a setting."""


@functools.cache
def _environment(folder: Path) -> Environment:
    return Environment(
        loader=FileSystemLoader([folder, TEMPLATES]),
        autoescape=True,
        finalize=_shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def _shown(value: object) -> object:
    """A value as a page has it: titles and names come from others, and a control character acts on the terminal of whoever
    looks at the source, and has no place in HTML."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


@dataclass(frozen=True)
class HtmlCell:
    """A cell of a table. kind: its class in the style sheet, or "" for none. meaning: of a header, "" for none."""

    text: str
    kind: str
    meaning: str = ""


@dataclass(frozen=True)
class HtmlRow:
    """A row of a table, with its outcome in the last column."""

    cells: tuple[HtmlCell, ...]
    outcome: str
    tone: str


@dataclass(frozen=True)
class HtmlTable:
    """A table as the templates take it."""

    title: str
    head: tuple[HtmlCell, ...]
    rows: tuple[HtmlRow, ...]
    foot: str


def page(template: str, /, *, templates: Path = TEMPLATES, **values: object) -> str:
    """A page from a template, which names every value that it wants.
    templates: the folder of a template that this one lacks."""
    html = _environment(templates).get_template(template).render(**values, policy=POLICY)
    parts = (
        "default-src 'none'",
        f"style-src {_hash_source(STYLE, html)}",
        f"script-src {_hash_source(SCRIPT, html)}",
        "base-uri 'none'",
        "form-action 'none'",
    )
    return html.replace(POLICY, "; ".join(parts), 1)


def _hash_source(element: re.Pattern[str], html: str) -> str:
    """Source expression of a security policy that permits the only element of a kind in a page, by its hash."""
    (text,) = element.findall(html)
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def drawing(svg: str) -> Markup:
    """An SVG document as a part of a page, in the page's colours.

    Its prologue, document type and metadata may not stand there, and nothing in it is escaped. Its styles become
    attributes, since the page's policy permits no style but the page's own.
    """
    inside = METADATA.sub("", svg[svg.index("<svg") :])
    if rule := OWN_STYLE.search(inside):
        inside = OWN_STYLE.sub("", inside).replace("<svg ", f"<svg {_attributes(rule[1])} ", 1)
    inside = STYLE_ATTRIBUTE.sub(lambda style: f" {_attributes(style[1])}", inside)
    for color, themed in THEMED.items():
        inside = inside.replace(color, themed).replace(color.upper(), themed)
    return Markup(inside)


def _attributes(style: str) -> str:
    """Declarations of CSS as the attributes that SVG has for them."""
    pairs = (declaration.partition(":") for declaration in style.split(";") if declaration.strip())
    return " ".join(f'{name.strip()}="{value.strip()}"' for name, _, value in pairs)


def html_table(table: TextTable) -> HtmlTable:
    """A table with a class for each cell: words, paragraphs and numbers are set differently."""
    first = table.rows[0] if table.rows else table.headers
    head = tuple(
        HtmlCell(header, _kind(table, i, first[i]), MEANINGS.get(header, "")) for i, header in enumerate(table.headers)
    )
    rows = tuple(
        HtmlRow(tuple(HtmlCell(cell, _kind(table, i, cell)) for i, cell in enumerate(row[:-1])), row[-1], tone)
        for row, tone in zip(table.rows, table.tone, strict=True)
    )
    return HtmlTable(table.title, head, rows, table.foot)


def _kind(table: TextTable, column: int, cell: str) -> str:
    words = column < table.left or column == len(table.headers) - 1
    if len(cell) > PARAGRAPH_LETTERS and column < table.left:
        return "paragraph"
    if len(cell) > SENTENCE_LETTERS:
        return "words"
    return "" if words else "number"


@dataclass(frozen=True)
class Setting:
    """The value of a key of a scenario, as a point has it."""

    #: In words, with its unit.
    value: str
    #: BY_SCENARIO or BY_DEFAULT.
    by: str


Settings = Mapping[str, Setting]
"""A point's settings by their dotted keys."""


def common_settings(points: Sequence[Settings]) -> dict[str, Setting]:
    """The settings that all points have alike; those of the scenario come first."""
    first, *others = points or [{}]
    alike = {key: setting for key, setting in first.items() if all(point.get(key) == setting for point in others)}
    return dict(sorted(alike.items(), key=lambda item: item[1].by != BY_SCENARIO))


def own_settings(points: Sequence[Settings]) -> list[dict[str, Setting]]:
    """Settings of each point that are not common to all."""
    common = common_settings(points)
    return [{key: setting for key, setting in point.items() if key not in common} for point in points]


def settings_tables(points: Sequence[Settings]) -> tuple[TextTable, TextTable]:
    """One row per setting that all points have alike: those of the scenario, and the defaults."""
    alike = common_settings(points)
    return _settings_table("Settings", alike, BY_SCENARIO), _settings_table("Defaults", alike, BY_DEFAULT)


def _settings_table(title: str, settings: Settings, by: str) -> TextTable:
    rows = tuple((key, setting.value, by) for key, setting in settings.items() if setting.by == by)
    return TextTable(title, ("setting", "value", "set by"), rows, 2, ("",) * len(rows))


def in_line(settings: Settings) -> str:
    """Settings in one line; a default is marked as such."""
    words = [
        f"{key} = {setting.value}{' (default)' if setting.by == BY_DEFAULT else ''}"
        for key, setting in settings.items()
    ]
    return "; ".join(words)
