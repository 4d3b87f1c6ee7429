"""Points as `gradwire reproduce` hands them to evidence, without any run."""

from __future__ import annotations

import math
from typing import NoReturn

from gradwire.analysis.points import VALID, PointResult
from gradwire.network.fabric import Fabric
from reproduction.scoring.evidence import ModelFacts, PointEvidence

NO_MODEL = ModelFacts("none", 1, (), (), (), (), (), (), (), (), "")


def result(parameters: dict[str, str], time_s: float, verdict: str = VALID, ci95_s: float | None = None) -> PointResult:
    """One worker with one sample that computes for 1 s, in `time_s` an iteration."""
    return PointResult(parameters, time_s, None, ci95_s, 1 / time_s, 1 / time_s, 0, 0.0, 0.0, "none", "digest", verdict)


def _nothing() -> NoReturn:
    raise AssertionError("this test has no plans or logs")


def stored(time_s: float, verdict: str = VALID, ci95_s: float | None = None, **parameters: object) -> PointEvidence:
    """A point that took `time_s` an iteration; nan: it was only compiled."""
    texts = {key: str(value) for key, value in parameters.items()}
    row = None if math.isnan(time_s) else result(texts, time_s, verdict, ci95_s)
    return PointEvidence(texts, row, Fabric(2, 1e9), NO_MODEL, _nothing, _nothing, _nothing)
