"""Reads YAML as programs write it, by one pass over its events: without anchors, tags and merged tables, and with each key once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from gradwire.faults import InputFault

MOST_DEEP = 16
LONGEST_YAML = 2**22
"""Characters: YAML is read at more than a megabyte per second, and without PyYAML's C at a tenth of that."""
LONGEST_SCALAR = 4_000
"""Characters of a text or a number in YAML, where a number may be in base 60, and takes a time that grows with the square of its length."""


def yaml_document(path: Path, text: str) -> object:
    """The content of a file. Raises InputFault for what cannot be read, what makes much of little, and what is too much."""
    if len(text) > LONGEST_YAML:
        raise InputFault(f"{path}: has {len(text):,} characters; YAML must have at most {LONGEST_YAML:,}; write JSON")
    try:
        yaml: Any = import_module("yaml")
    except ImportError as missing:
        raise InputFault(
            f"{path}: to read YAML, PyYAML is needed: `pip install 'gradwire[infragraph]'`; or write the file as JSON"
        ) from missing
    try:
        return _built(path, yaml, text)
    except InputFault:
        raise
    except Exception as error:  # its constructors raise whatever a value leads to
        raise InputFault(f"{path}: cannot be read as YAML: {' '.join(str(error).split())[:300]}") from error


def _built(path: Path, yaml: Any, text: str) -> object:
    """The content of YAML, made of its events one by one, each of which is looked at before. PyYAML's own loading would take a pass of
    twice the time behind that."""
    scalars = _Scalars(yaml)
    #: Of each list and table that is open, what is in it so far, keys and values in turn; the first is around the document.
    open_items: list[list[object]] = [[]]
    for event in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        _refuse_event(path, event)
        if isinstance(event, yaml.ScalarEvent):
            open_items[-1].append(scalars.value(event))
        elif isinstance(event, yaml.CollectionStartEvent):
            open_items.append([])
            if len(open_items) > MOST_DEEP + 1:
                raise InputFault(f"{path}: has lists and tables more than {MOST_DEEP} deep")
        elif isinstance(event, yaml.CollectionEndEvent):
            items = open_items.pop()
            open_items[-1].append(_table(items) if isinstance(event, yaml.MappingEndEvent) else items)
    (documents,) = open_items
    if len(documents) > 1:
        raise ValueError(f"has {len(documents):,} documents; must have one")
    return documents[0] if documents else None


class _Scalars:
    """Values of texts, which are mostly the same ones."""

    def __init__(self, yaml: Any) -> None:
        self._node, self._loader = yaml.ScalarNode, yaml.SafeLoader("")
        self._known: dict[str, object] = {}

    def value(self, event: Any) -> object:
        """What a scalar says: a text if it is quoted, and else what it looks like. Raises whatever a constructor does."""
        if not event.implicit[0]:
            return event.value
        if event.value not in self._known:
            tag = self._loader.resolve(self._node, event.value, event.implicit)
            construct = self._loader.yaml_constructors.get(tag)
            if construct is None:
                raise ValueError(f"{event.value} is no value")
            self._known[event.value] = construct(self._loader, self._node(tag, event.value))
        return self._known[event.value]


def _table(items: Sequence[object]) -> dict[object, object]:
    """Keys and values in turn, as a table.

    Raises ValueError for a key that is there twice, of which PyYAML takes the last, and for one that is a list or a table.
    """
    keys = items[::2]
    for key in keys:
        if isinstance(key, list | dict):
            raise ValueError(f"the key {key} is no text")
    names = Counter(map(str, keys))
    if len(names) < len(keys):
        twice = next(name for name, times in names.items() if times > 1)
        raise ValueError(f"the key {twice} is given twice; leave one out")
    return dict(zip(keys, items[1::2], strict=True))


def _refuse_event(path: Path, event: Any) -> None:
    """Raises InputFault for what makes much of little, and for what no form of networks needs."""
    if anchor := getattr(event, "anchor", None):
        raise InputFault(
            f"{path}: has an anchor (&{str(anchor)[:40]}) or an alias of one; write out what it stands for"
        )
    if tag := getattr(event, "tag", None):
        raise InputFault(f"{path}: has a tag ({str(tag)[:40]}); leave it out")
    if len(getattr(event, "value", "")) > LONGEST_SCALAR:
        raise InputFault(f"{path}: has a value of more than {LONGEST_SCALAR:,} characters")
