"""In which order a stage of a pipeline runs the passes of its microbatches.

Sources: Huang et al., GPipe: Efficient Training of Giant Neural Networks using Pipeline Parallelism, NeurIPS 2019, section 2.3;
Narayanan et al., SC 2021, section 2.2.1 (1F1B with flush, after PipeDream-Flush). Where p stages take the same time for each of m
microbatches and messages take none, both leave the same bubble: (p - 1) / m of the time that computation takes.
"""

from __future__ import annotations

from typing import Literal

PipelineSchedule = Literal["gpipe", "1f1b"]
Pass = tuple[bool, int]
"""Whether it is a forward pass, and the number of its microbatch."""


def passes_of_stage(schedule: PipelineSchedule, stages: int, stage: int, microbatches: int) -> list[Pass]:
    """All passes of a stage in an iteration, in order; backward passes take microbatches in the order of the forward passes.

    "gpipe": all forward passes, then all backward passes. "1f1b": as many forward passes as there are stages behind this one, then one
    forward and one backward pass in turn, then the backward passes that are left.
    """
    ahead = microbatches if schedule == "gpipe" else min(stages - 1 - stage, microbatches)
    order: list[Pass] = [(True, number) for number in range(ahead)]
    for number in range(microbatches - ahead):
        order += [(True, ahead + number), (False, number)]
    return order + [(False, number) for number in range(microbatches - ahead, microbatches)]
