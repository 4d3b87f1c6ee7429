"""By which algorithm each call or bucket goes, and what was taken in the end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gradwire.workloads.engines.collectives.choice import AUTO, PIECE_BYTES, Layout, member_schedule, picked
from gradwire.workloads.engines.collectives.contract import Collective
from gradwire.workloads.engines.collectives.rules import Rule
from gradwire.workloads.engines.collectives.schedule import Schedule
from gradwire.workloads.values.units import size_text

ONLY = {
    Collective.GATHER: Rule((), "direct"),
    Collective.SCATTER: Rule((), "direct"),
    Collective.BARRIER: Rule((), "dissemination"),
}
"""Kinds of which there is nothing to choose."""


@dataclass
class _Taken:
    """Calls that go by the same algorithm: how many, and the range of their members and sizes."""

    calls: int = 0
    members: list[int] = field(default_factory=list)
    size_bytes: list[int] = field(default_factory=list)

    def note(self, calls: int, members: int, size_bytes: int) -> None:
        """Adds as many calls."""
        self.calls += calls
        self.members = [min((members, *self.members)), max((members, *self.members))]
        self.size_bytes = [min((size_bytes, *self.size_bytes)), max((size_bytes, *self.size_bytes))]


@dataclass
class Routes:
    """Rules by kind, and a record of what they came to."""

    rules: Mapping[Collective, Rule]
    piece_bytes: int = PIECE_BYTES
    channels: int = 1
    #: The key that decides over all kinds; None: each has its own option.
    key: str | None = None
    _taken: dict[tuple[Collective, str], _Taken] = field(default_factory=dict)

    def schedule(self, kind: Collective, layout: Layout, root: int, size_bytes: int, calls: int) -> Schedule:
        """The schedule of as many calls that are alike. Raises InputFault for an algorithm that does not suit the members.

        root: place of the member that they are from or to. size_bytes: as the kind counts it.
        """
        rule = self.rules[kind] if kind in self.rules else ONLY[kind]
        name = rule.algorithm(size_bytes)
        name = picked(kind, layout, size_bytes) if name == AUTO else name
        self._taken.setdefault((kind, name), _Taken()).note(calls, layout.members, size_bytes)
        key = self.key or f"strategy.options.{option_of(kind)}"
        return member_schedule(kind, name, layout, size_bytes, root, self.piece_bytes, self.channels, key)

    def notes(self) -> list[str]:
        """A line for each kind and algorithm that was taken."""
        return [_line(kind, name, taken) for (kind, name), taken in sorted(self._taken.items())]


def _line(kind: Collective, name: str, taken: _Taken) -> str:
    members = _range([str(count) for count in taken.members])
    size = "" if kind is Collective.BARRIER else f" of {_range([size_text(each) for each in taken.size_bytes])}"
    return f"{kind} among {members} by {name}: {taken.calls:,} call{'s' if taken.calls > 1 else ''}{size}"


def _range(ends: list[str]) -> str:
    first, last = ends
    return first if first == last else f"{first} to {last}"


def option_of(kind: Collective) -> str:
    """The option that decides over a kind: reductions to one rank go as broadcasts do."""
    return "broadcast" if kind is Collective.REDUCE else kind.value.replace("-", "_")
