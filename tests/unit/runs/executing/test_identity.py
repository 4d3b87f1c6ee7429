"""What a worker has installed, as every version and a Python without gradwire can be asked."""

from __future__ import annotations

from dataclasses import asdict, replace

from gradwire.runs.executing.cluster.orders import TELL, Identity, why_not
from tests.shared.parts import tells


def test_a_worker_with_the_same_software_may_run_points() -> None:
    here = Identity.here()
    assert eval(TELL) == asdict(here)
    assert why_not(eval(TELL), here) == ""


def test_another_version_and_other_code_are_told_with_what_fixes_it() -> None:
    here = Identity.here()
    for other in (replace(here, version="9.9"), replace(here, code="0" * 12), replace(here, python="3.99")):
        reason = why_not(asdict(other), here)
        assert tells(reason, f"has {other}", here, "install")


def test_a_worker_without_gradwire_is_told() -> None:
    reason = why_not(ModuleNotFoundError("No module named 'gradwire'"), Identity.here())
    assert tells(reason, "'gradwire'", "install gradwire")
