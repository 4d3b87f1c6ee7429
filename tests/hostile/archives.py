"""Damage to archives of arrays that leaves them whole: values, types, shapes and members changed, and packed again."""

from __future__ import annotations

import io
import warnings
import zipfile
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt

from gradwire.array_files import NOT_SUCH_AN_ARCHIVE

ABSURD = (0, -1, 1, 2, 7, 255, 2**31 - 1, -(2**31), 2**40, 2**62, 2**63 - 1, -(2**63))
TYPES = ("i8", "i4", "u8", ">i8", "f8", "?", "U5", "S3", "c16", "M8[ns]", "O")


def edited(content: bytes, random: Random) -> bytes:
    """The archive with something else in one of its members, or other members."""
    try:
        with np.load(io.BytesIO(content)) as stored:
            arrays: dict[str, npt.NDArray[Any]] = {name: stored[name] for name in stored.files}
    except NOT_SUCH_AN_ARCHIVE:  # it was damaged before
        return content
    name = random.choice(sorted(arrays))
    how = random.random()
    if how < 0.6:
        arrays[name] = _with_other_values(arrays[name], random)
    elif how < 0.85:
        arrays[name] = _otherwise_shaped(arrays[name], random)
    elif how < 0.9:
        del arrays[name]
    elif how < 0.95:
        arrays[random.choice(("foreign", "../outside", "ops.kind", "x" * 3000))] = arrays[name]
    else:
        other = random.choice(sorted(arrays))
        arrays[name], arrays[other] = arrays[other], arrays[name]
    return _packed(arrays, random)


def _with_other_values(array: npt.NDArray[Any], random: Random) -> npt.NDArray[Any]:
    """Some values replaced by absurd ones, or moved by little, which is harder to tell."""
    changed = array.copy()
    flat = changed.reshape(-1)
    if not flat.size:
        return np.zeros((3, *array.shape[1:]), array.dtype)
    if not np.issubdtype(array.dtype, np.integer):
        flat[random.randrange(flat.size)] = random.choice(("h1-eth0", "", "x" * 30, "-3"))
        return changed
    least, most = int(np.iinfo(array.dtype).min), int(np.iinfo(array.dtype).max)
    for _ in range(random.choice((1, 1, 1, 3, flat.size))):
        at = random.randrange(flat.size)
        wanted = random.choice(ABSURD) if random.random() < 0.4 else int(flat[at]) + random.choice((-2, -1, 1, 2, 100))
        flat[at] = max(least, min(most, wanted))
    if random.random() < 0.1:
        flat[:] = flat[random.randrange(flat.size)]
    return changed


def _otherwise_shaped(array: npt.NDArray[Any], random: Random) -> npt.NDArray[Any]:
    how = random.randrange(5)
    if how == 0:
        return _of_another_type(array, random)
    if how == 1:
        return array[: random.randrange(len(array) + 1)] if array.ndim else np.zeros(3, np.int64)
    if how == 2:
        return np.concatenate([array, array]) if array.ndim else np.zeros((2, 2), np.int64)
    if how == 3:
        return np.asfortranarray(np.stack([array, array])) if random.random() < 0.5 else array.reshape(-1, 1)
    return np.zeros(random.choice(((), (0,), (0, 2), (1, 1, 1))), array.dtype if array.dtype.kind != "U" else "U1")


def _of_another_type(array: npt.NDArray[Any], random: Random) -> npt.NDArray[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return array.astype(random.choice(TYPES))
        except (TypeError, ValueError):
            return array[:0]


def _packed(arrays: dict[str, npt.NDArray[Any]], random: Random) -> bytes:
    packed = io.BytesIO()
    how = random.random()
    with (
        warnings.catch_warnings(),
        zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED if how < 0.1 else zipfile.ZIP_STORED) as archive,
    ):
        warnings.simplefilter("ignore")
        for name, array in arrays.items():
            content = io.BytesIO()
            np.lib.format.write_array(content, array)
            archive.writestr(f"{name}.npy", content.getvalue())
            if how > 0.97:
                archive.writestr(f"{name}.npy", content.getvalue())
    text = packed.getvalue()
    return _lying(text, random) if 0.1 < how < 0.2 else text


def _lying(archive: bytes, random: Random) -> bytes:
    """The archive with a header that claims a shape of gigabytes, or a directory that does."""
    if random.random() < 0.5:
        at = archive.find(b"'shape': (")
        wanted = b"'shape': (99999999999,), "
        return archive[:at] + wanted + archive[at + len(wanted) :] if at >= 0 else archive
    at = archive.rfind(b"PK\x01\x02")
    return archive[: at + 20] + b"\xf0\xff\xff\xff" * 2 + archive[at + 28 :]
