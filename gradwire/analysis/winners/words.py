"""A map of winners in words: a conclusion, and which strategy wins along each row."""

from __future__ import annotations

from gradwire.analysis.report.tables import TextTable
from gradwire.analysis.winners.winner_map import Axis, Outcome, WinnerMap, stretches

TIED, NOTHING = "tie", "nothing can run"


def conclusion(found: WinnerMap) -> str:
    """Who wins how many cells and by how much, in a sentence or two."""
    cells = len(found.outcomes)
    won = [f"{name} in {count}{_most(found, name)}" for name, count in found.won.items()]
    text = (
        f"Of {cells} cells, fastest: {', '.join(won)}" if won else f"In none of {cells} cells is one strategy fastest"
    )
    if found.ties:
        text += f"; in {found.ties} several are level within {found.tie * 100:.3g} %"
    text += "."
    if (unable := len(found.places) - cells) > 0:
        text += f" In {unable} cells nothing can run."
    if doubtful := sum(outcome.doubtful for outcome in found.outcomes.values()):
        text += f" In {doubtful} the order depends on how much queues hold: measure these."
    if found.left_out:
        text += " Left out: " + "; ".join(f"{name} {why}" for name, why in found.left_out.items()) + "."
    return text


def _most(found: WinnerMap, name: str) -> str:
    leads = [
        each.lead for each in found.outcomes.values() if each.winner == name and not each.is_tie and len(each.order) > 1
    ]
    return f" (by up to {1 + max(leads):.3g}x)" if leads else ""


def lead_text(outcome: Outcome) -> str:
    """By how much the winner is ahead: "1.24x faster than p3"."""
    if len(outcome.order) < 2:
        return "nothing else can run"
    if outcome.is_tie:
        names = outcome.level[1:] if len(outcome.level) < 4 else (*outcome.level[1:3], f"{len(outcome.level) - 3} more")
        return f"level with {', '.join(names)}"
    return f"{1 + outcome.lead:.4g}x faster than {outcome.order[1]}"


def cell_text(outcome: Outcome) -> str:
    """What stands in a cell: how many times as long the next strategy takes, and a question mark if that is in doubt;
    the mark alone for a tie."""
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


def rows_table(found: WinnerMap) -> TextTable:
    """For each value of the second axis, the winners along the first one with the numbers at which they change."""
    x, y = found.axes
    rows = []
    for j in reversed(range(len(y.texts))):
        winners = [found.shown((i, j)) for i in range(len(x.texts))]
        rows.append((y.texts[j], "; ".join(_stretch(found, j, *each) for each in stretches(winners))))
    foot = f"Estimates on an ideal network, and not runs. tie: no strategy is faster than the next by more than {found.tie * 100:.3g} %."
    return TextTable("Winners", (y.key, f"along {x.key}"), tuple(rows), 2, ("",) * len(rows), foot)


def _stretch(found: WinnerMap, row: int, name: str | None, first: int, last: int) -> str:
    x, _ = found.axes
    who = NOTHING if name is None else name or _tied(found, row, first, last)
    return f"{who} {x.texts[first]}" if first == last else f"{who} {x.texts[first]} to {x.texts[last]}"


def _tied(found: WinnerMap, row: int, first: int, last: int) -> str:
    names = dict.fromkeys(name for i in range(first, last + 1) for name in found.outcomes[i, row].level)
    return f"{TIED} of {', '.join(names)}"


def crossings_table(found: WinnerMap) -> TextTable:
    """Where the winner changes along each axis, interpolated between two cells."""
    rows = []
    for each in found.crossings:
        i, j = each.place
        beyond = (i + 1, j) if each.along == 0 else (i, j + 1)
        if all({each.before, each.after} <= set(found.outcomes[place].level) for place in (each.place, beyond)):
            continue  # they are level on both sides
        axis, other = found.axes[each.along], found.axes[1 - each.along]
        at = f"{other.key} = {other.texts[each.place[1 - each.along]]}"
        rows.append((at, each.before, each.after, f"{axis.key} = {number_text(axis, each.number)}"))
    foot = "Where both take equally long, interpolated between the estimates of the cells on its two sides."
    return TextTable("Borders", ("at", "from", "to", "changes at"), tuple(rows), 4, ("",) * len(rows), foot)
