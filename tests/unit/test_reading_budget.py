"""Whatever reading a file takes, it ends within its budget, with a message that names the file and what was exceeded."""

from __future__ import annotations

import re
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

import numpy as np
import pytest
from pydantic import BaseModel, field_serializer

from gradwire import reading_budget as budgets
from gradwire.faults import InputFault, InternalFault
from gradwire.reading_budget import is_budgeted, not_reading, reading_budget
from gradwire.regular_files import read_bytes

FILE = Path("hostile.json")
CPU_S = 0.2
MEMORY_BYTES = 64 << 20
LONG_CPU_S = 60.0
"""For readers that exceed the memory: on a slow machine, 64 MiB of new pages alone take more than CPU_S."""


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budgets, "CPU_S", CPU_S)
    monkeypatch.setattr(budgets, "MEMORY_BYTES", MEMORY_BYTES)


@pytest.fixture
def without_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budgets, "CPU_S", LONG_CPU_S)


def endless() -> None:
    while True:
        pass


def endless_and_deaf() -> None:
    while True:
        with suppress(Exception):  # as a reader does that takes whatever its library raises
            endless()


def endless_and_wrapped() -> None:
    try:
        endless()
    except BaseException as error:
        raise ValueError("a library's own") from error


class Endless(BaseModel):
    value: int = 1

    @field_serializer("value")
    def written(self, _: int) -> None:
        endless()


def endless_in_pydantic() -> None:
    Endless().model_dump_json()


def backtracking() -> None:
    re.fullmatch("(a|aa)+b", "a" * 200)


def growing() -> None:
    kept = []
    while True:
        kept.append(bytearray(1 << 20))


def huge() -> None:
    np.ones(1 << 32)


def busy_for(cpu_s: float) -> None:
    until_s = time.thread_time() + cpu_s
    while time.thread_time() < until_s:
        pass


def many_small_ones() -> None:
    for _ in range(100):
        with reading_budget(Path("inner"), 0):
            busy_for(CPU_S / 8)


def outcome(reader: Callable[[], None]) -> str:
    with pytest.raises(InputFault) as raised, reading_budget(FILE, 0):
        reader()
    return str(raised.value)


@pytest.mark.parametrize("reader", [endless, endless_and_deaf, endless_and_wrapped, endless_in_pydantic, backtracking])
def test_time_is_limited(reader: Callable[[], None]) -> None:
    began_s = time.thread_time()
    said = outcome(reader)
    assert said.startswith(f"{FILE}: ")
    assert f"{CPU_S:g} s" in said
    assert time.thread_time() - began_s < LONG_CPU_S


@pytest.mark.usefixtures("without_hurry")
@pytest.mark.parametrize("reader", [growing, huge])
def test_memory_is_limited(reader: Callable[[], None]) -> None:
    before = resource.getrlimit(resource.RLIMIT_DATA)
    said = outcome(reader)
    assert said.startswith(f"{FILE}: ")
    assert "GB of memory" in said
    assert resource.getrlimit(resource.RLIMIT_DATA) == before


def outcome_in_a_thread(reader: Callable[[], None]) -> str:
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(outcome, reader).result()


def test_time_is_limited_in_other_threads() -> None:
    assert f"{CPU_S:g} s" in outcome_in_a_thread(endless)


@pytest.mark.usefixtures("without_hurry")
def test_memory_is_limited_in_other_threads() -> None:
    assert "GB of memory" in outcome_in_a_thread(growing)


def test_beside_another_user_of_the_timer() -> None:
    before = signal.signal(signal.SIGPROF, lambda *_: None)
    try:
        assert f"{CPU_S:g} s" in outcome(endless)
    finally:
        signal.signal(signal.SIGPROF, before)


def test_a_file_in_another_is_named() -> None:
    outer, inner = (reading_budget(Path(name), 0) for name in ("outer", "inner"))
    with pytest.raises(InputFault, match=r"^inner: "), outer, inner:
        endless()


def test_many_files_spend_the_budget_of_what_names_them() -> None:
    with pytest.raises(InputFault, match=r"^outer: "), reading_budget(Path("outer"), 0):
        many_small_ones()


def test_a_large_file_may_take_more() -> None:
    size_bytes = round(1e6 * CPU_S / budgets.CPU_S_PER_MB)
    with reading_budget(Path("outer"), 0), reading_budget(FILE, size_bytes):
        busy_for(1.5 * CPU_S)
    with pytest.raises(InputFault), reading_budget(FILE, size_bytes):
        endless()


def test_what_is_not_reading_counts_for_nothing() -> None:
    with reading_budget(FILE, 0):
        with not_reading():
            assert not is_budgeted()
            kept = bytearray(2 * MEMORY_BYTES)
            busy_for(2 * CPU_S)
        assert is_budgeted()
        busy_for(CPU_S / 4)
    assert kept


def test_nothing_is_read_without_a_budget(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"content")
    with pytest.raises(InternalFault, match="without a limit"):
        read_bytes(file, 100)
    with reading_budget(file):
        assert read_bytes(file, 100) == b"content"


def test_a_tick_while_a_block_is_left_does_not_escape(monkeypatch: pytest.MonkeyPatch) -> None:
    """The handler may run between the last step of the block and the first of what ends the budget."""
    monkeypatch.setattr(budgets._Budget, "is_spent", lambda _: True)
    monkeypatch.setattr(budgets, "_watched", lambda: lambda: None)  # no ticks but these
    leaving: list[FrameType] = []

    @contextmanager
    def block() -> Iterator[None]:
        yield
        leaving.append(sys._getframe(1))

    with block():
        pass
    with reading_budget("a file", 0):
        budgets._tick(signal.SIGPROF, leaving[0])
        with pytest.raises(budgets.SpentError):
            budgets._tick(signal.SIGPROF, sys._getframe())
    assert not is_budgeted()
