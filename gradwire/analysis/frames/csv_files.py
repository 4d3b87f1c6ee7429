"""How frames become CSV, and CSV rows: as Python's csv module writes, so that what others parse stays as it is to the byte."""

from __future__ import annotations

import io
from pathlib import Path

import pandas as pd

from gradwire.files import replacing
from gradwire.regular_files import TABLE_BYTES, read_bytes

LINE_END = "\r\n"
"""As in RFC 4180, and by default in Python's csv module."""


def write_csv(path: Path, frame: pd.DataFrame, float_format: str | None = None) -> None:
    """Writes a frame's columns, without its index; unknown values are empty, and floats are their shortest text that reads back the same.

    The file is replaced as a whole, so that a reader never sees half of it. float_format: as for `%`, instead of the shortest text.
    """
    with replacing(path, on_disk=False) as partial:
        frame.to_csv(partial, index=False, lineterminator=LINE_END, float_format=float_format)


def read_texts(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file by their columns' names, every cell as the text that it is. Raises OSError or ValueError."""
    frame = pd.read_csv(io.BytesIO(read_bytes(path, TABLE_BYTES, follow=True)), dtype=str, keep_default_na=False)
    return [{str(name): text for name, text in row.items()} for row in frame.to_dict("records")]
