"""Links of a fabric: their ends, and what they are like for good. Imports only the standard library.

A link is called by the devices at its ends, in either order: "h1-s1", "s3-s1". Where several links join the same two
devices, the second one is "s3-s1#2". In a leaf/spine network or a fat tree, "leaf1-spine2" says the same, and whatever
a network that a user describes calls its devices does as well. A host's link is also called by the host alone, and each
link by its ports ("s1-eth4").
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from gradwire.datatypes.name_patterns import NumberedNames

A = TypeVar("A")
B = TypeVar("B")
LEAST_BURSTS = 4
"""Bursts that a finite buffer, and the threshold of its marks, are long at least. With fewer, it would count bursts
and not bytes."""


@dataclass(frozen=True)
class Port:
    """One end of a link: a device's interface, numbered from 1 on switches."""

    device: str
    number: int

    @property
    def interface(self) -> str:
        """Name of the network interface, unique on the machine for switches."""
        return f"{self.device}-eth{self.number}"


@dataclass(frozen=True)
class LinkBetween(Generic[A, B]):
    """A full-duplex link between two ends, however these are known; `rate_bps` is the line rate of each direction."""

    a: A
    b: B
    rate_bps: float
    #: How long a packet of either direction is under way beside its time on the line.
    delay_s: float = 0.0
    #: How much longer than `delay_s` it may be, at random. Packets do not overtake one another.
    jitter_s: float = 0.0
    #: Share of packets of each direction that are lost on the way.
    loss: float = 0.0
    #: Size of each band's queue at a switch's port at this link, which drops what does not fit; 0 for the deep queues
    #: of a lossless fabric.
    buffer_bytes: int = 0
    #: Length from which on such a queue marks packets (ECN); 0 for no marks.
    ecn_bytes: int = 0


@dataclass(frozen=True)
class Link(LinkBetween[Port, Port]):
    """A link between two ports."""

    #: Which of the links between the same two devices it is.
    number: int = 1

    @property
    def name(self) -> str:
        """The link by its devices: "h1-s1"."""
        return f"{self.a.device}-{self.b.device}" + (f"#{self.number}" if self.number > 1 else "")


@dataclass(frozen=True)
class LinkSetting:
    """Properties of the links whose names match a pattern; a property that is None stays as it is."""

    #: A link's name, or a pattern as of a shell's file names: "s1-*".
    pattern: str
    rate_bps: float | None = None
    delay_s: float | None = None
    jitter_s: float | None = None
    loss: float | None = None
    buffer_bytes: int | None = None
    ecn_bytes: int | None = None

    def set_values(self) -> Mapping[str, float]:
        """The fields of Link that it sets."""
        values = {
            "rate_bps": self.rate_bps,
            "delay_s": self.delay_s,
            "jitter_s": self.jitter_s,
            "loss": self.loss,
            "buffer_bytes": self.buffer_bytes,
            "ecn_bytes": self.ecn_bytes,
        }
        return {name: value for name, value in values.items() if value is not None}


def with_settings(links: Sequence[Link], settings: Sequence[LinkSetting], names: NumberedNames) -> tuple[Link, ...]:
    """The links as settings have them, of which a later one counts where several set the same. names: of the links."""
    values: dict[int, dict[str, float]] = {}
    for setting in settings:
        for number in names.matching(setting.pattern):
            values.setdefault(number, {}).update(setting.set_values())
    return tuple(
        replace(link, **values[number]) if number in values else link  # type: ignore[arg-type] # of its field's type
        for number, link in enumerate(links)
    )


def names_of_links(links: Iterable[Link], aliases: Mapping[str, Sequence[str]]) -> NumberedNames:
    """Returns the names of all links. aliases: other names of devices."""
    return NumberedNames(link_names(link, aliases) for link in links)


def link_names(link: Link, aliases: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yields all names of a link."""
    for end in (link.a, link.b):
        yield from (Port(name, end.number).interface for name in aliases.get(end.device, (end.device,)))
    which = f"#{link.number}" if link.number > 1 else ""
    ends = [aliases.get(end.device, (end.device,)) for end in (link.a, link.b)]
    for near in ends[0]:
        for far in ends[1]:
            yield f"{near}-{far}{which}"
            yield f"{far}-{near}{which}"
    if link.a.number == 0:  # hosts have one port, and its number is 0
        yield from ends[0]


def numbered(links: Iterable[Link]) -> list[Link]:
    """The links, each with its number among those between the same two devices."""
    counted: dict[frozenset[str], int] = {}
    found = []
    for link in links:
        ends = frozenset((link.a.device, link.b.device))
        counted[ends] = counted.get(ends, 0) + 1
        found.append(replace(link, number=counted[ends]) if counted[ends] > 1 else link)
    return found


def queue_defects(buffer_bytes: int, ecn_bytes: int, loss: float, gso_bytes: int) -> Iterator[str]:
    """Yields the defects of the sizes that a fabric sets for the queues of all links: their buffers, and where they
    begin to mark."""
    if buffer_bytes and loss:
        yield (
            f"fabric.loss = {loss:g}: drops of a finite fabric.buffer could not be distinguished from those at random; "
            "use one of them"
        )
    if buffer_bytes and ecn_bytes >= buffer_bytes:
        yield f"fabric.ecn = {ecn_bytes}B: nothing would be marked before it is dropped; must be below fabric.buffer"
    yield from _short_queues({"fabric.buffer": buffer_bytes, "fabric.ecn": ecn_bytes}, gso_bytes)


def link_queue_defects(settings: Iterable[LinkSetting], links: Iterable[Link], gso_bytes: int) -> Iterator[str]:
    """Yields the defects of the queues that settings ask for at single links, on a fabric whose bursts have
    `gso_bytes`."""
    for setting in settings:
        key = f"fabric.link.'{setting.pattern}'"
        sizes = {f"{key}.buffer": setting.buffer_bytes or 0, f"{key}.ecn": setting.ecn_bytes or 0}
        yield from _short_queues(sizes, gso_bytes)
    for link in links:
        if link.buffer_bytes and link.ecn_bytes >= link.buffer_bytes:
            yield f"fabric.link: {link.name} would mark nothing before it is dropped; its ecn must be below its buffer"


def _short_queues(sizes: Mapping[str, int], gso_bytes: int) -> Iterator[str]:
    """Yields the defects of queues that hold too few bursts, by the key that asks for them; 0 stands for no limit."""
    for key, size_bytes in sizes.items():
        if 0 < size_bytes < LEAST_BURSTS * gso_bytes:
            yield (
                f"{key} = {size_bytes}B: must be at least {LEAST_BURSTS} bursts of fabric.gso = {gso_bytes}B, for a "
                "burst is queued, marked and dropped as a whole; leave out fabric.gso, and hosts send frame by frame"
            )
