"""In which order a stage of a pipeline runs the passes of its microbatches.

Sources: Huang et al., GPipe: Efficient Training of Giant Neural Networks using Pipeline Parallelism, NeurIPS 2019;
Narayanan et al., SC 2021 (1F1B with flush, after PipeDream-Flush, and interleaved); for the order of interleaved
passes, `get_pp_rank_microbatches` and `get_schedule_table` in Megatron-LM's megatron/core/pipeline_parallel/schedules.py. Where p stages of
v chunks take the same time for each of m microbatches and messages take none, the bubble is (p - 1) / (m v) of the time that computation
takes, and with either schedule (p - 1) / m where stages are whole.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

PipelineSchedule = Literal["gpipe", "1f1b"]


class Pass(NamedTuple):
    """A pass of a microbatch through a stage, or through one of its chunks."""

    forward: bool
    microbatch: int
    chunk: int = 0


def passes_of_stage(
    schedule: PipelineSchedule, stages: int, stage: int, microbatches: int, chunks: int = 1
) -> list[Pass]:
    """All passes of a stage in an iteration, in order; backward passes take microbatches in the order of the forward passes.

    "gpipe": all forward passes, then all backward passes. "1f1b": as many forward passes as there are stages behind this one, then one
    forward and one backward pass in turn, then the backward passes that are left. With several chunks, `stages` microbatches go through a
    chunk and then through the next one, and twice as many passes go ahead, beside those through all chunks but the last.
    """
    forward = _order(stages, microbatches, chunks)
    backward = [Pass(False, each.microbatch, chunks - 1 - each.chunk) for each in forward]
    if schedule == "gpipe":
        ahead = len(forward)
    elif chunks == 1:
        ahead = min(stages - 1 - stage, microbatches)
    else:
        ahead = min(2 * (stages - 1 - stage) + (chunks - 1) * stages, len(forward))
    order = forward[:ahead]
    for number in range(len(forward) - ahead):
        order += [forward[ahead + number], backward[number]]
    return order + backward[len(forward) - ahead :]


def _order(stages: int, microbatches: int, chunks: int) -> list[Pass]:
    """Forward passes: groups of as many microbatches as there are stages, each group through one chunk after the other."""
    if chunks == 1:
        return [Pass(True, number) for number in range(microbatches)]
    return [
        Pass(True, first + number, chunk)
        for first in range(0, microbatches, stages)
        for chunk in range(chunks)
        for number in range(stages)
    ]
