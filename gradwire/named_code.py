"""Python in files that scenarios name: which of it gradwire runs. All commands ask here, and no other code decides it.

| who names the file | which files run |
|---|---|
| the command line: an argument or `--set`; in Python, `set=` | any |
| a scenario that is given to a command or a call | those in the scenario's folder or below it |
| a run folder | none, whichever command is given the folder or its scenario |

A file lies where its last link leads. The folder of a scenario that Python gives as a mapping is the current one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gradwire.faults import Fault, InputFault
from gradwire.files import without_links
from gradwire.reading_budget import SpentError, reading_budget
from gradwire.regular_files import MESSAGE_BYTES, read_text

MARK = "clock.json"
"""File that every run folder has next to its scenario, and no other folder has."""


@dataclass(frozen=True)
class NamedBy:
    """The origin of the names of code files: a row of the module's table."""

    #: For messages, such as the path of a scenario.
    words: str
    #: The files in it and below it may run; None for none.
    folder: Path | None


RULE = (
    "gradwire runs the code that the command line names, or a scenario on it that is in the same folder or above, and none that a run "
    "folder names"
)
COMMAND_LINE = NamedBy("the command line", Path("/"))
RUN_FOLDER = NamedBy("a run folder", None)
_PERMITTED: set[Path] = set()
"""Files that this process may run, by their paths without links."""


def named_by_scenario(path: Path) -> NamedBy:
    """The row of the table for a scenario in a file, which a command or a call is given."""
    return RUN_FOLDER if (path.parent / MARK).exists() else NamedBy(str(path), path.parent)


def why_not(path: Path, by: NamedBy) -> str:
    """Why a file of code that is named does not run, and what would be right; "" if it may run."""
    if by.folder is None:
        return f"{path} is not run: {RULE}; copy both out of the run folder if you trust them"
    folder, place = without_links(by.folder), without_links(path)
    if place.is_relative_to(folder):
        return ""
    leads = "" if place == Path(os.path.normpath(path.absolute())) else f"leads to {place}, which "
    return (
        f"{path} is not run: it {leads}is outside of {folder}, and {by.words} runs only code in its folder or below; "
        "copy the file there, or name it on the command line, with --set"
    )


def permit(path: Path, by: NamedBy) -> None:
    """Lets this process run a file, if the table says so or has said so before. Raises InputFault otherwise."""
    if without_links(path) in _PERMITTED:
        return
    if refusal := why_not(path, by):
        raise InputFault(refusal)
    _PERMITTED.add(without_links(path))


def code_in(path: Path, most_bytes: int = MESSAGE_BYTES) -> str:
    """The text of a file of code. Raises InputFault for one that nobody permitted, and for what is not a file of text."""
    place = without_links(path)
    if place not in _PERMITTED:
        raise InputFault(f"{path} is not run: {RULE}")
    try:
        with reading_budget(place):
            return read_text(place, most_bytes)
    except FileNotFoundError as error:
        raise InputFault(f"{path}: no such file") from error
    except OSError as error:
        raise InputFault(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputFault(f"{path}: is not text in UTF-8: {error}") from error


LONGEST_REASON = 300


@contextmanager
def running(
    what: str | Callable[[BaseException], str], passing: tuple[type[BaseException], ...] = ()
) -> Iterator[None]:
    """Wraps code that is not gradwire's, and the first look at what it made, which may be its code as well.

    Raises InputFault, with `what` before the error in a short line, for whatever that raises, an exit included. Faults
    pass, as do Ctrl-C, signals that end the command, a budget that is spent, and errors that are `passing`.
    """
    try:
        yield
    except BaseException as error:
        # As a signal's handler ends a command.
        ends_by_signal = isinstance(error, SystemExit) and isinstance(error.code, int) and error.code > 128
        if ends_by_signal or isinstance(error, (Fault, KeyboardInterrupt, SpentError, *passing)):
            raise
        begins = what if isinstance(what, str) else what(error)
        raise InputFault(f"{begins}{in_words(error)}") from error


def in_words(error: BaseException) -> str:
    """An error of code that is not gradwire's, in one short line."""
    try:
        words = " ".join(str(error).split())
    except Exception:  # noqa: BLE001 (its text is that code's as well)
        words = ""
    shown = words if len(words) <= LONGEST_REASON else f"{words[:LONGEST_REASON]}..."
    return f"{type(error).__name__}: {shown}".rstrip(": ")
