"""Writes border.h, all that the compiled agent shares with Python: numbers, layouts of structures and of headers,
reasons of failures.

Python defines them, each in the module that uses it, and C includes what is written here. The header has the places
and sizes of fields as Python computes them, and assertions by which C's compiler compares its own with them. It also
has a digest of the rest of its text, which the compiled agent returns when it is loaded: if one of these numbers was
changed and the header was not, or the agent was compiled with another header, loading fails before anything is replayed.

`python -m gradwire.agents.compiled.border` writes the file anew.
"""

from __future__ import annotations

import ctypes
import hashlib
import re
import struct
from collections.abc import Iterable, Mapping
from dataclasses import fields
from enum import IntEnum
from functools import cache
from pathlib import Path
from typing import Any

from gradwire.agents import departures, transfer
from gradwire.agents.compiled.structures import FAILURES, SHARED, AnyDetails, What, c_name
from gradwire.agents.op_state import COLUMNS
from gradwire.datatypes.plan import FULL_SPEED, Combine, Discipline, OpKind
from gradwire.datatypes.records import OpLog
from gradwire.datatypes.wire import framing

HEADER = Path(__file__).with_name("border.h")
REMEDY = "python -m gradwire.agents.compiled.border"
"""The command that writes the header anew."""

_CONSTANTS: dict[str, dict[str, int]] = {
    "agents/transfer.py": {
        name: getattr(transfer, name)
        for name in ("PAYLOAD_FILE_BYTES", "INLINE_BYTES", "READ_BYTES", "SKIP_BYTES", "LOW_WATER_BYTES")
    },
    "datatypes/wire/framing.py": {
        "MAGIC": framing.MAGIC,
        "VERSION": framing.VERSION,
        "HELLO_BYTES": framing.HELLO.size,
        "FIXED_BYTES": framing.FIXED_BYTES,
    },
    "agents/departures.py": {
        "SO_TIMESTAMPING_NUMBER": departures.SO_TIMESTAMPING,
        "IP_RECVERR_NUMBER": departures.IP_RECVERR,
        "TX_SOFTWARE": departures.TX_SOFTWARE,
        "LENGTH_AT": departures.LENGTH_AT,
        "AT_ONCE": departures.AT_ONCE,
        "CONTROL_BYTES": departures.ANCILLARY.size,
    },
    "datatypes/plan.py": {"FULL_SPEED": FULL_SPEED},
    "agents/op_state.py, whose columns are those of OpLog": {
        "LOG_COLUMNS": COLUMNS,
        **{f"LOG_{field.name.upper()}": place for place, field in enumerate(fields(OpLog))},
    },
}
_ENUMS: dict[str, tuple[str, type[IntEnum]]] = {
    "kind": ("datatypes/plan.py: OpKind", OpKind),
    "combine": ("datatypes/plan.py: Combine", Combine),
    "discipline": ("datatypes/plan.py: Discipline", Discipline),
    "what": ("agents/compiled/structures.py: What, why go_on returns", What),
}
_C_TYPES: dict[Any, str] = {
    ctypes.c_int64: "int64_t",
    ctypes.c_int32: "int32_t",
    ctypes.c_uint8: "uint8_t",
    ctypes.c_uint64: "uint64_t",
    ctypes.c_double: "double",
    **{kind: f"struct {name}" for name, kind in SHARED.items()},
    AnyDetails: "union details",
}
_UNIT = re.compile(r"(\d*)([a-zA-Z?])")
_DIGEST_PLACE = "@digest@"
_CHECKS = r"""/* What Python found where */
#define SIZED(type, size_bytes) _Static_assert(sizeof(type) == (size_bytes), #type " has another size in Python")
#define PLACED(type, field, at) \
	_Static_assert(offsetof(type, field) == (at), #field " of " #type " is elsewhere in Python")
"""


@cache
def border_digest() -> int:
    """A number of 64 bits that stands for all that the header says."""
    return int.from_bytes(hashlib.sha256(_text().encode()).digest()[:8], "big")


def is_in(agent: bytes) -> bool:
    """Returns whether a compiled agent, given as the bytes of its file, was built with this border: its code contains
    the digest as a constant of 64 bits."""
    return border_digest().to_bytes(8, "little") in agent


def header() -> str:
    """The text of border.h."""
    return _text().replace(_DIGEST_PLACE, f"{border_digest():#018x}")


def offsets(layout: struct.Struct, names: Iterable[str]) -> dict[str, tuple[int, int]]:
    """The offset and size of each field of a layout without padding; `x` is left out."""
    fields_at, remaining, at = {}, iter(names), 0
    for count, unit in _UNIT.findall(layout.format):
        size_bytes = struct.calcsize(f"={unit}")
        for _ in range(int(count or 1)):
            if unit != "x":
                fields_at[next(remaining)] = (at, size_bytes)
            at += size_bytes
    return fields_at


def _text() -> str:
    parts = [
        "/*\n * What the compiled agent shares with Python, which says it. Written by border.py beside this file, and "
        "not by hand:\n"
        f" * `{REMEDY}`\n */\n#pragma once\n\n#include <stddef.h>\n#include <stdint.h>\n",
        "/* Of the rest of this file: compared when the agent is loaded */\n#define BORDER_DIGEST "
        f"UINT64_C({_DIGEST_PLACE})\n",
        _CHECKS,
        *(_constants(where, numbers) for where, numbers in _CONSTANTS.items()),
        _places("The fixed part of a header, big-endian: datatypes/wire/framing.py", "HEADER", _header_fields()),
        _places(
            "What comes with a timestamp: ANCILLARY of agents/departures.py",
            "CONTROL",
            offsets(departures.ANCILLARY, departures.ANCILLARY_FIELDS),
        ),
        *(_enum(name, where, {member.name: member.value for member in kind}) for name, (where, kind) in _ENUMS.items()),
        _failures(),
        *(_structure(name, kind) for name, kind in SHARED.items()),
    ]
    return "\n".join(parts)


def _constants(where: str, numbers: Mapping[str, int]) -> str:
    return "".join([f"/* {where} */\n", *(f"#define {name} {_number(value)}\n" for name, value in numbers.items())])


def _number(value: int) -> str:
    """Sizes that are multiplied, or lie near the end of an int, have 64 bits."""
    return f"INT64_C({value})" if value >= 1 << 20 else str(value)


def _header_fields() -> dict[str, tuple[int, int]]:
    places: Mapping[str, Any] = framing.HEADER_DTYPE.fields or {}
    return {name: (field[1], field[0].itemsize) for name, field in places.items()}


def _places(what: str, prefix: str, layout: Mapping[str, tuple[int, int]]) -> str:
    lines = [
        f"#define {prefix}_{name.upper()}_AT {at}\n#define {prefix}_{name.upper()}_BYTES {size_bytes}\n"
        for name, (at, size_bytes) in layout.items()
    ]
    return "".join([f"/* {what} */\n", *lines])


def _enum(name: str, where: str, values: Mapping[str, int]) -> str:
    listed = "".join(f"\t{key} = {value},\n" for key, value in values.items())
    return f"/* {where} */\nenum {name} {{\n{listed}}};\n"


def _failures() -> str:
    numbers = {c_name(kind).upper(): number for number, kind in enumerate(FAILURES, 1)}
    of_each = [_structure(c_name(kind), kind) for kind in FAILURES]
    members = "".join(f"\tstruct {c_name(kind)} {c_name(kind)};\n" for kind in FAILURES)
    union = f"union details {{\n{members}}};\n{_size('union details', AnyDetails)}"
    return "\n".join([_enum("failure", "agents/compiled/structures.py", numbers), *of_each, union])


def _structure(name: str, kind: type[ctypes.Structure]) -> str:
    notes, written = getattr(kind, "notes", {}), getattr(kind, "written", ())
    lines, checks = [], [_size(f"struct {name}", kind)]
    for field, of_type, *_ in kind._fields_:
        note = f" /* {notes[field]} */" if field in notes else ""
        lines.append(f"\t{_declaration(field, of_type, is_written=field in written)};{note}\n")
        at = getattr(kind, field).offset
        checks.append(f"PLACED(struct {name}, {field}, {at});\n")
    summary = (kind.__doc__ or "").split("\n\n")[0]
    return f"/* {summary} */\nstruct {name} {{\n{''.join(lines)}}};\n{''.join(checks)}"


def _size(name: str, kind: type[ctypes.Structure | ctypes.Union]) -> str:
    return f"SIZED({name}, {ctypes.sizeof(kind)});\n"


def _declaration(field: str, of_type: Any, *, is_written: bool) -> str:
    if of_type in _C_TYPES:
        return f"{_C_TYPES[of_type]} {field}"
    return f"{'' if is_written else 'const '}{_C_TYPES[of_type._type_]} *{field}"


def main() -> None:
    """Writes the header anew."""
    HEADER.write_text(header())


if __name__ == "__main__":
    main()
