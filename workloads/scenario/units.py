"""Quantities with units as written in scenario files: 10gbit, 64KiB, 2GB/s, 4.4us."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from gradwire.topo.fabric import BITS_PER_S

BYTES = {"B": 1.0, "kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30}
SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}

_QUANTITY = re.compile(r"\s*([0-9][0-9_]*(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)\s*([A-Za-z/]+)\s*")


def _parse(text: str, units: Mapping[str, float], what: str, example: str) -> float:
    match = _QUANTITY.fullmatch(text)
    if match is None or match[2] not in units:
        raise ValueError(f"'{text}' is not a {what}: write a number and one of {', '.join(units)}, like '{example}'")
    quantity = float(match[1]) * units[match[2]]
    if not math.isfinite(quantity):
        raise ValueError(f"'{text}' is too large: must be finite")
    return quantity


def rate_bps(text: str) -> float:
    """Parses a line rate into bit/s, or raises ValueError."""
    return _parse(text, BITS_PER_S, "rate", "10gbit")


def size_bytes(text: str) -> int:
    """Parses a size into bytes, or raises ValueError."""
    return round(_parse(text, BYTES, "size", "64KiB"))


def bytes_per_s(text: str) -> float:
    """Parses a processing rate into bytes/s, or raises ValueError."""
    return _parse(text, {f"{unit}/s": factor for unit, factor in BYTES.items()}, "rate of bytes", "2GB/s")


def duration_s(text: str) -> float:
    """Parses a duration into seconds, or raises ValueError."""
    return _parse(text, SECONDS, "duration", "4.4us")
