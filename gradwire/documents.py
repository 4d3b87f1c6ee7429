"""What TOML, JSON and YAML say: a document is a table of values, and code that reads one asks what each value is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

from gradwire.faults import InputFault

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date, time

DocumentValue: TypeAlias = (
    "str | int | float | bool | date | time | Sequence[DocumentValue] | Mapping[str, DocumentValue] | None"
)
"""A value of a document, read or built. Who reads a list or a table asks for `list` or `dict`, which readers of files make."""
Document: TypeAlias = "dict[str, DocumentValue]"
"""A table whose keys may be set."""
DocumentTable: TypeAlias = "Mapping[str, DocumentValue]"
"""A table that is only read."""


def table_at(document: DocumentTable, *keys: str) -> DocumentTable:
    """The table at a key in a table, and so on; an empty one where nothing is, or something else."""
    table = document
    for key in keys:
        inner = table.get(key)
        table = inner if isinstance(inner, Mapping) else {}
    return table


def list_of(value: DocumentValue) -> list[DocumentValue]:
    """The entries of a list; a list of the value itself where it is none."""
    return list(value) if isinstance(value, list) else [value]


def table_of(document: Document, key: str) -> Document:
    """The table at a key, where keys may be set; an empty one is put there if there is none. Raises InputFault for a value."""
    table = document.setdefault(key, {})
    if not isinstance(table, dict):
        raise InputFault(f"{key}: is a value, not a table")
    return table
