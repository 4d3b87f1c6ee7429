"""What is seen of a kernel from outside: read here from this process's own memory, laid out as the kernel's would be."""

from __future__ import annotations

import ctypes
import os
import struct
import subprocess
import sys
from itertools import count
from pathlib import Path

import pytest

from gradwire.vm.watching import MARK, Activity, Places, StallWatch, Watched, places_of, unwatched
from tests.shared.parts import tells

TASK, NAMESPACES, UTS, HOST = 64, 128, 192, 256


def kernel_like(system_call: int) -> tuple[ctypes.Array[ctypes.c_char], Places]:
    """Memory with a clock at its begin, the running task's address beside it, and then the task, its namespaces and their hostname."""
    memory = ctypes.create_string_buffer(512)
    base = ctypes.addressof(memory)
    struct.pack_into("<QQ", memory, 0, 1_500_000, base + TASK)
    struct.pack_into("<i4x16sqQ", memory, TASK, 72, b"spin", system_call, base + NAMESPACES)
    struct.pack_into("<Q", memory, NAMESPACES, base + UTS)
    struct.pack_into("65s", memory, HOST, b"h2")
    places = Places(time=base, task=base + 8, pid=0, name=8, system_call=24, namespaces=32, uts=0, hostname=HOST - UTS)
    return memory, places


def test_a_kernels_file_says_where_to_look(tmp_path: Path) -> None:
    kernel = tmp_path / "kernel"
    kernel.write_bytes(b"code" + MARK + struct.pack("<8Q", *range(1, 9)) + b"more")
    assert places_of(kernel) == Places(1, 2, 3, 4, 5, 6, 7, 8)
    assert unwatched(kernel) == ""


def test_a_kernel_without_the_patch_says_nothing(tmp_path: Path) -> None:
    kernel = tmp_path / "kernel"
    kernel.write_bytes(b"code")
    assert places_of(kernel) is None
    assert "6.12" in unwatched(kernel)


@pytest.mark.parametrize(("system_call", "said"), [(24, 24), (-1, None)])
def test_the_clock_and_the_running_process_are_read_from_memory(system_call: int, said: int | None) -> None:
    memory, places = kernel_like(system_call)
    watched = Watched(os.getpid(), places)
    assert watched.virtual_ns() == 1_500_000
    assert watched.activity() == Activity(72, "spin", "h2", said)
    struct.pack_into("<Q", memory, 0, 1_600_000)
    assert watched.virtual_ns() == 1_600_000


def test_a_process_that_has_ended_has_no_clock() -> None:
    _, places = kernel_like(-1)
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
        with pytest.raises(OSError):
            Watched(ended.pid, places).virtual_ns()


def test_what_runs_is_told_with_its_host() -> None:
    assert tells(str(Activity(72, "spin", "h2", 24)), "spin", "h2", "72", "24")
    assert tells(str(Activity(72, "spin", "h2", None)), "spin", "h2", "72)")


def test_a_clock_stalls_if_it_does_not_move_for_as_long_as_the_limit() -> None:
    virtual_ns = [5] * 19 + [6] * 20
    wall_s = count()
    clock = iter(virtual_ns)
    watch = StallWatch(lambda: next(clock), 20.0, wall_s=lambda: float(next(wall_s)))
    assert [watch.has_stalled() for _ in virtual_ns] == [False] * 38 + [True]
