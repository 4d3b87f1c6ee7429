"""Files with a table of routes: TOML with [[route]], or CSV with a header. Each becomes the content of a RoutesDefinition."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from gradwire.faults import InputFault
from gradwire.scenario.explanations import explain, validated
from gradwire.scenario.limits import listed
from gradwire.scenario.sections.routes import MOST_ROWS, RoutesDefinition
from gradwire.scenario.toml_documents import file_text, read_document

COLUMNS = ("switch", "destination", "next")
HAS = 'a table of routes has rows like [[route]] switch = "s1" destination = "h*" next = ["s5", "s6"]'


def routes_in(path: Path) -> dict[str, Any]:
    """What a file says of routes, which is valid but for names. Raises InputFault with a line for each defect, which names row and key."""
    content = _of_csv(path) if path.suffix == ".csv" else read_document(path, "routes", HAS)
    try:
        validated(RoutesDefinition, content)
    except ValidationError as error:
        lines = [line for defect in error.errors() for line in explain(RoutesDefinition, defect, content)]
        named = [re.sub(r"^route\.(\d+)\.?", lambda match: f"row {int(match[1]) + 1}: ", line) for line in lines]
        raise InputFault(listed([f"{path}: {line}" for line in dict.fromkeys(named)])) from error
    return content


def _of_csv(path: Path) -> dict[str, Any]:
    text = file_text(path, "routes", "CSV")
    try:
        rows = list(csv.reader(io.StringIO(text), strict=True))
    except csv.Error as error:
        raise InputFault(f"{path}: not valid CSV: {error}") from error
    rows = [[cell.strip() for cell in row] for row in rows if any(cell.strip() for cell in row)]
    if not rows or tuple(rows[0]) != COLUMNS:
        raise InputFault(
            f"{path}: the first line must be {','.join(COLUMNS)}; several next hops are separated by spaces"
        )
    if len(rows) > MOST_ROWS + 1:
        raise InputFault(f"{path}: has {len(rows) - 1:,} rows; must be at most {MOST_ROWS:,}")
    for number, row in enumerate(rows[1:], 1):
        if len(row) != len(COLUMNS):
            raise InputFault(
                f"{path}: row {number}: has {len(row)} columns instead of {len(COLUMNS)}: {','.join(COLUMNS)}"
            )
    return {"route": [dict(zip(COLUMNS, row, strict=True)) for row in rows[1:]]}
