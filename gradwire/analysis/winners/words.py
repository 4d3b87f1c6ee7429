"""A map of winners in words: a conclusion, and the winner along each row."""

from __future__ import annotations

from gradwire.analysis.report.text_table import TextTable
from gradwire.analysis.winners.winner_map import Axis, Outcome, WinnerMap, stretches

TIED, NOTHING = "tie", "nothing can run"


def conclusion(winner_map: WinnerMap) -> str:
    """Number of cells that each strategy wins, and the leads, in a few sentences."""
    cells = len(winner_map.outcomes)
    won = [f"{name} in {count}{_most(winner_map, name)}" for name, count in winner_map.won.items()]
    text = (
        f"Of {cells} cells, fastest: {', '.join(won)}" if won else f"In none of {cells} cells is one strategy fastest"
    )
    if winner_map.ties:
        text += f"; in {winner_map.ties} several are level within {winner_map.tie * 100:.3g} %"
    text += "."
    if (unable := len(winner_map.places) - cells) > 0:
        text += f" In {unable} cells nothing can run."
    if doubtful := sum(outcome.doubtful for outcome in winner_map.outcomes.values()):
        text += f" In {doubtful} the order depends on how much queues hold: measure these."
    if winner_map.left_out:
        text += " Left out: " + "; ".join(f"{name} {why}" for name, why in winner_map.left_out.items()) + "."
    return text


def _most(winner_map: WinnerMap, name: str) -> str:
    leads = [
        each.lead
        for each in winner_map.outcomes.values()
        if each.winner == name and not each.is_tie and len(each.order) > 1
    ]
    return f" (by up to {1 + max(leads):.3g}x)" if leads else ""


def cells_in_words(count: int) -> str:
    """ "1 cell" or "3 cells"."""
    return "1 cell" if count == 1 else f"{count} cells"


def lead_text(outcome: Outcome) -> str:
    """By how much the winner is ahead: "1.24x faster than p3"."""
    if len(outcome.order) < 2:
        return "nothing else can run"
    if outcome.is_tie:
        names = outcome.level[1:] if len(outcome.level) < 4 else (*outcome.level[1:3], f"{len(outcome.level) - 3} more")
        return f"level with {', '.join(names)}"
    return f"{1 + outcome.lead:.4g}x faster than {outcome.order[1]}"


def cell_text(outcome: Outcome) -> str:
    """Text of a cell: the time of the next strategy as a multiple of the winner's, and a question mark if the order is
    in doubt; only the mark for a tie."""
    lead = "" if outcome.is_tie or len(outcome.order) < 2 else f"{1 + outcome.lead:.2f}"
    return f"{lead}{'?' if outcome.doubtful else ''}"


def number_text(axis: Axis, number: float) -> str:
    """A number on an axis in the words of its values: the unit is that of the nearest value below it."""
    below = max((i for i, each in enumerate(axis.numbers) if each <= number), default=0)
    text, at = axis.texts[below], axis.numbers[below]
    digits = len(text) - len(text.lstrip("0123456789._"))
    if not at:
        return f"{number:.3g}"
    return f"{float(text[:digits].replace('_', '')) * number / at:.3g}{text[digits:].strip()}"


def rows_table(winner_map: WinnerMap) -> TextTable:
    """For each value of the second axis, the winners along the first one with the numbers at which they change."""
    x, y = winner_map.axes
    rows = []
    for j in reversed(range(len(y.texts))):
        winners = [winner_map.shown((i, j)) for i in range(len(x.texts))]
        rows.append((y.texts[j], "; ".join(_stretch(winner_map, j, *stretch) for stretch in stretches(winners))))
    foot = (
        "Estimates on an ideal network, and not runs. tie: no strategy is faster than the next by more than "
        f"{winner_map.tie * 100:.3g} %."
    )
    return TextTable("Winners", (y.title, f"along: {x.title}"), tuple(rows), 2, ("",) * len(rows), foot)


def _stretch(found: WinnerMap, row: int, name: str | None, first: int, last: int) -> str:
    x, _ = found.axes
    who = NOTHING if name is None else name or _tied(found, row, first, last)
    return f"{who} {x.texts[first]}" if first == last else f"{who} {x.texts[first]} to {x.texts[last]}"


def _tied(found: WinnerMap, row: int, first: int, last: int) -> str:
    names = dict.fromkeys(name for i in range(first, last + 1) for name in found.outcomes[i, row].level)
    return f"{TIED} of {', '.join(names)}"


def crossings_table(winner_map: WinnerMap) -> TextTable:
    """Table of the places where the winner changes along each axis, interpolated between two cells."""
    rows = []
    for border in winner_map.crossings:
        i, j = border.place
        beyond = (i + 1, j) if border.along == 0 else (i, j + 1)
        if all(
            {border.before, border.after} <= set(winner_map.outcomes[place].level) for place in (border.place, beyond)
        ):
            continue  # they are level on both sides
        axis, other = winner_map.axes[border.along], winner_map.axes[1 - border.along]
        at = f"{other.title}: {other.texts[border.place[1 - border.along]]}"
        rows.append((at, border.before, border.after, f"{axis.title}: {number_text(axis, border.number)}"))
    foot = "Where both take equally long, interpolated between the estimates of the cells on its two sides."
    return TextTable("Borders", ("at", "from", "to", "changes at"), tuple(rows), 4, ("",) * len(rows), foot)
