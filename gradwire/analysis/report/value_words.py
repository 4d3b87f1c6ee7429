"""Names and values of what varies, as conclusions say them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gradwire.analysis.findings.axes import VariedAxis, Where
from gradwire.analysis.findings.standings import Standing
from gradwire.analysis.report.charts import Labels

PLURALS = {"model": "models", "rate": "rates", "workers": "numbers of workers", "batch": "batch sizes"}
"""Several values of a parameter, in words."""
MOST_NAMED = 4
"""Number of values or settings that are named one by one; more are counted."""


def listed(names: Sequence[str], last: str = "and") -> str:
    """Names in a sentence: "a, b and c"."""
    return f" {last} ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def named(names: Sequence[str], last: str = "and") -> str:
    """Names in a sentence, the last ones counted if there are many."""
    names = list(dict.fromkeys(names))
    if len(names) > MOST_NAMED:
        return f"{', '.join(names[: MOST_NAMED - 1])} and {len(names) - MOST_NAMED + 1} more"
    return listed(names, last)


def capital(text: str) -> str:
    """A text as the beginning of a sentence."""
    return f"{text[:1].upper()}{text[1:]}"


def seconds(time_s: float) -> str:
    """A time with four significant digits."""
    return f"{time_s:#.4g} s"


def factor(ratio: float) -> str:
    """A ratio: "1.18x"; with more digits where two would say that nothing differs."""
    return f"{ratio:.3f}x" if ratio < 1.015 else f"{ratio:.2f}x"


def factors(ratios: Sequence[float]) -> str:
    """The ends of several ratios: "1.15x to 1.18x"."""
    return " to ".join(dict.fromkeys((factor(min(ratios)), factor(max(ratios)))))


def shares(values: Sequence[float]) -> str:
    """The ends of several shares: "49 % to 94 %"."""
    ends = dict.fromkeys((f"{min(values):.0%}", f"{max(values):.0%}"))
    return " to ".join(end.replace("%", " %") for end in ends)


def counted(count: int, whole: int) -> str:
    """How many of several: "2 of 3", "both", "all 3"."""
    if count < whole:
        return f"{count} of {whole}"
    return "both" if whole == 2 else f"all {whole}"


@dataclass(frozen=True)
class ValueWords:
    """Words for values, by the scenario's labels."""

    write: Labels

    def name(self, name: str) -> str:
        """A parameter's name."""
        return self.write(name)

    def value(self, value: Where) -> str:
        """A value of one or several parameters: "p3", "congestion = dctcp", "p3 with congestion = dctcp"."""
        parts = [self._pair(name, text) for name, text in value if text]
        return " with ".join(filter(None, (parts[0], ", ".join(parts[1:])))) if parts else "without"

    def _pair(self, name: str, text: str) -> str:
        """A parameter with its value. The values of a table name themselves."""
        return self.write(text) if "=" in text else self.write.pair(name, text)

    def where(self, where: Where) -> str:
        """A setting: "10gbit with workers = 4"."""
        return " with ".join(self._pair(name, text) for name, text in where if text)

    def bare(self, value: Where) -> str:
        """A value without its name, after the name has been said; of several parameters with all names."""
        return self._bare(*value[0]) if len(value) == 1 else self.value(value)

    def values(self, axes: Sequence[VariedAxis], values: Sequence[Where], last: str = "and") -> str:
        """Values of the same parameters: "p3 and ring", "connections = 4 to 16"."""
        axes, values = _without_free(axes, list(dict.fromkeys(values)))
        if len(axes) > 1 or len(axes[0].names) > 1 or len(values) == 1:
            return named([self.value(value) for value in values], last)
        (axis,) = axes
        in_order = [value for value in axis.values if value in values]
        texts = [self.write(value[0][1]) for value in in_order]
        places = [axis.values.index(value) for value in in_order]
        if axis.ordered and len(texts) > 2 and places[-1] - places[0] == len(places) - 1:
            words = f"{texts[0]} to {texts[-1]}"
        else:
            words = named(texts, last)
        first = self.value(in_order[0])
        return words if first == texts[0] else f"{self.name(axis.names[0])} = {words}"

    def be(self, axes: Sequence[VariedAxis], values: Sequence[Where]) -> str:
        """The verb that goes with values as `values` words them."""
        return "are" if len(_without_free(axes, list(dict.fromkeys(values)))[1]) > 1 else "is"

    def settings(self, count: int, axes: Sequence[VariedAxis]) -> str:
        """Words for so many settings: "both rates", "all 6 settings"."""
        if len(axes) != 1 or len(axes[0].names) != 1:
            return f"{counted(count, count)} settings"
        name = axes[0].names[0]
        return f"{counted(count, count)} {PLURALS.get(name, f'values of {self.name(name)}')}"

    def places(self, wheres: Sequence[Where]) -> str:
        """Some settings, named one by one if they are few: "10gbit and 25gbit", "delay = 10us and 1ms"."""
        if len(wheres) > MOST_NAMED:
            return f"{len(wheres)} settings"
        first, *others = wheres
        if all(len(where) == 1 and where[0][0] == first[0][0] for where in wheres) and len(first) == 1:
            return listed([self.where(first), *(self._bare(*where[0]) for where in others)])
        return listed([self.where(where) for where in wheres])

    def at(self, wheres: Sequence[Where]) -> str:
        """Settings with their preposition: "at 10gbit", "with delay = 10us and 1ms"."""
        text = self.places(wheres)
        by_value = bool(wheres[0]) and wheres[0][0][1].lower().endswith("bit")
        return f"{'at' if by_value or len(wheres) > MOST_NAMED else 'with'} {text}"

    def _bare(self, name: str, text: str) -> str:
        """A value whose name has been said."""
        return self.write(text) if "=" in self.write.pair(name, text) else self._pair(name, text)

    def subject(self, choices: Sequence[VariedAxis]) -> str:
        """The choices by their names: "congestion", "strategy and congestion"."""
        return listed([self.name(name) for axis in choices for name in axis.names])


def _without_free(axes: Sequence[VariedAxis], values: Sequence[Where]) -> tuple[Sequence[VariedAxis], list[Where]]:
    """Values without the parameters of which all values are among them, whatever the others are."""
    kept = list(axes)
    for axis in axes:
        rest = dict.fromkeys(tuple(pair for pair in value if pair[0] not in axis.names) for value in values)
        if len(kept) > 1 and len(rest) * len(axis.values) == len(values):
            kept.remove(axis)
            values = list(rest)
    return kept, list(values)


def unit_of(standing: Standing) -> str:
    """Returns the unit that a time of a standing is of."""
    return f"per {standing.samples:,} samples" if standing.samples else "per iteration"
