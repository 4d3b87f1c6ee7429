"""Reads archives of arrays (.npz) from untrusted sources: data is unpacked only if the sizes that the archive claims
are within limits.

A file of a few MiB may unpack to as many GiB, so the unpacked size is what is limited. The archive's directory and the
arrays' headers state it, and since both may lie, data is also counted while it is unpacked. An archive that is refused
raises OSError or `DamagedArchiveError`, with the reason in words.
"""

from __future__ import annotations

import math
import os
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
import numpy.typing as npt

from gradwire.regular_files import CHUNK_BYTES, opened
from gradwire.syntax_trees import parsed

SHARE_OF_MEMORY = 0.5
"""Share of this machine's memory that the arrays of one archive may take. Logs are the largest of them; the runner
leaves as much for everything else (runs/planned.py)."""
DIRECTORY_BYTES = 128 << 10
"""Largest size of an archive's directory: 100 bytes for each member, and the 64 KiB in which zipfile looks for its
end."""
HEADER_BYTES = 4096
"""Largest size of an array's header, which holds a type and a shape; NumPy writes 128 bytes."""
LARGEST_RATIO = 1032
"""Deflate makes at most so many bytes of one."""
SUFFIX = ".npy"
ENCRYPTED = 0x1
ANY_WIDTH = (-1,)
"""Axes of a table with any number of columns."""


class DamagedArchiveError(ValueError):
    """The archive is not what its writer writes."""


NOT_SUCH_AN_ARCHIVE = (
    *(OSError, ValueError, LookupError, TypeError, AttributeError, OverflowError),
    *(zipfile.BadZipFile, zlib.error, struct.error, EOFError, RuntimeError, MemoryError),
)
"""Errors that this module, zipfile and NumPy raise for a file that is no such archive, including damaged ones."""


@dataclass(frozen=True)
class ArrayColumn:
    """An array that an archive may have under a name: its type, its shape, and whether it may be absent."""

    #: Type of its elements; for a text ("U"), of any length.
    dtype: str
    #: Lengths of all axes but the first; None for a single number.
    inner_shape: tuple[int, ...] | None = ()
    #: Whether the archive may lack it.
    optional: bool = False


@dataclass(frozen=True)
class _Member:
    #: Behind the header.
    file: zipfile.ZipExtFile
    info: zipfile.ZipInfo
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    fortran_order: bool
    header_bytes: int

    @property
    def size_bytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


def most_bytes() -> int:
    """Largest size of the arrays of one archive on this machine, in bytes."""
    return int(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * SHARE_OF_MEMORY)


def read_arrays(
    path: Path,
    columns: Mapping[str, ArrayColumn],
    *,
    compressed: bool = False,
    follow: bool = False,
    most: int | None = None,
) -> dict[str, npt.NDArray[Any]]:
    """The arrays of an archive that has `columns` and nothing else.

    compressed: whether its writer compresses. Otherwise a member is as large as it claims, and so no larger than the
    file. follow: whether `path` may be a link. most: bytes that the arrays may take; by default and at most
    `most_bytes`.

    Raises OSError for what is not a regular file; DamagedArchiveError, or what zipfile and zlib raise, for what is not
    such an archive, or would take more.
    """
    with _examined(path, columns, compressed, follow) as members:
        _refuse_large(members, min(most_bytes(), most or most_bytes()))
        return {name: _unpacked(name, member) for name, member in members.items()}


def lengths_in(path: Path, columns: Mapping[str, ArrayColumn]) -> dict[str, int]:
    """Lengths of an archive's columns according to their headers. Nothing is unpacked. Raises the errors of
    `read_arrays`."""
    with _examined(path, columns, compressed=False, follow=False) as members:
        return {name: member.shape[0] for name, member in members.items() if member.shape}


@contextmanager
def _examined(
    path: Path, columns: Mapping[str, ArrayColumn], compressed: bool, follow: bool
) -> Iterator[dict[str, _Member]]:
    """The members of an archive, each of which claims to be as it should."""
    with ExitStack() as files:
        limited = _Limited(files.enter_context(opened(path, most_bytes(), follow=follow, bounded=True)))
        archive = files.enter_context(zipfile.ZipFile(cast(BinaryIO, limited)))
        limited.most_bytes = None
        named = _named(archive, columns, compressed)
        members = {
            name: _claimed(cast(Any, files.enter_context(archive.open(info))), info) for name, info in named.items()
        }
        for name, member in members.items():
            _refuse_other(name, member, columns[name])
        _refuse_misshapen(members)
        yield members


class _Limited:
    """A file of which zipfile reads no more at once than a directory may have; it would take memory for whatever the
    file's end claims."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.most_bytes: int | None = DIRECTORY_BYTES

    def read(self, size: int = -1) -> bytes:
        if self.most_bytes is None or 0 <= size <= self.most_bytes:
            return self._file.read(size)
        content = self._file.read(self.most_bytes + 1)
        if len(content) > self.most_bytes:
            raise DamagedArchiveError(f"its directory is longer than {self.most_bytes:,} bytes")
        return content

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def _named(
    archive: zipfile.ZipFile, columns: Mapping[str, ArrayColumn], compressed: bool
) -> dict[str, zipfile.ZipInfo]:
    """The members by their arrays' names."""
    found: dict[str, zipfile.ZipInfo] = {}
    for info in archive.infolist():
        name = info.filename.removesuffix(SUFFIX)
        if name not in columns or not info.filename.endswith(SUFFIX):
            raise DamagedArchiveError(
                f"it has a member '{_short(info.filename)}', which does not belong in such a file"
            )
        if name in found:
            raise DamagedArchiveError(f"it has '{name}' twice")
        packed = info.compress_type == zipfile.ZIP_DEFLATED and compressed
        if (info.compress_type != zipfile.ZIP_STORED and not packed) or info.flag_bits & ENCRYPTED:
            raise DamagedArchiveError(f"'{name}' is compressed or encrypted, which gradwire never does")
        if info.file_size > info.compress_size * (LARGEST_RATIO if packed else 1):
            raise DamagedArchiveError(f"'{name}' claims more bytes than can come out of it")
        found[name] = info
    missing = [name for name, column in columns.items() if name not in found and not column.optional]
    if missing:
        raise DamagedArchiveError(f"it lacks '{missing[0]}'")
    return found


def _claimed(file: zipfile.ZipExtFile, info: zipfile.ZipInfo) -> _Member:
    """Reads the header of an archive's member, and leaves its data unread. Raises DamagedArchiveError for a header that
    cannot be read."""
    try:
        version = np.lib.format.read_magic(cast(Any, file))
        if version != (1, 0):
            raise ValueError(f"its version is {version}")
        header_at = file.tell()

        def header() -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
            file.seek(header_at)
            return np.lib.format.read_array_header_1_0(cast(Any, file), max_header_size=HEADER_BYTES)

        shape, fortran_order, dtype = parsed(header)
    except (ValueError, LookupError, TypeError, RecursionError, MemoryError, OverflowError) as error:
        raise DamagedArchiveError(f"the header of '{info.filename}' cannot be read: {error}") from error
    return _Member(file, info, dtype, shape, fortran_order, file.tell())


def _refuse_misshapen(members: Mapping[str, _Member]) -> None:
    for name, member in members.items():
        if (
            any(length < 0 for length in member.shape)
            or member.header_bytes + member.size_bytes != member.info.file_size
        ):
            raise DamagedArchiveError(f"'{name}' has the shape {member.shape}, which is not what it holds")


def _refuse_large(members: Mapping[str, _Member], most: int) -> None:
    total_bytes = sum(member.size_bytes for member in members.values())
    if total_bytes > most:
        raise DamagedArchiveError(
            f"its arrays take {total_bytes:,} bytes, and may take {most:,}, which is half of this machine's memory or "
            "less"
        )


def _refuse_other(name: str, member: _Member, column: ArrayColumn) -> None:
    fits = member.dtype.kind == "U" if column.dtype == "U" else member.dtype == np.dtype(column.dtype)
    if column.inner_shape is None:
        fits = fits and member.shape == ()
    else:
        axes = (-1,) * len(column.inner_shape) if column.inner_shape == ANY_WIDTH else column.inner_shape
        inner_shape = (-1,) * len(member.shape[1:]) if column.inner_shape == ANY_WIDTH else member.shape[1:]
        fits = fits and len(member.shape) > 0 and inner_shape == axes
    if not fits or not member.dtype.itemsize:
        raise DamagedArchiveError(
            f"'{name}' has the type {_short(str(member.dtype))} and the shape {member.shape}, which are not its own"
        )


def _unpacked(name: str, member: _Member) -> npt.NDArray[Any]:
    """The data, of which not a byte more than claimed is taken."""
    array = np.empty(math.prod(member.shape), member.dtype)
    wanted = memoryview(array.view(np.uint8).data) if array.size else memoryview(b"")
    while len(wanted):
        read = member.file.readinto(wanted[:CHUNK_BYTES])
        if not read:
            raise DamagedArchiveError(f"'{name}' ends before the last of its {member.size_bytes:,} bytes")
        wanted = wanted[read:]
    if member.file.read(1):  # which also compares the checksum
        raise DamagedArchiveError(f"'{name}' has more bytes than its {member.size_bytes:,}")
    return array.reshape(member.shape, order="F" if member.fortran_order else "C")


def _short(name: str) -> str:
    return name if len(name) <= 60 else f"{name[:60]}..."
