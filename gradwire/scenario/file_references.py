"""Finds the places at which a scenario names files of the user, instead of things that gradwire or a package has."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from gradwire.documents import Document, DocumentTable, DocumentValue
from gradwire.faults import InputFault

TABLES = {
    "model.name": "models",
    "model.device": "devices",
    "model.modules_device": "devices",
    "strategy.name": "strategies",
    "model.trace": "traces",
    "strategy.options.request_trace": "traces",
    "fabric.file": "networks",
    "fabric.routes": "routes",
    "fabric.controller": "controllers",
}
"""Keys whose values may be files, and the tables of `defined` that hold what the files say; a trace is always a file, and in no table."""
MODEL_ENDINGS = (".toml", ".json")
"""A model file, and the configuration of a model in Hugging Face's form."""
ROUTES_ENDINGS = (".toml", ".csv")
NETWORK_ENDINGS = (".graphml", ".gml", ".json", ".yaml", ".yml", ".txt", ".topo", ".xml")
"""Of the forms in scenario/definitions/network_files.py; JSON and YAML have several, which differ by their keys."""
TRACES = ("model.trace", "strategy.options.request_trace")
_PYTHON_FILE = re.compile(r"(?P<path>.+\.py)(?::(?P<name>[^:/]+))?")


def is_file(key: str, value: str) -> bool:
    """Returns whether the value of a key of TABLES is a file, and not a name."""
    if key in TRACES:
        return True
    if TABLES[key] == "networks":
        return bool(_PYTHON_FILE.fullmatch(value)) or value.endswith(NETWORK_ENDINGS)
    if TABLES[key] == "routes":
        return value.endswith(ROUTES_ENDINGS)
    return (
        bool(_PYTHON_FILE.fullmatch(value))
        if TABLES[key] in ("strategies", "controllers")
        else value.endswith(MODEL_ENDINGS if key == "model.name" else ".toml")
    )


def python_reference(value: str) -> str | None:
    """The name of the class in a Python file that the value says ("" if it says none); None for other files."""
    match = _PYTHON_FILE.fullmatch(value)
    return None if match is None else match["name"] or ""


def strategy_reference(value: str) -> tuple[str, str | None]:
    """The path of a strategy's file, and the name of the strategy in it if the value says one."""
    match = _PYTHON_FILE.fullmatch(value)
    assert match is not None, "is_file says so"
    return match["path"], match["name"]


def swapped(node: DocumentValue, swap: Callable[[str, str], str], key: str = "") -> DocumentValue:
    """A copy of the value at `key`, with every text at a key of TABLES replaced by the result of `swap(key,
    text)`.

    Sweeps and cases have separate keys, whose parts are dotted or nested tables; a list has several values of its key.
    """
    if isinstance(node, dict):
        return swapped_table(node, swap, key)
    if isinstance(node, list):
        return [swapped(each, swap, key) for each in node]
    table_key = re.sub(r"^job\.[^.]+\.", "", key)  # each of several jobs has the tables of one
    return swap(table_key, node) if isinstance(node, str) and table_key in TABLES else node


def swapped_table(table: DocumentTable, swap: Callable[[str, str], str], key: str = "") -> Document:
    """A copy of the table at `key`, as `swapped` makes it of any value."""
    return {
        name: swapped(value, swap, "" if not key and name in ("sweep", "cases") else f"{key}.{name}".lstrip("."))
        for name, value in table.items()
    }


def file_at(base: Path, text: str) -> Path:
    """The path that a text names, relative to `base`. Raises InputFault for a text that cannot be a path."""
    try:
        return base / Path(text).expanduser()
    except RuntimeError as error:  # of ~NAME
        raise InputFault(f"{text}: no such user's home folder") from error


def anchored(key: str, value: DocumentValue, base: Path) -> DocumentValue:
    """The value of a setting, with paths of files made absolute: they are relative to `base`. Raises InputFault as `file_at`."""

    def absolute(at: str, text: str) -> str:
        return str(file_at(base, text)) if is_file(at, text) else text

    return swapped(value, absolute, key)


def code_files(key: str, value: DocumentValue) -> list[Path]:
    """The files of Python in the value of a setting."""
    found: list[Path] = []

    def collect(at: str, text: str) -> str:
        if is_file(at, text) and (match := _PYTHON_FILE.fullmatch(text)):
            found.append(Path(match["path"]))
        return text

    swapped(value, collect, key)
    return found
