"""Why a virtual clock that stands still does so."""

from __future__ import annotations

import mmap
import tempfile
from pathlib import Path

import pytest

from gradwire.vm.session import MIB, mapped_bytes, stalled
from tests.shared.parts import tells

ACTIVITY = "python on h8 (process 109)"


@pytest.mark.parametrize(
    ("share", "named", "option"),
    [(0.96, "1024 MiB", "--memory"), (0.9, "20 s", "--stall-limit")],
)
def test_full_memory_is_told_by_name(share: float, named: str, option: str) -> None:
    said = str(stalled(20, ACTIVITY, int(share * 1024 * MIB), 1024))
    assert tells(said, "20 s", ACTIVITY)
    assert named in said
    assert said.count("--") == 1
    assert option in said


@pytest.mark.parametrize("is_shared_memory", [True, False], ids=["tmpfs", "disk"])
def test_memory_counts_wherever_its_file_lies(tmp_path: Path, is_shared_memory: bool) -> None:
    """Memory in a folder on a disk counted as none, so that a full one was told as a program that computes."""
    before = mapped_bytes(Path("/proc/self/status").read_text().splitlines())
    size_bytes = 32 * MIB
    with tempfile.TemporaryFile(dir="/dev/shm" if is_shared_memory else tmp_path) as file:
        file.truncate(size_bytes)
        with mmap.mmap(file.fileno(), size_bytes) as memory:
            for page in range(0, size_bytes, mmap.PAGESIZE):
                memory[page] = 1
            used = mapped_bytes(Path("/proc/self/status").read_text().splitlines()) - before
    assert used >= 0.9 * size_bytes
