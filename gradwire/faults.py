"""Who is at fault: the three families of errors that a person can meet, so that each message can say what to do.

Every error that is raised on purpose is one of these. Anything else that escapes is a bug of ours. A command that ends with one has the
fault's exit status; 1 is left for what ended as it should and found something wrong, such as a point whose verdict is invalid.
"""

from __future__ import annotations

from typing import ClassVar

STATUSES = (
    "Exit status: 0 all is well; 1 it ran, and a point is invalid or a claim no longer holds; 2 the input is wrong; "
    "3 the machine lacks or refuses something; 4 a bug; 130 interrupted."
)
"""For the help of the command line."""


class Fault(Exception):
    """Base of all errors raised on purpose. The message alone must tell the reader what to do next.

    exit_status: of a command that ends with it. at_fault: who is, in the words of the message.
    """

    exit_status: ClassVar[int] = 3
    at_fault: ClassVar[str] = "machine"


class InputFault(Fault):
    """The input is wrong: names the file, the key, and what would be right."""

    exit_status = 2  # also what the command line's own parser ends with
    at_fault = "input"


class MachineFault(Fault):
    """The machine lacks something or failed: names what is missing and the command that mends it."""


class InternalFault(Fault):
    """A bug of gradwire: names what to report."""

    exit_status = 4
    at_fault = "bug in gradwire, please report it"
