"""Refuses JSON in which an object has a key twice, of which msgspec takes the last one without a word.

Traces have hundreds of megabytes, for which Python's own reader would need as long as all else that an import does. So
keys are found by a loop in machine code, and only where two of an object have the same hash does Python read the text
and say which.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gradwire.strict_json import refuse_doubled
from gradwire.workloads.symbolic.loops import Loops

IN_CODE_FROM_BYTES = 1 << 20
"""Python reads shorter texts in less than it takes to load machine code."""
MOST_DEPTH = 1 << 10
"""Of objects in objects; msgspec gives up earlier."""
QUOTE, BACKSLASH, COLON, OPENS, CLOSES, SPACE = b'"\\:{} '
PRIME, SPREAD = np.uint64(0x100000001B3), np.uint64(0x9E3779B97F4A7C15)
"""FNV-1a's, and what keeps keys of different objects apart."""
BASIS = np.uint64(0xCBF29CE484222325)

loops = Loops()


def refuse_doubled_keys(text: bytes) -> None:
    """Raises ValueError for JSON that has a key of an object twice. The text is one that msgspec has read."""
    if len(text) < IN_CODE_FROM_BYTES:
        refuse_doubled(text)
        return
    hashes = np.empty(text.count(b":"), np.uint64)
    count = loops.in_code(key_hashes)(np.frombuffer(text, np.uint8), hashes, np.zeros(MOST_DEPTH, np.int64))
    found = np.sort(hashes[: max(count, 0)])
    if count < 0 or (found[1:] == found[:-1]).any():
        refuse_doubled(text)


@loops
def key_hashes(text: npt.NDArray[np.uint8], hashes: npt.NDArray[np.uint64], opened: npt.NDArray[np.int64]) -> int:
    """Writes a hash for each key, which tells apart keys of different objects; returns their number, or -1 for a text with
    escaped characters in a key, of which one character has several spellings, or with too many objects in one another."""
    count = at = depth = objects = 0
    while at < len(text):
        character = text[at]
        at += 1
        if character == OPENS:
            objects += 1
            depth += 1
            if depth == len(opened):
                return -1
            opened[depth] = objects
        elif character == CLOSES:
            depth -= 1
        elif character == QUOTE:
            value, escaped = BASIS, False
            while text[at] != QUOTE:
                if text[at] == BACKSLASH:
                    escaped = True
                    at += 1
                value = (value ^ np.uint64(text[at])) * PRIME
                at += 1
            at += 1
            while at < len(text) and text[at] <= SPACE:
                at += 1
            if at < len(text) and text[at] == COLON:
                if escaped:
                    return -1
                hashes[count] = (value ^ (np.uint64(opened[depth]) * SPREAD)) * PRIME
                count += 1
    return count
