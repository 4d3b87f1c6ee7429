"""Selects the points that decide the winner of a map's cell, and so are estimated in full."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from gradwire.analysis.winners.winner_map import Place
from gradwire.runs.mapping.along_rates import ON_A_LINE, MapTime

Slot = tuple[Place, str]
Row = list[Slot]
Found = Mapping[Slot, MapTime | str]
IN_REACH = 0.25
"""A strategy that is so near to the winner could be ahead of it if queues held less."""


def deciding(rows: Sequence[Row], found: Found, tie: float) -> list[Row]:
    """Selects from each row, in which points differ only in their rate, those to be estimated in full; rows without any
    are left out. Those are

    - times between two estimates, where the lead is so near to that of a tie that the line may be wrong about it;
    - every second time that is an estimate, where others are within reach, to find how much of it depends on queues.
    """
    over = _over_best(found)
    near_edge = {place for (place, _), share in over.items() if abs(share - tie) < 2 * ON_A_LINE}
    rivals: dict[Place, int] = {}
    for (place, _), share in over.items():
        rivals[place] = rivals.get(place, 0) + (share <= IN_REACH)
    asked = []
    for row in rows:
        within = [slot for slot in row if over.get(slot, np.inf) <= IN_REACH and rivals[slot[0]] > 1]
        between = {slot for slot in within if _is_between(found[slot])}
        decides = {slot for slot in between if slot[0] in near_edge and over[slot] < tie + 2 * ON_A_LINE}
        estimated = [slot for slot in within if slot not in between]
        decides |= {*estimated[::2], *estimated[-1:]}
        asked.append([slot for slot in row if slot in decides])
    return [row for row in asked if row]


def fill_queues(rows: Sequence[Row], found: dict[Slot, MapTime | str]) -> None:
    """Interpolates the share of a time that depends on queues if it is not known, from points of the same row for which
    it is."""
    for row in rows:
        times = {number: time for number, slot in enumerate(row) if isinstance(time := found[slot], MapTime)}
        known = {number: time.by_queues for number, time in times.items() if time.by_queues is not None}
        for number, time in times.items():
            if time.by_queues is None and known:
                by_queues = float(np.interp(number, list(known), list(known.values())))
                found[row[number]] = replace(time, by_queues=by_queues)


def _over_best(found: Found) -> dict[Slot, float]:
    """Share by which each time is longer than the fastest of its cell."""
    best_s: dict[Place, float] = {}
    times = {slot: time.iteration_s for slot, time in found.items() if isinstance(time, MapTime)}
    for (place, _), time_s in times.items():
        best_s[place] = min(best_s.get(place, time_s), time_s)
    return {slot: time_s / best_s[slot[0]] - 1 for slot, time_s in times.items()}


def _is_between(time: MapTime | str) -> bool:
    return isinstance(time, MapTime) and time.is_between
