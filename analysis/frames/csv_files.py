"""How frames become CSV: as the standard library's csv module writes, so that what others parse stays as it is to the byte."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from gradwire.files import replacing

LINE_END = "\r\n"
"""As in RFC 4180, and by default in Python's csv module."""


def write_csv(path: Path, frame: pd.DataFrame, float_format: str | None = None) -> None:
    """Writes a frame's columns, without its index; unknown values are empty, and floats are their shortest text that reads back the same.

    The file is replaced as a whole, so that a reader never sees half of it. float_format: as for `%`, instead of the shortest text.
    """
    with replacing(path) as partial:
        frame.to_csv(partial, index=False, lineterminator=LINE_END, float_format=float_format)
