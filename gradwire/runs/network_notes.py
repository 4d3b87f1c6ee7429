"""Notes on networks from files, for those who plan, estimate and run: what was left out or taken for something else. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from gradwire.scenario.program_scenarios import ProgramPointSection
from gradwire.scenario.schema import PointSection
from gradwire.scenario.sections.fabric import FabricSection
from gradwire.scenario.sections.network import NetworkDefinition, NetworkNote, NoteKind


def network_notes(sections: Iterable[PointSection | ProgramPointSection]) -> list[str]:
    """A sentence for each network of points that lacks something of its file, or has something in another way."""
    found: dict[str, None] = {}
    for section in sections:
        network = section.defined.networks.get(section.fabric.file or "")
        if network is not None and (said := list(_of(section.fabric, network))):
            found[f"network '{section.fabric.file}': {'; '.join(said)}"] = None
    return list(found)


def _of(fabric: FabricSection, network: NetworkDefinition) -> Iterator[str]:
    for note in network.notes:
        yield WORDS[note.kind](note)
    all_links = len(network.links)
    if without := sum(link.rate is None for link in network.links):
        yield f"{_of_all(without, all_links)} no rate in the file: fabric.rate applies"
    if fabric.delay_from_coordinates:
        without = sum(link.delay is None and link.distance_km is None for link in network.links)
        if without:
            yield f"{_of_all(without, all_links)} no coordinates at both ends: fabric.delay applies"


def _of_all(some: int, every: int) -> str:
    return f"{some} of {every} links {'has' if some == 1 else 'have'}"


def _names(note: NetworkNote) -> str:
    more = f" and {note.more_names} more" if note.more_names else ""
    return f"{', '.join(note.names)}{more}"


def _places(note: NetworkNote) -> str:
    """The nodes and links that a note is about."""
    counts = [
        f"{count} {noun}{'' if count == 1 else 's'}"
        for count, noun in ((note.nodes, "node"), (note.links, "link"))
        if count
    ]
    return " and ".join(counts)


WORDS: Mapping[NoteKind, Callable[[NetworkNote], str]] = {
    NoteKind.UNUSED: lambda note: f"not used, in {_places(note) or 'the file'}: {_names(note)}",
    NoteKind.OVERRULED: lambda note: (
        f"{_names(note)} of {_places(note)} contradict other attributes, which take precedence, and are not used"
    ),
    NoteKind.SWITCHES: lambda note: f"{_places(note)} of other types than host and switch are switches: {_names(note)}",
    NoteKind.OUTSIDE: lambda note: f"{_places(note)} of other networks (Internal = 0) are switches like the others",
    NoteKind.ALONE: lambda note: f"{_places(note)} without links left out: {_names(note)}",
    NoteKind.LOOPS: lambda note: f"{_places(note)} of a node to itself left out: {_names(note)}",
    NoteKind.STUBS: lambda note: f"{_places(note)} with one end in the network left out: {_names(note)}",
    NoteKind.LANS: lambda note: f"{_places(note)} of more than two nodes are switches of their own: {_names(note)}",
    NoteKind.INSIDE: lambda note: f"the inside of machines is left out, and is at costs.local_rate: {_names(note)}",
}
"""A note in words."""
