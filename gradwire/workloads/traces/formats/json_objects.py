"""Reads files of JSON objects, one behind the other with or without lines between them, a block at a time."""

from __future__ import annotations

import codecs
import json
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

from gradwire.documents import DocumentValue
from gradwire.faults import InputFault
from gradwire.strict_json import STREAMED
from gradwire.workloads.traces.formats.json_items import opened, progress
from gradwire.workloads.traces.record import Watch

BLOCK_BYTES = 1 << 20
MOST_OBJECT_CHARACTERS = 8 << 20
"""A node of Chakra with 100,000 dependencies takes one megabyte."""


def json_objects(path: Path, watch: Watch, cut_off: Callable[[int], None] | None = None) -> Iterator[DocumentValue]:
    """Yields the values of a file, plain or gzipped. Raises InputFault where it is damaged.

    cut_off: hears the number of the last value if the file ends in the middle of it, which is otherwise a fault.
    """
    text, at, taken = "", 0, 0
    for block in _blocks(path, watch):
        text, at = text[at:] + block, 0
        while (begin := _past_space(text, at)) < len(text):
            try:
                value, at = STREAMED.raw_decode(text, begin)
            except json.JSONDecodeError:
                break  # it may go on in the next block
            except (ValueError, RecursionError) as error:
                raise InputFault(f"{path}: object {taken}: {error}") from error
            yield value
            taken += 1
        if len(text) - at > MOST_OBJECT_CHARACTERS:
            raise InputFault(f"{path}: object {taken}: is larger than {MOST_OBJECT_CHARACTERS >> 20} MiB, or damaged")
    rest = text[at:].strip()
    if rest and (cut_off is None or not _may_be_cut(rest)):
        raise InputFault(f"{path}: object {taken}: the file ends in the middle of it, or its text is damaged")
    if rest and cut_off is not None:
        cut_off(taken)


def _may_be_cut(rest: str) -> bool:
    """Returns whether a text that is no value is the beginning of one line."""
    return rest.startswith("{") and "\n" not in rest


def _past_space(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at


def _blocks(path: Path, watch: Watch) -> Iterator[str]:
    """Yields a file's text in blocks. Raises InputFault."""
    decode = codecs.getincrementaldecoder("utf-8")().decode
    with opened(path) as file:
        try:
            while block := file.read(BLOCK_BYTES):
                watch(path, *progress(file))
                yield decode(block)
        except (EOFError, OSError, zlib.error) as error:
            raise InputFault(f"{path}: its compressed content is damaged or cut off: {error}") from error
        except UnicodeDecodeError as error:
            raise InputFault(f"{path}: its text is not UTF-8: {error.reason}") from error
