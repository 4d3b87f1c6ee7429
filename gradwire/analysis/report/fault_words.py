"""What faults did to iterations, in words."""

from __future__ import annotations

from gradwire.analysis.fault_effects import FaultEffect
from gradwire.analysis.findings.findings import FaultEffects
from gradwire.analysis.report.value_words import MOST_NAMED, ValueWords, factor, listed, seconds


def fault_words(found: FaultEffects, words: ValueWords) -> str:
    """Sentence on how much longer faults made runs, or, where one lasts to the end of a run, iterations."""
    effects = [(at.where, at.observed.fault_effect) for at in found.at if at.observed.fault_effect is not None]
    lasting = any(effect.lost_s is None for _, effect in effects)
    if len(effects) > MOST_NAMED:
        effects.sort(key=lambda each: _size(each[1], lasting=lasting))
        effects = [effects[0], effects[-1]]
    parts = [
        f"{_amount(effect, lasting=lasting)}{f' {words.at([where])}' if where else ''}" for where, effect in effects
    ]
    amounts = listed(parts) if len(parts) == len(found.at) else " to ".join(parts)
    return (
        f"while the fault is there, iterations take {amounts}"
        if lasting
        else f"the fault makes the run longer by {amounts}"
    )


def _size(effect: FaultEffect, *, lasting: bool) -> float:
    return effect.slowdown if lasting or effect.lost_s is None else effect.lost_s


def _amount(effect: FaultEffect, *, lasting: bool) -> str:
    size = _size(effect, lasting=lasting)
    return f"{factor(size)} as long" if lasting else seconds(size)
