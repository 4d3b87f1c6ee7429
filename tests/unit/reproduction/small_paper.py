"""A small paper, evaluated and drawn, for tests of what is written of papers."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from reproduction.pages.reproduced import Facts, Reproduced, reproduced_paper
from reproduction.scoring.evidence import Points
from reproduction.scoring.explanations import Explain, Explanation
from reproduction.scoring.reference import Claim, Paper
from reproduction.scoring.score import Evaluated, Result, evaluate
from tests.shared.stored_points import stored

POINTS = Points(
    [
        stored(4.0, strategy="fifo", rate="1gbit", model="vgg19"),
        stored(2.0, strategy="fifo", rate="10gbit", model="vgg19", ci95_s=0.1),
        stored(3.0, strategy="p3", rate="1gbit", model="vgg19"),
        stored(1.0, strategy="p3", rate="10gbit", model="vgg19"),
        stored(9.0, "invalid: drops", strategy="p3", rate="100gbit", model="vgg19"),
    ]
)
AT_10 = {"strategy": "p3", "rate": "10gbit"}


def small_paper(figure: dict[str, Any], explain: Explain | None = None) -> Evaluated:
    common = {"metric": "throughput_per_s", "source": "Fig. <9>"}
    claims = [
        {**common, "id": "right", "kind": "cell", "printed": 1.02, "where": AT_10},
        {**common, "id": "wrong", "kind": "cell", "printed": 2.0, "where": {**AT_10, "rate": "1gbit"}},
        {**common, "id": "hidden", "kind": "cell", "where": {**AT_10, "strategy": "fifo"}},
        {**common, "id": "odd", "kind": "contradicted", "printed": 3, "reason": "Sec. 2 says 4"},
        {**common, "id": "faster", "kind": "cell", "metric": "speedup", "printed": 2, "where": AT_10, "baseline": {"strategy": "fifo"}},
    ]  # fmt: skip
    one = {"id": "p3-test9", "title": "A & B", "runs": ["p3-test9"], "claim": claims, "figure": [figure]}
    paper = Paper.model_validate({"paper": "p3", "title": "P3 paper", "scenario": [one]})
    return evaluate(paper, paper.scenario[0], POINTS, explain)


LINE = {"title": "lines", "kind": "line", "x": "rate"}
BAR = {"title": "bars", "kind": "bar", "x": "rate", "panel": "model"}
FACTS = Facts("2025-01-01", "gradwire 1", "kernel-6.12", "abc-def", 4, 12.0, {"p3-test9 100gbit": "invalid: drops"})


def because(_: Points, claim: Claim) -> Explanation:
    """The same cause for every claim."""
    return Explanation("The network is slow", "It has 1 Gbit/s.", f"{claim.id} waits.")


def small_reproduction(figure: dict[str, Any], explain: Explain | None = None) -> Reproduced:
    """The paper, reproduced; drawn once for each figure, which takes a second."""
    return _reproduced(json.dumps(figure), explain)


@cache
def _reproduced(figure: str, explain: Explain | None) -> Reproduced:
    one = small_paper(json.loads(figure), explain)
    return reproduced_paper(one.paper, FACTS, [one])


def small_results(explain: Explain | None = None) -> list[Result]:
    """What the paper's claims come to, of which nothing is drawn."""
    return list(small_paper(LINE, explain).results)
