"""Orders of a stage's passes: complete, and with as many microbatches under way as the sources say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradwire.workloads.engines.parallel.schedules import Pass, PipelineSchedule, passes_of_stage

schedules: st.SearchStrategy[PipelineSchedule] = st.sampled_from(["gpipe", "1f1b"])


def most_under_way(order: list[Pass]) -> int:
    """Microbatches whose activations a stage keeps at once: forward passes without their backward pass."""
    kept, most = 0, 0
    for forward, _ in order:
        kept += 1 if forward else -1
        most = max(most, kept)
    return most


@given(schedule=schedules, stages=st.integers(1, 9), microbatches=st.integers(1, 20), data=st.data())
def test_each_pass_comes_once_and_backward_after_forward(
    schedule: PipelineSchedule, stages: int, microbatches: int, data: st.DataObject
) -> None:
    order = passes_of_stage(schedule, stages, data.draw(st.integers(0, stages - 1)), microbatches)
    assert sorted(order) == sorted((forward, number) for forward in (True, False) for number in range(microbatches))
    for number in range(microbatches):
        assert order.index((True, number)) < order.index((False, number))


@pytest.mark.parametrize("stage", range(4))
def test_1f1b_keeps_as_many_activations_as_there_are_stages_from_here_on(stage: int) -> None:
    """Narayanan et al., section 2.2.1: p of them at most, instead of the m of GPipe."""
    assert most_under_way(passes_of_stage("1f1b", 4, stage, 8)) == 4 - stage
    assert most_under_way(passes_of_stage("gpipe", 4, stage, 8)) == 8


def test_1f1b_of_the_second_of_three_stages() -> None:
    found = "".join(f"{'F' if forward else 'B'}{number}" for forward, number in passes_of_stage("1f1b", 3, 1, 4))
    assert found == "F0F1B0F2B1F3B2B3"
