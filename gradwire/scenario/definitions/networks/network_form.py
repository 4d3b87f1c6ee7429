"""The interface of a form of network files, and the parts that readers of several forms share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from gradwire.documents import Document
from gradwire.faults import InputFault
from gradwire.scenario.sections.network import (
    LONGEST_NOTE_NAME,
    MOST_LINKS,
    MOST_NODES,
    MOST_NOTE_NAMES,
    MOST_SWITCHES,
    NoteKind,
)
from gradwire.workloads.fields import MOST_WORKERS

Content = Document
"""What a file says, as a NetworkDefinition has it."""
LONGEST_VALUE = 80


@dataclass(frozen=True)
class TextForm:
    """A form whose files have an ending of their own."""

    name: str
    ending: str
    #: The content of a file, from its path and its text. Raises InputFault.
    content: Callable[[Path, str], Content]


@dataclass(frozen=True)
class DocumentForm:
    """A form of JSON and YAML, which is recognised by the keys of its document."""

    name: str
    #: Whether a document is of this form.
    recognises: Callable[[object], bool]
    #: The content of a file, from its path and its document. Raises InputFault.
    content: Callable[[Path, object], Content]


def refuse_crowds(path: Path, hosts: int, switches: int, links: int) -> None:
    """Raises InputFault for more hosts, switches or links than a network may have."""
    for count, what, most in (
        (hosts, "hosts", MOST_WORKERS),
        (switches, "switches", MOST_SWITCHES),
        (links, "links", MOST_LINKS),
    ):
        if count > most:
            raise InputFault(
                f"{path}: has {count:,} {what}; must be at most {most:,}: leave out those that are not needed"
            )


def refuse_many(path: Path, nodes: int, links: int) -> None:
    """Raises InputFault for more nodes or links than a network may have, before more is known of them."""
    if nodes > MOST_NODES:
        raise InputFault(
            f"{path}: has {nodes:,} nodes; must be at most {MOST_SWITCHES:,} switches and {MOST_WORKERS:,} hosts"
        )
    if links > MOST_LINKS:
        raise InputFault(f"{path}: has {links:,} links; must be at most {MOST_LINKS:,}")


def shown(value: object) -> str:
    """A value of a file in a message."""
    try:
        words = repr(value)
    except (RecursionError, ValueError):
        words = f"a {type(value).__name__}"
    return words if len(words) <= LONGEST_VALUE else f"{words[:LONGEST_VALUE]}..."


def noted(kind: NoteKind, names: Iterable[str] = (), *, nodes: int = 0, links: int = 0) -> Content:
    """A note on what became of parts of a file, as a NetworkDefinition has it, with the first of the names, each once."""
    every = list(dict.fromkeys(names))
    said = [_printable(name[:LONGEST_NOTE_NAME]) for name in every[:MOST_NOTE_NAMES]]
    return {"kind": kind.value, "names": said, "more_names": len(every) - len(said), "nodes": nodes, "links": links}


def _printable(name: str) -> str:
    return name if name.isprintable() else ascii(name)[:LONGEST_NOTE_NAME]
