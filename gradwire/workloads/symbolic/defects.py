"""Descriptions of the defects that an op can have."""

from __future__ import annotations

from dataclasses import dataclass

from gradwire.workloads.symbolic.accesses import Access

DOES = {
    Access.USES_SUM: "sends",
    Access.ADDS: "adds to",
    Access.STARTS_SUM: "yields",
    Access.USES: "uses",
    Access.REPLACES: "replaces",
    Access.COMPLETES: "completes",
}
"""Verbs for the accesses of an op to a chunk."""


@dataclass(frozen=True)
class Defect:
    """Something wrong with an op of the plan."""

    op: int
    #: The iteration in which it is wrong; -1 for all of them.
    iteration: int
    #: With "{other}" in the place of another op's description, if there is one.
    what: str
    other: int = -1


def never_ready(op: int, iteration: int) -> Defect:
    """An op that waits for something that never happens."""
    what = "never becomes ready: the plan has a cycle, or waits for something that never happens"
    return Defect(op, iteration or -1, what)


def not_held(op: int, iteration: int, chunk: int, held: int) -> Defect:
    """Its rank has another iteration's chunk than it needs."""
    return Defect(op, iteration, f"needs chunk {chunk}, but holds that of iteration {held}")


def wrongly_added(op: int, iteration: int, *, empty: bool, added: int, total: int) -> Defect:
    """An op that adds nothing, or what its rank has, or what comes too late: contributions of an iteration to a sum of
    another one."""
    what = "carries no contribution" if empty else "would count twice or too late"
    return Defect(op, iteration, f"its message {what}: of iteration {added}, on a sum of iteration {total}")


def racing(op: int, other: int, does: Access, other_does: Access, chunk: int, later: int) -> Defect:
    """An op that uses or changes a chunk of its rank as another one does, where nothing says which comes first.

    later: the other op's iteration less its own.
    """
    when = {-1: " of the iteration before", 0: "", 1: " of the next iteration"}[later]
    what = (
        f"{DOES[does]} chunk {chunk}, which {{other}}{when} {DOES[other_does]}, and nothing makes either wait for the "
        "other: "
        "what comes out depends on which is first"
    )
    return Defect(op, -1, what, other)
