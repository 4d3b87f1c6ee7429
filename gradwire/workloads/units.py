"""Quantities with units as scenario files write them: 10gbit, 64KiB, 2GB/s, 4.4us, and other usual spellings."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from gradwire.network.fabric import BITS_PER_S

BYTES = {"B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30}
SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "min": 60.0, "h": 3600.0}

_NUMBER = re.compile(r"\s*([0-9][0-9_]*(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|\.[0-9]+)\s*(\D.*?)\s*")
LONGEST_QUANTITY = 100
"""Characters, for the time that reading one takes grows with a power of them."""
_BITS = re.compile(r"([kKmMgGtT]?)(?:(?i:bits?)|b)(?i:/s(?:ec)?|ps)?")
"""Bits are spelled in full or with a small b: a capital B is bytes."""
_ETHERNET = re.compile(r"([kKmMgGtT])(?i:b?e)?")
_OPERATIONS = re.compile(r"(?P<prefix>[kMGTPE]?)(?P<unit>FLOPs?|MACs?)")
"""A small s is a plural; FLOPS with a capital S is a rate to many, and MAC is a multiply-add, which is two
operations."""
_OCTETS = re.compile(r"(?P<prefix>[kmgt]i?|)(?P<unit>b|bytes?)", re.IGNORECASE)
_SECOND_WORDS = {
    **dict.fromkeys(("sec", "second", "seconds"), "s"),
    **dict.fromkeys(("msec", "millisecond", "milliseconds"), "ms"),
    **dict.fromkeys(("usec", "µs", "μs", "microsecond", "microseconds"), "us"),
    **dict.fromkeys(("nsec", "nanosecond", "nanoseconds"), "ns"),
    **dict.fromkeys(("minute", "minutes"), "min"),
    **dict.fromkeys(("hour", "hours"), "h"),
}


@dataclass(frozen=True)
class Quantity:
    """A kind of quantity: how it is read and written."""

    #: With its article, as in "must be a rate".
    name: str
    #: Spellings that are accepted, for error messages.
    examples: str
    #: The factor of a unit, or None if it is not one of this kind.
    factor: Callable[[str], float | None]
    #: Formats a value, in the base unit, as it may be written.
    text: Callable[[float], str]

    def __get_pydantic_json_schema__(self, _: Any, __: Any) -> dict[str, object]:
        """A quantity is written as a text."""
        return {"type": "string", "pattern": r"^\s*[0-9.]", "description": f"{self.name}, such as {self.examples}"}

    def parse(self, text: str) -> float:
        """Parses a number with its unit into the base unit. Raises ValueError, with what would be right."""
        match = _number_and_unit(text)
        factor = None if match is None else self.factor(match[2])
        if match is None or factor is None:
            raise ValueError(f"{self.expected}{_hint(text, self)}")
        quantity = float(match[1]) * factor
        if not math.isfinite(quantity):
            raise ValueError(f"{self.name} must be finite, and this is too large")
        return quantity

    @property
    def expected(self) -> str:
        """Returns the words for what a value must be."""
        return f"must be {self.name}: a number and a unit, such as {self.examples}"


def _number_and_unit(text: str) -> re.Match[str] | None:
    return _NUMBER.fullmatch(text) if len(text) <= LONGEST_QUANTITY else None


def _bit_factor(unit: str) -> float | None:
    match = _BITS.fullmatch(unit) or _ETHERNET.fullmatch(unit)
    return BITS_PER_S[f"{match[1].lower()}bit"] if match else None


def _byte_factor(unit: str) -> float | None:
    """Bytes have a capital B or no capital at all, for "Mb" is megabits."""
    match = _OCTETS.fullmatch(unit)
    if match is None or (match["unit"] == "b" and unit != unit.lower()):
        return None
    prefix = match["prefix"].lower()
    return (2.0**10 if prefix.endswith("i") else 1e3) ** " kmgt".index(prefix[:1] or " ")


def _bytes_per_s_factor(unit: str) -> float | None:
    """Bytes per second need the capital B, for "gb/s" is gigabits per second to many."""
    match = re.fullmatch(r"(.*?)(?:/s|/sec|ps)", unit)
    return _byte_factor(match[1]) if match and ("B" in match[1] or "byte" in match[1]) else None


def _flop_factor(unit: str) -> float | None:
    match = _OPERATIONS.fullmatch(unit)
    if match is None:
        return None
    return 1e3 ** " kMGTPE".index(match["prefix"] or " ") * (2.0 if match["unit"].startswith("MAC") else 1.0)


def _flop_rate_factor(unit: str) -> float | None:
    """FLOP/s, or FLOPS, which is the same to many."""
    match = re.fullmatch(r"(.*FLOPs?)(?:/s|/sec)|(.*FLOP)S", unit)
    return _flop_factor(match[1] or match[2]) if match else None


def _second_factor(unit: str) -> float | None:
    return SECONDS.get(_SECOND_WORDS.get(unit, unit))


def _hint(text: str, wanted: Quantity) -> str:
    """Returns a hint on what the text is instead, if it is another kind of quantity."""
    match = _number_and_unit(text)
    if match is None:
        return ""
    if wanted is RATE and _bytes_per_s_factor(match[2]):
        return "; a capital B is bytes: multiply by 8 for bits"
    if wanted is FLOPS and _flop_rate_factor(match[2]):
        return "; FLOPS and FLOP/s are rates: a number of operations is written FLOP"
    others = (
        kind
        for kind in (RATE, SIZE, BYTE_RATE, DURATION, FLOPS, FLOP_RATE)
        if kind is not wanted and kind.factor(match[2])
    )
    return next((f"; this is {kind.name}" for kind in others), "")


ETHERNET_BPS = tuple(gbit * 1e9 for gbit in (1, 2.5, 5, 10, 25, 40, 50, 100, 200, 400, 800, 1600))
"""Rates of a line in IEEE 802.3, from 1 Gbit/s on."""


def rate_text(rate_bps: float) -> str:
    """Formats a rate as scenario files do: 10gbit, 2.5gbit, 100mbit."""
    for unit in ("gbit", "mbit", "kbit"):
        if rate_bps >= BITS_PER_S[unit]:
            return f"{rate_bps / BITS_PER_S[unit]:g}{unit}"
    return f"{rate_bps:g}bit"


def size_text(size_bytes: float) -> str:
    """Formats a size without rounding it: 64KiB, 256kB, 1514B."""
    units = (unit for unit in ("GB", "GiB", "MB", "MiB", "kB", "KiB") if size_bytes and size_bytes % BYTES[unit] == 0)
    return min((f"{size_bytes / BYTES[unit]:.15g}{unit}" for unit in (*units, "B")), key=len)


def byte_rate_text(rate_bytes_per_s: float) -> str:
    """Formats a rate of bytes: 2GB/s."""
    unit = next((unit for unit in ("GB", "MB", "kB") if rate_bytes_per_s >= BYTES[unit]), "B")
    return f"{rate_bytes_per_s / BYTES[unit]:.15g}{unit}/s"


def duration_text(duration_s: float) -> str:
    """Formats a duration: 30min, 1.5s, 4.4us."""
    for unit in ("h", "min"):
        if duration_s >= SECONDS[unit] and duration_s % SECONDS[unit] == 0:
            return f"{duration_s / SECONDS[unit]:.15g}{unit}"
    unit = next((unit for unit in ("s", "ms", "us") if duration_s >= SECONDS[unit]), "ns" if duration_s else "s")
    return f"{duration_s / SECONDS[unit]:.15g}{unit}"


def exact_text(value: float, kind: Quantity, units: Sequence[str]) -> str:
    """A value in the one of these units that takes the fewest digits, to be read back as the very same number.

    The first is the base unit, in which every number can be written. Among units that take equally many digits, one
    with a number of 1 to 1000 is preferred.
    """
    written = [f"{value / factor!r} {unit}".replace(".0 ", " ") for unit in units if (factor := kind.factor(unit))]
    return min((text for text in written if kind.parse(text) == value), key=_effort, default=written[0])


def _effort(text: str) -> tuple[int, bool]:
    """Returns how hard a quantity is to read: its significant digits, and whether its number is small or large."""
    number = text.partition(" ")[0]
    digits = number.partition("e")[0].replace(".", "").strip("0")
    return len(digits), not 1 <= float(number) < 1000


RATE = Quantity(
    "a rate", "10gbit, 10 Gbit/s, 10Gbps, 10 Gb/s, 10G or 10GbE (likewise k, M and T)", _bit_factor, rate_text
)
SIZE = Quantity("a size", "1514B, 64KiB, 4 MB, 4mb or 4MiB (likewise G)", _byte_factor, size_text)
BYTE_RATE = Quantity(
    "a rate of bytes", "2GB/s, 500 MB/s or 2GBps (likewise KiB/s, MiB/s and GiB/s)", _bytes_per_s_factor, byte_rate_text
)
DURATION = Quantity("a duration", "4.4us, 5ms, 5 ms, 1.5s, 1min or 2h (and ns)", _second_factor, duration_text)


def _flops_text(flops: float) -> str:
    return exact_text(flops, FLOPS, FLOP_UNITS)


def _flop_rate_text(flops_per_s: float) -> str:
    return exact_text(flops_per_s, FLOP_RATE, [f"{unit}/s" for unit in FLOP_UNITS])


SHARE = Quantity(
    "a share",
    "0.5% or 1%",
    {"%": 0.01}.get,
    lambda share: f"{share * 100:.15g}%",
)
FLOP_UNITS = ("FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP")
FLOPS = Quantity(
    "a number of floating-point operations",
    "4.1 GFLOP, 250 MFLOP or 2 GMAC (a multiply-add is two operations)",
    _flop_factor,
    _flops_text,
)
FLOP_RATE = Quantity(
    "a rate of operations",
    "125 TFLOP/s or 125 TFLOPS",
    _flop_rate_factor,
    _flop_rate_text,
)


def rate_bps(text: str) -> float:
    """Parses a line rate into bit/s, or raises ValueError."""
    return RATE.parse(text)


def size_bytes(text: str) -> int:
    """Parses a size into bytes, or raises ValueError."""
    return round(SIZE.parse(text))


def bytes_per_s(text: str) -> float:
    """Parses a processing rate into bytes/s, or raises ValueError."""
    return BYTE_RATE.parse(text)


def duration_s(text: str) -> float:
    """Parses a duration into seconds, or raises ValueError."""
    return DURATION.parse(text)
