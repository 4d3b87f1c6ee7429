"""Reads JSON files of gigabytes whose bulk is one list, a block at a time: `{..., "traceEvents": [{...}, ...], ...}`,
plain or gzipped.

A block of text is cut behind an item, and msgspec decodes what is before the cut. Where an item ends is not searched
for by counting brackets: a cut is right if and only if the text before it is a complete list, which the decoder finds
out in any case. So a wrong guess costs time and nothing else.
"""

from __future__ import annotations

import gzip
import io
import itertools
import os
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Generic, TypeVar, cast

import msgspec

from gradwire import regular_files
from gradwire.faults import InputFault
from gradwire.workloads.doubled_keys import refuse_doubled_keys
from gradwire.workloads.traces.record import Watch

GZIP_MAGIC = b"\x1f\x8b"
READ_BYTES = 128 << 10
"""Read from the disk at once."""
BLOCK_BYTES = 4 << 20
"""Larger blocks are no faster, and their decoded items take about ten times their size."""
MOST_ITEM_BYTES = 64 << 20
"""No event of a real trace comes near; without a limit, a broken file would be read whole into memory to look for an
end."""
CUTS = 64
"""Positions from a block's end backwards at which an item may end. In real traces the first or second is right."""
MOST_ENDS = 1000
"""Brackets after the last item but one that are tried for the end of the list."""
BEHIND_ITEM = re.compile(rb"\}\s*(?=,\s*\{)")
BEHIND_LIST = re.compile(rb"\]")

Item = TypeVar("Item")
Head = TypeVar("Head")


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """The file, uncompressed if its content is gzipped, whatever its name is. Raises InputFault.

    It is opened once, so that what is read is what was found to be a regular file.
    """
    try:
        raw = regular_files.opened(path, None, follow=True)
    except OSError as error:
        raise InputFault(f"{path}: {error.strerror or error}") from error
    with raw, io.BufferedReader(cast(io.RawIOBase, raw), READ_BYTES) as file:
        if read_block(path, file, len(GZIP_MAGIC), peek=True) != GZIP_MAGIC:
            yield file
        else:
            with gzip.GzipFile(fileobj=file) as unzipped:
                yield cast(IO[bytes], unzipped)


def progress(file: IO[bytes]) -> tuple[int, int]:
    """Returns how many bytes of a file that `opened` yielded have been read from the disk, and how many there are."""
    on_disk = getattr(file, "fileobj", None) or file
    total_bytes = os.fstat(on_disk.fileno()).st_size
    return min(on_disk.tell(), total_bytes), total_bytes


def beginning(path: Path, size_bytes: int) -> bytes:
    """The first bytes of what the file holds. Raises InputFault."""
    with opened(path) as file:
        return read_block(path, file, size_bytes)


def read_block(path: Path, file: IO[bytes], size_bytes: int, *, peek: bool = False) -> bytes:
    """The next bytes of a file, all that are left for -1, which are read again later after a peek. Raises InputFault."""
    try:
        content = file.read(size_bytes)
        if peek:
            file.seek(0)
        return content
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputFault(f"{path}: its compressed content is damaged or cut off: {error}") from error
    except OSError as error:
        raise InputFault(f"{path}: {error.strerror or error}") from error


class JsonItems(Generic[Item, Head]):
    """The items of the list at `key` of a JSON object, one after the other, and then the rest of the object.

    item, head: types that msgspec decodes items, and the object without its list, into. Iterating raises InputFault,
    with the file and the number of the item, for what is not valid, and for a file that ends early.
    """

    def __init__(self, path: Path, key: str, item: type[Item], head: type[Head], watch: Watch) -> None:
        self._path, self._key, self._watch = path, key, watch
        self._items = msgspec.json.Decoder(list[item])  # type: ignore[valid-type]
        self._head = msgspec.json.Decoder(head)
        self._seen = 0
        self._before = self._after = b""

    def __iter__(self) -> Iterator[Item]:
        """Yields the items."""
        with opened(self._path) as file:
            rest = self._list_start(file)
            while True:
                block = read_block(self._path, file, BLOCK_BYTES)
                self._watch(self._path, *progress(file))
                text = rest + block
                items, rest = self._whole_items(text) if block else self._last_items(text)
                self._seen += len(items)
                yield from items
                if not block:
                    return
                if len(rest) > MOST_ITEM_BYTES:
                    raise self._fault(f"is larger than {MOST_ITEM_BYTES >> 20} MiB, or its text is damaged")

    def head(self) -> Head:
        """Returns the fields of the object besides the list, once all items have been read. Raises InputFault."""
        text = self._before + b"null" + self._after
        try:
            head: Head = self._head.decode(text)
            refuse_doubled_keys(text)
        except (ValueError, RecursionError) as error:  # msgspec.DecodeError is a ValueError
            raise InputFault(f"{self._path}: besides its '{self._key}': {_reason(error)}") from error
        return head

    def _list_start(self, file: IO[bytes]) -> bytes:
        """Reads up to the list; returns what follows its bracket."""
        text = b""
        bracket = re.compile(rb'"' + self._key.encode() + rb'"\s*:\s*\[')
        while block := read_block(self._path, file, BLOCK_BYTES):
            text += block
            for match in bracket.finditer(text):
                before = text[: match.end() - 1]
                if _is_json(before + b"null}"):
                    self._before = before
                    return text[match.end() :]
            if len(text) > MOST_ITEM_BYTES:
                break
        raise InputFault(
            f"{self._path}: is not a JSON object with a list of '{self._key}' in its first {len(text):,} bytes"
        )

    def _whole_items(self, text: bytes) -> tuple[list[Item], bytes]:
        """The items that the text surely has whole, and the rest of it."""
        ends = [match.end() for match in BEHIND_ITEM.finditer(text, max(0, len(text) - BLOCK_BYTES))]
        for end in ends[: -CUTS - 1 : -1]:
            if (items := self._decode(text[:end])) is not None:
                return items, text[end:].lstrip().removeprefix(b",")
        return [], text

    def _last_items(self, text: bytes) -> tuple[list[Item], bytes]:
        """The items before the end of the list. What follows it is kept for `head`."""
        items, text = self._whole_items(text)
        self._seen += len(items)
        for match in itertools.islice(BEHIND_LIST.finditer(text), MOST_ENDS):
            if _is_json(b"[" + text[: match.end()]) and _is_json(self._before + b"null" + text[match.end() :]):
                self._after = text[match.end() :]
                self._seen -= len(items)
                return items + (self._decode(text[: match.start()], last=True) or []), b""
        raise self._fault(self._what_is_wrong(text))

    def _decode(self, text: bytes, *, last: bool = False) -> list[Item] | None:
        """The items of a text; None if it is cut at a wrong place."""
        whole = b"[" + text + b"]"
        try:
            items: list[Item] = self._items.decode(whole)
        except msgspec.ValidationError as error:
            raise self._misfit(error) from error
        except RecursionError as error:
            raise self._fault("is nested too deeply") from error
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            if last:
                raise self._fault(_reason(error)) from error
            return None
        try:
            refuse_doubled_keys(whole)
        except ValueError as error:
            raise self._fault(str(error)) from error
        return items

    def _misfit(self, error: msgspec.ValidationError) -> InputFault:
        """The fault of an item that is JSON and has a value of another type."""
        number = re.search(r"`\$\[(\d+)\]", str(error))
        at = self._seen + int(number[1]) if number else self._seen
        reason = re.sub(r"\$\[\d+\]\.?", "", str(error))
        return InputFault(f"{self._path}: {self._key}[{at}]: {reason}")

    def _fault(self, what: str) -> InputFault:
        return InputFault(f"{self._path}: {self._key}[{self._seen}] or one after it: {what}")

    def _what_is_wrong(self, text: bytes) -> str:
        try:
            msgspec.json.decode(b"[" + text, type=list[msgspec.Raw])
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            return _reason(error)
        return "what follows the list is not JSON"


def _is_json(text: bytes) -> bool:
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return False
    return True


def _reason(error: Exception) -> str:
    """Returns the reason why a text cannot be decoded, in words."""
    if isinstance(error, RecursionError):
        return "is nested too deeply"
    return {"Input data was truncated": "the file ends here, in the middle"}.get(str(error), str(error))
