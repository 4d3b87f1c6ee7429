"""A disk that fails at any write of a run: one message, status 3, and the same command given again measures the same."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.hostile import failing_writes
from gradwire.faults import MachineFault, UnfitMachine
from gradwire.files import lack_of_room, refuse_full_disk
from tests.shared.parts import in_order
from tests.shared.snippets import ROOT
from tests.unit.runs.test_campaign import good_job, machine, planned_runs, run

LIMIT_S = 3600.0
LEAST_WRITES = 60
"""A run has more: without that, the library has met none and the test says nothing."""


@pytest.mark.parametrize(
    ("subject", "error", "stays", "step"),
    [
        ("campaign", errno.ENOSPC, True, 32),
        pytest.param("campaign", errno.ENOSPC, True, 1, marks=pytest.mark.long),
        pytest.param("campaign", errno.EIO, False, 1, marks=pytest.mark.long),
        pytest.param("command", errno.ENOSPC, True, 1, marks=pytest.mark.long),
        pytest.param("command", errno.EIO, False, 1, marks=pytest.mark.long),
    ],
)
def test_whichever_write_fails(tmp_path: Path, subject: str, error: int, stays: bool, step: int) -> None:
    library = failing_writes.build(tmp_path)
    words = [sys.executable, "-m", "tests.unit.runs.executing.every_write"]
    done = subprocess.run(
        [*words, subject, str(tmp_path), str(error), str(int(stays)), str(step)],
        cwd=ROOT,
        env={**os.environ, "LD_PRELOAD": str(library)},
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, done.stderr
    first, *tries = map(json.loads, done.stdout.splitlines())
    assert first["writes"] > LEAST_WRITES
    assert len(tries) == -(-first["writes"] // step)
    # One error alone may hit what does not matter: making a folder that is there.
    mattered = [found for found in tries if stays or not found["whole"]]
    assert len(mattered) > LEAST_WRITES // step
    assert [found for found in mattered if not told_once_and_resumed(found, error)] == []


def told_once_and_resumed(found: dict[str, Any], error: int) -> bool:
    messages = [line for line in found["said"].splitlines() if line.startswith("error (")]
    return (
        found["status"] == MachineFault.exit_status
        and len(messages) == 1
        and messages[0].startswith("error (machine): ")
        and os.strerror(error) in messages[0]
        and "make room" in messages[0]
        and "Traceback" not in found["said"]
        and found["same"]
    )


def test_a_machine_that_found_no_room_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is written inside fails there, and is told here."""

    def full(folder: Path, on_line: Any) -> int:
        on_line(json.dumps({"event": "fault", "kind": "OSError", "message": "[Errno 28] No space left on device"}))
        return 1

    machine(monkeypatch, full)
    with pytest.raises(UnfitMachine, match=in_order("disk", "No space left")):
        run(tmp_path, planned_runs(tmp_path))
    machine(monkeypatch, good_job)
    assert all(each.result.valid for each in run(tmp_path, planned_runs(tmp_path))[0])


def of_a_disk(**fields: int) -> os.statvfs_result:
    """What the system says of a disk of 1 GiB."""
    facts = {"bsize": 4096, "frsize": 4096, "blocks": 1 << 18, "bfree": 1 << 17, "bavail": 1 << 17}
    facts |= {"files": 1000, "ffree": 500, "favail": 500, "flag": 0, "namemax": 255, **fields}
    return os.statvfs_result(list(facts.values()))


@pytest.mark.parametrize(
    ("fields", "said", "lack"),
    [
        ({}, "it went wrong", ""),
        ({"bavail": 255}, "", "its disk is full, with 1020 KiB left"),
        ({"bavail": 256}, "", ""),
        ({"favail": 0}, "", "its disk has no inode left"),
        ({"favail": 0, "files": 0}, "", ""),  # a file system without a limit
        ({}, "OSError: [Errno 122] Disk quota exceeded: 'x'", "its disk refuses: Disk quota exceeded"),
    ],
)
def test_what_a_disk_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fields: dict[str, int], said: str, lack: str
) -> None:
    monkeypatch.setattr(os, "statvfs", lambda _: of_a_disk(**fields))
    assert lack_of_room(tmp_path, said) == lack
    if lack:
        with pytest.raises(UnfitMachine, match=lack):
            refuse_full_disk(tmp_path, said)
    else:
        refuse_full_disk(tmp_path, said)
