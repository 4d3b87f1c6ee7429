"""The search for divisions: order, pruning, and what a question says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gradwire.faults import InputFault
from gradwire.runs.comparing import division_answer
from gradwire.runs.comparing.division_question import DivisionQuestion
from gradwire.runs.comparing.division_search import MEMORY, Candidate, candidates, estimated_times, search

SMALL = DivisionQuestion("llama3-8b", 64, device="h100", samples=64)


def test_nothing_that_is_left_out_could_be_among_the_best(tmp_path: Path) -> None:
    found = search(SMALL, 1)
    times = [each.time_s for each in found.estimated]
    assert times == sorted(times)
    for each in found.estimated:
        assert each.candidate.least(1.0).iteration_s <= each.time_s * (1 + 1e-9)
        assert each.times_s[2.0] <= each.time_s <= each.times_s[0.5]
        assert 0 < (found.mfu(each) or 0) < 0.4
    known = {each.candidate.choice for each in found.estimated}
    last_s = found.best[-1].time_s
    others = [each for each in candidates(SMALL)[0] if each.choice not in known]
    assert len(found.best) == 10
    assert others
    assert all(each.least(1.0).iteration_s >= last_s for each in others)
    division_answer.write(found, tmp_path)
    kept = json.loads((tmp_path / division_answer.JSON_FILE).read_text())
    assert [row["place"] for row in kept["divisions"]] == list(range(1, 11))
    assert {path.name for path in tmp_path.iterdir()} >= {
        division_answer.CSV_FILE,
        division_answer.SCENARIO_FILE,
        "chart.png",
    }
    assert "lower bound and not an estimate" in " ".join(division_answer.words(found))


@pytest.mark.parametrize(("model", "key"), [("mixtral-8x7b", "experts"), ("llama3-8b", "context")])
def test_bounds_of_exchanges_between_replicas_are_below_estimates(model: str, key: str) -> None:
    """Of the divisions with the least bounds that have such exchanges."""
    tokens = 32_768 if key == "context" else None
    question = DivisionQuestion(model, 64, rate="100gbit", device="h100", samples=64, tokens=tokens)
    divided = [each for each in candidates(question)[0] if getattr(each.choice, key) > 1]
    of_count: dict[int, Candidate] = {}
    for each in sorted(divided, key=lambda each: each.quick_s(1.0)):
        of_count.setdefault(getattr(each.choice, key), each)
    assert len(of_count) >= 3
    for each in of_count.values():
        result = estimated_times(question.section_of(each.choice.options))
        assert not isinstance(result, str), result
        assert all(each.least(factor).iteration_s <= time_s * (1 + 1e-9) for factor, time_s in result[0].items())


def test_too_little_memory_leaves_nothing() -> None:
    with pytest.raises(InputFault, match=MEMORY):
        search(DivisionQuestion("llama3-405b", 64, device="h100"), 1)


@pytest.mark.parametrize(
    ("options", "reason"),
    [({"gpus": 8}, "--gpus 8"), ({"gpus": 100}, "--machine-gpus 8: must divide")],
)
def test_numbers_that_cannot_be(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(InputFault, match=reason):
        DivisionQuestion("llama3-8b", **options)


def test_a_question_has_sequences_of_other_lengths() -> None:
    question = DivisionQuestion("llama3-8b", 64, device="h100", tokens=16384)
    assert (question.sample_tokens, question.batch) == (16384, 1024)
    assert question.asked().shape.heads == 32
