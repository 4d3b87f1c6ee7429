"""A check of a verdict, as frozen data."""

from __future__ import annotations

from dataclasses import dataclass

VIRTUAL_CLOCK = "virtual"


@dataclass(frozen=True)
class Check:
    """The outcome of one check of a run."""

    #: Name of the check.
    name: str
    #: The measured value as text, with its unit.
    value: str
    #: The limit as text, with its unit.
    limit: str
    #: Whether the check passed.
    ok: bool
    #: One sentence on what a failure of this check means.
    meaning: str
