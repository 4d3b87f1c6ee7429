"""Orders of a stage's passes: complete, and with as many microbatches under way as the sources say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradwire.workloads.engines.parallel.division import Pass, PipelineSchedule, passes_of_stage

schedules: st.SearchStrategy[PipelineSchedule] = st.sampled_from(["gpipe", "1f1b"])


def most_under_way(order: list[Pass]) -> int:
    """Microbatches whose activations a stage keeps at once: forward passes without their backward pass."""
    kept, most = 0, 0
    for forward, _, _ in order:
        kept += 1 if forward else -1
        most = max(most, kept)
    return most


@given(schedule=schedules, stages=st.integers(1, 9), microbatches=st.integers(1, 20), data=st.data())
def test_each_pass_comes_once_and_backward_after_forward(
    schedule: PipelineSchedule, stages: int, microbatches: int, data: st.DataObject
) -> None:
    order = passes_of_stage(schedule, stages, data.draw(st.integers(0, stages - 1)), microbatches)
    assert sorted(order) == sorted(Pass(forward, number) for forward in (True, False) for number in range(microbatches))
    for number in range(microbatches):
        assert order.index(Pass(True, number)) < order.index(Pass(False, number))


@pytest.mark.parametrize("stage", range(4))
def test_1f1b_keeps_as_many_activations_as_there_are_stages_from_here_on(stage: int) -> None:
    """Narayanan et al., section 2.2.1: p of them at most, instead of the m of GPipe."""
    assert most_under_way(passes_of_stage("1f1b", 4, stage, 8)) == 4 - stage
    assert most_under_way(passes_of_stage("gpipe", 4, stage, 8)) == 8


def test_1f1b_of_the_second_of_three_stages() -> None:
    order = "".join(f"{'F' if forward else 'B'}{number}" for forward, number, _ in passes_of_stage("1f1b", 3, 1, 4))
    assert order == "F0F1B0F2B1F3B2B3"


@given(stages=st.integers(2, 6), rounds=st.integers(1, 4), chunks=st.integers(2, 4), data=st.data())
def test_interleaved_each_chunk_passes_each_microbatch_once(
    stages: int, rounds: int, chunks: int, data: st.DataObject
) -> None:
    microbatches = stages * rounds
    order = passes_of_stage("1f1b", stages, data.draw(st.integers(0, stages - 1)), microbatches, chunks)
    every = [(number, chunk) for number in range(microbatches) for chunk in range(chunks)]
    assert sorted(order) == sorted(Pass(forward, *one) for forward in (True, False) for one in every)
    for one in every:
        assert order.index(Pass(True, *one)) < order.index(Pass(False, *one))


def test_the_interleaved_order_of_the_first_of_two_stages() -> None:
    """As Narayanan et al., Fig. 4, with two stages of two chunks: 2 (p - 1) + (v - 1) p = 4 passes go ahead on the
    first, 2 on the last."""

    def said(stage: int) -> str:
        order = passes_of_stage("1f1b", 2, stage, 4, 2)
        return " ".join(f"{'F' if forward else 'B'}{number}{'ab'[chunk]}" for forward, number, chunk in order)

    assert said(0) == "F0a F1a F0b F1b F2a B0b F3a B1b F2b B0a F3b B1a B2b B3b B2a B3a"
    assert said(1) == "F0a F1a F0b B0b F1b B1b F2a B0a F3a B1a F2b B2b F3b B3b B2a B3a"
