"""Figures from what programs write, and what is said of texts that have none."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradwire.analysis import figure_frames
from gradwire.analysis.figure_frames import frame_of_figures
from gradwire.analysis.program_results import FigureRow, read_iperf3, read_lines, read_osu
from gradwire.faults import InputFault
from tests.shared.parts import in_order

OSU = """
# OSU MPI Allreduce Latency Test v7.3
# Datatype: MPI_INT.
# Size       Avg Latency(us)   Min Latency(us)
4                       3.12              2.10
1048576               512.00            500.25
"""


def test_lines_of_json_are_rows() -> None:
    assert read_lines('{"a": 1, "b": "x", "c": true}\n\n{"a": 2.5}\n') == [{"a": 1, "b": "x", "c": True}, {"a": 2.5}]
    assert read_lines("") == []


@pytest.mark.parametrize("line", ["3", "[1]", '{"a": [1]}', '{"a": null}', '{"a": NaN}', '{"a": 1', "a = 1"])
def test_another_line_is_named(line: str) -> None:
    with pytest.raises(InputFault, match=r"^line 2: "):
        read_lines('{"a": 1}\n' + line)


def test_names_that_no_table_has_room_for_are_refused() -> None:
    many = "\n".join(json.dumps({f"figure {line}-{n}": 1 for n in range(400)}) for line in range(3))
    with pytest.raises(InputFault, match=in_order("line 3:", "1,000 names")):
        read_lines(many)
    with pytest.raises(InputFault, match=in_order("line 1:", "1,000,000 characters", "200")):
        read_lines(json.dumps({"x" * 1_000_000: 1}))
    with pytest.raises(InputFault, match="1,000 names"):
        read_osu("# Size   " + "   ".join(f"A{n}" for n in range(1_001)) + "\n1 2\n")


def test_rows_and_figures_that_take_all_memory_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [FigureRow("load", "h1", {f"figure {n}": 1}) for n in range(10)]
    assert frame_of_figures([({"n": "1"}, rows, "valid")]).shape == (10, 14)
    monkeypatch.setattr(figure_frames, "MOST_CELLS", 99)
    with pytest.raises(InputFault, match=in_order("10 rows", "10 figures")):
        frame_of_figures([({"n": "1"}, rows, "valid")])


@given(st.text())
def test_no_text_breaks_a_reader(text: str) -> None:
    for reader in (read_lines, read_iperf3, read_osu):
        with suppress(InputFault):
            reader(text)


def iperf3_report(**end: object) -> str:
    """The part of a report that iperf3 3.12 prints at its end."""
    return json.dumps({"start": {"version": "iperf 3.12"}, "intervals": [], "end": end})


def test_iperf3_has_a_row_per_direction() -> None:
    sent = {
        "start": 0,
        "end": 1,
        "seconds": 1.0,
        "bytes": 1200,
        "bits_per_second": 9600.0,
        "retransmits": 3,
        "sender": True,
    }
    received = {"start": 0, "end": 1.1, "seconds": 1.1, "bytes": 1000, "bits_per_second": 7272.7, "sender": True}
    forward = {
        "direction": "forward",
        "goodput_bps": 7272.7,
        "received_bytes": 1000,
        "duration_s": 1.1,
        "retransmits": 3,
    }
    assert read_iperf3(iperf3_report(sum_sent=sent, sum_received=received)) == [forward]
    both = read_iperf3(iperf3_report(sum_sent=sent, sum_received=received, sum_received_bidir_reverse=received))
    assert [row["direction"] for row in both] == ["forward", "reverse"]


def test_iperf3_tells_why_it_failed() -> None:
    with pytest.raises(InputFault, match="failed: unable to"):
        read_iperf3('{"start": {}, "intervals": [], "end": {}, "error": "unable to connect to server"}')
    with pytest.raises(InputFault, match="what was received"):
        read_iperf3(iperf3_report())


def test_osu_names_its_columns() -> None:
    assert read_osu(OSU) == [
        {"size_bytes": 4, "avg_latency_us": 3.12, "min_latency_us": 2.1},
        {"size_bytes": 1048576, "avg_latency_us": 512.0, "min_latency_us": 500.25},
    ]
    (row,) = read_osu("# OSU MPI Bandwidth Test v5.9\n# Size      Bandwidth (MB/s)\n1                       2.09\n")
    assert row == {"size_bytes": 1, "bandwidth_mb_per_s": 2.09}


@pytest.mark.parametrize("text", ["", "4  3.12\n", "# Size   A   B\n4  3.12\n", "# Size   A\n4  x\n"])
def test_what_is_no_table_of_osu_is_refused(text: str) -> None:
    with pytest.raises(InputFault):
        read_osu(text)
