"""Random small workloads: ranks that compute, and communicate in groups of every kind, in an order that all of them
share."""

from __future__ import annotations

from pathlib import Path

from hypothesis import strategies as st

from gradwire.workloads.traces.record import Call, Findings, RankRecord, Reading
from gradwire.workloads.traces.trace_import import assemble
from gradwire.workloads.traces.workload import POINT_TO_POINT, ROOTED, Kind, Workload

COLLECTIVES = [kind for kind in Kind if kind not in (Kind.COMPUTE, *POINT_TO_POINT)]


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    """A workload of one to four ranks, in which a task waits for one or two of its rank's last tasks."""
    ranks = draw(st.integers(1, 4))
    members = st.lists(st.integers(0, ranks - 1), min_size=1, unique=True).map(tuple)
    groups = [tuple(range(ranks)), *draw(st.lists(members, max_size=3, unique_by=frozenset))]
    names = {f"g{number}": group for number, group in enumerate(groups)}
    records = [RankRecord(Path(f"{rank}.et"), "made up", Findings()) for rank in range(ranks)]
    for rank, record in enumerate(records):
        record.rank, record.world, record.groups = rank, ranks, dict(names)

    def after(record: RankRecord) -> list[int]:
        last = len(record) - 1
        return [] if last < 0 else [last, *([draw(st.integers(0, last - 1))] if last and draw(st.booleans()) else [])]

    def add(rank: int, call: Call) -> None:
        records[rank].call(call, after(records[rank]))

    for number in range(draw(st.integers(1, 8))):
        kind = draw(st.sampled_from(list(Kind)))
        width = draw(st.sampled_from([1, 2, 4]))
        size = width * draw(st.integers(0, 50))
        item = f"step {number}"
        if kind is Kind.COMPUTE:
            record = records[draw(st.integers(0, ranks - 1))]
            record.compute(draw(st.integers(0, 9000)), draw(st.sampled_from([0, 2])), after(record))
        elif kind in POINT_TO_POINT:
            if ranks > 1:
                src, dst = draw(st.lists(st.integers(0, ranks - 1), min_size=2, max_size=2, unique=True))
                add(src, Call(Kind.SEND, item, size, width, peer=dst))
                add(dst, Call(Kind.RECV, item, size, width, peer=src))
        else:
            name = draw(st.sampled_from(sorted(names)))
            root = draw(st.sampled_from(names[name])) if kind in ROOTED else -1
            for rank in names[name]:
                add(rank, Call(kind, item, 0 if kind is Kind.BARRIER else size, width, name, root))
    records[0].call(Call(Kind.BARRIER, "the end", group="g0"))
    for rank in range(1, ranks):
        records[rank].call(Call(Kind.BARRIER, "the end", group="g0"))
    findings = Findings()
    workload = assemble("random", records, Reading(), findings)
    assert workload is not None, findings.all
    return workload
