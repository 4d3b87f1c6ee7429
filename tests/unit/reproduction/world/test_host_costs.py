"""The library that lets a host's kernel take time for real programs: how it is built, and what it leaves as it is."""

from __future__ import annotations

import ctypes
import errno
import os
from pathlib import Path

import pytest

from gradwire.documents import table_at
from gradwire.faults import InternalFault, MachineFault
from reproduction.world import host_costs
from reproduction.world.gloo_rows import Row, programs
from reproduction.world.host_costs import COMPILER, build, path_of_library
from tests.shared.parts import in_order

LEAST_COPIED_BYTES = 4096


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_library_that_lies_there_is_not_believed(empty: Path) -> None:
    build()
    ours = path_of_library().read_bytes()
    path_of_library().write_bytes(b"somebody else's")
    build()
    assert path_of_library().read_bytes() == ours
    assert [path.name for path in path_of_library().parent.iterdir()] == [path_of_library().name]


def test_without_a_compiler_the_command_that_installs_it_is_named(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(empty))
    with pytest.raises(MachineFault, match=rf"^{COMPILER} .*: `.*{COMPILER}.*`$"):
        build()


def test_a_source_that_does_not_compile_is_our_fault(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = empty / "wrong.c"
    wrong.write_text("int none(void) { return nothing; }\n")
    monkeypatch.setattr(host_costs, "SOURCE", wrong)
    with pytest.raises(InternalFault, match=in_order("wrong.c", "nothing")):
        build()
    assert not path_of_library().exists()


def test_a_row_does_not_run_without_it() -> None:
    document = programs(Row("reduce", 128, 4, "default", 300.0)).document("python3")
    gloo = table_at(document, "program", "gloo")
    assert table_at(gloo, "arguments")["host_costs"] == str(path_of_library())
    assert str(gloo["command"]).startswith("test -r $host_costs && exec env LD_PRELOAD=$host_costs $python ")


def test_calls_return_what_they_return_without_it(empty: Path) -> None:
    build()
    library = ctypes.CDLL(str(path_of_library().absolute()), use_errno=True)
    reads, writes = os.pipe()
    data = bytes(range(256)) * (2 * LEAST_COPIED_BYTES // 256)
    found = ctypes.create_string_buffer(len(data))
    assert library.write(writes, data, len(data)) == len(data)
    assert library.read(reads, found, len(data)) == len(data)
    assert found.raw == data
    assert library.read(-1, found, len(data)) == -1
    assert ctypes.get_errno() == errno.EBADF
    os.close(reads)
    os.close(writes)


def test_a_wait_that_has_expired_ends_with_the_mutex_held(empty: Path) -> None:
    build()
    library = ctypes.CDLL(str(path_of_library().absolute()))
    condition, mutex = ctypes.create_string_buffer(64), ctypes.create_string_buffer(64)
    long_ago = (ctypes.c_long * 2)(0, 0)
    assert library.pthread_mutex_lock(mutex) == 0
    assert library.pthread_cond_timedwait(condition, mutex, long_ago) == errno.ETIMEDOUT
    assert library.pthread_mutex_trylock(mutex) == errno.EBUSY
    assert library.pthread_mutex_unlock(mutex) == 0
