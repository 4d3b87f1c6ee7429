"""Quantities as people write them: 2 GB/s, 64 KiB, 0.122 ms."""

from __future__ import annotations

KIB = 1024
DECIMAL = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
BINARY = ((KIB**3, "GiB"), (KIB**2, "MiB"), (KIB, "KiB"))
SECONDS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))
DIGITS = 4
"""Significant digits, which is more than any constant here is known to."""


def quantity(value: float, unit: str) -> str:
    """A number with its unit, with the prefix that makes it short.

    unit: "s", "bytes", "bytes/s" or "bit/s"; a number in another unit is written as it is, with the unit behind it.
    """
    if unit == "s":
        return _duration(value)
    if unit == "bytes":
        return _size(value)
    if unit in ("bytes/s", "bit/s"):
        return _decimal(value, unit.replace("bytes", "B"))
    return f"{plain(value)} {unit}".strip()


def plain(value: float) -> str:
    """A number without a unit: an integer whole, with its thousands
    apart, any other with DIGITS significant digits."""
    if isinstance(value, int) or value.is_integer():
        return f"{int(value):,}"
    return f"{value:.{DIGITS}g}"


def _duration(value_s: float) -> str:
    # From 0.1 s on, seconds are what iteration times are compared in.
    for factor, name in SECONDS:
        if abs(value_s) >= factor * (0.1 if name == "s" else 1):
            scaled = value_s / factor
            return f"{scaled:,.0f} {name}" if scaled >= 10**DIGITS else f"{scaled:.{DIGITS}g} {name}"
    return "0 s" if value_s == 0 else f"{value_s:.{DIGITS}g} s"


def _size(value_bytes: float) -> str:
    """Whole below 10,000 bytes; else in powers of 1000, or of 1024 where only that leaves nothing behind the point."""
    if value_bytes < 10**DIGITS:
        return f"{plain(value_bytes)} B"
    for factor, name in BINARY:
        if value_bytes >= factor and value_bytes % factor == 0 and value_bytes % 1000:
            return f"{value_bytes / factor:g} {name}"
    return _decimal(value_bytes, "B")


def _decimal(value: float, unit: str) -> str:
    for factor, prefix in DECIMAL:
        if abs(value) >= factor:
            return f"{value / factor:.{DIGITS}g} {prefix}{unit}"
    return f"{plain(value)} {unit}"
