"""Explanations: why a claim differs from what is printed, read from plans and logs.

An explanation argues from premises, and a premise can stop being true: another scenario, another model, a better
emulation. So each paper's explanations come in pairs. A bound function reads the numbers out of points, and a function
without any I/O argues from these numbers: it names each premise with `premise`, which raises Unexplained where the
premise does not hold, and returns the text. One cause may explain many claims, so what they have in common is apart
from what was measured for one of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from reproduction.scoring.evidence import Points, bind
from reproduction.scoring.reference import Claim


@dataclass(frozen=True)
class Explanation:
    """Why a claim differs from what is printed."""

    #: In a few words: claims with the same cause are listed together.
    cause: str
    #: The argument, with its numbers: for all claims that one function explains the same.
    argument: str
    #: What was measured for this claim alone; empty where the argument says everything.
    seen: str = ""

    @property
    def text(self) -> str:
        """All of it but its title, in one paragraph."""
        return f"{self.seen} {self.argument}".strip()


Explain = Callable[[Points, Claim], Explanation]
"""Raises NoEvidence where what it reads is missing, and Unexplained where a premise does not hold."""

_explanations: dict[tuple[str, str], Explain] = {}


class Unexplained(Exception):
    """The premise of an explanation does not hold, so it explains nothing:
    what was expected, and what was seen instead."""

    def __init__(self, expected: str, seen: str) -> None:
        super().__init__(f"expected {expected}; seen: {seen}")
        self.expected, self.seen = expected, seen


def premise(holds: object, expected: str, seen: str) -> None:
    """Raises Unexplained unless the premise holds. `expected` says what it
    is, `seen` the numbers that it was checked on."""
    if not holds:
        raise Unexplained(expected, seen)


def explains(scenario: str, *claims: str) -> Callable[[Explain], Explain]:
    """Binds a function that says why claims of a scenario differ from what is
    printed. Raises InternalFault for one bound already."""
    return lambda function: bind(_explanations, scenario, claims, function)


def explanation_of(scenario: str, claim: str) -> Explain | None:
    """The explanation bound to a claim."""
    return _explanations.get((scenario, claim))


def explained_claims() -> dict[tuple[str, str], Explain]:
    """Every explanation, by scenario and claim."""
    return dict(_explanations)
