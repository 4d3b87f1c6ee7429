"""Tables on terminals: which columns are there at which width, and that no word is broken."""

from __future__ import annotations

import io
import re
from dataclasses import replace

import pytest

from gradwire.analysis.points import PointResult
from gradwire.analysis.port_traffic import PortTraffic
from gradwire.analysis.printed import Comparison
from gradwire.analysis.report.point_columns import GIVES_WAY
from gradwire.analysis.report.ranking import rank, ranking_table
from gradwire.analysis.report.tables import points_table
from gradwire.analysis.report.text_table import TextTable
from gradwire.cli.traffic_tables import ports_table
from gradwire.cli.upkeep import findings_table
from gradwire.console.plain_console import UNBOUNDED_COLUMNS, PlainConsole
from gradwire.console.terminal_tables import TerminalTable
from gradwire.network.fabric import Fabric
from gradwire.vm.doctor import Diagnosis

WIDTHS = [60, 72, 80, 100, 160]


def point(strategy: str, rate: str, time_s: float) -> PointResult:
    return PointResult(
        parameters={"strategy": strategy, "rate": rate},
        iteration_time_s=time_s,
        iteration_time_std_s=None,
        ci95_s=1e-9,
        throughput_per_s=256 / time_s,
        scaling_efficiency=0.0656 / time_s,
        bytes_sent=0,
        wall_s=0.0,
        lower_bound_s=0.06,
        lower_bound_kind="bandwidth",
        plan_digest="00ff",
        verdict="valid",
        fluid_time_s=time_s,
    )


POINTS = [
    point(name, rate, time_s)
    for name, rate, time_s in (
        ("kvstore", "10gbit", 0.1615),
        ("kvstore", "25gbit", 0.08132),
        ("p3", "10gbit", 0.1342),
        ("ring", "25gbit", 0.0802),
    )
]
QUESTION = points_table(POINTS, Comparison((), ()), {})
RANKING = ranking_table(
    rank([replace(row, parameters={"strategy": row.parameters["strategy"]}) for row in POINTS[1:]], {}, (), {})
)
DOCTOR = findings_table(
    [
        Diagnosis("Open vSwitch", True, "/usr/sbin/ovs-vswitchd"),
        Diagnosis(
            "virtual-time kernel", False, "not built yet", "gradwire run builds it (some minutes), as does make setup"
        ),
        Diagnosis(
            "wall clock: openvswitch",
            False,
            "without it, runs use a slower datapath",
            "modprobe openvswitch",
            required=False,
        ),
    ]
)
PORTS = ports_table(
    Fabric(12, 1e10),
    [PortTraffic("h1-eth0", 1e10, 10**9, 10**6, 0), PortTraffic("s1-eth12", 1e10, 10**8, 10**6, 3)],
    1.0,
)
TABLES = {"points": QUESTION, "ranking": RANKING, "doctor": DOCTOR, "ports": PORTS}


def shown(table: TextTable, width: int) -> list[str]:
    """The lines of a terminal of so many columns, without title and foot."""
    file = io.StringIO()
    PlainConsole(file=file, width=width).print(TerminalTable(replace(table, title="", foot="")))
    return file.getvalue().splitlines()


def left_out(lines: list[str]) -> tuple[str, ...]:
    """The headers that the line below the table names, which may have been wrapped."""
    found = re.search(r"left out for \d+ columns: (.*); `\| cat` shows all", " ".join(line.strip() for line in lines))
    return tuple(found[1].split(", ")) if found else ()


def words(table: TextTable, without: tuple[str, ...]) -> list[str]:
    """All words of a table but those of some columns, sorted."""
    kept = [index for index, header in enumerate(table.headers) if header not in without]
    return sorted(word for line in (table.headers, *table.rows) for index in kept for word in line[index].split())


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", TABLES)
def test_no_word_is_broken_and_no_line_is_too_long(name: str, width: int) -> None:
    table, lines = TABLES[name], shown(TABLES[name], width)
    assert max(map(len, lines)) <= width
    (rule,) = [number for number, line in enumerate(lines) if set(line) == {"─"}]
    ends = next((number for number, line in enumerate(lines) if line.startswith("left out for")), len(lines))
    drawn = [word for line in (*lines[:rule], *lines[rule + 1 : ends]) for word in line.split()]
    assert sorted(drawn) == words(table, left_out(lines[ends:]))


@pytest.mark.parametrize(
    ("width", "gone"),
    [(30, None), (40, 5), (48, 4), (60, 2), (72, 1), (80, 0), (100, 0), (160, 0), (UNBOUNDED_COLUMNS, 0)],
)
def test_columns_of_points_give_way_in_their_order(width: int, gone: int | None) -> None:
    lines = shown(QUESTION, width)
    if gone is None:  # too narrow for the columns that stay
        assert lines[:3] == [" strategy: kvstore", " rate: 10gbit", " time (s): 0.1615"]
        assert sum(line == " verdict: valid" for line in lines) == len(POINTS)
    else:
        assert left_out(lines) == GIVES_WAY[:gone]
        head = " ".join(lines[: next(number for number, line in enumerate(lines) if set(line) == {"─"})])
        assert {"strategy", "rate", "time", "(s)", "verdict"} <= set(head.split())


def test_what_was_swept_the_time_and_the_verdict_never_give_way() -> None:
    assert not {"strategy", "rate", "time (s)", "verdict"} & set(GIVES_WAY)
    assert set(GIVES_WAY[:5]) < set(QUESTION.headers)


@pytest.mark.parametrize("name", TABLES)
def test_a_pipe_gets_each_row_as_one_whole_line(name: str) -> None:
    table, lines = TABLES[name], shown(TABLES[name], UNBOUNDED_COLUMNS)
    assert len(lines) == 2 + len(table.rows)
    for line, cells in zip((lines[0], *lines[2:]), (table.headers, *table.rows), strict=True):
        assert [part for part in re.split(r" {2,}", line.strip()) if part] == [cell for cell in cells if cell]


def test_a_word_that_no_line_has_room_for_stays_whole() -> None:
    path = "/a/folder" * 12
    lines = shown(TextTable("", ("what", "path"), (("log", path),), 2, ("",)), 60)
    assert lines[:2] == [" what: log", " path:"]
    assert lines[2].strip() == path


def test_cells_of_words_continue_below_their_column() -> None:
    lines = shown(DOCTOR, 60)
    begins = {line.index("virtual-time") for line in lines if "virtual-time" in line}
    begins |= {line.index("kernel") for line in lines if line.strip().startswith("kernel")}
    assert len(begins) == 1
