"""What lies in the cache is read or made again, whatever lies there, and nobody waits for it."""

from __future__ import annotations

import os
import subprocess
import sys
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from gradwire import PACKAGE, cache_files
from gradwire.cache_files import cached, kept, saving_time
from gradwire.runs.compiling.scale_division import ScaleDivision
from tests.hostile.stand_ins import STAND_INS

FOUND = ScaleDivision(4, 0.25)


def test_what_was_computed_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "divisions" / "one"
    assert cached(path, ScaleDivision, lambda: FOUND) == FOUND
    assert cached(path, ScaleDivision, ScaleDivision) == FOUND


@pytest.mark.parametrize(
    "content", [b"", b'{"number": 4', b"[" * 100_000, b'{"number": "4"}', b"\xff", b'{"x": ' + b"[" * 9999]
)
def test_what_cannot_be_read_is_computed_again(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "one"
    path.write_bytes(content)
    assert kept(path, ScaleDivision) is None
    assert cached(path, ScaleDivision, lambda: FOUND) == FOUND
    assert kept(path, ScaleDivision) == FOUND


@pytest.mark.parametrize("number", range(len(STAND_INS)))
def test_what_is_no_file_is_none(tmp_path: Path, number: int) -> None:
    path = tmp_path / "one"
    STAND_INS[number](path)
    assert kept(path, ScaleDivision) is None
    assert cached(path, ScaleDivision, lambda: FOUND) == FOUND


def test_a_pipe_gives_way(tmp_path: Path) -> None:
    path = tmp_path / "one"
    os.mkfifo(path)
    cached(path, ScaleDivision, lambda: FOUND)
    assert kept(path, ScaleDivision) == FOUND


@pytest.fixture
def unsaid(monkeypatch: pytest.MonkeyPatch) -> None:
    """No command has said yet that the cache cannot be written."""
    monkeypatch.setattr(cache_files, "_SAID", bytearray(1))


@pytest.mark.usefixtures("unsaid")
def test_a_cache_that_cannot_be_written_is_told_once_and_ends_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    for name in "abc":
        assert cached(tmp_path / "file" / name / "one", ScaleDivision, lambda: FOUND) == FOUND
    (told,) = caplog.messages
    assert told.startswith(f"{tmp_path / 'file' / 'a'}: cannot be written: Not a directory; ")
    assert "GRADWIRE_CACHE" in told


@pytest.mark.usefixtures("unsaid")
def test_what_does_not_come_of_writing_is_no_matter_of_the_cache(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="other"), saving_time(tmp_path / "one"):
        raise ValueError("other")


def _end_as_first(barrier: Any) -> None:
    barrier.wait(60)
    raise SystemExit(int(cache_files._is_first()))


def test_of_processes_that_a_command_forks_one_tells_it() -> None:
    cache_files._SAID[0] = 0
    context = get_context("fork")
    barrier = context.Barrier(4)
    forked = [context.Process(target=_end_as_first, args=(barrier,)) for _ in range(4)]
    for process in forked:
        process.start()
    for process in forked:
        process.join()
    cache_files._SAID[0] = 0
    assert sum(process.exitcode or 0 for process in forked) == 1


COMPILED = """
from gradwire.analysis.fluid import compiled

@compiled.compiled
def twice(number):
    return 2 * number

print(twice(21), compiled.KEPT)
"""


@pytest.mark.parametrize("lies", ["a file", "a damaged one", "a sound one"])
def test_machine_code_that_cannot_be_kept_or_read_is_compiled_again(tmp_path: Path, lies: str) -> None:
    cache, source = tmp_path / "cache", tmp_path / "source.py"
    source.write_text(COMPILED)
    if lies == "a file":
        cache.write_text("")

    def said() -> subprocess.CompletedProcess[str]:
        around = {**os.environ, "GRADWIRE_CACHE": str(cache), "PYTHONPATH": str(PACKAGE.parent)}
        return subprocess.run([sys.executable, source], env=around, capture_output=True, text=True, check=True)

    done = said()
    if lies == "a file":
        assert (done.stdout, done.stderr.count("cannot be written: Not a directory")) == ("42 False\n", 1)
        return
    files = sorted(cache.rglob("source.twice-*"))
    assert [file.suffix for file in files] == [".nbc", ".nbi"]
    if lies == "a damaged one":
        for file in files:
            file.write_bytes(file.read_bytes()[:30])
    done = said()
    assert (done.stdout, done.stderr) == ("42 True\n", "")
    assert min(file.stat().st_size for file in files) > 30
