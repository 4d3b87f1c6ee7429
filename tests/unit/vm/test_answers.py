"""Answers come whole, each once, in their order."""

from __future__ import annotations

import threading
from pathlib import Path

from gradwire.vm.answers import Answering, Answers


def test_answers_come_in_their_order(tmp_path: Path) -> None:
    giving = Answering(tmp_path)
    taking = Answers(tmp_path)
    giving.give(b"one")
    giving.give(b"two" * 100_000)
    assert [taking.next(), taking.next()] == [b"one", b"two" * 100_000]
    late = threading.Thread(target=giving.give, args=(b"three",))
    late.start()
    assert taking.next() == b"three"
    late.join()
    assert [left.name for left in tmp_path.glob("answers/*")] == ["last"]
