"""How this machine's last runs compare with what was expected of them, kept in the cache, so that the next announcement is of this
machine and not of the one that the constants were measured on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from statistics import median

import msgspec

from gradwire.cache_files import keep, kept
from gradwire.vm.kernel import cache_folder

MOST_KEPT = 15
"""Runs that are remembered, the last ones: load and code change."""
FEWEST = 3
"""Runs from which on their median counts."""


class _Paces(msgspec.Struct, frozen=True):
    """Time over expectation of the last runs, the latest last."""

    ratios: tuple[float, ...] = ()


@dataclass(frozen=True)
class LastingPace:
    """The pace of this machine."""

    path: Path

    @staticmethod
    def of_machine() -> LastingPace:
        """The pace that the cache has."""
        return LastingPace(cache_folder() / "pace.json")

    @property
    def slower(self) -> float:
        """How many times as long as expected a run takes here: the median of the last ones; 1 before there are a few."""
        ratios = self._ratios
        return median(ratios) if len(ratios) >= FEWEST else 1.0

    def note(self, expected_s: float, took_s: float) -> None:
        """Remembers what a run took, unless nothing was expected of it. What held up a single run, such as a machine that slept, is no
        median's."""
        if expected_s > 0:
            keep(self.path, _Paces((*self._ratios, took_s / expected_s)[-MOST_KEPT:]))

    @property
    def _ratios(self) -> tuple[float, ...]:
        return (kept(self.path, _Paces) or _Paces()).ratios
