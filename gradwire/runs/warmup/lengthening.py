"""Which runs are repeated after a longer warm-up: those whose only fault is that their iterations were not steady.

On the ideal network a few schedules never repeat, or come to rest sooner than on the emulated one. Then `run.warmup = "steady"` has no
number to go by until something has been measured.
"""

from __future__ import annotations

from dataclasses import replace

from gradwire.analysis.fluid.steady import Window
from gradwire.analysis.verdict.verdict import STEADY
from gradwire.runs.judged import JudgedRun
from gradwire.runs.planned import PlannedRun, most_iterations
from gradwire.runs.warmup.longer_window import MOST_ITERATIONS, longer_window


def lengthened(planned: PlannedRun, judged: JudgedRun) -> PlannedRun | None:
    """The run with a longer warm-up and more iterations; None if it was steady, has another fault, or cannot be longer.

    It keeps its key: what was measured decides about it, and whatever decided that is in the key.
    """
    failed = [check.name for check in judged.verdict.checks if not check.ok]
    if planned.point.section.run.warmup != "steady" or failed != [STEADY] or not judged.ended:
        return None
    most = min(MOST_ITERATIONS, most_iterations(planned.point, planned.plans, planned.clock))
    longer = longer_window(judged.iteration_times_s, judged.warmup, most)
    return replace(planned, window=Window(*longer)) if longer else None
