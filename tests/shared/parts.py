"""Messages by what they are made of: the keys, values, limits and names in a text, whatever words are between them."""

from __future__ import annotations

import re


def in_order(*parts: object) -> str:
    """Returns the pattern of a text that has these parts in this order, for the `match` of `pytest.raises`."""
    return "(?s)" + ".*?".join(re.escape(str(part)) for part in parts)


def tells(text: str, *parts: object) -> bool:
    """Returns whether the text has these parts in this order."""
    return re.search(in_order(*parts), text) is not None
