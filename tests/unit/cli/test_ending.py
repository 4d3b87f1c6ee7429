"""Whatever escapes from a command ends with one message and the status of who is at fault; 1 is left for invalid points."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import pytest
import typer

from gradwire import PACKAGE
from gradwire.cli import ending, listing
from gradwire.cli.ending import NO_READER
from gradwire.faults import InputFault, InternalFault
from tests.shared.command_line import gradwire_says
from tests.shared.parts import tells


@pytest.fixture
def ends_with(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Status, output and errors of a command that does something of the test's choice."""

    def ends(do: Any) -> tuple[int, str, str]:
        monkeypatch.setattr(listing, "models", lambda *_, **__: do())
        return gradwire_says(monkeypatch, capsys, "models")

    return ends


def raising(error: BaseException) -> Any:
    def do() -> NoReturn:
        raise error

    return do


def endless() -> int:
    return endless() + 1


@pytest.mark.parametrize(
    ("do", "said"),
    [
        (lambda: 1 // 0, "ZeroDivisionError: integer division or modulo by zero"),
        (endless, "RecursionError: maximum recursion depth exceeded"),
        (raising(EOFError("no data left")), "EOFError: no data left"),
        (raising(AssertionError()), "AssertionError"),
        (partial(sys.exit, 1), "RuntimeError: something asked for exit status 1"),
        (partial(sys.exit, "I am a library"), "asked for exit status 'I am a library'"),
        (raising(OSError(errno.ENOTTY, "Inappropriate ioctl")), "OSError: [Errno 25] Inappropriate ioctl"),
    ],
)
def test_a_bug_is_told_once_with_what_to_report_and_ends_with_4(ends_with: Any, do: Any, said: str) -> None:
    status, out, err = ends_with(do)
    first, _, rest = err.partition("\n")
    assert status == InternalFault.exit_status
    assert out == ""
    assert first.startswith(f"error ({InternalFault.at_fault}): ")
    assert said in first
    assert "`gradwire doctor`" in first
    assert rest.startswith("Traceback")
    assert "test_ending.py" in rest
    assert err.count("error (") == 1


def encoding(text: str) -> UnicodeEncodeError:
    """The error of a text that cannot be written."""
    with pytest.raises(UnicodeEncodeError) as raised:
        text.encode()
    return raised.value


def without_home() -> RuntimeError:
    """The error of Python for a user who has no home."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os.path, "expanduser", lambda path: path)
        with pytest.raises(RuntimeError) as raised:
            Path.home()
    return raised.value


def test_a_full_disk_of_the_cache_is_named_though_the_error_names_no_file(
    ends_with: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GRADWIRE_CACHE", str(tmp_path))
    monkeypatch.setattr(ending, "lack_of_room", lambda folder: "full" if folder == tmp_path else "")
    status, _, err = ends_with(raising(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))))
    assert (status, f"{tmp_path}: No space" in err) == (3, True)


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (MemoryError(), 3, "memory ran out; run fewer points at once (--jobs)"),
        (OSError(errno.ENOSPC, "No space left on device", "/x/y"), 3, "/x/y: No space left on device; see `df`"),
        (OSError(errno.EMFILE, "Too many open files"), 3, "Too many open files; see `df` and `ulimit -a`"),
        (PermissionError(errno.EACCES, "Permission denied", "/x"), 2, "/x: Permission denied; make it readable"),
        (OSError(errno.ENAMETOOLONG, "File name too long", "x" * 300), 2, "File name too long; give another place"),
        (OSError(errno.EROFS, "Read-only file system", "/x"), 2, "/x: Read-only file system; give another place"),
        (without_home(), 2, "HOME"),
        (FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['/tmp']"), 3, "TMPDIR"),
        (encoding("\udcff.toml"), 2, r"'\udcff.toml': is not text in UTF-8"),
        (
            encoding("a text of many words, and one is\n" * 99 + " \udcff.toml next to others"),
            2,
            r"input): '\udcff.toml': is",
        ),
        (InputFault("wrong key"), 2, "wrong key"),
        (InternalFault("told on purpose"), 4, "told on purpose"),
    ],
)
def test_who_is_at_fault_decides_the_status(ends_with: Any, error: BaseException, status: int, said: str) -> None:
    ended, _, err = ends_with(raising(error))
    assert ended == status
    assert said in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("do", "status"), [(lambda: None, 0), (raising(typer.Exit(1)), 1), (partial(sys.exit, 143), 143)]
)
def test_what_a_command_ends_with_by_itself_stays(ends_with: Any, do: Any, status: int) -> None:
    assert ends_with(do) == (status, "", "")


def test_ctrl_c_ends_with_130(ends_with: Any) -> None:
    assert ends_with(raising(KeyboardInterrupt())) == (130, "", "interrupted\n")


def test_a_thread_that_dies_is_a_bug_even_where_the_command_ends_well(
    ends_with: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threading, "excepthook", threading.__excepthook__)  # not the one of pytest

    def do() -> None:
        thread = threading.Thread(target=lambda: 1 // 0)
        thread.start()
        thread.join()

    status, _, err = ends_with(do)
    assert status == InternalFault.exit_status
    assert tells(err, "thread", "ZeroDivisionError")
    assert err.count("error (") == err.count("Traceback") == 1


@pytest.mark.parametrize(
    "words", [["--help"], ["run", "--help"], ["models"], ["explain", "--markdown"], ["models", "--json"]]
)
def test_output_that_nobody_reads_ends_the_command_quietly(words: list[str], tmp_path: Path) -> None:
    """As `gradwire ... | head` does, whether rich, typer or Python writes."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as output:
        done = subprocess.run(
            [sys.executable, "-m", "gradwire", *words],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(PACKAGE.parent)},
            stdout=output,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stderr) == (NO_READER, "")
