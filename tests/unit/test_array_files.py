"""Archives of arrays: refused before anything is unpacked where they claim too much, and while it is where they lie."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradwire import array_files
from gradwire.array_files import ANY_WIDTH, ArrayColumn, DamagedArchiveError, lengths_in, read_arrays
from tests.shared.parts import in_order

COLUMNS = {
    "a": ArrayColumn("i8"),
    "pairs": ArrayColumn("i4", (2,)),
    "table": ArrayColumn("i8", ANY_WIDTH),
    "number": ArrayColumn("i8", None),
    "names": ArrayColumn("U"),
    "more": ArrayColumn("u1", optional=True),
}
ARRAYS: dict[str, Any] = {
    "a": np.arange(5),
    "pairs": np.array([[1, 2], [3, 4], [5, 6]], np.int32),
    "table": np.asfortranarray(np.arange(6).reshape(2, 3)),
    "number": np.int64(7),
    "names": np.array(["h1-eth0", "s1"]),
}


def npy(array: Any) -> bytes:
    content = io.BytesIO()
    np.lib.format.write_array(content, np.asanyarray(array))
    return content.getvalue()


def packed(path: Path, members: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def test_what_numpy_writes_is_read(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", **ARRAYS)
    np.savez_compressed(tmp_path / "b.npz", **ARRAYS, more=np.zeros(0, np.uint8))
    found = read_arrays(tmp_path / "a.npz", COLUMNS)
    assert {name: array.tolist() for name, array in found.items()} == {
        name: array.tolist() for name, array in ARRAYS.items()
    }
    assert set(read_arrays(tmp_path / "b.npz", COLUMNS, compressed=True)) == {*ARRAYS, "more"}
    assert lengths_in(tmp_path / "a.npz", COLUMNS) == {"a": 5, "pairs": 3, "table": 2, "names": 2}


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"a.npy": None}, "it lacks 'a'"),
        ({"foreign.npy": npy(1)}, "'foreign.npy', which does not belong"),
        ({"../outside.npy": npy(1)}, "'../outside.npy', which does not belong"),
        ({"a": npy(np.arange(5))}, "'a', which does not belong"),
        ({"a.npy": npy(np.arange(5.0))}, "'a' has the type float64"),
        ({"a.npy": npy(np.arange(5).astype(">i8"))}, "'a' has the type >i8"),
        ({"a.npy": npy(np.zeros((5, 1), np.int64))}, "the shape \\(5, 1\\)"),
        ({"pairs.npy": npy(np.zeros((5, 3), np.int32))}, "the shape \\(5, 3\\)"),
        ({"number.npy": npy(np.arange(2))}, "the shape \\(2,\\)"),
        ({"a.npy": npy(np.array([{}, {}]))}, "'a' has the type object"),
        ({"a.npy": npy(np.arange(5))[:-1]}, "which is not what it holds"),
        ({"a.npy": npy(np.arange(5)) + b"more"}, "which is not what it holds"),
        ({"a.npy": b"\x93NUMPY\x02\x00" + b"\xff" * 20}, "header of 'a.npy' cannot be read"),
        ({"a.npy": b"no array"}, "header of 'a.npy' cannot be read"),
    ],
)
def test_other_members_types_and_shapes_are_refused(
    tmp_path: Path, change: dict[str, bytes | None], complaint: str
) -> None:
    members = {f"{name}.npy": npy(array) for name, array in ARRAYS.items()} | change
    path = packed(tmp_path / "a.npz", {name: content for name, content in members.items() if content is not None})
    with pytest.raises(DamagedArchiveError, match=complaint):
        read_arrays(path, COLUMNS)


def test_a_member_is_there_once(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("a.npy", npy(np.arange(5)))
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("a.npy", npy(np.arange(5)))
    with pytest.raises(DamagedArchiveError, match="'a' twice"):
        read_arrays(tmp_path / "a.npz", {"a": ArrayColumn("i8")})


def test_a_quarter_of_a_gibibyte_in_a_quarter_of_a_mebibyte_is_refused_before_a_byte_comes_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The archive of the attack: zeros, which deflate packs a thousandfold."""
    rows = 2**28 // 8
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<i8", "fortran_order": False, "shape": (rows,)})
    with (
        zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("a.npy", "w", force_zip64=True) as file,
    ):
        file.write(header.getvalue())
        for _ in range(2**28 >> 24):
            file.write(bytes(1 << 24))
    assert (tmp_path / "a.npz").stat().st_size < 3 << 17
    monkeypatch.setattr(array_files, "_unpacked", lambda *_: pytest.fail("it is unpacked"))
    with pytest.raises(DamagedArchiveError, match="'a' is compressed"):
        read_arrays(tmp_path / "a.npz", {"a": ArrayColumn("i8")})
    monkeypatch.setattr(array_files, "most_bytes", lambda: 2**27)
    with pytest.raises(DamagedArchiveError, match=in_order("268,435,456 bytes", "134,217,728")):
        read_arrays(tmp_path / "a.npz", {"a": ArrayColumn("i8")}, compressed=True)
    monkeypatch.undo()
    with pytest.raises(DamagedArchiveError, match="may take 1,000"):
        read_arrays(tmp_path / "a.npz", {"a": ArrayColumn("i8")}, compressed=True, most=1000)


def test_a_claim_that_the_data_does_not_keep_is_found_while_it_comes_out(tmp_path: Path) -> None:
    path = packed(tmp_path / "a.npz", {"a.npy": npy(np.arange(5))})
    content = bytearray(path.read_bytes())
    content[content.find(b"PK\x01\x02") - 3] ^= 1
    path.write_bytes(content)
    with pytest.raises(zipfile.BadZipFile, match="CRC"):
        read_arrays(path, {"a": ArrayColumn("i8")})


def test_a_directory_of_gibibytes_is_not_read(tmp_path: Path) -> None:
    members = {f"member-{number}": b"" for number in range(4000)}
    with pytest.raises(DamagedArchiveError, match=in_order("directory", "131,072 bytes")):
        read_arrays(packed(tmp_path / "a.npz", members), COLUMNS)
