"""What a script asks for, whole or not."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from gradwire.inside.mininet_job import Input
from gradwire.inside.processes import READ_BYTES, Processes
from tests.unit.inside.listener import Listener


def followed(processes: Processes, times: int) -> None:
    """Has so many things happen."""
    answers = iter([False] * times + [True])
    processes.follow(lambda: next(answers))


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("gradwire.inside.mininet_job.INPUT", tmp_path / "input")
    return tmp_path / "input"


@pytest.mark.parametrize(
    "question",
    [b"\n", b"x\n", b"[]\n", b'{"event": "wanted", "node": "\xff", "pid": 1}\n', b"x" * ((1 << 20) + 1)],
)
def test_who_asks_what_cannot_be_read_is_not_heard_any_more(place: Path, question: bytes) -> None:
    processes, listener = Processes([], None, Listener()), Listener()  # type: ignore[arg-type]  # without hosts
    asked = Input(processes, listener, typed=True)  # type: ignore[arg-type]
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(place))
        followed(processes, 1)
        for at in range(0, len(question), READ_BYTES):
            client.sendall(question[at : at + READ_BYTES])
            followed(processes, 1)
        assert client.recv(1) == b""
    assert listener.said == []
    assert not asked.is_asked


def test_a_question_may_come_in_parts(place: Path) -> None:
    processes, listener = Processes([], None, Listener()), Listener()  # type: ignore[arg-type]  # without hosts
    asked = Input(processes, listener, typed=False)  # type: ignore[arg-type]
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(place))
        followed(processes, 1)
        for part in (b'{"event": "wanted", ', b'"node": "h1", "pid": 1}', b"\n"):
            client.sendall(part)
            followed(processes, 1)
        assert client.recv(100) == b'[-1, "no window for h1: nobody types at a terminal here"]\n'
        client.sendall(b'{"event": "asked"}\n')
        followed(processes, 1)
        assert asked.is_asked
