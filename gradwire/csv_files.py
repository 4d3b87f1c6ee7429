r"""CSV files: the only place where gradwire writes them and reads them back.

Lines and quotes are as in RFC 4180 and as Python's csv module has them. Texts may come from others, and spreadsheets
execute cells that begin like a formula, while terminals act on characters that are not printed. So a text, in a cell or
a heading,

- is written behind an apostrophe if its first character that is no space is one of `=+-@` (or their full-width forms) and it is neither a
  number nor a dash alone: `'=1+1`, but -1.5, -5% and - as they are; spreadsheets take what follows an apostrophe for text;
- has its control characters, tabs among them but not line feeds, written as `\x1b` or `\u2028`. A backslash that would read as the
  beginning of such is written twice.

`read_csv` returns the original texts. Parquet and JSON files hold them unescaped.
"""

from __future__ import annotations

import csv
import io
import math
import numbers
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

from gradwire.files import replacing
from gradwire.reading_budget import reading_budget
from gradwire.regular_files import TABLE_BYTES, read_text
from gradwire.terminal_text import ACTING

LINE_END = "\r\n"
"""End of a line in RFC 4180, and by default in Python's csv module."""
_BEGINS = "=+\\-@\uff1d\uff0b\uff0d\uff20"
_FORMULA = re.compile(rf"'*\s*[{_BEGINS}]")
"""Text that a spreadsheet might execute, behind any number of apostrophes, so that every text is read back
unchanged."""
_WRITTEN_BEFORE = re.compile(rf"'+\s*[{_BEGINS}]")
_BEHIND_ANOTHER_SEPARATOR = re.compile(rf";\s*[{_BEGINS}]")
"""Spreadsheets of some languages divide cells at semicolons, unless they are within quotes."""
_HARMLESS = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?%?|-")
"""A number, with a percent sign or without, and a dash that stands for nothing: spreadsheets have nothing to carry out in them."""
_CONTROL = rf"[\t\ud800-\udfff]|{ACTING.pattern}"
"""Characters that are not printed, and lone surrogates, which names of files may have but files in UTF-8 cannot."""
_SHOWN = re.compile(rf"\\(?=[\\xu]|{_CONTROL})|{_CONTROL}")
_ESCAPED = re.compile(r"\\(?:\\|x([0-9a-f]{2})|u([0-9a-f]{4}))")
_QUOTED = re.compile(r'[,"\n]')


def safe(text: str) -> str:
    """A text as a cell has it."""
    shown = _SHOWN.sub(_escaped, text)
    return f"'{shown}" if _FORMULA.match(shown) and not _HARMLESS.fullmatch(shown) else shown


def original(cell: str) -> str:
    """The text that `safe` made a cell of."""
    shown = cell[1:] if _WRITTEN_BEFORE.match(cell) else cell
    return _ESCAPED.sub(_unescaped, shown)


def csv_lines(
    columns: Iterable[str], rows: Iterable[Iterable[object]], float_format: str | None = None
) -> Iterator[str]:
    """The lines of a file, without their ends. None is an empty cell; see `write_csv`."""
    for row in chain([columns], rows):
        yield ",".join(_cell(value, float_format) for value in row) or '""'  # which an empty line would not be


def write_csv(
    path: Path,
    columns: Sequence[str],
    rows: Iterable[Iterable[object]],
    *,
    float_format: str | None = None,
    end: str = LINE_END,
) -> None:
    """Writes a file with a heading and a row for each of `rows`; None and NaN are empty cells, and floats are their shortest text that
    reads back the same.

    The file is replaced as a whole, so that a reader never sees half of it. float_format: as for `%`, instead of the shortest text.
    """
    with replacing(path, on_disk=False) as partial, partial.open("w", newline="", encoding="utf-8") as file:
        file.writelines(f"{line}{end}" for line in csv_lines(columns, rows, float_format))


def write_records(
    path: Path, records: Sequence[Mapping[str, object]], columns: Sequence[str], *, end: str = LINE_END
) -> None:
    """Writes a file with a row for each of `records`, which have a value for each column."""
    write_csv(path, columns, ([record[column] for column in columns] for record in records), end=end)


def read_csv(path: Path) -> list[dict[str, str]]:
    """The rows of a file by their columns' names, every cell as the text that was written.

    Raises OSError, ValueError for what is not such a file, and InputFault for what takes too long.
    """
    with reading_budget(path):
        try:
            rows = list(csv.reader(io.StringIO(read_text(path, TABLE_BYTES, follow=True)), strict=True))
        except csv.Error as error:
            raise ValueError(f"not valid CSV: {error}") from error
        if not rows:
            raise ValueError("has no heading")
        names = [original(name) for name in rows[0]]
        return [dict(zip(names, map(original, row), strict=True)) for row in rows[1:]]


def _cell(value: object, float_format: str | None) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return _quoted(safe(value))
    if isinstance(value, numbers.Real) and not isinstance(value, numbers.Integral):
        number = float(value)
        return "" if math.isnan(number) else float_format % number if float_format else repr(number)
    return _quoted(safe(str(value)))


def _quoted(text: str) -> str:
    if _QUOTED.search(text) or _BEHIND_ANOTHER_SEPARATOR.search(text):
        return '"' + text.replace('"', '""') + '"'
    return text


def _escaped(match: re.Match[str]) -> str:
    code = ord(match[0])
    return "\\\\" if match[0] == "\\" else f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def _unescaped(match: re.Match[str]) -> str:
    return chr(int(match[1] or match[2], 16)) if match[1] or match[2] else "\\"
