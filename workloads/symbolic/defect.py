"""What can be wrong with an op, in words."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Defect:
    """Something wrong with an op of the plan."""

    op: int
    #: The iteration in which it is wrong; -1 for all of them.
    iteration: int
    what: str


def never_ready(op: int, iteration: int) -> Defect:
    """It waits for something that never happens."""
    what = "never becomes ready: the plan has a cycle, or waits for something that never happens"
    return Defect(op, iteration or -1, what)


def not_held(op: int, iteration: int, chunk: int, held: int) -> Defect:
    """Its rank has another iteration's chunk than it needs."""
    return Defect(op, iteration, f"needs chunk {chunk}, but holds that of iteration {held}")


def wrongly_added(op: int, iteration: int, *, empty: bool, added: int, total: int) -> Defect:
    """It adds nothing, or what its rank has, or what comes too late: contributions of an iteration to a sum of another one."""
    what = "carries no contribution" if empty else "would count twice or too late"
    return Defect(op, iteration, f"its message {what}: of iteration {added}, on a sum of iteration {total}")
