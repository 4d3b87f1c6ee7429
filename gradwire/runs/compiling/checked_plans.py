"""Checks plans, unless the same code found the same plan in order before."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from gradwire.cache_files import saving_time
from gradwire.datatypes.plan import Plan
from gradwire.vm.code_digest import plan_digest
from gradwire.vm.kernel import cache_folder
from gradwire.workloads.checker import check


def check_once(plan: Plan, relative_times: Sequence[float]) -> None:
    """Checks a plan, unless the same code found the same plan in order before: points often differ only in rates. Raises
    PlanError.

    To check a plan takes longer than to compile it: 20 s for the 43,000 ops of GPT-2 XL's tensors on eight workers.
    """
    note = cache_folder() / "checked" / _key(plan, relative_times)
    if note.exists():
        return
    check(plan, relative_times)
    with saving_time(note):
        note.parent.mkdir(parents=True, exist_ok=True)
        note.touch()


def _key(plan: Plan, relative_times: Sequence[float]) -> str:
    text = f"{plan_digest()} {plan.digest()} {list(relative_times)}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]
