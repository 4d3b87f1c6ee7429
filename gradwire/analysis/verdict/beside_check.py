"""The check of programs that ran beside a strategy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gradwire.analysis.verdict.checks import Check

MEANING = "A program failed or could not be read, so the strategy ran beside something else than the scenario says."
NO_PLAN = "port counters, bytes by class, bytes by uplink, upcalls: no plan for what programs send"
OF_ALL_CAPTURED = ("captured bytes", "captured payload")
"""Checks of captures that only hold if the agents alone send. Programs send before the first and after the last iteration as well."""


@dataclass(frozen=True)
class Beside:
    """What is known of programs that ran beside a strategy."""

    #: How many there were, on all hosts.
    programs: int
    #: One for each that failed, and for each whose figures cannot be read; in words.
    wrong: Sequence[str] = ()
    #: One for each that ended before the last iteration did; in words.
    early: Sequence[str] = ()


def beside_check(beside: Beside) -> Check:
    """No program failed. Checks that compare bytes with the plan are left out, which its value says."""
    ended = f"; {', '.join(beside.early)}" if beside.early else ""
    value = "; ".join(beside.wrong) if beside.wrong else f"{beside.programs} ran beside the plan{ended} ({NO_PLAN})"
    return Check("programs", value, "none fails", not beside.wrong, MEANING)
