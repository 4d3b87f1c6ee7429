"""One check of a verdict, as frozen data."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Check:
    """One check of a run.

    value, limit: as text, with their units. meaning: one sentence on what it means if the check fails.
    """

    name: str
    value: str
    limit: str
    ok: bool
    meaning: str
