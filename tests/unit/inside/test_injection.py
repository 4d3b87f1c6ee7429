"""When faults begin and end, told times and iterations."""

from __future__ import annotations

from gradwire.datatypes.records import PlannedFault
from gradwire.inside.injection import Act, FaultSchedule

CUT = PlannedFault("cut", "link-down", 10, duration_ns=5, place="h1-eth0")
LATER = PlannedFault("later", "loss", 3, iteration=2, place="h1-eth0", value=0.1)
FLAP = PlannedFault("flap", "flapping", 0, duration_ns=50, place="h1-eth0", value=20e-9)


def carried_out(agenda: FaultSchedule, until_ns: int) -> list[tuple[int, str, Act]]:
    """Everything that happens up to a time, each a nanosecond late."""
    happened = []
    while (due_ns := agenda.next_ns()) is not None and due_ns <= until_ns:
        taken = agenda.take_due(due_ns)
        assert taken is not None
        agenda.noted(*taken, due_ns + 1)
        happened.append((due_ns, taken[0].name, taken[1]))
    return happened


def test_a_fault_begins_and_ends_at_its_times_and_is_noted() -> None:
    agenda = FaultSchedule([CUT])
    assert agenda.take_due(9) is None
    assert carried_out(agenda, 10) == [(10, "cut", Act.BEGIN)]
    assert agenda.active == [CUT]
    assert carried_out(agenda, 100) == [(15, "cut", Act.END)]
    assert agenda.active == []
    (record,) = agenda.records
    assert (record.due_ns, record.begun_ns, record.ended_ns, record.changes) == (10, 11, 16, 2)


def test_a_fault_of_an_iteration_counts_from_where_that_begins() -> None:
    agenda = FaultSchedule([LATER])
    agenda.iterated(1, 50)
    assert agenda.next_ns() is None
    agenda.iterated(2, 70)
    agenda.iterated(3, 90)
    assert carried_out(agenda, 100) == [(73, "later", Act.BEGIN)]
    assert agenda.end_all() == [LATER]
    agenda.noted(LATER, Act.END, 120)
    (record,) = agenda.records
    assert (record.due_ns, record.begun_ns, record.ended_ns) == (73, 74, 120)


def test_a_link_that_flaps_is_down_for_the_first_half_of_each_period() -> None:
    agenda = FaultSchedule([FLAP])
    assert [(time, act) for time, _, act in carried_out(agenda, 1000)] == [
        (0, Act.BEGIN), (10, Act.END), (20, Act.BEGIN), (30, Act.END), (40, Act.BEGIN), (50, Act.END),
    ]  # fmt: skip
    (record,) = agenda.records
    assert (record.begun_ns, record.ended_ns, record.changes) == (1, 51, 6)


def test_what_never_began_says_so() -> None:
    agenda = FaultSchedule([LATER, CUT])
    assert agenda.end_all() == []
    assert agenda.next_ns() is None
    assert [record.begun_ns for record in agenda.records] == [-1, -1]
