"""A run with a machine that is made up, once for each of its writes, which then fails: `python -m THIS SUBJECT FOLDER ERROR STAYS STEP`.

SUBJECT is `campaign`, which runs a point and judges it, or `command`: all of `gradwire run` of two points, with its report. ERROR is what
each write in turn fails with, and with STAYS = 1 all that follow it in the same run. With STEP = 3, only
every third write fails.

Its process has been begun with the library of benchmarks/hostile/failing_writes.py, and forks for each run, so that what a run imports is
imported once. It prints one line of JSON for each: how the run ended, what it said, whether what it then had was whole, and whether it is
after the same command was given again.
"""

from __future__ import annotations

import contextlib
import csv
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import gradwire.__main__
from benchmarks.hostile import failing_writes
from gradwire.faults import Fault
from gradwire.runs.launch.place import writing
from tests.shared.command_line import needs_no_kernel
from tests.unit.runs.test_campaign import TEXT, good_job, machine, planned_runs, run


def forked(do: Callable[[], None], output: Path) -> tuple[int, str]:
    """Exit status and output of what is done in a fork of this process."""
    child = os.fork()
    if not child:
        with output.open("wb", buffering=0) as file:
            for stream in (1, 2):
                os.dup2(file.fileno(), stream)
        status = 0
        try:
            do()
        except SystemExit as end:
            status = int(end.code or 0)
        finally:
            with contextlib.suppress(OSError):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(status)
    _, ended = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(ended), output.read_text(errors="replace")


def rows(out: Path) -> list[dict[str, str]]:
    """Of points.csv, without what the wall clock says."""
    with (out / "points.csv").open(newline="") as file:
        return [{name: value for name, value in row.items() if name != "wall_s"} for row in csv.DictReader(file)]


def campaign(out: Path) -> None:
    """Runs a point and judges it, as a command does."""
    try:
        with writing(out):
            run(out, planned_runs(out, "model.batch=64"))
    except Fault as fault:
        print(f"error ({fault.at_fault}): {fault}", file=sys.stderr)
        sys.exit(fault.exit_status)


def command(out: Path) -> None:
    """`gradwire run`."""
    scenario = out.with_name("small.toml")
    scenario.write_text(TEXT)
    sys.argv = ["gradwire", "run", str(scenario), "--out", str(out), "--jobs", "1"]
    gradwire.__main__.main()


def main() -> None:
    """Tries every write."""
    subject = {"campaign": campaign, "command": command}[sys.argv[1]]
    folder, error, stays, step = Path(sys.argv[2]), int(sys.argv[3]), bool(int(sys.argv[4])), int(sys.argv[5])
    patch = pytest.MonkeyPatch()
    needs_no_kernel(patch)
    machine(patch, good_job)

    def tried(out: Path, at: int) -> tuple[int, str]:
        def do() -> None:
            failing_writes.fail(out, at, error, stays=stays)
            subject(out)

        return forked(do, folder / "output.txt")

    status, said = tried(folder / "whole", 0)
    assert status == 0, said
    writes, expected = failing_writes.count(), rows(folder / "whole")
    print(json.dumps({"writes": writes}), flush=True)
    for at in range(1, writes + 1, step):
        out = folder / str(at)
        status, said = tried(out, at)
        whole = status == 0 and rows(out) == expected
        again, said_again = tried(out, 0)
        found: dict[str, Any] = {"at": at, "status": status, "said": said, "whole": whole}
        found |= {"again": again, "said_again": said_again}
        found["same"] = again == 0 and rows(out) == expected
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
