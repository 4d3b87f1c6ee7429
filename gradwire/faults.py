"""The three kinds of errors that a user can meet, by who is at fault, so that each message can say what to do.

Every error that is raised on purpose is one of these. Anything else that escapes is a bug in gradwire. A command that
ends with a fault has the fault's exit status. Status 1 is left for commands that ran as they should and found
something wrong, such as an invalid point.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar

STATUSES = (
    "Exit status: 0 all is well; 1 it ran, and a point is invalid or a claim no longer holds; 2 the input is wrong; "
    "3 the machine lacks or refuses something; 4 a bug; 130 interrupted; 141 nobody read the output to its end."
)
"""Exit statuses, for the help of the command line."""


LONG_WORD = re.compile(r"[^\s/]{200,}")
"""A word too long to be read, and 55 characters short of the longest name that file systems allow."""
SHOWN = 60
LONGEST_LINE = 1000
"""Of a message. A longer line repeats a list that came with the input."""
BEGIN, END = 600, 200
"""Characters that are kept of such a line: what it is about, and what would be right."""
MOST_LINES = 100
"""Of a message: a file may have a mistake in each of its lines."""


def shortened(message: str) -> str:
    """The message as a person can read it: with the beginnings of very long words, the beginnings and ends of very long
    lines, and the first of very many lines. What is left out came with the input."""
    words = LONG_WORD.sub(lambda word: f"{word[0][:SHOWN]}... ({len(word[0]):,} characters)", message)
    lines = words.split("\n")
    more = len(lines) - MOST_LINES
    return "\n".join([*map(_shortened_line, lines[:MOST_LINES]), *([f"and {more:,} more lines"] if more > 0 else [])])


def _shortened_line(line: str) -> str:
    if len(line) <= LONGEST_LINE:
        return line
    return f"{line[:BEGIN]} ... ({len(line):,} characters) ... {line[-END:]}"


class Fault(Exception):
    """Base of all errors raised on purpose. The message alone must tell the reader what to do next."""

    def __init__(self, message: str) -> None:
        """Shortens words that nobody would read to their end."""
        super().__init__(shortened(message))

    #: Exit status of a command that ends with the fault.
    exit_status: ClassVar[int] = 3
    #: Who is at fault, as printed with the message.
    at_fault: ClassVar[str] = "machine"


class InputFault(Fault):
    """The input is wrong. The message names the file and the key, and says what would be right."""

    exit_status = 2  # the command line's own parser ends with this status as well
    at_fault = "input"


class MachineFault(Fault):
    """The machine lacks something or failed. The message names what is missing and the command that fixes it."""


class UnfitMachine(MachineFault):
    """A fault that would hit every point alike, such as a full disk or a cache that is gone. No further point begins,
    and the command ends."""


class InternalFault(Fault):
    """A bug in gradwire. The message names what to report."""

    exit_status = 4
    at_fault = "bug in gradwire, please report it"


def key_of(defect: Mapping[str, object]) -> str:
    """Returns the dotted key that an entry of `ValidationError.errors()` is about."""
    loc = defect["loc"]
    return ".".join(map(str, loc)) if isinstance(loc, tuple) else str(loc)


def reason_of(defect: Mapping[str, object]) -> str:
    """Describes what is wrong with the value, without the prefix that pydantic gives to messages of custom
    validators."""
    return str(defect["msg"]).removeprefix("Value error, ")
