"""What becomes of claims: what counts, and what needs an explanation."""

from __future__ import annotations

from typing import Any

import pytest

from gradwire.faults import InternalFault
from reproduction.scoring.evidence import Measured, Points, measures
from reproduction.scoring.explanations import Explanation, explains, premise
from reproduction.scoring.reference import Claim, Paper
from reproduction.scoring.score import Evaluated, Result, Status, evaluate, score
from tests.shared.parts import in_order, tells
from tests.shared.stored_points import stored

POINTS = Points([stored(2.0, strategy="p3", seed=1), stored(4.0, strategy="fifo", seed=1)])


def paper(*claims: dict[str, Any], **scenario: Any) -> Paper:
    full = [{"kind": "cell", "metric": "throughput_per_s", "source": "Fig. 1", **claim} for claim in claims]
    one = {"id": "p3-fig0", "title": "A figure", "runs": ["p3-fig0"], "claim": full, **scenario}
    return Paper.model_validate({"paper": "p3", "title": "A paper", "scenario": [one]})


def evaluated(*claims: dict[str, Any], points: Points = POINTS, **scenario: Any) -> Evaluated:
    loaded = paper(*claims, **scenario)
    return evaluate(loaded, loaded.scenario[0], points)


def only(*claims: dict[str, Any], **others: Any) -> Result:
    (result,) = evaluated(*claims, **others).results
    return result


P3 = {"id": "a", "where": {"strategy": "p3"}}
REASON = "the paper says otherwise in Sec. 5"


@pytest.mark.parametrize(
    ("claim", "status", "counted"),
    [
        ({**P3, "printed": 0.5}, Status.HOLDS, True),
        ({**P3, "printed": 0.6}, Status.DIFFERS, True),
        ({**P3, "printed": 0.5, "where": {"strategy": "none"}}, Status.NO_EVIDENCE, True),
        ({**P3, "printed": 0.6, "fitted": True}, Status.FITTED, False),
        ({**P3, "printed": 0.6, "fitted": True, "where": {"strategy": "none"}}, Status.FITTED, False),
        (P3, Status.PREDICTED, False),
        ({**P3, "where": {"strategy": "none"}}, Status.PREDICTED, False),
        ({**P3, "printed": 0.5, "kind": "contradicted", "reason": REASON}, Status.CONTRADICTED, False),
        ({"id": "a", "printed": 0.5, "kind": "contradicted", "reason": REASON}, Status.CONTRADICTED, False),
        ({**P3, "printed": 0.5, "emulable": False, "reason": "accuracy"}, Status.NOT_EMULABLE, False),
    ],
)
def test_what_becomes_of_a_claim(claim: dict[str, Any], status: Status, counted: bool) -> None:
    result = only(claim)
    assert (result.status, result.counted) == (status, counted)


def test_a_scenario_that_is_not_emulable_says_why() -> None:
    result = only({**P3, "printed": 0.5}, runs=[], not_emulable="needs GPUs")
    assert (result.status, result.reason) == (Status.NOT_EMULABLE, "needs GPUs")


def test_a_claim_that_nothing_measures_is_a_bug() -> None:
    with pytest.raises(InternalFault, match=in_order("claim a", "p3-fig0")):
        evaluated({"id": "a", "printed": 3, "metric": "count"})


def test_far_numbers_need_an_explanation() -> None:
    near, far = {**P3, "printed": 0.45}, {**P3, "printed": 0.4, "id": "test-far"}
    assert not only(near).needs_explanation
    result = only(far)
    assert result.needs_explanation
    assert result.relative_error == pytest.approx(0.25)
    assert score([result]).unexplained == ("p3-fig0/test-far",)
    why = Explanation("no network", "all computation", "1 of 1 s")
    explains("p3-fig0", "test-far")(lambda *_: why)
    explained = only(far)
    assert explained.explanation == why
    assert tells(explained.why, why.seen, why.argument)
    assert score([explained]).unexplained == ()
    assert score([explained]).beyond == 1


def test_a_broken_premise_leaves_a_claim_unexplained_by_name() -> None:
    @explains("p3-fig0", "test-broken")
    def _broken(_points: Points, _: Claim) -> Explanation:
        premise(False, "a full network", "10 %")
        return Explanation("a full network", "the network is full")

    result = only({**P3, "printed": 0.6, "id": "test-broken"})
    assert (result.status, result.explanation, result.unexplained) == (Status.DIFFERS, None, True)
    assert tells(result.why, "unexplained:", "a full network", "10 %")
    found = score([result])
    assert found.unexplained == ("p3-fig0/test-broken",)
    assert (found.beyond, found.explained) == (1, 0)


def test_a_default_explanation_serves_what_has_none_of_its_own() -> None:
    loaded = paper({**P3, "printed": 0.4})
    found = evaluate(
        loaded,
        loaded.scenario[0],
        POINTS,
        explain=lambda points, claim: Explanation("log", f"{claim.id} logged"),
    )
    assert found.results[0].why == "a logged"


def test_a_narrowed_evaluation_leaves_other_claims_out() -> None:
    loaded = paper({**P3, "printed": 0.5}, {"id": "b", "printed": 0.25, "where": {"strategy": "fifo"}})
    found = evaluate(loaded, loaded.scenario[0], POINTS.only(strategy="p3"), only={"strategy": "p3"})
    assert [result.claim.id for result in found.results] == ["a"]


def test_the_score_counts_by_kind() -> None:
    @measures("p3-fig0", "test-rises")
    def _rises(_points: Points, _: Claim) -> Measured:
        return Measured("rises", holds=True)

    results = evaluated(
        {**P3, "printed": 0.5},
        {**P3, "id": "b", "printed": 0.6},
        {**P3, "id": "c", "kind": "bound", "printed": "> 0.4"},
        {"id": "d", "kind": "rank", "metric": "rank", "printed": ["p3", "fifo"], "series": "strategy"},
        {"id": "test-rises", "kind": "shape", "metric": "shape", "printed": "rises"},
        {**P3, "id": "e"},
        direct=False,
        note="a tenth of the ranks",
    ).results
    found = score(results)
    assert {group: tally.text for group, tally in found.tallies.items()} == {
        "numeric": "1 / 2", "bound": "1 / 1", "rank": "1 / 1", "shape": "1 / 1", "formula": "–",
    }  # fmt: skip
    assert (found.all.text, found.directional.text, found.scaled.text) == ("4 / 5", "3 / 3", "4 / 5")
    assert found.median_error == pytest.approx((0 + 1 / 6) / 2)
    assert (found.predicted, found.fitted, found.listed) == (1, 0, 0)
