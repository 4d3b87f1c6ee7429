"""What users write of algorithms: one for all sizes, or several by size, as in "double-tree up to 256KiB else ring"."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import AfterValidator

from gradwire.workloads.engines.collectives.choice import ALGORITHMS, AUTO
from gradwire.workloads.engines.collectives.contract import Collective
from gradwire.workloads.values.expectations import InWords
from gradwire.workloads.values.units import size_bytes

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


def rule_of(text: str, known: Iterable[str]) -> Rule:
    """Reads a rule that names algorithms out of `known`. Raises ValueError, with what would be right."""
    names = (*known, AUTO)
    *firsts, otherwise = (part.strip() for part in text.split(ELSE.strip()))
    limited = []
    for part in firsts:
        name, said, size = part.partition(UP_TO)
        if not said:
            raise ValueError(f"say up to which size '{part}' is taken, like {_example(names)}")
        limited.append((size_bytes(size), _known(name.strip(), names)))
    sizes = [size for size, _ in limited]
    if sizes != sorted(set(sizes)):
        raise ValueError("sizes must grow from one to the next")
    return Rule(tuple(limited), _known(otherwise, names))


def _known(name: str, names: Sequence[str]) -> str:
    if UP_TO in name:
        raise ValueError(f"say what is taken beyond that size, like {_example(names)}")
    if name not in names:
        raise ValueError(f"'{name}' is none of {', '.join(names)}")
    return name


def _example(names: Sequence[str]) -> str:
    return f"'{names[-2]} up to {EXAMPLE_BYTES} else {names[0]}'"


def rule_type(*kinds: Collective) -> Any:
    """The type of an option that is a rule for kinds with the same algorithms."""
    names = tuple(ALGORITHMS[kinds[0]])

    def checked(text: str) -> str:
        rule_of(text, names)
        return text

    quoted = ", ".join(f'"{name}"' for name in names)
    words = f'{quoted} or "{AUTO}", or several by size, such as "{names[-1]} up to {EXAMPLE_BYTES} else {names[0]}"'
    return Annotated[str, AfterValidator(checked), InWords(words)]
