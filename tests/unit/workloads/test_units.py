"""Quantities: every usual spelling is read alike, what could mean two things is refused, and what is shown can be read
again."""

from __future__ import annotations

import pytest

from gradwire.workloads.units import BYTE_RATE, DURATION, RATE, SIZE, Quantity

TEN_GIGABIT = [
    "10gbit",
    "10Gbit",
    "10GBIT",
    "10gbits",
    "10gbit/s",
    "10Gbps",
    "10gbps",
    "10Gb",
    "10Gb/s",
    "10Gb/sec",
    "10G",
    "10g",
    "10GbE",
    "10gbe",
    "10GBE",
    "10GE",
    "1e1G",
    "10_000M",
]
REFUSED = (
    [(RATE, text) for text in ("10", "gbit", "-1gbit", "1..5gbit", "", "10GB", "10 GB/s", "10GBps", "10 zbit", "10e", "10/s")]
    + [(RATE, "1e999gbit")]
    + [(SIZE, text) for text in ("4", "4M", "4Mb", "64Kib", "4 gbit", "5s", "B", "-1B", "1e999GB")]
    + [(BYTE_RATE, text) for text in ("2", "2GB", "2gb/s", "2Gb/s", "2gbit", "1e999GB/s")]
    + [(DURATION, text) for text in ("5", "5 MS", "5 m", "5 days", "ms", "-5ms", "1e999s")]
)  # fmt: skip


@pytest.mark.parametrize("text", [*TEN_GIGABIT, "10 Gbit/s", "10 Gb/s", " 10 gbit "])
def test_ten_gigabit_in_every_usual_spelling(text: str) -> None:
    assert RATE.parse(text) == 10e9


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (RATE, "100Mbps", 100e6),
        (RATE, "2.5gbit", 2.5e9),
        (RATE, ".5G", 0.5e9),
        (RATE, "1.6T", 1.6e12),
        (RATE, "300 bit/s", 300),
        *((SIZE, text, 4e6) for text in ("4MB", "4 MB", "4mb", "4000kB", "4000KB")),
        *((SIZE, text, 4 * 2**20) for text in ("4MiB", "4 MiB", "4mib")),
        (SIZE, "1.5 kB", 1500),
        (SIZE, "1514 bytes", 1514),
        *((BYTE_RATE, text, 2e9) for text in ("2GB/s", "2 GB/s", "2GBps", "2000 MB/sec")),
        *((DURATION, text, 5e-3) for text in ("5ms", "5 ms", "5 milliseconds", "0.005s")),
        *((DURATION, text, 60) for text in ("1min", "1 minute", "60 s", "60 seconds")),
        *((DURATION, text, 4.4e-6) for text in ("4.4us", "4.4µs", "4.4 \N{GREEK SMALL LETTER MU}s")),
        (DURATION, "2h", 7200),
        (DURATION, "7 ns", 7e-9),
    ],
)
def test_usual_spellings(kind: Quantity, text: str, value: float) -> None:
    assert kind.parse(text) == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize(("kind", "text"), REFUSED)
def test_what_is_refused_is_told_with_what_is_accepted(kind: Quantity, text: str) -> None:
    with pytest.raises(ValueError, match=r"such as|finite") as refused:
        kind.parse(text)
    assert kind.name in str(refused.value)


@pytest.mark.parametrize(
    ("kind", "text", "hint"),
    [
        (RATE, "10GB/s", "a capital B is bytes: multiply by 8"),
        (RATE, "5ms", "this is a duration"),
        (SIZE, "4Mb", "this is a rate"),
        (BYTE_RATE, "2GB", "this is a size"),
    ],
)
def test_a_quantity_of_another_kind_is_named(kind: Quantity, text: str, hint: str) -> None:
    with pytest.raises(ValueError, match=hint):
        kind.parse(text)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        *((RATE, text) for text in ("10gbit", "2.5gbit", "100mbit", "1.5kbit", "3bit", "10000gbit")),
        *((SIZE, text) for text in ("64KiB", "256kB", "1514B", "4MiB", "0B", "1GB")),
        *((BYTE_RATE, text) for text in ("2GB/s", "1.25MB/s", "3B/s")),
        *((DURATION, text) for text in ("0s", "4.4us", "846ms", "1.5s", "30min", "2h", "7ns")),
    ],
)
def test_what_is_shown_is_read_again(kind: Quantity, text: str) -> None:
    assert kind.text(kind.parse(text)) == text
