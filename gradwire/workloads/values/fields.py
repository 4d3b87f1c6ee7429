"""What the tables of files are made of: their base, and values with units, each with its range."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from gradwire.workloads.values import units
from gradwire.workloads.values.expectations import Because, InWords


def _quantity(kind: units.Quantity, convert: Callable[[float], float] = float) -> BeforeValidator:
    """Parses strings only. A number has no unit, so it is turned into a string and fails as one without a unit."""
    return BeforeValidator(lambda value: convert(kind.parse(value if isinstance(value, str) else f"{value}")))


def _names(value: Any) -> Any:
    """Splits a string at its commas. That is how --set gives several names, since a list there would be a sweep."""
    if isinstance(value, str):
        return tuple(name.strip() for name in value.split(",") if name.strip())
    return tuple(value) if isinstance(value, list) else value


def _groups(value: Any) -> Any:
    """The same for numbers, of which one may stand by itself."""
    if isinstance(value, str):
        return tuple(int(name) if name.lstrip("-").isdecimal() else name for name in _names(value))
    if type(value) is int:
        return (value,)
    return tuple(value) if isinstance(value, list) else value


LOWEST_RATE_BPS, HIGHEST_RATE_BPS = 10e6, 10e12
"""Line rates that are accepted: from the first Ethernet's to six times that of the fastest (1.6 Tbit/s, IEEE
P802.3dj). At 3 Mbit/s a burst of 64 KiB takes so long that the probe of the rates is 8 % off; at both ends of the
range it is within the verdict's limit."""
LONGEST_S = 1e7
"""The longest duration accepted, four months: ops are timed in nanoseconds, in 64 bits."""
LARGEST_TENSOR_BYTES = 2**40
MOST_SAMPLES = 10**9
LARGEST_RATIO = 1e6
"""The largest factor between two speeds, and its inverse the smallest."""
MOST_WORKERS = 1024
"""Workers of a cluster, and servers beside them. A network of 1,024 hosts was built in the kernel's default memory,
half a minute after its boot; 2,000 workers in a ring take gigabytes and minutes to compile."""
OF_ETHERNET = Because("from the slowest Ethernet to beyond the fastest")
Names = Annotated[tuple[str, ...], BeforeValidator(_names)]
Groups = Annotated[
    tuple[Literal["all-ranks"] | int, ...],
    BeforeValidator(_groups),
    InWords('"all-ranks", or a list of the numbers of groups, such as [2, 3]'),
]
"""Numbers of groups of ranks, or those of all ranks."""
RateBps = Annotated[
    float, _quantity(units.RATE), units.RATE, Field(ge=LOWEST_RATE_BPS, le=HIGHEST_RATE_BPS), OF_ETHERNET
]
SizeBytes = Annotated[int, _quantity(units.SIZE, round), units.SIZE]
BytesPerS = Annotated[float, _quantity(units.BYTE_RATE), units.BYTE_RATE]
DurationS = Annotated[float, _quantity(units.DURATION), units.DURATION, Field(le=LONGEST_S)]
Flops = Annotated[float, _quantity(units.FLOPS), units.FLOPS]
Share = Annotated[float, _quantity(units.SHARE), units.SHARE]
FlopsPerS = Annotated[float, _quantity(units.FLOP_RATE), units.FLOP_RATE]


class Section(BaseModel):
    """Base of all tables. Rejects unknown keys. The text below a field is what users are shown of it."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, use_attribute_docstrings=True)
