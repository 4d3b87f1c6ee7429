"""A handful of the faults that are put into agents, traffic control and flow tables: each is found as outcomes.md says."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from tests.mutations.fault import FAMILIES, Place, faults_of
from tests.mutations.page import PAGE, kind_of, rows_of, verdict_on
from tests.mutations.trial import outcome

pytestmark = pytest.mark.kernel

IN_THE_MACHINE = [
    (family, name)
    for family, place in FAMILIES.items()
    if place not in (Place.PLAN, Place.RECORD)
    for name in faults_of(family)
]
CHECK = re.compile(r"(?<!\*)\*([^*]+)\*(?!\*)")
SAID = rows_of(PAGE.read_text())
NEVER_ENDS = "*run*"
"""What the page says of a run that only its time limit ends, which takes a minute."""
HANDFUL = [
    pytest.param(*fault, marks=[pytest.mark.long] if SAID[fault] == NEVER_ENDS else [])
    for fault in random.Random(1).sample(IN_THE_MACHINE, 5)
]


@pytest.mark.parametrize(("family", "name"), HANDFUL)
def test_a_fault_in_the_machine_is_found_as_the_page_says(family: str, name: str, virtual_kernel: Path) -> None:
    found = outcome(family, faults_of(family)[name])
    assert kind_of(verdict_on(found)) == kind_of(SAID[family, name])
    assert set(CHECK.findall(SAID[family, name])) <= set(found.caught_by)
