"""CSV files are to the byte what the standard library's csv module writes, with numbers as Python's shortest text."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gradwire.analysis.packets.line_use import Utilisation
from gradwire.analysis.point_frames import read_texts, text_frame, write_points_csv
from gradwire.analysis.points import RESULT_COLUMNS, PointResult
from gradwire.analysis.report.utilisation import write_utilisation
from gradwire.faults import InputFault
from tests.shared.examples import examples
from tests.shared.stored_points import result

NUMBERS = st.floats(allow_infinity=False)
#: What may stand in a verdict or a parameter: quotes, commas, line ends, spaces and letters of other scripts.
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)


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
        writer.writerow([*(row.parameters.get(key, "") for key in keys), *map(cell, values)])
    return text.getvalue().encode()


def cell(value: str | float | None) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return repr(value) if isinstance(value, float) else str(value)


@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
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
    with pytest.raises(InputFault, match="'wall_s' has the name of a column"):
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
    assert read_texts(path) == [
        {"claim": "a", "printed": "1.50", "reason": 'NA, "and"\nmore'},
        {"claim": "b", "printed": "", "reason": "nan"},
    ]
    path.write_bytes(b"")
    with pytest.raises(ValueError, match="No columns"):
        read_texts(path)
