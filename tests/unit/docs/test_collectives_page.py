"""The page of collectives has the table that `auto` goes by, and every algorithm."""

from __future__ import annotations

from gradwire.workloads.engines.collectives.choice import ALGORITHMS, TABLE, TableRow
from gradwire.workloads.units import size_text
from tests.shared.snippets import ROOT

PAGE = (ROOT / "docs" / "collectives.md").read_text()


ONLY_ONE = "the only one"
ASSUMED = "assumed"


def shown(row: TableRow) -> str:
    where = [
        *([] if row.most_bytes is None else [f"up to {size_text(row.most_bytes)}"]),
        *(["a power of two"] if row.power_of_two else []),
        *([f"up to {row.most_members} members"] if row.most_members else []),
        *(["several machines of several members"] if row.rails else []),
    ]
    return f"| {row.kind} | {', '.join(where)} | `{row.algorithm}`{', assumed' if row.source == ASSUMED else ''} |"


def test_the_table_is_that_of_the_code() -> None:
    """All but the kinds that have one algorithm, and MPICH's where nothing else is said."""
    rows = [shown(row) for row in TABLE if row.source != ONLY_ONE]
    assert {row.source for row in TABLE} == {ONLY_ONE, ASSUMED, "Thakur et al."}
    assert "\n".join(rows) in PAGE, "\n".join(["the table should be:", *rows])


def test_every_algorithm_is_explained() -> None:
    missing = {name for there in ALGORITHMS.values() for name in there if f"`{name}`" not in PAGE}
    assert missing <= {"dissemination"}
