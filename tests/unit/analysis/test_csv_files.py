"""CSV files are to the byte what the standard library's csv module writes, with numbers as Python's shortest text, and with texts that no
spreadsheet carries out."""

from __future__ import annotations

import ast
import csv
import io
import math
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gradwire.analysis.packets.line_use import Utilisation
from gradwire.analysis.point_frames import text_frame, write_points_csv
from gradwire.analysis.points import RESULT_COLUMNS, PointResult
from gradwire.analysis.report.utilisation import write_utilisation
from gradwire.csv_files import original, read_csv, safe, write_csv
from gradwire.faults import InputFault
from tests.shared.examples import examples
from tests.shared.parts import in_order
from tests.shared.stored_points import result
from tests.unit.test_layout import sources

NUMBERS = st.floats(allow_infinity=False)
#: What may stand in a verdict or a parameter: quotes, commas, line ends, spaces and letters of other scripts.
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters=";"), max_size=12)


@st.composite
def rows(draw: st.DrawFn) -> list[PointResult]:
    keys = draw(st.lists(st.sampled_from(["batch", "model", "rate", "strategy", "options"]), min_size=1, unique=True))
    found = []
    for _ in range(draw(st.integers(1, 4))):
        parameters = {key: draw(TEXTS) for key in draw(st.lists(st.sampled_from(keys), min_size=1, unique=True))}
        optional = st.one_of(st.none(), NUMBERS)
        found.append(
            PointResult(
                parameters, draw(NUMBERS), draw(optional), draw(optional), draw(NUMBERS), draw(NUMBERS),
                draw(st.integers(0, 2**62)), draw(NUMBERS), draw(NUMBERS), draw(TEXTS), draw(TEXTS), draw(TEXTS),
            )
        )  # fmt: skip
    return found


def as_the_csv_module_writes(points: list[PointResult]) -> bytes:
    keys = list(dict.fromkeys(key for row in points for key in row.parameters))
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow([*keys, *RESULT_COLUMNS])
    for row in points:
        values = [getattr(row, column) for column in RESULT_COLUMNS]
        writer.writerow([*(safe(row.parameters.get(key, "")) for key in keys), *map(cell, values)])
    return text.getvalue().encode()


def cell(value: str | float | None) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return repr(value) if isinstance(value, float) else safe(str(value))


@settings(max_examples=examples(150), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows())
def test_points_csv_is_as_the_csv_module_writes_it(tmp_path: Path, points: list[PointResult]) -> None:
    write_points_csv(tmp_path / "points.csv", points)
    assert (tmp_path / "points.csv").read_bytes() == as_the_csv_module_writes(points)


def test_a_file_is_what_it_has_always_been(tmp_path: Path) -> None:
    """Byte for byte: line ends, quotes, whole numbers beside missing ones, and floats."""
    first = result({"model": "vgg19", "options": "a=1, b=2"}, 0.1 + 0.2, ci95_s=1e-7)
    failed = result({"model": "x"}, math.nan, 'invalid: "no"\nroom')
    write_points_csv(tmp_path / "points.csv", [first, failed])
    assert (tmp_path / "points.csv").read_bytes() == (
        b"model,options,iteration_time_s,iteration_time_std_s,ci95_s,throughput_per_s,scaling_efficiency,bytes_sent,wall_s,"
        b"lower_bound_s,lower_bound_kind,fluid_time_s,fluid_cause,plan_digest,verdict\r\n"
        b'vgg19,"a=1, b=2",0.30000000000000004,,1e-07,3.333333333333333,3.333333333333333,0,0.0,0.0,none,,,digest,valid\r\n'
        b'x,,,,,,,0,0.0,0.0,none,,,digest,"invalid: ""no""\nroom"\r\n'
    )


def test_a_parameter_may_not_have_the_name_of_a_result() -> None:
    with pytest.raises(InputFault, match=in_order("'wall_s'", "column")):
        text_frame([result({"wall_s": "1"}, 1.0)])


def test_the_bins_of_a_port_have_fixed_digits(tmp_path: Path) -> None:
    used = Utilisation(1.5, 0.01, 1e10, np.array([0.0, 2.5e9]), np.array([1e10 / 3, 1.0]))
    write_utilisation(tmp_path / "port.csv", used, np.array([0.25, 1 / 3]))
    assert (tmp_path / "port.csv").read_bytes() == (
        b"start_s,inbound_bps,outbound_bps,gpu_share\r\n1.500000,0,3333333333,0.2500\r\n1.510000,2500000000,1,0.3333\r\n"
    )


def test_texts_are_read_as_they_are_written(tmp_path: Path) -> None:
    path = tmp_path / "claims.csv"
    path.write_bytes(b'claim,printed,reason\r\na,1.50,"NA, ""and""\nmore"\r\nb,,nan\r\n')
    assert read_csv(path) == [
        {"claim": "a", "printed": "1.50", "reason": 'NA, "and"\nmore'},
        {"claim": "b", "printed": "", "reason": "nan"},
    ]
    path.write_bytes(b"")
    with pytest.raises(ValueError, match="has no heading"):
        read_csv(path)


ODD = st.one_of(st.sampled_from("'=+-@\t\r\n\\xu0123 ;,\"\x1b\u2028\uff1d\ud800ab"), st.characters())
CARRIED_OUT = re.compile(r"\s*[=+\-@\uff1d\uff0b\uff0d\uff20\t\r]")
NOT_PRINTED = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


@settings(max_examples=examples(2000))
@given(st.text(ODD, max_size=12))
def test_no_cell_is_carried_out_and_each_is_read_back(text: str) -> None:
    written = safe(text)
    assert original(written) == text
    assert not NOT_PRINTED.search(written)
    assert written == "-" or is_number(written.removesuffix("%")) or not CARRIED_OUT.match(written)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("=cmd|' /C calc'!A0", "'=cmd|' /C calc'!A0"),
        ("@SUM(1)", "'@SUM(1)"),
        (" +1+1", "' +1+1"),
        ("'=1", "''=1"),
        ("\t=1", "\\x09=1"),
        ("\r=1", "\\x0d=1"),
        ("-1.5", "-1.5"),
        ("+1e-9", "+1e-9"),
        ("-1.5+1", "'-1.5+1"),
        ("-", "-"),
        ("-5%", "-5%"),
        ("+1.25%", "+1.25%"),
        ("'-", "''-"),
        ("-%", "'-%"),
        ("--", "'--"),
        ("-5%+1", "'-5%+1"),
        ("-5%%", "'-5%%"),
        ("+", "'+"),
        (" -", "' -"),
        ("-\n=1", "'-\n=1"),
        ("it's", "it's"),
        ("a\x1b[31m", "a\\x1b[31m"),
        ("a\\x1b", "a\\\\x1b"),
        ("C:\\new", "C:\\new"),
    ],
)
def test_cells_by_hand(text: str, written: str) -> None:
    assert (safe(text), original(written)) == (written, text)


def test_headings_and_cells_behind_semicolons_are_safe_too(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    rows: list[list[float | str | None]] = [[-1.5, "x;=1+1"], [None, "a;b"]]
    write_csv(path, ["=1+1", "b"], rows)
    assert path.read_bytes() == b'\'=1+1,b\r\n-1.5,"x;=1+1"\r\n,a;b\r\n'
    assert read_csv(path) == [{"=1+1": "-1.5", "b": "x;=1+1"}, {"=1+1": "", "b": "a;b"}]


def writes_csv(source: str) -> bool:
    if "csv" not in source:
        return False
    calls = {ast.unparse(node.func) for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)}
    return any(call in ("csv.writer", "csv.DictWriter") or call.endswith(".to_csv") for call in calls)


def test_no_other_module_writes_csv() -> None:
    assert writes_csv("csv.DictWriter(file, names)")
    assert writes_csv("frame.to_csv(path)")
    for folder in ("gradwire", "reproduction"):
        assert [path for path in sources(folder) if writes_csv(path.read_text())] == []
