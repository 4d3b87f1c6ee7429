"""Strategies ranked at each setting of a run, as a frame."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd

from gradwire.analysis.contrast import Outcome, contrast
from gradwire.analysis.frames.points import parameters_frame
from gradwire.analysis.report.conclusion import Setting
from gradwire.analysis.report.ranking import Entry, Ranking

BEST = "fastest"
"""Outcome of the fastest itself, with which the others are compared."""
OUTCOMES = (BEST, *map(str, Outcome))

NUMBERS = (
    "iteration_time_s", "ci95_s", "ratio", "ratio_low", "ratio_high", "speedup", "speedup_low", "speedup_high", "bound_ratio",
    "scaling_efficiency",
)  # fmt: skip
"""Columns that may lack a value in every row, and are numbers all the same."""


def ranking_frame(settings: Sequence[Setting]) -> pd.DataFrame:
    """One row per strategy and setting: the fastest of each setting first, and the invalid ones last, with their numbers missing.

    ratio: the time over that of the fastest which sends all gradients, with its 95 % interval over seeds, as (ratio_low, ratio_high): both
    are the ratio itself where nothing is random, and missing where one seed cannot tell. outcome: what may be said of that ratio. speedup:
    throughput over that of `baseline`, with its interval likewise. bound_ratio: the time over the plan's closed-form lower bound.
    """
    rows = [(setting.parameters, row) for setting in settings for row in _rows(setting.ranking)]
    keys = list(dict.fromkeys(key for parameters, _ in rows for key in parameters))
    where = parameters_frame([parameters for parameters, _ in rows], keys)
    numbers = pd.DataFrame([row for _, row in rows])
    numbers = numbers.reindex(columns=list(dict.fromkeys([*numbers.columns, *NUMBERS])))
    frame = pd.concat([where, numbers], axis="columns")
    for name in ("strategy", "options", "family", "baseline"):
        frame[name] = frame[name].astype("category")
    for name in NUMBERS:
        frame[name] = frame[name].astype("float64")
    frame["outcome"] = pd.Categorical(frame["outcome"], categories=list(OUTCOMES))
    return frame.astype({"rank": "Int64"})


def _rows(ranking: Ranking) -> Iterator[dict[str, Any]]:
    for place, entry in enumerate(ranking.valid, start=1):
        row = entry.row
        yield {
            "rank": place,
            **_who(entry),
            "iteration_time_s": entry.time_s,
            "ci95_s": entry.ci_s if entry.seeds > 1 or not entry.sample.random else None,
            "seeds": entry.seeds,
            **_against_best(ranking, entry),
            **_against_baseline(ranking, entry),
            "bound_ratio": entry.time_s / row.lower_bound_s if row.lower_bound_s else None,
            "scaling_efficiency": row.scaling_efficiency,
            "sends_a_part": entry.partial,
            "valid": True,
            "verdict": row.verdict,
        }
    for entry in ranking.invalid:
        yield {"rank": None, **_who(entry), "seeds": entry.seeds, "valid": False, "verdict": entry.row.verdict}


def _who(entry: Entry) -> dict[str, str]:
    return {
        "strategy": entry.row.parameters.get("strategy", entry.name),
        "options": entry.options,
        "family": entry.family,
    }


def _against_best(ranking: Ranking, entry: Entry) -> dict[str, Any]:
    if ranking.best is None:
        return dict.fromkeys(("ratio", "ratio_low", "ratio_high", "outcome"))
    found = ranking.against_best(entry)
    low, high = found.interval or (None, None)
    outcome = BEST if entry is ranking.best else str(found.outcome)
    return {"ratio": found.ratio, "ratio_low": low, "ratio_high": high, "outcome": outcome}


def _against_baseline(ranking: Ranking, entry: Entry) -> dict[str, Any]:
    if ranking.baseline is None:
        return dict.fromkeys(("speedup", "speedup_low", "speedup_high", "baseline"))
    found = contrast(ranking.baseline.sample, entry.sample)
    low, high = found.interval or (None, None)
    return {
        "speedup": ranking.speedup(entry),
        "speedup_low": low,
        "speedup_high": high,
        "baseline": ranking.baseline.name,
    }
