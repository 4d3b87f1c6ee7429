"""The part that readers of labs' files share (containerlab's and netlab's): nodes by name, and links between any number of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gradwire.documents import Document, DocumentTable, DocumentValue
from gradwire.faults import InputFault
from gradwire.scenario.definitions.networks.network_form import Content, noted, refuse_many, shown
from gradwire.scenario.sections.network import NoteKind


class LabError(Exception):
    """Something wrong in a lab's file, with its key."""


@dataclass
class LabTopology:
    """A lab while its file is read."""

    #: The list of a NetworkDefinition, "hosts" or "switches", by node.
    kinds: dict[str, str]
    links: list[Content] = field(default_factory=list)
    #: Other ends of links that leave the lab, or nodes of links with one end.
    stubs: list[str] = field(default_factory=list)
    #: Switches that links of several nodes are.
    lans: list[str] = field(default_factory=list)
    #: Nodes whose links to themselves are left out.
    loops: list[str] = field(default_factory=list)
    #: Keys that are not used, and the numbers of nodes and links that have any.
    unused: dict[str, None] = field(default_factory=dict)
    unused_nodes: int = 0
    unused_links: int = 0

    def join(self, number: int, ends: Sequence[str], values: DocumentTable) -> None:
        """Adds a link. number: its place in the file, from which a link of more than two nodes has its name. Each end of
        such a link has half its delay."""
        if len(ends) == 1:
            self.stubs.append(ends[0])
        elif len(ends) == 2 and ends[0] == ends[1]:
            self.loops.append(ends[0])
        elif len(ends) == 2:
            self.links.append({"a": ends[0], "b": ends[1], **values})
        else:
            lan = f"lan{number}"
            if lan in self.kinds or len(set(ends)) < len(ends):
                raise LabError(
                    f"links.{number}: joins {shown(list(ends))}: each must be there once, and no node be called {lan}"
                )
            self.kinds[lan] = "switches"
            self.lans.append(lan)
            self.links += [{"a": end, "b": lan, **values} for end in ends]

    def skip(self, keys: Sequence[str], *, of_link: bool) -> None:
        """Notes keys that are not used."""
        if keys:
            self.unused |= dict.fromkeys(keys)
            self.unused_links += of_link
            self.unused_nodes += not of_link

    def content(self, path: Path) -> Content:
        """The content of a NetworkDefinition, without switches that have no links."""
        refuse_many(path, len(self.kinds), len(self.links))
        joined = {end for link in self.links for end in (link["a"], link["b"])}
        alone = [name for name, kind in self.kinds.items() if name not in joined and self.links]
        notes = []
        if self.unused:
            notes.append(noted(NoteKind.UNUSED, self.unused, nodes=self.unused_nodes, links=self.unused_links))
        for kind, names in ((NoteKind.STUBS, self.stubs), (NoteKind.LOOPS, self.loops), (NoteKind.LANS, self.lans)):
            if names:
                notes.append(noted(kind, names, links=len(names)))
        if alone:
            notes.append(noted(NoteKind.ALONE, alone, nodes=len(alone)))
        content: Content = {
            which: [name for name, kind in self.kinds.items() if kind == which and name not in alone]
            for which in ("hosts", "switches")
        }
        return {**content, "links": self.links, **({"notes": notes} if notes else {})}


def table(value: object, where: str) -> Document:
    """A table, with its keys as texts; an empty one for None. Raises LabError for anything else."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise LabError(f"{where}: must be a table, not {shown(value)}")
    return {str(key): each for key, each in value.items()}


def items(value: object, where: str) -> list[DocumentValue]:
    """A list; an empty one for None. Raises LabError for anything else."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise LabError(f"{where}: must be a list, not {shown(value)}")
    return value


def refused(path: Path, error: LabError) -> InputFault:
    """The refusal of a file."""
    return InputFault(f"{path}: {error}")
