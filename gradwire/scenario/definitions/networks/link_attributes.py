"""Attributes of links in files of graphs: the usual names of rates, delays, losses and queues, and their units."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from gradwire.documents import DocumentTable, DocumentValue
from gradwire.scenario.definitions.networks.network_form import Content, shown
from gradwire.workloads.units import DURATION, RATE

RATES = ("rate", "bw", "linkspeedraw", "linkspeed", "bandwidth", "capacity", "speed", "datarate", "linkrate")
"""Names of rates, in small letters and without underscores: of several, the first counts. LinkSpeedRaw, and LinkSpeed
with LinkSpeedUnits, are the Topology Zoo's; bw is Mininet's; capacity with capacity_unit is FNSS's and SNDlib's."""
DELAYS = ("delay", "latency", "propagationdelay", "linkdelay", "linklatency")
LOSSES = ("loss", "lossrate", "packetloss", "errorrate")
KEYS: Mapping[str, tuple[str, ...]] = {
    "rate": RATES,
    "delay": DELAYS,
    "jitter": ("jitter",),
    "loss": LOSSES,
    "buffer": ("buffer",),
    "ecn": ("ecn",),
}
"""Keys of a NetworkLink, and the attributes that they are read from."""
NUMBERS: Mapping[str, float] = {"rate": 1.0, "bw": 1e6, "linkspeedraw": 1.0, "delay": 1.0, "jitter": 1.0}
"""What numbers without a unit are, in bit/s and seconds. Those of other rates and delays need a unit."""
AS_TEXT = frozenset({"rate", "bw", "delay", "jitter"})
"""Attributes whose texts need a unit, though their numbers do not."""
BIT_PREFIXES = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "sec": 1.0, "seconds": 1.0}
_RATE_WITH_UNIT = re.compile(rf"({'|'.join(RATES)})(?:in)?([kmgt]?)(?:bps|bits?|bitspersecond)")
_DELAY_WITH_UNIT = re.compile(rf"({'|'.join((*DELAYS, 'jitter'))})(?:in)?({'|'.join(SECONDS)})")
_UNIT = re.compile(r"(.+?)units?")
DIFFERENCE = 1e-3
"""Share by which two values of a link may differ that say the same, rounded."""


@dataclass(frozen=True)
class Field:
    """A meaning that an attribute of a link may have."""

    #: The key of a NetworkLink.
    key: str
    #: Of several attributes of a link, the one with the smallest place counts.
    place: int
    #: The base name, in small letters and without underscores.
    stem: str
    #: What a number is, in bit/s or seconds; None if that needs to be said.
    unit: float | None


@dataclass
class LinkReading:
    """The properties of a link, as read from its attributes."""

    values: Content = field(default_factory=dict)
    #: A line for each attribute whose value is wrong.
    wrong: list[str] = field(default_factory=list)
    #: Attributes that are not used.
    unused: list[str] = field(default_factory=list)
    #: Attributes that say something else than the one that counts.
    overruled: list[str] = field(default_factory=list)


@lru_cache(maxsize=1024)
def field_of(name: str) -> Field | None:
    """Returns the meaning of an attribute of this name; None if it is none of those that are known."""
    plain = name.lower().replace("_", "").replace("-", "")
    for key, stems in KEYS.items():
        if plain in stems:
            return Field(key, stems.index(plain), plain, NUMBERS.get(plain))
    if match := _RATE_WITH_UNIT.fullmatch(plain):
        return Field("rate", RATES.index(match[1]), plain, BIT_PREFIXES[match[2]])
    if match := _DELAY_WITH_UNIT.fullmatch(plain):
        key = "jitter" if match[1] == "jitter" else "delay"
        return Field(key, KEYS[key].index(match[1]), plain, SECONDS[match[2]])
    return None


def read_link(attributes: DocumentTable, of_graph: DocumentTable, ignored: frozenset[str]) -> LinkReading:
    """Reads the attributes of a link. of_graph: attributes of the whole graph, among which may be units, such as
    capacity_unit. ignored: attributes that only describe, in small letters."""
    reading = LinkReading()
    units = _units(of_graph) | _units(attributes)
    found: dict[str, list[tuple[Field, str, DocumentValue]]] = {}
    for name, value in attributes.items():
        what = field_of(name)
        if what is not None:
            if value is not None:
                found.setdefault(what.key, []).append((what, name, value))
        elif name.lower() not in ignored and not _is_unit(name):
            reading.unused.append(name)
    for key, several in found.items():
        several.sort(key=lambda each: each[0].place)
        for what, name, value in several:
            try:
                written = _written(what, name, value, units.get(what.stem))
            except _NoUnitError as error:
                reading.wrong.append(str(error))
                continue
            except (TypeError, ValueError, OverflowError):
                reading.wrong.append(f"{name} = {shown(value)}: is not a number, or a text with its unit")
                continue
            if key not in reading.values:
                reading.values[key] = written
            elif _differs(key, reading.values[key], written):
                reading.overruled.append(name)
    return reading


class _NoUnitError(Exception):
    """A number that may be in any unit."""


def _units(attributes: DocumentTable) -> dict[str, str]:
    """Units that attributes say, by the base names of those that they are of."""
    return {
        stem: str(value).strip() for name, value in attributes.items() if value is not None and (stem := _unit_of(name))
    }


def _is_unit(name: str) -> bool:
    return bool(_unit_of(name))


def _unit_of(name: str) -> str:
    """The base name of the attribute whose unit an attribute says, such as linkspeed for LinkSpeedUnits; "" if it says none."""
    match = _UNIT.fullmatch(name.lower().replace("_", "").replace("-", ""))
    return match[1] if match and field_of(match[1]) else ""


def _written(what: Field, name: str, value: DocumentValue, unit: str | None) -> str | float:
    """The value of a key as a NetworkLink takes it. Raises _NoUnitError, TypeError, ValueError and OverflowError."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise TypeError
    if what.key == "loss":
        return float(value)
    if what.key in ("buffer", "ecn"):
        return value if isinstance(value, str) else f"{int(value)}B"
    number = _number(value)
    if number is not None and unit:
        return f"{number:.17g}{unit}"
    if number is None or (isinstance(value, str) and what.stem in AS_TEXT):
        return value
    if what.unit is None:
        unit = "Gbit/s" if what.key == "rate" else "ms"
        raise _NoUnitError(
            f"{name} = {shown(value)}: has no unit; write '{number:g} {unit}' or the like, or name the unit in {name}_unit"
        )
    return f"{number * what.unit:.17g}{'bit' if what.key == 'rate' else 's'}"


def _number(value: str | float) -> float | None:
    """A number, also one that is written as a text; None for other texts."""
    try:
        return float(value)
    except ValueError:
        return None


def _differs(key: str, one: DocumentValue, other: DocumentValue) -> bool:
    """Returns whether two values of a key are more apart than by rounding."""
    first, second = _amount(key, one), _amount(key, other)
    if isinstance(first, float) and isinstance(second, float):
        return abs(first - second) > DIFFERENCE * max(abs(first), abs(second))
    return bool(first != second)


def _amount(key: str, value: DocumentValue) -> DocumentValue:
    kind = {"rate": RATE, "delay": DURATION, "jitter": DURATION}.get(key)
    try:
        return kind.parse(value) if kind and isinstance(value, str) else value
    except ValueError:
        return value
