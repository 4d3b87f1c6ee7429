"""Scenario files on the disk: read as TOML, or refused with what they are instead.

Some keys have a second name, under which users of today's jobs look for them. A file may use either; all other code
knows only the first.
"""

from __future__ import annotations

import codecs
import tomllib
from collections.abc import Mapping
from pathlib import Path

from gradwire.documents import Document, DocumentTable, DocumentValue
from gradwire.faults import InputFault
from gradwire.reading_budget import reading_budget
from gradwire.regular_files import MESSAGE_BYTES, read_bytes
from gradwire.scenario.limits import refuse_long_keys, refuse_too_much

HAS = "a scenario has a title and the tables cluster, fabric, model and strategy, or cluster, fabric and program"
OTHER_NAMES: Mapping[str, str] = {"cluster.gpus_per_host": "cluster.workers_per_host"}
"""The second name of a key, and the first."""
SWEEP, CASES = "sweep", "cases"


def read_document(path: Path, noun: str = "scenario", has: str = HAS, *, follow: bool = True) -> Document:
    """The content of a TOML file, in UTF-8 with or without a byte order mark, with lines ended by LF or CRLF.

    noun: what kind of file it is, and `has` what is in such a file, for messages. follow: as for `file_text`.

    Raises InputFault, naming the file, if it cannot be read, is something else than TOML, or says more than a file may.
    """
    with reading_budget(path):
        return _document(path, file_text(path, noun, follow=follow), has)


def _document(path: Path, text: str, has: str) -> Document:
    if not text.strip():
        raise InputFault(f"{path}: is empty; {has}")
    try:
        refuse_long_keys(text)
        document = tomllib.loads(text)
        refuse_too_much(document)
    except InputFault as fault:
        raise InputFault(f"{path}: {fault}") from fault
    except tomllib.TOMLDecodeError as error:
        raise InputFault(f"{path}: not valid TOML: {error}{_unquoted(error)}") from error
    except (ValueError, RecursionError) as error:  # numbers of thousands of digits, brackets in thousands of brackets
        raise InputFault(f"{path}: not valid TOML: a number is too long, or tables are nested too deeply") from error
    return document


def has_programs(document: DocumentTable) -> bool:
    """Returns whether a scenario's content is of programs alone (scenario/program_scenarios.py); they may also run next
    to a strategy."""
    return "program" in document and not any(_names(document, table) for table in ("strategy", "model", "job"))


def _names(document: DocumentTable, table: str) -> bool:
    """Returns whether a table is there, or keys in it are swept."""
    cases = document.get("cases")
    sweeps = [document.get("sweep"), *(cases if isinstance(cases, list) else [])]
    swept = (key for sweep in sweeps if isinstance(sweep, dict) for key in sweep)
    return table in document or any(key.split(".")[0] == table for key in swept)


def file_text(path: Path, noun: str, form: str = "TOML", *, follow: bool = True) -> str:
    """The text of a file in UTF-8 that should be of this form. Raises InputFault, naming the file, if it cannot be read.

    follow: whether the path may be a link, which is the choice of whoever gave it.
    """
    with reading_budget(path):
        return _text(path, _content(path, noun, follow=follow), form)


def _content(path: Path, noun: str, *, follow: bool) -> bytes:
    try:
        return read_bytes(path, MESSAGE_BYTES, follow=follow)
    except FileNotFoundError as error:
        raise InputFault(f"{path}: no such {noun} file") from error
    except OSError as error:
        raise InputFault(f"{path}: cannot be read as a {noun} file: {error.strerror}") from error


def _text(path: Path, content: bytes, form: str) -> str:
    for mark in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        if content.startswith(mark):
            raise InputFault(f"{path}: not valid {form}: is UTF-16; save it as UTF-8")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        byte = content[error.start]
        raise InputFault(
            f"{path}: not valid {form}: line {line} has the byte 0x{byte:02x} ('{chr(byte)}' in Latin-1), not UTF-8; save it as UTF-8"
        ) from error


def _unquoted(error: tomllib.TOMLDecodeError) -> str:
    """A hint for the most common mistake, a text or a quantity without its quotation marks."""
    if "Invalid value" not in str(error) and "Expected newline" not in str(error):
        return ""
    return '; texts and numbers with units are written in quotation marks, like rate = "10gbit"'


def by_first_names(document: DocumentTable) -> Document:
    """A scenario's content in which every key, also of sweeps and cases, has its first name. Everything else stays the
    same.

    Raises InputFault where a table gives both names.
    """
    found = _renamed({key: value for key, value in document.items() if key not in (SWEEP, CASES)})
    return {**found, **{key: value_by_first_names("", document[key]) for key in (SWEEP, CASES) if key in document}}


def key_by_first_names(key: str) -> str:
    """A dotted key by its first name."""
    return OTHER_NAMES.get(key, key)


def value_by_first_names(key: str, value: DocumentValue) -> DocumentValue:
    """The value of a dotted key, with the keys of the tables in it by their first names. Raises InputFault as above."""
    if key and not any(other.startswith(f"{key}.") for other in OTHER_NAMES):
        return value
    if isinstance(value, list):
        return [_renamed(each, f"{key}." if key else "") if isinstance(each, dict) else each for each in value]
    return _renamed(value, f"{key}." if key else "") if isinstance(value, dict) else value


def _renamed(table: DocumentTable, prefix: str = "") -> Document:
    found: Document = {}
    for key, value in table.items():
        path = f"{prefix}{key}"
        name = key_by_first_names(path).removeprefix(prefix)
        if name != key and name in table:
            raise InputFault(f"{path}: is another name of {prefix}{name}; leave out one of the two")
        found[name] = value_by_first_names(path, value)
    return found
