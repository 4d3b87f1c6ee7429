"""GOAL schedules: messages and calculations of all ranks in one file, as LogGOPSim and ATLAHS have them."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradwire.faults import InputFault
from gradwire.workloads.traces.workload import Kind
from tests.unit.workloads.traces.formats.test_kineto import chain
from tests.unit.workloads.traces.small_traces import finds, imported, words

SCHEDULE = """// of two ranks
/* and
two messages */ num_ranks 2

rank 0 {
l1: calc 1500000 cpu 3
l2: send 4096b to 1 tag 7 cpu 1 nic 2
l2 requires l1
calc 20000 cpu 5
l4: calc 0 cpu 9
l4 irequires l2
}
rank 1 { r1: recv 4096b from 0 tag 7
send 10b to 0
}
"""


def of(folder: Path, text: str) -> Path:
    path = folder / "job.goal"
    path.write_text(text)
    return path


def test_messages_calculations_and_what_waits_for_what(tmp_path: Path) -> None:
    outcome = imported(of(tmp_path, SCHEDULE.replace("l4: calc", "recv 10b from 1\nl4: calc")))
    assert outcome.workload is not None, words(outcome)
    tasks = outcome.workload.tasks
    assert chain(outcome.workload) == [
        ("compute", 1500, []),
        ("send", 4096, [0]),
        ("compute", 20, []),
        ("recv", 10, []),
        ("compute", 0, [5]),
        ("compute", 0, [0]),  # the start of the send
    ]
    assert chain(outcome.workload, 1) == [("recv", 4096, []), ("send", 10, [])]
    streams = tasks.stream[(tasks.kind == Kind.COMPUTE) & (tasks.duration_ns > 0)].tolist()
    assert len(set(streams)) == 2  # CPUs 3 and 5
    assert [source.calls for source in outcome.sources] == [4]
    assert finds(outcome, "line 7: nic")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (SCHEDULE.replace("from 0", "from -1"), "any rank"),
        (SCHEDULE.replace("from 0 tag 7", "from 0 tag -1"), "any tag"),
        (SCHEDULE.replace("send 10b to 0", "send 10b to 5"), "with rank 5 of 2"),
        (SCHEDULE, "sends 1 messages to rank 0"),
    ],
)
def test_what_would_be_a_guess_is_refused(tmp_path: Path, text: str, complaint: str) -> None:
    outcome = imported(of(tmp_path, text))
    assert outcome.workload is None
    assert finds(outcome, complaint), words(outcome)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (SCHEDULE.replace("l2 requires l1", "l2 requires l9"), "line 8"),
        (SCHEDULE.replace("calc 20000", "calk 20000"), "line 9"),
        (SCHEDULE.replace("send 4096b to", "send 4096b from"), "line 7"),
        (SCHEDULE.replace("l4: calc", "l1: calc"), "line 10"),
        (SCHEDULE.replace("rank 1 {", "rank 0 {"), "rank 0"),
        (SCHEDULE.replace("num_ranks 2", "num_ranks 3"), "rank 2 is not there"),
        (SCHEDULE.replace("num_ranks 2", "num_ranks 99999999"), "num_ranks"),
        (SCHEDULE.removesuffix("}\n"), "ends in the middle"),
        (SCHEDULE + "/*", "ends in the middle"),
        (SCHEDULE + "x" * 100_000, "is longer"),
        ("num_ranks 1\nrank 0 {\n" + "".join(f"calc 1 cpu {cpu}\n" for cpu in range(70)) + "}\n", "70 CPUs"),
    ],
)
def test_what_is_no_goal_is_told_with_its_line(tmp_path: Path, text: str, place: str) -> None:
    with pytest.raises(InputFault, match=place):
        imported(of(tmp_path, text))
