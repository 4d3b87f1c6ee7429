"""Routes of collectives: the algorithms that users name, by size or for all sizes, and the one by which each call or
bucket goes.

A rule is one algorithm for all sizes, or several by size, as in "double-tree up to 256KiB else ring".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from pydantic import AfterValidator

from gradwire.faults import InternalFault
from gradwire.workloads.engines.collectives.choice import ALGORITHMS, AUTO, PIECE_BYTES, Layout, member_schedule, pick
from gradwire.workloads.engines.collectives.schedule import Collective, Schedule
from gradwire.workloads.engines.nccl.chooser import KINDS
from gradwire.workloads.engines.nccl.options import NCCL, Setup
from gradwire.workloads.engines.nccl.schedules import nccl_call
from gradwire.workloads.fields import InWords
from gradwire.workloads.units import size_bytes, size_text

ELSE, UP_TO = " else ", " up to "
EXAMPLE_BYTES = "256KiB"


@dataclass(frozen=True)
class Rule:
    """An algorithm for each size."""

    #: Algorithms with the largest size that each is for, from the smallest on.
    limited: tuple[tuple[int, str], ...]
    otherwise: str

    def algorithm(self, size: int) -> str:
        """The algorithm for a collective of so many bytes, as its kind counts them."""
        return next((name for most_bytes, name in self.limited if size <= most_bytes), self.otherwise)

    @property
    def algorithms(self) -> tuple[str, ...]:
        """All that it names."""
        return (*(name for _, name in self.limited), self.otherwise)


def names_of(kind: Collective) -> tuple[str, ...]:
    """The algorithms of a kind by their names; without "auto", which may stand for any."""
    return (*ALGORITHMS[kind], *((NCCL,) if kind in KINDS else ()))


def rule_of(text: str, known: Iterable[str]) -> Rule:
    """Reads a rule that names algorithms out of `known`. Raises ValueError, with what would be right."""
    names = (*known, AUTO)
    *firsts, otherwise = (part.strip() for part in text.split(ELSE.strip()))
    limited = []
    for part in firsts:
        name, said, size = part.partition(UP_TO)
        if not said:
            raise ValueError(f"say up to which size '{part}' is taken, like {_example(names)}")
        limited.append((size_bytes(size), _check_name(name.strip(), names)))
    sizes = [size for size, _ in limited]
    if sizes != sorted(set(sizes)):
        raise ValueError("sizes must grow from one to the next")
    return Rule(tuple(limited), _check_name(otherwise, names))


def _check_name(name: str, names: Sequence[str]) -> str:
    if UP_TO in name:
        raise ValueError(f"say what is taken beyond that size, like {_example(names)}")
    if name not in names:
        raise ValueError(f"'{name}' is none of {', '.join(names)}")
    return name


def _example(names: Sequence[str]) -> str:
    return f"'{names[-2]} up to {EXAMPLE_BYTES} else {names[0]}'"


def rule_type(*kinds: Collective) -> Any:
    """The type of an option that is a rule for kinds with the same algorithms."""
    names = names_of(kinds[0])

    def checked(text: str) -> str:
        rule_of(text, names)
        return text

    quoted = ", ".join(f'"{name}"' for name in names)
    words = f'{quoted} or "{AUTO}", or several by size, such as "{names[-1]} up to {EXAMPLE_BYTES} else {names[0]}"'
    return Annotated[str, AfterValidator(checked), InWords(words)]


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
class CollectiveRoutes:
    """Rules by kind, and a record of what they came to."""

    rules: Mapping[Collective, Rule]
    piece_bytes: int = PIECE_BYTES
    channels: int = 1
    #: The machines as NCCL sees them; None if NCCL chooses for no collective.
    nccl: Setup | None = None
    #: The key that decides over all kinds; None: each has its own option.
    key: str | None = None
    _taken: dict[tuple[Collective, str], _Taken] = field(default_factory=dict)

    def schedule(self, kind: Collective, layout: Layout, root: int, size_bytes: int, calls: int) -> Schedule:
        """The schedule of as many calls that are alike. Raises InputFault for an algorithm that does not suit the
        members.

        root: place of the member that they are from or to. size_bytes: as the kind counts it.
        """
        rule = self.rules[kind] if kind in self.rules else ONLY[kind]
        name = rule.algorithm(size_bytes)
        name = pick(kind, layout, size_bytes) if name == AUTO else name
        if name == NCCL:
            if self.nccl is None:
                raise InternalFault(f"{kind} by '{NCCL}': nobody said what NCCL sees")
            call = nccl_call(self.nccl, kind, layout, root, size_bytes)
            self._taken.setdefault((kind, f"{NCCL} ({call.words})"), _Taken()).note(calls, layout.members, size_bytes)
            return call.schedule
        self._taken.setdefault((kind, name), _Taken()).note(calls, layout.members, size_bytes)
        key = self.key or f"strategy.options.{option_of(kind)}"
        placed = replace(layout, root=root)
        return member_schedule(kind, name, placed, size_bytes, self.piece_bytes, self.channels, key)

    def notes(self) -> list[str]:
        """A line for each kind and algorithm that was taken."""
        return [_line(kind, name, taken) for (kind, name), taken in sorted(self._taken.items())]


def _line(kind: Collective, name: str, taken: _Taken) -> str:
    members = _range([str(count) for count in taken.members])
    size = (
        ""
        if kind is Collective.BARRIER
        else f" of {_range([size_text(size_bytes) for size_bytes in taken.size_bytes])}"
    )
    return f"{kind} among {members} by {name}: {taken.calls:,} call{'s' if taken.calls > 1 else ''}{size}"


def _range(ends: list[str]) -> str:
    first, last = ends
    return first if first == last else f"{first} to {last}"


def option_of(kind: Collective) -> str:
    """The option that decides over a kind: reductions to one rank go as broadcasts do."""
    return "broadcast" if kind is Collective.REDUCE else kind.value.replace("-", "_")
