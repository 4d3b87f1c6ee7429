"""Ends a command with an exit status that tells who is at fault, and with one message, whatever happened.

Errors that a command raises on purpose are Faults. Everything else that escapes is reported as a bug, with its
traceback, and ends with status 4. Python would end with 1 there, which means that a point is invalid, and typer and
rich turn some errors into exits with other statuses.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from gradwire.faults import Fault, InputFault, InternalFault, MachineFault
from gradwire.files import NO_ROOM, TOO_MANY, lack_of_room
from gradwire.terminal_text import visible

INTERRUPTED = 128 + signal.SIGINT
NO_PLACES = (errno.EACCES, errno.EPERM, errno.ENAMETOOLONG, errno.ELOOP, errno.EROFS)
"""Errors of places that were given. Python raises some also where a command, wherever, only looks whether a file is there."""
NO_HOME = "Could not determine home directory"
"""Words of Python's error for a user who has no home, such as one who is only a number in a container."""
NO_TEMPORARY = "No usable temporary directory"
"""Words of Python's error for folders that are all full, read-only or missing, which names none of them as a file."""
NOT_TEXT = "surrogates not allowed"
"""Python's reason for not writing what came from the system as bytes that are no text in UTF-8."""
NO_READER = 128 + signal.SIGPIPE
"""Exit status that a shell gives programs that write to one that has ended, such as `head`."""


class Escaped(Exception):
    """Carries an error past libraries that would turn it into another one."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error


@contextmanager
def unaltered() -> Iterator[None]:
    """Context manager around typer's code, which takes an EOFError for the user's wish to end, and in which rich ends
    the program if output has no reader."""
    try:
        yield
    except (BrokenPipeError, EOFError) as error:
        raise Escaped(error) from error
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):
            raise Escaped(end.__context__) from end
        if isinstance(end.code, int) and end.code > 128:  # as a signal's handler ends a command
            raise
        raise Escaped(
            RuntimeError(f"something asked for exit status {end.code!r}").with_traceback(end.__traceback__)
        ) from end


def status_of(command: Callable[[], object]) -> int:
    """Runs a command, which may raise SystemExit, and prints the reason if it fails; returns the exit status."""
    died: list[threading.ExceptHookArgs] = []
    before = threading.excepthook

    def note(thread: threading.ExceptHookArgs) -> None:
        died.append(thread)
        lines = traceback.format_exception(thread.exc_type, thread.exc_value, thread.exc_traceback)
        sys.stderr.write(visible("".join(lines)))

    threading.excepthook = note
    try:
        status = _status_of(command)
    finally:
        threading.excepthook = before
        _forget_unwritten()
    if died and not status:
        return _report(InternalFault(f"a thread of it ended with {_named(died[0].exc_value)}, as printed above"))
    return status


def _status_of(command: Callable[[], object]) -> int:
    try:
        try:
            command()
        except Escaped as escaped:
            raise escaped.error from None
        sys.stdout.flush()
    except SystemExit as end:
        return _flushed(end)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        return _without_reader()
    except BaseException as error:  # noqa: BLE001 (whatever it is, it has to be reported)
        return _report(error)
    return 0


def _flushed(end: SystemExit) -> int:
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        return _without_reader()
    except OSError as error:  # the disk is full
        return _report(error)
    return end.code if isinstance(end.code, int) else 0 if end.code is None else InternalFault.exit_status


def _without_reader() -> int:
    _to_nobody(sys.stdout, sys.stderr)
    return NO_READER


def _forget_unwritten() -> None:
    """Discards output that could not be written, such as to a full disk: Python would complain of it at exit."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):
            _to_nobody(stream)


def _to_nobody(*streams: TextIO) -> None:
    """Redirects streams to the null device, because Python writes what they still hold at exit, and would
    complain."""
    nobody = os.open(os.devnull, os.O_WRONLY)
    for stream in streams:
        with suppress(OSError, ValueError):
            os.dup2(nobody, stream.fileno())


def fault_of(error: BaseException) -> Fault:
    """Fault for an error that has escaped, by who is at fault."""
    match error:
        case Fault():
            return error
        case OSError() if fault := _of_system(error):
            return fault
        case UnicodeEncodeError() if error.reason == NOT_TEXT:
            return InputFault(
                f"{_around(error)!r}: is not text in UTF-8, as names of files, arguments and variables of the environment have to be"
            )
        case RuntimeError() if NO_HOME in str(error):
            return InputFault(
                "HOME: is not set, and this user has no home folder; set it to a folder of yours, or GRADWIRE_CACHE to one "
                "for what is kept"
            )
        case MemoryError():
            return MachineFault(
                "memory ran out; run fewer points at once (--jobs), or a smaller plan, or allow more memory"
            )
    return InternalFault(
        f"{_named(error)}; report this with the command, the lines below, and what `gradwire doctor` prints"
    )


def _around(error: UnicodeEncodeError) -> str:
    """The word that could not be written; it may stand in a whole file's text."""
    before, after = error.object[: error.start].split(), error.object[error.start :].split()
    begun = before[-1] if before and not error.object[error.start - 1].isspace() else ""
    return begun + after[0]


def _of_system(error: OSError) -> Fault | None:
    """Fault for what the system refused; None if that was not to be expected."""
    if isinstance(error, FileNotFoundError) and _is_homeless():
        return InputFault("the current folder is gone, for it was removed or renamed; go to another, with `cd`")
    if isinstance(error, FileNotFoundError) and NO_TEMPORARY in str(error):
        return MachineFault(f"{error.strerror}; see `df` and `ulimit -f`, make room, or set TMPDIR to another folder")
    if error.filename and error.errno in NO_PLACES:
        remedy = "make it readable and writable for this user, or " if isinstance(error, PermissionError) else ""
        return InputFault(f"{error.filename}: {error.strerror}; {remedy}give another place")
    if error.errno in (*NO_ROOM, *TOO_MANY):
        return MachineFault(
            f"{_where(error)}{error.strerror}; see `df` and `ulimit -a`, make room, and give the command again"
        )
    return None


def _where(error: OSError) -> str:
    """The beginning of a message: the file that the error names, or else those places that a command writes to whose
    disk is full. Libraries that write to the cache name no file."""
    if error.filename:
        return f"{error.filename}: "
    if error.errno not in NO_ROOM:
        return ""
    from gradwire.vm.kernel import cache_folder

    places = [Path(), Path(os.environ.get("TMPDIR") or "/tmp")]
    with suppress(RuntimeError):  # there is no home
        places.insert(0, cache_folder())
    full = [str(place.absolute()) for place in places if place.is_dir() and lack_of_room(place)]
    return f"{', '.join(full)}: " if full else ""


def _is_homeless() -> bool:
    """Returns whether the current folder no longer exists."""
    try:
        Path.cwd()
    except FileNotFoundError:
        return True
    return False


def _named(error: BaseException | None) -> str:
    return traceback.format_exception_only(error)[-1].strip() if error else "an error"


def _report(error: BaseException) -> int:
    from rich.markup import escape

    from gradwire.cli import terminal

    fault = fault_of(error)
    with suppress(OSError, SystemExit):  # nobody reads it
        terminal.errors.print(f"[red]error[/red] ({fault.at_fault}): {escape(str(fault))}", highlight=False)
        if isinstance(fault, InternalFault) and fault is not error:
            sys.stderr.write(visible("".join(traceback.format_exception(error))))
    return fault.exit_status
