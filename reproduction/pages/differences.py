"""Where measured and printed values differ, by cause: each cause once, with the claims that it explains."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from reproduction.pages.tables import error_text
from reproduction.scoring.score import Result, Status


@dataclass(frozen=True)
class Seen:
    """Claims for which the same was measured."""

    claims: tuple[Result, ...]
    #: What; empty where the argument says everything.
    text: str

    @property
    def names(self) -> list[str]:
        """Each claim as scenario/claim, with its error, for a page that marks nothing up."""
        return [
            result.name if result.relative_error is None else f"{result.name} ({error_text(result.relative_error)})"
            for result in self.claims
        ]


@dataclass(frozen=True)
class Argument:
    """An argument, and what was measured where it holds."""

    text: str
    seen: tuple[Seen, ...]


@dataclass(frozen=True)
class Difference:
    """A cause, and all arguments that show it."""

    cause: str
    arguments: tuple[Argument, ...]

    @property
    def claims(self) -> int:
        """Number of claims that it explains."""
        return sum(len(seen.claims) for argument in self.arguments for seen in argument.seen)


def differing(results: Iterable[Result]) -> list[Result]:
    """The counted numbers that are too far off, and the counted claims that do not hold."""
    return [r for r in results if r.needs_explanation or r.status in (Status.DIFFERS, Status.NO_EVIDENCE)]


def differences(results: Iterable[Result]) -> list[Difference]:
    """The causes of what differs, those that explain most claims first.
    Claims without an explanation: `unexplained`."""
    by_cause: dict[str, dict[str, dict[str, list[Result]]]] = {}
    for result in differing(results):
        if result.explanation and not result.broken_premise:
            why = result.explanation
            by_cause.setdefault(why.cause, {}).setdefault(why.argument, {}).setdefault(why.seen, []).append(result)
    differences = [Difference(cause, _arguments(arguments)) for cause, arguments in by_cause.items()]
    return sorted(differences, key=lambda difference: -difference.claims)


def _arguments(arguments: dict[str, dict[str, list[Result]]]) -> tuple[Argument, ...]:
    return tuple(
        Argument(text, tuple(Seen(tuple(claims), seen) for seen, claims in by_seen.items()))
        for text, by_seen in arguments.items()
    )


def unexplained_claims(results: Sequence[Result]) -> list[tuple[Result, str]]:
    """What differs without an explanation, each with what is known: the
    premise that does not hold, or the missing evidence."""
    left = [r for r in differing(results) if not r.explanation or r.broken_premise]
    return [(result, result.broken_premise or result.reason or "nothing in the logs explains it") for result in left]
