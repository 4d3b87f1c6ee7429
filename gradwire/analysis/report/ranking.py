"""Strategies ranked by iteration time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from gradwire.analysis.findings.observations import telling_options
from gradwire.analysis.points import INVALID, PointResult, pool_seeds
from gradwire.analysis.report.point_columns import ABSENT, spread_beside
from gradwire.analysis.report.tables import STATE_TONE
from gradwire.analysis.report.text_table import TextTable
from gradwire.analysis.statistics import LEVEL_MARGIN, Contrast, Sample, TimeComparison, contrast

BASELINE = "vanilla"


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
    #: Its time with each seed, and whether seeds decide it.
    sample: Sample
    #: Whether it does not send all gradients of every step.
    partial: bool

    @property
    def time_s(self) -> float:
        """Iteration time."""
        return self.row.iteration_time_s

    @property
    def seeds(self) -> int:
        """Number of seeds."""
        return len(self.sample.times_s)

    @property
    def ci_s(self) -> float:
        """Half of the 95 % interval over seeds; 0 for a strategy without randomness,
        whose runs are all alike, and for a single seed."""
        return (self.row.ci95_s or 0.0) if self.seeds > 1 else 0.0


@dataclass(frozen=True)
class Ranking:
    """Strategies by iteration time."""

    #: The fastest first.
    valid: tuple[Entry, ...]
    #: Strategies whose runs are not results.
    invalid: tuple[Entry, ...]
    #: Strategies that cannot run or cannot win, and options that some do not have, with the reason.
    left_out: Mapping[str, str]
    #: The entry that speed-ups are relative to; None if no run is valid.
    baseline: Entry | None
    #: Explanation of the times, if they are not those that were measured; else "".
    scaled: str = ""
    #: Samples that every time is of, where iterations have unlike numbers of them; else 0.
    samples: int = 0

    def speedup(self, entry: Entry) -> float:
        """Throughput over the baseline's."""
        assert self.baseline is not None
        return self.baseline.time_s / entry.time_s

    @property
    def compute_s(self) -> float:
        """Time that a worker computes in an iteration."""
        fastest = self.valid[0].row
        return fastest.scaling_efficiency * fastest.iteration_time_s

    @property
    def absent(self) -> list[str]:
        """Entries of `left_out` whose strategy takes part in no variant."""
        present = {entry.row.parameters.get("strategy") for entry in (*self.valid, *self.invalid)}
        return [name for name in self.left_out if name.partition(" ")[0] not in present]

    @property
    def best(self) -> Entry | None:
        """The fastest that sends all gradients; None if there is no valid one."""
        return next((entry for entry in self.valid if not entry.partial), None)

    def against_best(self, entry: Entry) -> Contrast:
        """An entry's time compared with that of the best."""
        assert self.best is not None
        return contrast(entry.sample, self.best.sample)


def rank(
    rows: Sequence[PointResult],
    families: Mapping[str, str],
    partial: Sequence[str],
    left_out: Mapping[str, str],
    random: Sequence[bool] = (),
    *,
    scaled: str = "",
) -> Ranking:
    """Ranks points that differ only in strategy, options and seed. Where an iteration of one has several times as many
    samples as that of another, such as a round of many steps, all times are of as many samples as the smallest has.

    rows: one per point and seed. families: of each strategy. partial: strategies that do not send all gradients of
    every step; they are ranked but never the answer, unless there is no other strategy. random: for each row, whether
    its seed decides its time; what ran with several seeds is taken to be random in any case. scaled: what the rows'
    times are, where they are not those that were measured.
    """
    rows, samples = of_equal_samples(rows)
    times_s: dict[str, dict[str, float]] = {}
    drawn: dict[str, bool] = {}
    for index, row in enumerate(rows):
        seeds = times_s.setdefault(_name(row), {})
        seeds[row.parameters.get("seed", str(len(seeds)))] = row.iteration_time_s
        drawn[_name(row)] = len(seeds) > 1 or bool(random and random[index])
    pooled = pool_seeds(rows)
    strategies = [row.parameters.get("strategy", "") for row in pooled]
    alone = len(set(strategies)) == 1  # which is compared with itself, whatever it sends
    entries = []
    texts = [row.parameters.get("options", "") for row in pooled]
    telling = telling_options(texts, strategies)
    shown = [
        text if strategies.count(strategy) == 1 else told
        for text, told, strategy in zip(texts, telling, strategies, strict=True)
    ]
    for row, strategy, options in zip(pooled, strategies, shown, strict=True):
        name = strategy
        if strategies.count(strategy) > 1 and options:
            # Where there is but one strategy, options say it all.
            name = options if alone else f"{strategy} ({options})"
        sample = Sample(times_s[_name(row)], drawn[_name(row)])
        family = families.get(strategy, "plug-in")
        entries.append(Entry(name, family, options, row, sample, strategy in partial and not alone))
    valid = sorted((entry for entry in entries if entry.row.valid), key=lambda entry: entry.time_s)
    invalid = tuple(entry for entry in entries if not entry.row.valid)
    return Ranking(tuple(valid), invalid, left_out, _baseline(entries, valid), scaled, samples)


def of_equal_samples(rows: Sequence[PointResult]) -> tuple[Sequence[PointResult], int]:
    """The rows with the times of as many samples each as the smallest valid iteration has, and that number; the rows
    themselves and 0 where all have as many."""
    samples = {index: row.throughput_per_s * row.iteration_time_s for index, row in enumerate(rows) if row.valid}
    fewest = min(samples.values(), default=1.0)
    # An iteration of several steps has as many times the samples of one; the product of two floats is not whole.
    steps = {index: round(count / fewest) for index, count in samples.items()}
    if set(steps.values()) <= {1}:
        return rows, 0
    return [_divided(row, steps.get(index, 1)) for index, row in enumerate(rows)], round(fewest)


def _divided(row: PointResult, by: int) -> PointResult:
    """A row with its times divided by a number. Rates and ratios stay the same."""

    def divided(time_s: float | None) -> float | None:
        return None if time_s is None else time_s / by

    return replace(
        row,
        iteration_time_s=row.iteration_time_s / by,
        lower_bound_s=row.lower_bound_s / by,
        iteration_time_std_s=divided(row.iteration_time_std_s),
        ci95_s=divided(row.ci95_s),
        fluid_time_s=divided(row.fluid_time_s),
    )


def _baseline(entries: Sequence[Entry], valid: Sequence[Entry]) -> Entry | None:
    """Entry that speed-ups are relative to: vanilla; with one strategy alone, the variant whose options are all
    defaults; or else the slowest."""
    named = [entry for entry in entries if entry.row.valid and entry.row.parameters.get("strategy") == BASELINE]
    if len({entry.row.parameters.get("strategy") for entry in entries}) == 1:
        named = [entry for entry in entries if entry.row.valid and not entry.options]
    whole = [entry for entry in valid if not entry.partial]
    return next(iter(named or whole[-1:]), None)


def _name(row: PointResult) -> str:
    return repr(sorted((key, value) for key, value in row.parameters.items() if key != "seed"))


def ranking_table(ranking: Ranking) -> TextTable:
    """One row per strategy: the valid ones, the fastest first, then the invalid ones, then those that are left out."""
    against = ranking.baseline.name if ranking.baseline else BASELINE
    headers = (
        "",
        "strategy",
        "options",
        "time (s)",
        "± 95 %",
        "slower by",
        f"x {against}",
        "x bound",
        "x fluid",
        "compute %",
        "verdict",
    )
    rows, tones = [], []
    for rank, entry in enumerate(ranking.valid, start=1):
        row = entry.row
        numbers = (
            _time(entry),
            _interval(entry),
            _slower_by(ranking, entry),
            f"{ranking.speedup(entry):.2f}" if ranking.baseline else ABSENT,
            f"{entry.time_s / row.lower_bound_s:.3f}",
            ABSENT if row.fluid_ratio is None else f"{row.fluid_ratio:.3f}",
            f"{row.scaling_efficiency:.1%}"[:-1],
        )
        mark = "*" if entry.partial else ""
        rows.append((f"{rank}", entry.name + mark, entry.options, *numbers, row.state))
        tones.append(STATE_TONE[row.state])
    for entry in ranking.invalid:
        rows.append(("", entry.name, entry.options, *(ABSENT,) * 7, INVALID))
        tones.append("bad")
    for name in ranking.absent:
        rows.append(("", name, "", *(ABSENT,) * 7, "left out"))
        tones.append("quiet")
    gives_way = ("options", "± 95 %", "x fluid", "compute %", "x bound", f"x {against}")
    return TextTable("Ranking", headers, tuple(rows), 3, tuple(tones), _foot(ranking), gives_way)


def _time(entry: Entry) -> str:
    return f"{entry.time_s:#.4g}"


def _interval(entry: Entry) -> str:
    if not entry.sample.random:
        return "none"
    return spread_beside(_time(entry), entry.ci_s) if entry.seeds > 1 else "one seed"


def _slower_by(ranking: Ranking, entry: Entry) -> str:
    """Percentage by which an entry takes longer than the best, with its interval, and a mark if it is level or
    unclear."""
    if ranking.best is None or entry is ranking.best:
        return "" if ranking.best is None else "0"
    difference = ranking.against_best(entry)
    half = "" if not difference.half else f" ± {difference.half:.1%}"[:-1]
    mark = {TimeComparison.LEVEL: " =", TimeComparison.UNCLEAR: " ?"}.get(difference.outcome, "")
    return f"{difference.ratio - 1:.1%}"[:-1] + half + mark


def reasons(ranking: Ranking) -> list[str]:
    """Why some strategies are not ranked: one line per invalid one, and one
    for all that are left out for the same reason."""
    lines = [f"{entry.name}: {entry.row.verdict}" for entry in ranking.invalid]
    named: dict[str, list[str]] = {}
    for name, reason in ranking.left_out.items():
        named.setdefault(reason, []).append(name)
    return [*lines, *(f"{', '.join(names)} left out here: {reason}" for reason, names in named.items())]


def _foot(ranking: Ranking) -> str:
    sentences = [
        *([ranking.scaled] if ranking.scaled else []),
        *([f"time: of {ranking.samples:,} samples; iterations with more are divided."] if ranking.samples else []),
        "slower by: per cent of the fastest's time.",
        "x bound: iteration time over its closed-form lower bound; x fluid: over its time on an ideal network.",
        "compute %: computation's share of the iteration.",
    ]
    outcomes = [ranking.against_best(entry).outcome for entry in ranking.valid] if ranking.best else []
    if outcomes.count(TimeComparison.LEVEL) > 1:
        sentences.append(f"= level: within {LEVEL_MARGIN:.0%}, whole interval included.")
    if TimeComparison.UNCLEAR in outcomes:
        sentences.append("? too few seeds to tell.")
    counts = sorted({entry.seeds for entry in ranking.valid if entry.seeds > 1})
    if counts:
        sentences.append(f"± 95 %: over {' or '.join(map(str, counts))} seeds of the random orders.")
    if any(not entry.sample.random for entry in ranking.valid):
        sentences.append("none: nothing in it is random, and every run is alike.")
    if any(entry.partial for entry in ranking.valid):
        sentences.append(
            "* does not send all gradients of every step, so it trains something else and is not an answer."
        )
    return " ".join(sentences)
