"""`--set key=value`: settings that override a scenario's content, its sweeps and cases included."""

from __future__ import annotations

import copy
import tomllib
from collections.abc import Iterable
from pathlib import Path

from gradwire.documents import Document, DocumentTable, DocumentValue
from gradwire.faults import InputFault
from gradwire.named_code import COMMAND_LINE, permit
from gradwire.scenario.file_references import anchored, code_files
from gradwire.scenario.toml_documents import key_by_first_names, value_by_first_names

NOT_SET = ("sweep", "cases")
"""Keys that --set rejects: they hold other keys with lists."""

NESTED = frozenset("[]{}\"'")
"""Characters with which the items of a list have to be TOML."""


def apply_setting(document: Document, setting: str) -> None:
    """Applies one `key=value` to a scenario's content.

    A list is swept. Any other value becomes the value of its key in all points: entries of the file's sweep and cases for the key, or for
    keys inside it, are removed, and the value is written into the tables that they sweep. Files are relative to the current folder. Without
    a value, as in `key=`, a key that is set is removed from all points, and one that is not has the empty text.

    Raises InputFault if the setting is not a valid `key=value`, or if the content has a plain value where the key needs a table.
    """
    key, value = _parsed(setting)
    if value is None:
        if _unset(document, key_by_first_names(key), setting):
            return
        value = ""
    key, value = key_by_first_names(key), anchored(key, value, Path.cwd())
    for path in code_files(key, value):
        permit(path, COMMAND_LINE)
    sweep = flattened(document.get("sweep", {}))
    listed = document.get("cases", [])
    cases = [flattened(case, "cases") for case in listed] if isinstance(listed, list) else []
    try:
        value = value_by_first_names(key, value)
        for overridden in (sweep, *cases):
            _give_way(overridden, key, value)
        if isinstance(value, list):
            sweep[key] = value
        else:
            set_key(document, key, value)
    except InputFault as fault:
        raise InputFault(f"--set {setting}: {fault}") from fault
    document["sweep"] = sweep
    if cases:
        document["cases"] = cases


def _unset(document: Document, key: str, setting: str) -> bool:
    """Removes a key from a scenario's content, its sweep and its cases included; returns whether it was anywhere."""
    before = copy.deepcopy(document)
    sweep = flattened(document.get("sweep", {}))
    listed = document.get("cases", [])
    cases = [flattened(case, "cases") for case in listed] if isinstance(listed, list) else []
    try:
        for overridden in (sweep, *cases):
            _give_way(overridden, key, [])  # as where another sweep takes its place
        _remove_key(document, key)
    except InputFault as fault:
        raise InputFault(f"--set {setting}: {fault}") from fault
    if "sweep" in document:
        document["sweep"] = sweep
    if cases:
        document["cases"] = cases
    swept = flattened(before.get("sweep", {}))
    return document != ({**before, "sweep": swept} if "sweep" in before else before)


def setting_words(setting: str) -> str:
    """A setting as a title says it: `fabric.rate = 10gbit or 25gbit` for `fabric.rate=["10gbit", "25gbit"]`."""
    key, value = _parsed(setting)
    if value is None:
        return f"{key} unset"
    values = value if isinstance(value, list) else [value]
    if any(isinstance(one, dict | list) for one in values):
        return setting
    return f"{key} = {' or '.join(map(str, values))}"


def _parsed(setting: str) -> tuple[str, DocumentValue]:
    """Splits a setting into key and value, None without one."""
    key, equals, text = setting.partition("=")
    key = key.strip()
    if not equals or not key:
        raise InputFault(f"--set {setting}: write key=value, like --set fabric.rate=25gbit")
    if key.split(".")[0] in NOT_SET:
        raise InputFault(f"--set {setting}: a sweep is set by a list for its key, like --set cluster.workers=[2,4]")
    if not text.strip():
        return key, None
    return key, value_of_setting(text)


def value_of_setting(text: str) -> DocumentValue:
    """Returns the value that a text means in `--set`: what it is in TOML, or else the text itself, or a list of such
    values: `[10gbit, 25gbit]` needs no quotes, as `10gbit` needs none."""
    try:
        value: DocumentValue = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        text = text.strip()
        words = text[1:-1].split(",")
        is_list = text[:1] == "[" and text[-1:] == "]" and not NESTED & set(text[1:-1]) and all(map(str.strip, words))
        return [value_of_setting(word) for word in words] if is_list else text
    return value


def _give_way(sweep: Document, key: str, value: DocumentValue) -> None:
    """Makes one sweep or case leave `key` to the setting."""
    for swept, values in list(sweep.items()):
        inside = key.removeprefix(f"{swept}.")
        if swept == key or swept.startswith(f"{key}."):
            del sweep[swept]
        elif inside != key and isinstance(values, list):
            sweep[swept] = _different(_with_setting(table, swept, inside, value) for table in values)


def _with_setting(table: DocumentValue, swept: str, inside: str, value: DocumentValue) -> DocumentValue:
    """Returns a swept table with the value written into it.

    A list removes the key instead: the key is then swept itself, and set after the table.
    """
    if not isinstance(table, dict):
        raise InputFault(f"the file sweeps '{swept}' over values like {table!r}, which are not tables")
    table = copy.deepcopy(table)
    if isinstance(value, list):
        _remove_key(table, inside)
    else:
        set_key(table, inside, value)
    return table


def _different(tables: Iterable[DocumentValue]) -> list[DocumentValue]:
    distinct: list[DocumentValue] = []
    for table in tables:
        if table not in distinct:
            distinct.append(table)
    return distinct


def flattened(table: DocumentValue, what: str = "sweep", prefix: str = "") -> Document:
    """Returns a sweep or case with dotted keys, whether the file quotes them or nests tables.

    Raises InputFault if `table` is not a table.
    """
    if not isinstance(table, dict):
        raise InputFault(f'{what}: must be a table of keys with lists, like "model.name" = ["vgg16", "vgg19"]')
    flat: Document = {}
    for key, value in table.items():
        flat |= flattened(value, what, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat


def set_key(document: Document, key: str, value: DocumentValue) -> None:
    """Sets a dotted key, and creates the tables that lead to it. Raises InputFault if one of these is a plain value."""
    *sections, last = key.split(".")
    for section in sections:
        inner = document.setdefault(section, {})
        if not isinstance(inner, dict):
            raise InputFault(f"{key}: '{section}' is a value, not a table")
        document = inner
    document[last] = value


def merge_key(document: Document, key: str, value: DocumentValue) -> None:
    """Sets a dotted key as `set_key` does; a table is merged into the table that is there, key by key."""
    if not isinstance(value, dict):
        set_key(document, key, value)
        return
    for step in key.split("."):
        inner = document.setdefault(step, {})
        if not isinstance(inner, dict):
            raise InputFault(f"{key}: '{step}' is a value, not a table")
        document = inner
    _merge(document, value)


def _merge(table: Document, above: DocumentTable) -> None:
    for key, value in above.items():
        there = table.get(key)
        if isinstance(there, dict) and isinstance(value, dict):
            _merge(there, value)
        else:
            table[key] = value


def _remove_key(document: Document, key: str) -> None:
    *sections, last = key.split(".")
    for section in sections:
        inner = document.get(section, {})
        if not isinstance(inner, dict):
            raise InputFault(f"{key}: '{section}' is a value, not a table")
        document = inner
    document.pop(last, None)
