"""HTML pages from the templates of this folder. Every text is escaped; only drawings are taken as they are."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from gradwire.analysis.report.tables import TextTable

TEMPLATES = Path(__file__).with_name("templates")
SENTENCE_LETTERS = 40
"""A longer cell is no number, whatever its column, and is folded like words."""
PARAGRAPH_LETTERS = 240
"""A longer cell gets a wide column, if its column is for words."""
_environment = Environment(
    loader=FileSystemLoader(TEMPLATES),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)


@dataclass(frozen=True)
class HtmlCell:
    """A cell of a table. kind: its class in the style sheet, or "" for none."""

    text: str
    kind: str


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


def page(template: str, **values: Any) -> str:
    """A page from a template, which names every value that it wants."""
    return _environment.get_template(template).render(**values)


def drawing(svg: str) -> Markup:
    """An SVG document as a part of a page: its prologue and document type may not stand there, and nothing in it is escaped."""
    return Markup(svg[svg.index("<svg") :])


def html_table(table: TextTable) -> HtmlTable:
    """A table with a class for each cell: words, paragraphs and numbers are set differently."""
    first = table.rows[0] if table.rows else table.headers
    head = tuple(HtmlCell(header, _kind(table, i, first[i])) for i, header in enumerate(table.headers))
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
