"""The effects of faults on iterations: when each fault was there, and how long iterations took around it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gradwire.datatypes.records import FaultRecord, Int64


@dataclass(frozen=True)
class FaultSpan:
    """When a fault was there, in seconds."""

    name: str
    begin_s: float
    end_s: float


def fault_spans(faults: Sequence[FaultRecord], last_ns: int) -> list[FaultSpan]:
    """When each fault that happened was there, in seconds; until the run's end for one that was never undone."""
    return [
        FaultSpan(
            f"fault.{record.fault.name}",
            record.begun_ns / 1e9,
            (last_ns if record.ended_ns < 0 else min(record.ended_ns, last_ns)) / 1e9,
        )
        for record in faults
        if 0 <= record.begun_ns < last_ns
    ]


@dataclass(frozen=True)
class MeansAroundFaults:
    """Mean time of iterations before, during and after all faults of a run, in seconds; None where there are none."""

    before_s: float | None
    during_s: float | None
    after_s: float | None
    #: Number of iterations during which a fault was there.
    during: int
    #: Whether a fault was there until the run's end, so that a longer run would have more iterations during it.
    lasts: bool

    @staticmethod
    def of(edges_ns: Int64, warmup: int, faults: Sequence[FaultRecord]) -> MeansAroundFaults | None:
        """The means over the iterations after the first `warmup` ones; None if no fault happened. An iteration that a fault was there for
        a part of is during it."""
        spans = fault_spans(faults, int(edges_ns[-1]))
        if not spans:
            return None
        begins_s, ends_s, times_s = edges_ns[:-1] / 1e9, edges_ns[1:] / 1e9, np.diff(edges_ns) / 1e9
        measured = np.arange(len(times_s)) >= warmup
        during = np.zeros(len(times_s), np.bool_)
        for span in spans:
            during |= (begins_s < span.end_s) & (ends_s > span.begin_s)
        first_s, last_s = min(span.begin_s for span in spans), max(span.end_s for span in spans)
        parts = (measured & (ends_s <= first_s), measured & during, measured & (begins_s >= last_s))
        before_s, during_s, after_s = (float(times_s[part].mean()) if part.any() else None for part in parts)
        lasts = last_s >= edges_ns[-1] / 1e9
        return MeansAroundFaults(before_s, during_s, after_s, during=int(parts[1].sum()), lasts=lasts)

    def effect(self) -> FaultEffect | None:
        """What the faults did to the iterations; None if there was none during them or none without them."""
        usual_s = self.after_s if self.before_s is None else self.before_s
        if self.during_s is None or usual_s is None:
            return None
        return FaultEffect(None if self.lasts else (self.during_s - usual_s) * self.during, self.during_s / usual_s)

    def in_words(self) -> str:
        """The means in words: "0.1200 s before the fault, 0.2400 s during it, 0.1200 s after it"."""
        named = ((self.before_s, "before"), (self.during_s, "during"), (self.after_s, "after"))
        said = [f"{mean_s:#.4g} s {when}" for mean_s, when in named if mean_s is not None]
        missing = [when for mean_s, when in named if mean_s is None]
        return f"{', '.join(said)} faults" + (f" (no measured iteration {' or '.join(missing)})" if missing else "")


@dataclass(frozen=True)
class FaultEffect:
    """What a run's faults did to its iterations."""

    #: Seconds by which they made the run longer; None if a fault lasted to its end.
    lost_s: float | None
    #: Mean time of an iteration during faults over that of one without.
    slowdown: float


def mean_effect(effects: Sequence[FaultEffect | None]) -> FaultEffect | None:
    """Returns the mean over several runs; None if one of them is not known."""
    known = [effect for effect in effects if effect is not None]
    if not known or len(known) < len(effects):
        return None
    lost_s = [effect.lost_s for effect in known if effect.lost_s is not None]
    return FaultEffect(
        float(np.mean(lost_s)) if len(lost_s) == len(known) else None,
        float(np.mean([effect.slowdown for effect in known])),
    )
