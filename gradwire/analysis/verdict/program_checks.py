"""Checks of a run's programs: that all of them ran, that none failed, and that what they reported can be read. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gradwire.analysis.verdict.checks import Check

NO_PLAN = "port counters, bytes by class, bytes by uplink, upcalls: no plan for what programs send"
PROGRAMS_MEANING = (
    "A program failed or never ran, so the run is not the one that the scenario asks for; next to a strategy, there was other "
    "traffic."
)
FIGURES_MEANING = "What a program reported could not be read, so rows are missing."
CARRIED = "the network carried all that it was given"


@dataclass(frozen=True)
class ProgramsState:
    """What is known of the programs of a run when it is over."""

    #: Number of programs, on all hosts, that ran.
    ran: int = 0
    #: How programs failed, in words; the first is the one that ended the others.
    failed: Sequence[str] = ()
    #: Programs that never started, in words.
    missing: Sequence[str] = ()
    #: Programs that ended before the last iteration of a plan did, in words.
    early: Sequence[str] = ()
    #: Rows of figures that they reported.
    rows: int = 0
    #: Reports that cannot be read, in words.
    unreadable: Sequence[str] = ()

    @property
    def wrong(self) -> list[str]:
        """All that is wrong with the programs themselves."""
        return [*self.failed, *self.missing]


def program_checks(programs: ProgramsState, *, has_plan: bool) -> list[Check]:
    """Every program started, and none failed; and their figures can be read.

    has_plan: whether they ran next to a plan. Its checks that compare bytes with the plan are then left out, which the
    first one's value says.
    """
    ran = f"{programs.ran} ended"
    if has_plan:
        ran = f"{'; '.join([f'{programs.ran} ran during the plan', *programs.early])} ({NO_PLAN})"
    return [
        Check("programs", "; ".join(programs.wrong) or ran, "none fails", not programs.wrong, PROGRAMS_MEANING),
        Check(
            "figures",
            "; ".join(programs.unreadable) or f"{programs.rows} rows",
            "readable",
            not programs.unreadable,
            FIGURES_MEANING,
        ),
    ]
