"""Text of programs and of others' files, made fit for a terminal: what would act on it is shown instead."""

from __future__ import annotations

import re

ACTING = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
"""Control characters (of C0 all but the tab and the line end, and of C1 all), Unicode's other line ends, and those that turn the direction
of writing round, so that a line reads as another."""


def visible(text: str) -> str:
    r"""The text with each character that acts on a terminal written as in Python, such as \x1b for escape."""
    return ACTING.sub(lambda character: ascii(character[0])[1:-1], text)
