"""Makes text fit for a terminal: characters that would act on it are shown in escaped form, and those that its encoding
lacks are spelled in ASCII.

The output of programs and files from others may hold the former; the latter would end the printing of a table halfway.
"""

from __future__ import annotations

import codecs
import io
import logging
import os
import re
import sys
import unicodedata
import warnings
from typing import Any

ACTING = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
"""Control characters (of C0 all but the tab and the line end, and of C1 all), Unicode's other line ends, and those
that turn the direction of writing round, so that a line reads as another."""


def visible(text: str) -> str:
    r"""The text with each character that acts on a terminal written as in Python, such as \x1b for escape."""
    return ACTING.sub(lambda character: ascii(character[0])[1:-1], text)


def show_warnings_as_text() -> None:
    """Makes what libraries warn of and log fit for a terminal: it may name texts from others."""
    format_warning = warnings.formatwarning

    def formatted(*arguments: Any, **options: Any) -> str:
        return visible(format_warning(*arguments, **options))

    warnings.formatwarning = formatted
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(_Visible())


class _Visible(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return visible(f"{record.levelname}: {super().format(record)}")


ERRORS = "gradwire-spelled"
SPELLED = {"±": "+-", "–": "-", "✓": "ok", "✗": "failed", "·": "-", "→": "->", "…": "...", "μ": "u", "µ": "u"}
"""Spellings in ASCII of characters that contain no ASCII letter."""
UNKNOWN = "?"


def spell_what_is_missing() -> None:
    """Makes standard output and errors take every character, whatever their encoding."""
    codecs.register_error(ERRORS, _spelled)
    for stream in (sys.stdout, sys.stderr):
        # Tests and notebooks put other objects in their place, which take text as it is.
        # "surrogateescape" is what Python takes in a C locale, which lacks characters as other encodings do.
        if isinstance(stream, io.TextIOWrapper) and stream.errors in ("strict", "surrogateescape"):
            stream.reconfigure(errors=ERRORS)


def replace_closed_streams() -> None:
    """Opens standard streams that are closed, as after `>&-`, on what takes everything and has nothing.

    Without it they are None, and the next file that is opened takes their numbers, so that a child would write into it.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            nothing = os.open(os.devnull, os.O_RDWR)
            if nothing != number and not _is_open(number):
                os.dup2(nothing, number)
            stream = open(nothing, "r" if name == "stdin" else "w", encoding="utf-8", closefd=False)  # noqa: SIM115
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def _spelled(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(map(in_ascii, error.object[error.start : error.end])), error.end


def in_ascii(character: str) -> str:
    """A character in ASCII: spelled, without its accent, or as a question mark."""
    plain = unicodedata.normalize("NFKD", character).encode("ascii", "ignore").decode()
    return SPELLED.get(character) or plain or UNKNOWN
