"""Cells of a map that are measured by packets: their choice, the strategies that run there, and whether they agree with
the map."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gradwire.analysis.fluid.reach import within_reach
from gradwire.analysis.winners.winner_map import Outcome, Place, WinnerMap

REACH = 0.03
"""Strategies that a run of a cell could make the fastest: those whose estimates are within this share of the least, on
either side; as for the choice of candidates (analysis/fluid/reach.py). The first two are measured anyway."""
AT_BORDER, IN_DOUBT, AT_RANDOM = "near a border", "order in doubt", "drawn at random"
AGREES, DISAGREES, NOTHING_VALID = "agrees", "disagrees", "not measured"


@dataclass(frozen=True)
class ChosenCell:
    """A cell to measure."""

    place: Place
    #: AT_BORDER, IN_DOUBT or AT_RANDOM.
    why: str
    #: The strategies to run there, the fastest by its estimate first.
    strategies: tuple[str, ...]


@dataclass(frozen=True)
class MeasuredCell:
    """The results of runs of a cell."""

    chosen: ChosenCell
    #: Iteration times of valid runs.
    times_s: Mapping[str, float]
    #: Defects of the other runs, by strategy.
    invalid: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Judgement:
    """The result of a comparison of a measured cell with the map."""

    #: AGREES, DISAGREES or NOTHING_VALID.
    outcome: str
    #: The fastest as measured; "" if the map's winner or all others have no valid run.
    fastest: str
    #: Share by which the map's winner took longer than the fastest; nan without valid runs.
    off: float
    text: str


def choose_cells(winner_map: WinnerMap, count: int, seed: int) -> list[ChosenCell]:
    """Cells to measure: half of them near borders or with an order in doubt, those whose lead is nearest to that
    of a tie, and the rest drawn at random from the others by the seed. Cells in which a single strategy can run are not
    measured."""
    able = [
        place
        for place in winner_map.places
        if place in winner_map.outcomes and len(winner_map.outcomes[place].order) > 1
    ]
    outcomes, near = winner_map.outcomes, winner_map.near_border()
    likely_wrong = [place for place in able if place in near or outcomes[place].doubtful]

    def from_border(place: Place) -> tuple[bool, float]:
        """Orders in doubt first; then by how far the lead is from that of a tie, where the border runs."""
        return not outcomes[place].doubtful, abs(outcomes[place].lead - winner_map.tie)

    closest = sorted(likely_wrong, key=from_border)[: math.ceil(count / 2)]
    others = [place for place in able if place not in closest]
    drawn = random.Random(seed).sample(others, min(count - len(closest), len(others)))
    chosen = [(place, IN_DOUBT if outcomes[place].doubtful else AT_BORDER) for place in closest]
    chosen += [(place, AT_RANDOM) for place in sorted(drawn)]
    return [ChosenCell(place, why, _worth_measuring(winner_map, place)) for place, why in chosen]


def _worth_measuring(winner_map: WinnerMap, place: Place) -> tuple[str, ...]:
    outcome, times = winner_map.outcomes[place], winner_map.times[place]
    near = within_reach({name: times[name].iteration_s for name in outcome.order}, REACH)
    return tuple(near) if len(near) > 1 else outcome.order[:2]


def judge_cell(winner_map: WinnerMap, cell: MeasuredCell) -> Judgement:
    """Judges whether the map's winner, or a strategy that is level with it, is the fastest as measured, or level with
    the fastest."""
    outcome = winner_map.outcomes[cell.chosen.place]
    if outcome.winner not in cell.times_s or len(cell.times_s) < 2:
        why = "; ".join(f"{name}: {reason}" for name, reason in cell.invalid.items()) or "too few runs"
        return Judgement(NOTHING_VALID, "", math.nan, f"no result to compare with ({why})")
    fastest = min(cell.times_s, key=lambda name: cell.times_s[name])
    best_s = cell.times_s[fastest]
    off = cell.times_s[outcome.winner] / best_s - 1
    if outcome.is_tie:
        return _judge_tie(winner_map, cell, outcome, fastest)
    if off <= winner_map.tie:
        ahead = min(time_s for name, time_s in cell.times_s.items() if name != outcome.winner) / best_s - 1
        level = f"{fastest} and {outcome.winner} are level" if fastest != outcome.winner else f"{fastest} is fastest"
        return Judgement(AGREES, fastest, off, f"as the map says: {level}{f', by {ahead:.1%}' if ahead else ''}")
    text = f"{fastest} is fastest, and {outcome.winner}, which wins on the map, takes {off:.1%} longer"
    return Judgement(DISAGREES, fastest, off, text)


def _judge_tie(found: WinnerMap, cell: MeasuredCell, outcome: Outcome, fastest: str) -> Judgement:
    """Judges a cell that is a tie on the map. The measured times may be apart by twice the threshold of a tie, which
    happens if both times are off by half of it."""
    level_s = {name: cell.times_s[name] for name in outcome.level if name in cell.times_s}
    off = max(level_s.values()) / cell.times_s[fastest] - 1
    if off <= 2 * found.tie:
        return Judgement(AGREES, fastest, off, f"level, as the map says: {off:.1%} apart")
    text = f"{fastest} is fastest, and one that is level with it on the map takes {off:.1%} longer"
    return Judgement(DISAGREES, fastest, off, text)


def summary(winner_map: WinnerMap, cells: Sequence[MeasuredCell]) -> str:
    """Number of measured cells that agree, and the largest error, in a sentence or two; "" if none was measured."""
    if not cells:
        return ""
    judged = [judge_cell(winner_map, cell) for cell in cells]
    agree = sum(judgement.outcome == AGREES for judgement in judged)
    wrong = [judgement for judgement in judged if judgement.outcome == DISAGREES]
    none = sum(judgement.outcome == NOTHING_VALID for judgement in judged)
    errors = [
        abs(time_s / winner_map.times[cell.chosen.place][name].iteration_s - 1)
        for cell in cells
        for name, time_s in cell.times_s.items()
    ]
    text = f"Of {len(cells)} cells measured by packets, {agree} agree with the map"
    if wrong:
        text += (
            f" and {len(wrong)} do not: the order there is off by up to {max(judgement.off for judgement in wrong):.1%}"
        )
    text += "."
    if none:
        text += f" {none} gave no valid result to compare with."
    if errors:
        ordered = sorted(errors)
        text += f" Measured times are off their estimates by {ordered[len(ordered) // 2]:.2%} (median), {ordered[-1]:.1%} at most."
    return text
