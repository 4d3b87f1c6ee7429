"""Strategies ranked by iteration time, and what the ranking answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gradwire.analysis.points import PointResult, pool_seeds
from gradwire.analysis.report.tables import ABSENT, INVALID, TextTable

BASELINE = "vanilla"
LEVEL = 0.01
"""Strategies are level if their times differ by less than this share, or if their intervals overlap."""
MOST_NAMED = 4
"""Number of strategies level with the fastest that are named."""
COMPUTE_BOUND = 0.95
"""Share of the compute bound from which on the network is no longer the limit."""


@dataclass(frozen=True)
class Entry:
    """A strategy in the ranking."""

    #: With its options, if it takes part with several.
    name: str
    #: The kind of strategy.
    family: str
    options: str
    #: Pooled over seeds.
    row: PointResult
    #: Number of seeds.
    seeds: int
    #: It sends only a part of the gradients.
    partial: bool

    @property
    def time_s(self) -> float:
        """Iteration time."""
        return self.row.iteration_time_s

    @property
    def ci_s(self) -> float:
        """Half of the 95 % interval over seeds; 0 for a strategy without randomness, whose runs are all alike."""
        return (self.row.ci95_s or 0.0) if self.seeds > 1 else 0.0


@dataclass(frozen=True)
class Ranking:
    """Strategies by iteration time."""

    #: The fastest first.
    valid: tuple[Entry, ...]
    #: Strategies whose runs are no results.
    invalid: tuple[Entry, ...]
    #: Strategies that cannot run, with the reason.
    left_out: Mapping[str, str]
    #: What speed-ups are relative to; None if no run is valid.
    baseline: Entry | None

    def speedup(self, entry: Entry) -> float:
        """Throughput over the baseline's."""
        assert self.baseline is not None
        return self.baseline.time_s / entry.time_s

    @property
    def compute_s(self) -> float:
        """Time that a worker computes in an iteration."""
        fastest = self.valid[0].row
        return fastest.scaling_efficiency * fastest.iteration_time_s

    def sentence(self) -> str:
        """The answer: which strategy is fastest, by how much, and whether the network still is the limit."""
        whole = [entry for entry in self.valid if not entry.partial]
        if not whole or self.baseline is None:
            return "no run was valid, so there is no answer"
        best = whole[0]
        level = [entry.name for entry in whole[1:] if _is_level(best, entry)]
        text = f"on this network {best.name} is fastest"
        text += f", level with {_listed(level)}" if level else ""
        text += f": {best.time_s:#.4g} s an iteration"
        if best is not self.baseline:
            text += f", {self.speedup(best):.2f}x {self.baseline.name}"
        share = best.row.scaling_efficiency
        if share >= COMPUTE_BOUND:
            text += f"; the network is no longer the limit: {share:.0%} of the compute bound"
        else:
            over = best.time_s / best.row.lower_bound_s
            text += f"; the network is the limit: {share:.0%} of the compute bound, {over:.2f} times {best.name}'s own bound"
            text += f" ({best.row.lower_bound_kind})"
        return text


def rank(
    rows: Sequence[PointResult], families: Mapping[str, str], partial: Sequence[str], left_out: Mapping[str, str]
) -> Ranking:
    """Ranks points that differ only in strategy and seed.

    rows: one per point and seed. families: of each strategy. partial: strategies that send only a part of the gradients; they are
    ranked but never the answer.
    """
    seeds: dict[str, int] = {}
    for row in rows:
        seeds[_name(row)] = seeds.get(_name(row), 0) + 1
    pooled = pool_seeds(rows)
    strategies = [row.parameters["strategy"] for row in pooled]
    entries = []
    for row, strategy in zip(pooled, strategies, strict=True):
        options = row.parameters.get("options", "")
        name = f"{strategy} ({options})" if strategies.count(strategy) > 1 and options else strategy
        family = families.get(strategy, "plug-in")
        entries.append(Entry(name, family, options, row, seeds[_name(row)], strategy in partial))
    valid = sorted((entry for entry in entries if entry.row.valid), key=lambda entry: entry.time_s)
    whole = [entry for entry in valid if not entry.partial]
    named = [entry for entry in whole if entry.name == BASELINE]
    baseline = next(iter(named or whole[-1:]), None)
    return Ranking(tuple(valid), tuple(entry for entry in entries if not entry.row.valid), left_out, baseline)


def _name(row: PointResult) -> str:
    return repr({key: value for key, value in row.parameters.items() if key != "seed"})


def _is_level(best: Entry, other: Entry) -> bool:
    return other.time_s - best.time_s <= max(LEVEL * best.time_s, best.ci_s + other.ci_s)


def _listed(names: Sequence[str]) -> str:
    if len(names) > MOST_NAMED:
        return f"{', '.join(names[: MOST_NAMED - 1])} and {len(names) - MOST_NAMED + 1} more"
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def ranking_table(ranking: Ranking) -> TextTable:
    """One row per strategy: the valid ones, the fastest first, then the invalid ones, then those that cannot run."""
    against = ranking.baseline.name if ranking.baseline else BASELINE
    headers = ("", "strategy", "options", "time (s)", "± 95 %", f"x {against}", "x bound", "compute %", "verdict")
    rows, tones = [], []
    for place, entry in enumerate(ranking.valid, start=1):
        row = entry.row
        interval = f"{entry.ci_s:.2g}" if entry.seeds > 1 else "none"
        numbers = (f"{entry.time_s:#.4g}", interval, f"{ranking.speedup(entry):.2f}" if ranking.baseline else ABSENT)
        bound = f"{entry.time_s / row.lower_bound_s:.3f}"
        mark = "*" if entry.partial else ""
        rows.append(
            (
                f"{place}",
                entry.name + mark,
                entry.options,
                *numbers,
                bound,
                f"{row.scaling_efficiency:.1%}"[:-1],
                "valid",
            )
        )
        tones.append("good")
    for entry in ranking.invalid:
        rows.append(("", entry.name, entry.options, *(ABSENT,) * 5, INVALID))
        tones.append("bad")
    for name in ranking.left_out:
        rows.append(("", name, "", *(ABSENT,) * 5, "cannot run"))
        tones.append("quiet")
    return TextTable("Ranking", headers, tuple(rows), 3, tuple(tones), _foot(ranking))


def reasons(ranking: Ranking) -> list[str]:
    """Why some strategies are not ranked, one line per strategy."""
    invalid = [f"{entry.name}: {entry.row.verdict}" for entry in ranking.invalid]
    return [*invalid, *(f"{name} cannot run here: {reason}" for name, reason in ranking.left_out.items())]


def _foot(ranking: Ranking) -> str:
    sentences = ["x bound: iteration time over its closed-form lower bound. compute %: share of the compute bound."]
    counts = sorted({entry.seeds for entry in ranking.valid if entry.seeds > 1})
    if counts:
        sentences.append(f"± 95 %: over {' or '.join(map(str, counts))} seeds of the random orders.")
    if any(entry.seeds == 1 for entry in ranking.valid):
        sentences.append("none: nothing in it is random, and every run is alike.")
    if any(entry.partial for entry in ranking.valid):
        sentences.append("* sends a part of the gradients only, so it trains something else and is no answer.")
    return " ".join(sentences)
