"""By which algorithm each call of a workload goes, and what was taken in the end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gradwire.workloads.engines.collectives.choice import AUTO, PIECE_BYTES, Layout, member_schedule, picked
from gradwire.workloads.engines.collectives.contract import Collective
from gradwire.workloads.engines.collectives.rules import Rule
from gradwire.workloads.engines.collectives.schedule import Schedule
from gradwire.workloads.scenario.units import size_text

ONLY = {
    Collective.GATHER: Rule((), "direct"),
    Collective.SCATTER: Rule((), "direct"),
    Collective.BARRIER: Rule((), "dissemination"),
}
"""Kinds of which there is nothing to choose."""


@dataclass
class _Taken:
    """Calls that go by the same algorithm."""

    calls: int = 0
    smallest_bytes: int = 0
    largest_bytes: int = 0


@dataclass
class Routes:
    """Rules by kind, and a record of what they came to."""

    rules: Mapping[Collective, Rule]
    piece_bytes: int = PIECE_BYTES
    channels: int = 1
    _taken: dict[tuple[Collective, int, str], _Taken] = field(default_factory=dict)

    def schedule(self, kind: Collective, layout: Layout, root: int, size_bytes: int, calls: int) -> Schedule:
        """The schedule of as many calls that are alike. Raises InputFault for an algorithm that does not suit the members.

        root: place of the member that they are from or to. size_bytes: as the kind counts it.
        """
        rule = self.rules[kind] if kind in self.rules else ONLY[kind]
        name = rule.algorithm(size_bytes)
        name = picked(kind, layout, size_bytes) if name == AUTO else name
        self._note(kind, layout.members, name, size_bytes, calls)
        key = f"strategy.options.{option_of(kind)}"
        return member_schedule(kind, name, layout, size_bytes, root, self.piece_bytes, self.channels, key)

    def _note(self, kind: Collective, members: int, name: str, size_bytes: int, calls: int) -> None:
        taken = self._taken.setdefault((kind, members, name), _Taken(0, size_bytes, size_bytes))
        taken.calls += calls
        taken.smallest_bytes = min(taken.smallest_bytes, size_bytes)
        taken.largest_bytes = max(taken.largest_bytes, size_bytes)

    def notes(self) -> list[str]:
        """A line for each kind, number of members and algorithm that was taken."""
        return [_line(kind, members, name, taken) for (kind, members, name), taken in sorted(self._taken.items())]


def _line(kind: Collective, members: int, name: str, taken: _Taken) -> str:
    sizes = sorted({size_text(taken.smallest_bytes), size_text(taken.largest_bytes)}, key=len)
    of = f" of {size_text(taken.smallest_bytes)}" if len(sizes) == 1 else ""
    of = of or f" of {size_text(taken.smallest_bytes)} to {size_text(taken.largest_bytes)}"
    calls = f"{taken.calls:,} call{'s' if taken.calls > 1 else ''}"
    return f"{kind} among {members} by {name}: {calls}{'' if kind is Collective.BARRIER else of}"


def option_of(kind: Collective) -> str:
    """The option that decides over a kind: reductions to one rank go as broadcasts do."""
    return "broadcast" if kind is Collective.REDUCE else kind.value.replace("-", "_")
