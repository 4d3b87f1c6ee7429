"""Axes of a map as they are written."""

from __future__ import annotations

import pytest

from gradwire.faults import InputFault
from gradwire.runs.mapping.axes import parse_axes, parse_axis
from gradwire.workloads.units import rate_bps


def test_a_wide_range_with_a_unit_has_equal_ratios_and_its_own_ends() -> None:
    axis = parse_axis("fabric.rate=1gbit..800gbit:log", 20)
    assert axis.key == "fabric.rate"
    assert (axis.texts[0], axis.texts[-1], len(axis.texts), axis.logarithmic) == ("1gbit", "800gbit", 20, True)
    assert [rate_bps(text) for text in axis.texts] == list(axis.numbers)
    ratios = [high / low for low, high in zip(axis.numbers, axis.numbers[1:], strict=False)]
    assert max(ratios) / min(ratios) < 1.02


def test_a_range_of_rates_has_those_of_ethernet() -> None:
    axis = parse_axis("fabric.rate=1gbit..100gbit", 20)
    assert axis.texts == ("1gbit", "2.5gbit", "5gbit", "10gbit", "25gbit", "40gbit", "50gbit", "100gbit")
    assert [rate_bps(text) for text in axis.texts] == list(axis.numbers)
    assert parse_axis("fabric.rate=3gbit..12gbit", 20).texts == ("3gbit", "5gbit", "10gbit", "12gbit")
    # There is one between these, so the range is divided like any other.
    assert len(parse_axis("fabric.rate=3gbit..6gbit", 20).texts) == 20
    assert len(parse_axis("costs.aggregation_rate=1GB/s..100GB/s", 20).texts) == 20


def test_ends_of_different_units_meet() -> None:
    axis = parse_axis("fabric.rate=100mbit..10gbit:3", 20)
    assert axis.texts == ("100mbit", "1gbit", "10gbit")
    assert parse_axis("strategy.options.slice=64KiB..4MiB:4", 20).texts == ("64KiB", "256KiB", "1MiB", "4MiB")


def test_whole_numbers_are_doubled_where_the_range_is_made_of_doublings() -> None:
    assert parse_axis("cluster.workers=4..64", 10).texts == ("4", "8", "16", "32", "64")
    assert parse_axis("cluster.workers=3..24", 10).texts == ("3", "6", "12", "24")
    assert parse_axis("cluster.workers=4..64:10", 10).texts == ("4", "5", "7", "10", "14", "19", "25", "35", "47", "64")
    assert parse_axis("cluster.workers=2..16:10", 10).texts == ("2", "3", "4", "5", "6", "8", "10", "13", "16")
    assert parse_axis("cluster.workers=4..8", 10).texts == ("4", "5", "6", "7", "8")


def test_a_narrow_range_and_one_that_says_linear_have_equal_differences() -> None:
    assert parse_axis("costs.compute_variation.value=0..0.4:5", 10).texts == ("0", "0.1", "0.2", "0.3", "0.4")
    assert parse_axis("fabric.rate=10gbit..100gbit:4:linear", 10).texts == ("10gbit", "40gbit", "70gbit", "100gbit")
    assert parse_axis("fabric.delay=0us..1ms:3", 10).numbers == (0, 0.0005, 0.001)


def test_lists_are_sorted_and_names_of_keys_are_the_first_ones() -> None:
    assert parse_axis("fabric.rate=[25gbit, 1gbit]", 9).texts == ("1gbit", "25gbit")
    assert parse_axis("cluster.gpus_per_host=1,2", 9).key == "cluster.workers_per_host"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("fabric.rate", "write KEY=A..B"),
        ("fabric.rate=10gbit", "one value"),
        ("fabric.rate=10gbit..1gbit", "not less than"),
        ("fabric.rate=1gbit..10MB", "not of one kind"),
        ("fabric.rate=fast..faster", "not a number"),
        ("cluster.workers=0..64:5:log", "cannot begin at 0"),
        ("cluster.workers=2..4:9", "only 3"),
        ("cluster.workers=2..64:0", "number of steps"),
        ("cluster.workers=2..64:many", "number of steps"),
        ("cluster.workers=2,2", "given twice"),
    ],
)
def test_what_is_wrong_is_said_with_what_is_right(text: str, words: str) -> None:
    with pytest.raises(InputFault, match=words) as caught:
        parse_axis(text, 10)
    assert "1gbit..800gbit" in str(caught.value)


def test_a_map_has_two_different_axes() -> None:
    with pytest.raises(InputFault, match="two axes"):
        parse_axes(["cluster.workers=2,4"])
    with pytest.raises(InputFault, match="the other axis"):
        parse_axes(["cluster.workers=2,4", "cluster.workers=2..8"])
