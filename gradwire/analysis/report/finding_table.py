"""The findings of a run as a table for programs: each comparison with its numbers, and the sentence that it is told in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pandas as pd

from gradwire.analysis.findings.axes import Where
from gradwire.analysis.findings.curves import Curve
from gradwire.analysis.findings.findings import (
    BestChoice,
    ComputeShares,
    Dependence,
    Effects,
    FaultEffects,
    Finding,
    Growth,
    LeftOut,
    NotEstimated,
    OfJob,
    OneSeed,
    RequestsServed,
    Single,
)
from gradwire.analysis.findings.observations import Observation
from gradwire.analysis.report.charts import Labels
from gradwire.analysis.report.finding_words import sentences
from gradwire.analysis.statistics import Contrast, contrast

WORDS = ("finding", "job", "setting", "value", "outcome", "sentence")
NUMBERS = ("iteration_time_s", "throughput_per_s", "scaling_efficiency", "ratio", "ratio_low", "ratio_high")
COLUMNS = (*WORDS[:4], *NUMBERS, *WORDS[4:])


def findings_frame(findings: Sequence[Finding], write: Labels) -> pd.DataFrame:
    """One row per compared value, with the columns COLUMNS.

    finding: "best", "effect", "dependence", "growth", "computation", "fault", "requests", "single", "shared" for a
    job's time over that with the network for itself, or "note" for a sentence without numbers. setting: everything else that varies, as
    key=value. ratio: of a choice, its time over the best's; of a condition, its time over the first value's; of workers
    and batches, their throughput over the first value's; each with its 95 % interval over seeds, which is missing
    where one seed leaves it unknown; of a fault, the mean time of an iteration during it over that of one without.
    """
    words = dict.fromkeys(WORDS, "")
    rows = [{**words, **row} for finding in findings for row in _rows(finding, write)]
    frame = pd.DataFrame(rows, columns=list(COLUMNS))
    return frame.astype(dict.fromkeys(WORDS, "str") | dict.fromkeys(NUMBERS, "float64"))


def _rows(finding: Finding, write: Labels) -> Iterator[dict[str, object]]:
    if isinstance(finding, OfJob):
        for each in finding.findings:
            yield from ({**row, "job": finding.job} for row in _rows(each, write))
        if finding.alone_ratios is not None:
            sentence = " ".join(sentences([finding], write))
            yield {"finding": "shared", "job": finding.job, "ratio": finding.alone_ratios[1], "sentence": sentence}
        return
    sentence = " ".join(sentences([finding], write))
    yield from ({**row, "sentence": sentence} for row in _comparisons(finding))


def _comparisons(finding: Finding) -> Iterator[dict[str, object]]:
    match finding:
        case BestChoice():
            yield from _of_choice(finding)
        case Effects():
            for effect in finding.of:
                yield {"finding": "effect", "value": ", ".join(effect.choice.names), "ratio": effect.most}
        case Dependence() | Growth():
            for curve in finding.curves:
                yield from _of_curve(curve, grows=isinstance(finding, Growth))
        case ComputeShares() | RequestsServed():
            name = "computation" if isinstance(finding, ComputeShares) else "requests"
            yield from ({"finding": name, "setting": _text(at.where), **_measures(at.observed)} for at in finding.at)
        case FaultEffects():
            for at in finding.at:
                of_fault = at.observed.fault_effect
                ratio = {} if of_fault is None else {"ratio": of_fault.slowdown}
                yield {"finding": "fault", "setting": _text(at.where), **_measures(at.observed), **ratio}
        case Single():
            yield {"finding": "single", "value": _text(finding.name), **_measures(finding.observed)}
        case OneSeed() | LeftOut() | NotEstimated() | OfJob():
            yield {"finding": "note"}


def _of_choice(finding: BestChoice) -> Iterator[dict[str, object]]:
    for standing in finding.standings:
        for entry in standing.ranked:
            yield {
                "finding": "best",
                "setting": _text(standing.where),
                "value": _text(entry.value),
                "iteration_time_s": entry.time_s,
                **_ratio(entry.against),
                "outcome": "fastest" if entry is standing.best else str(entry.against.outcome),
            }


def _of_curve(curve: Curve, *, grows: bool) -> Iterator[dict[str, object]]:
    first = curve.points[0].observed
    for point in curve.points:
        ratio = (
            {"ratio": point.observed.throughput_per_s / first.throughput_per_s}
            if grows
            else _ratio(contrast(point.observed.sample, first.sample))
        )
        yield {
            "finding": "growth" if grows else "dependence",
            "setting": _text((*curve.where, *point.chosen)),
            "value": _text(point.value),
            **_measures(point.observed),
            **ratio,
        }


def _measures(observed: Observation) -> dict[str, float]:
    return {
        "iteration_time_s": observed.time_s,
        "throughput_per_s": observed.throughput_per_s,
        "scaling_efficiency": observed.compute_share,
    }


def _ratio(found: Contrast) -> dict[str, float | None]:
    low, high = found.interval or (None, None)
    return {"ratio": found.ratio, "ratio_low": low, "ratio_high": high}


def _text(where: Where) -> str:
    return ", ".join(f"{name}={value}" for name, value in where)
