"""Files that are read whatever editor wrote them, and files that are not scenarios, each told as what it is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gradwire.faults import InputFault
from gradwire.scenario.toml_documents import read_document
from tests.shared.parts import in_order

TEXT = 'title = "café"\n[cluster]\nworkers = 2\n'
DOCUMENT = {"title": "café", "cluster": {"workers": 2}}


@pytest.mark.parametrize(
    "content",
    [TEXT.encode(), b"\xef\xbb\xbf" + TEXT.encode(), TEXT.replace("\n", "\r\n").encode()],
    ids=["plain", "byte order mark", "CRLF"],
)
def test_what_editors_write_is_read_alike(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.toml").write_bytes(content)
    assert read_document(tmp_path / "a.toml") == DOCUMENT


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty; a scenario has a title"),
        (b"\xef\xbb\xbf \r\n", "is empty"),
        (TEXT.encode("latin-1"), "line 1 has the byte 0xe9 ('é' in Latin-1), not UTF-8; save it as UTF-8"),
        (b'title = "a"\n# \xff\n', "line 2 has the byte 0xff"),
        (TEXT.encode("utf-16"), "is UTF-16; save it as UTF-8"),
        (b"rate = 10gbit\n", 'are written in quotation marks, like rate = "10gbit"'),
        (b"a = " + b"9" * 5000, "a number is too long"),
        (b"a = " + b"[" * 5000, "nested too deeply"),
    ],
    ids=str,
)
def test_what_is_no_scenario_is_told_as_what_it_is(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "a.toml"
    path.write_bytes(content)
    with pytest.raises(InputFault) as refused:
        read_document(path)
    assert str(refused.value).startswith(f"{path}: ")
    assert said in str(refused.value)


def test_a_pipe_is_refused_without_waiting_for_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputFault, match=in_order("pipe:", "is a pipe")):
        read_document(tmp_path / "pipe")


def test_a_folder_and_a_huge_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputFault, match="is a folder"):
        read_document(tmp_path)
    with (tmp_path / "huge.toml").open("wb") as file:
        file.truncate(2**30)
    with pytest.raises(InputFault, match=in_order("1,073,741,824 bytes", "16,777,216")):
        read_document(tmp_path / "huge.toml")
