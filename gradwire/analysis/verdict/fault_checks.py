"""The check that every fault happened when it should have, and was undone: of plans and of programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gradwire.analysis.verdict.checks import Check
from gradwire.datatypes.records import FaultRecord, PlannedFault

TOLERANCE_NS = 1_000_000
"""Largest lateness of the begin or end of a fault. Of the faults in docs/faults.md, links and tenants were 0.07 ms
late, and those where tc changes queues in the namespaces of a host and of the switch 0.09 ms. Faults at the same moment
are carried out one after the other: this allows a dozen."""
RESTART_TOLERANCE_NS = 10_000_000
"""Largest lateness of the restart of a switch or a controller, of which processes have to take notice: 0.7 ms were seen
for a switch with four links, each of which adds its 0.07 ms, and 1.1 ms for the controller. This allows switches with a
hundred links."""
FAULTS_MEANING = "A fault is not the one that the scenario asks for, or happened at another time."


def fault_check(
    faults: Sequence[PlannedFault],
    records: Sequence[FaultRecord],
    ended_ns: int,
    left_out: str,
    ended: str,
) -> Check:
    """Every fault began and ended when it should have. ended_ns: when the run ended, with which faults end that
    last longer.

    left_out: checks that were not made because of the faults, for the check's value. ended: the end in words.
    """
    wrong = [line for fault in faults for line in _defects(fault, records, ended_ns, ended)]
    times = "; ".join(_times(record) for record in records)
    value = "; ".join(wrong) if wrong else f"{times} (not checked: {left_out})" if left_out else times
    return Check("faults", value, "each as the scenario says", not wrong, FAULTS_MEANING)


def _times(record: FaultRecord) -> str:
    return (
        f"{record.fault.name}: {record.fault.what} from {record.begun_ns / 1e9:.6f} s to {record.ended_ns / 1e9:.6f} s"
    )


def _defects(fault: PlannedFault, records: Sequence[FaultRecord], ended_ns: int, ended: str) -> Iterator[str]:
    record = next((record for record in records if record.fault == fault), None)
    if record is None or record.begun_ns < 0:
        yield f"{fault.name}: {ended} before it began"
        return
    tolerance_ns = RESTART_TOLERANCE_NS if fault.kind.endswith("restart") else TOLERANCE_NS
    if not 0 <= record.begun_ns - record.due_ns <= tolerance_ns:
        yield f"{fault.name}: began at {record.begun_ns / 1e9:.6f} s instead of {record.due_ns / 1e9:.6f} s"
    due_ns = ended_ns if fault.duration_ns < 0 else min(ended_ns, record.due_ns + fault.duration_ns)
    # A link that flaps may be up when its time is over, and a worker's agent may end before the others.
    early_ns = round(fault.value * 1e9) if fault.kind == "flapping" else due_ns if fault.is_of_worker else 0
    if not -early_ns <= record.ended_ns - due_ns <= tolerance_ns:
        yield f"{fault.name}: ended at {record.ended_ns / 1e9:.6f} s instead of {due_ns / 1e9:.6f} s"
