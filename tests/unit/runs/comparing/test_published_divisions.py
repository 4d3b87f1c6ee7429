"""What published trainings used is among the divisions that `gradwire compare --gpus` looks at, and fits into memory."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from gradwire.runs.comparing.division_question import DivisionQuestion
from gradwire.runs.comparing.division_search import candidates


class PublishedDivision(NamedTuple):
    """A division, with its source."""

    source: str
    question: DivisionQuestion
    data: int
    tensor: int
    pipeline: int
    experts: int = 1


PUBLISHED = {
    "Llama 3 405B, 16,384 GPUs": PublishedDivision(
        "The Llama 3 Herd of Models, 2024, table 4", DivisionQuestion("llama3-405b", 16_384, device="h100"), 128, 8, 16
    ),
    "Llama 3 405B, 8,192 GPUs": PublishedDivision(
        "The Llama 3 Herd of Models, 2024, table 4", DivisionQuestion("llama3-405b", 8192, device="h100"), 64, 8, 16
    ),
    "DeepSeek-V3": PublishedDivision(
        "DeepSeek-V3 Technical Report, 2024, section 3.2: 16 stages, experts among 64 GPUs, no tensor parallelism",
        DivisionQuestion("deepseek-v3", 2048, device="h800"),
        128,
        1,
        16,
        64,
    ),
    "Nemotron-4 340B": PublishedDivision(
        "Nemotron-4 340B Technical Report, 2024, section 2.3: 768 machines of 8 H100, tensor 8, pipeline 12",
        DivisionQuestion("nemotron-4-340b", 6144, device="h100", samples=2304),
        64,
        8,
        12,
    ),
    "GPT-3 175B": PublishedDivision(
        "Narayanan et al., SC 2021, section 5.4", DivisionQuestion("gpt3-175b", 1536, device="a100"), 16, 8, 12
    ),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_division_is_among_those_that_fit(name: str) -> None:
    published = PUBLISHED[name]
    choices = [each.choice for each in candidates(published.question)[0]]
    alike = [
        choice
        for choice in choices
        if (choice.data, choice.tensor, choice.pipeline, choice.experts) == published[2:] and choice.family == ""
    ]
    assert alike, published.source
