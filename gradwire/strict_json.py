"""JSON in files that users write or bring, read as it is meant, or refused.

Python's own reader takes the last of two values with one key, and NaN, Infinity and numbers beyond all bounds, which JSON does not have: a
typing error would change a result without a word.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from typing import NoReturn

from gradwire.documents import Document, DocumentValue

LONGEST_SHOWN = 60


def parse_json(text: str, *, any_float: bool = False) -> DocumentValue:
    """The content of a text in JSON. Raises ValueError with what is wrong.

    any_float: reads NaN and infinite numbers as well, for who says better where they are.
    """
    constant, number = (None, None) if any_float else (_refuse_constant, _number)
    try:
        content: DocumentValue = json.loads(
            text, object_pairs_hook=_object, parse_constant=constant, parse_float=number
        )
    except RecursionError as error:
        raise ValueError("lists and objects are nested too deeply") from error
    if "\\ud" in text or "\\uD" in text:
        _refuse_halves(content)
    return content


def refuse_doubled(text: str | bytes) -> None:
    """Raises ValueError for a key that an object in JSON has twice. What is wrong otherwise is for whoever decodes the
    text into types."""
    try:
        json.loads(text, object_pairs_hook=_object)
    except RecursionError as error:
        raise ValueError("lists and objects are nested too deeply") from error


def _refuse_halves(content: DocumentValue) -> None:
    try:
        json.dumps(content, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        half = ascii(error.object[error.start])[1:-1]
        raise ValueError(f"{half} is half of a character, and no text") from error


def _object(pairs: Sequence[tuple[str, DocumentValue]]) -> Document:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(name for name, times in Counter(name for name, _ in pairs).items() if times > 1)
        raise ValueError(f"the key {_cut(json.dumps(twice))} is given twice; leave one out")
    return found


STREAMED = json.JSONDecoder(object_pairs_hook=_object)
"""For values one behind the other, without two keys that are the same."""


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number of JSON; give a number")


def _number(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{_cut(text)} is beyond all numbers that a computer has")
    return number


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}..."
