"""The two consoles on which a run tells how it is getting on."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Console


@dataclass(frozen=True)
class Screen:
    """Where a run tells how it is getting on."""

    #: Each point as it ends, with bars while points run, if it is a terminal.
    results: Console
    #: Warnings and what else is no result.
    errors: Console

    def warn(self, warning: str) -> None:
        """Says what should be checked before the results are trusted."""
        self.errors.print(f"WARNING: {warning}", markup=False, highlight=False)
