"""Text for terminals whose encoding lacks some of its characters: these are spelled in ASCII, so that no table ends halfway."""

from __future__ import annotations

import codecs
import io
import sys
import unicodedata

ERRORS = "gradwire-spelled"
SPELLED = {"±": "+-", "–": "-", "✓": "ok", "✗": "failed", "·": "-", "→": "->", "…": "...", "μ": "u", "µ": "u"}
"""What is written for characters that have no letter of ASCII in them."""
UNKNOWN = "?"


def spell_what_is_missing() -> None:
    """Makes standard output and errors take every character, whatever their encoding."""
    codecs.register_error(ERRORS, _spelled)
    for stream in (sys.stdout, sys.stderr):
        # Tests and notebooks put other objects in their place, which take text as it is.
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors=ERRORS)


def _spelled(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(map(in_ascii, error.object[error.start : error.end])), error.end


def in_ascii(character: str) -> str:
    """A character in ASCII: spelled, without its accent, or as a question mark."""
    plain = unicodedata.normalize("NFKD", character).encode("ascii", "ignore").decode()
    return SPELLED.get(character) or plain or UNKNOWN
