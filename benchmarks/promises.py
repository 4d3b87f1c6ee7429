"""What is promised when something fails around a run, tried: `python -m benchmarks.promises [--times N] [--only FAULT]
[--seed S]`.

Every try runs the same three points in a separate folder and lets one thing happen at a random moment. If the command
did not end well, it is given again, as a user would. Then all that the points measured has to be that of an
undisturbed run, to the last bit: points.csv without what the wall clock says, and the logs of every op. No point may
be missing or there twice, points that were complete before may not have run again, and after `gradwire clean` no
process of the run is left. A try takes half a minute to two minutes on two cores.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from gradwire.runs.stored.stored_run import COMPLETION_FILE
from gradwire.vm.owners import owner_of_process

ROOT = Path(__file__).parents[1]
SCENARIO = """
title = "Promises"
[cluster]
workers = 2
[fabric]
rate = "10gbit"
[model]
name = "two-layers"
layers = [
    { name = "fc1", size = ["4MB"], forward = "2ms", backward = "4ms" },
    { name = "fc2", size = ["8MB"], forward = "2ms", backward = "4ms" },
]
[strategy]
name = "ring"
[run]
warmup = 1
iterations = 10
[sweep]
"strategy.name" = ["ring", "kvstore", "p3"]
"""
WALL_COLUMNS = ("wall_s",)
"""Of points.csv: what depends on how fast the machine was."""
SUSPENDED_S = 2.0
CLOCK_JUMP_S = 100_000
DISK_BYTES = 64 << 20
LIMIT_S = 600.0
CLOCK_SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
static long jump(void) {
    char text[32] = {0};
    int file = open(getenv("PROMISES_CLOCK"), O_RDONLY);
    if (file < 0) return 0;
    long seconds = read(file, text, sizeof text - 1) > 0 ? atol(text) : 0;
    close(file);
    return seconds;
}
int clock_gettime(clockid_t id, struct timespec *at) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int status = real(id, at);
    if (!status && id == CLOCK_REALTIME) at->tv_sec += jump();
    return status;
}
int gettimeofday(struct timeval *restrict at, void *restrict zone) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return zone != 0;
}
time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}
"""
"""Stands between Python and its C library, and sets the calendar's clock forward or back by what a file says."""


@dataclass
class Run:
    """A run that something happens to."""

    folder: Path
    random: random.Random
    environment: Mapping[str, str]
    out: Path
    process: subprocess.Popen[bytes] = field(init=False)

    def begin(self) -> None:
        """Gives the command."""
        with (self.folder / "output.txt").open("ab") as output:
            self.process = subprocess.Popen(self.command(), env=self.environment, stdout=output, stderr=output)

    def command(self) -> list[str]:
        """Its words."""
        return [
            sys.executable,
            "-m",
            "gradwire",
            "run",
            str(self.folder / "scenario.toml"),
            "--out",
            str(self.out),
            "--jobs",
            "2",
        ]

    def tree(self) -> list[int]:
        """The command and all that it has started."""
        mark = f"{self.process.pid:010d}."
        numbers = [int(entry.name) for entry in Path("/proc").glob("[0-9]*")]
        return [self.process.pid, *(pid for pid in numbers if (owner_of_process(pid) or "").startswith(mark))]

    def complete(self) -> dict[str, int]:
        """When each complete point was written."""
        return {path.parent.name: path.stat().st_mtime_ns for path in self.out.glob(f"points/*/{COMPLETION_FILE}")}


def killed(run: Run) -> None:
    """The command is killed."""
    run.process.kill()


def kernel_killed(run: Run) -> None:
    """The kernel of one of the points is killed, if one is there."""
    _kill_one(run, lambda pid: os.getpgid(pid) == pid)


def process_killed(run: Run) -> None:
    """One of the processes in which a kernel carries its own is killed, if one is there: an agent, the controller,
    Open vSwitch."""
    _kill_one(run, lambda pid: os.getpgid(pid) != pid)


def _kill_one(run: Run, chosen: Callable[[int], bool]) -> None:
    found = []
    for pid in run.tree()[1:]:
        with suppress(ProcessLookupError):
            if chosen(pid):
                found.append(pid)
    if found:
        with suppress(ProcessLookupError):
            os.kill(run.random.choice(found), signal.SIGKILL)


def suspended(run: Run) -> None:
    """All processes, those in which kernels carry their own among them, stand still for some seconds and are resumed
    in any order."""
    stopped = descended_from(run.process.pid)
    signalled(stopped, signal.SIGSTOP)
    time.sleep(SUSPENDED_S)
    signalled(run.random.choice((stopped, stopped[::-1], run.random.sample(stopped, len(stopped)))), signal.SIGCONT)


def at_terminal(run: Run) -> None:
    """Ctrl-Z, and `fg` some seconds later: the command alone stands still."""
    signalled([run.process.pid], signal.SIGTSTP)
    time.sleep(SUSPENDED_S)
    signalled([run.process.pid], signal.SIGCONT)


def descended_from(pid: int) -> list[int]:
    """A process and all that descend from it, parents first."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(folder.name))
    found, waiting = [], [pid]
    while waiting:
        found.append(waiting.pop(0))
        waiting += children.get(found[-1], [])
    return found


def signalled(pids: list[int], number: signal.Signals) -> None:
    """Sends a signal to processes in their order."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def moved(run: Run) -> None:
    """The run folder is moved while the command writes to it, and then the command is given with its new name."""
    if run.out.exists():
        there = run.out.with_name("moved")
        run.out.rename(there)
        run.out = there


def twice(run: Run) -> None:
    """The same command is given a second time, and has to be refused, unless the first has not begun or is over."""
    second = subprocess.run(
        run.command(), env=run.environment, capture_output=True, text=True, check=False, timeout=LIMIT_S
    )
    assert second.returncode in (0, 3), f"the second command ended with {second.returncode}: {second.stderr}"
    if second.returncode == 3:
        assert "is in use by" in second.stderr, second.stderr


def disk_full(run: Run) -> None:
    """The disk has no room left, until the command has ended."""
    blocks = os.statvfs(run.folder / "disk")
    filler = run.folder / "disk" / "filler"
    with suppress(OSError), filler.open("wb") as file:
        for _ in range(blocks.f_bavail * blocks.f_frsize // 65536 + 2):
            file.write(bytes(65536))
            file.flush()
    run.process.wait(LIMIT_S)
    filler.unlink()


def clock_changed(run: Run) -> None:
    """The calendar's clock is set to a day earlier or later."""
    Path(run.environment["PROMISES_CLOCK"]).write_text(str(run.random.choice((-1, 1)) * CLOCK_JUMP_S))


FAULTS: Mapping[str, Callable[[Run], None]] = {
    "killed": killed,
    "kernel-killed": kernel_killed,
    "process-killed": process_killed,
    "suspended": suspended,
    "ctrl-z": at_terminal,
    "moved": moved,
    "twice": twice,
    "disk-full": disk_full,
    "clock-changed": clock_changed,
}


SURVIVED = (suspended, at_terminal)
"""What a command lives through by itself."""


def measured(out: Path) -> dict[str, str]:
    """All that the points of a run folder measured: a row of points.csv, and a hash of every op's times, for each
    point."""
    with (out / "points.csv").open() as file:
        rows = [{key: value for key, value in row.items() if key not in WALL_COLUMNS} for row in csv.DictReader(file)]
    found = {f"row {number}": str(row) for number, row in enumerate(rows)}
    for log in sorted(out.glob("points/*/ops.npz")):
        with np.load(log) as columns:
            content = b"".join(name.encode() + columns[name].tobytes() for name in sorted(columns.files))
        found[log.parent.name] = hashlib.sha256(content).hexdigest()
    return found


def tried(fault: str, number: int, reference: Mapping[str, str], took_s: float, seed: int) -> str:
    """What became of one try: "" if all is as promised."""
    chance = random.Random(f"{fault}/{number}/{seed}")
    with tempfile.TemporaryDirectory(prefix="promises-") as name:
        folder = Path(name)
        (folder / "scenario.toml").write_text(SCENARIO)
        (folder / "disk").mkdir()
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        if fault == "clock-changed":
            environment |= _changeable_clock(folder)
        if fault == "disk-full":
            subprocess.run(
                ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "promises", str(folder / "disk")], check=True
            )
        try:
            return _judged(Run(folder, chance, environment, folder / "disk" / "run"), FAULTS[fault], reference, took_s)
        finally:
            if fault == "disk-full":
                subprocess.run(["umount", str(folder / "disk")], check=True)


def _judged(run: Run, happen: Callable[[Run], None], reference: Mapping[str, str], took_s: float) -> str:
    run.begin()
    time.sleep(run.random.uniform(0, took_s))
    before = run.complete()
    happen(run)
    first = run.process.wait(LIMIT_S)
    begun = run.process.pid
    if first and happen in SURVIVED:
        return f"did not survive: the command ended with {first}: {_output(run)}"
    if first:
        run.begin()
        if last := run.process.wait(LIMIT_S):
            return f"given again, the command ended with {last}: {_output(run)}"
    problems = []
    if "Traceback" in (run.folder / "output.txt").read_text(errors="replace"):
        problems.append(f"a traceback: {_output(run)}")
    if (now := measured(run.out)) != reference:
        problems.append(f"measured something else: {sorted(set(now.items()) ^ set(reference.items()))}")
    if again := [point for point, at_ns in before.items() if run.complete().get(point) != at_ns]:
        problems.append(f"ran again although complete: {again}")
    problems += _left(run, {begun, run.process.pid})
    return "; ".join(problems)


def _left(run: Run, commands: set[int]) -> list[str]:
    """What is left of these commands after `gradwire clean`."""
    words = [sys.executable, "-m", "gradwire", "clean", str(run.out)]
    subprocess.run(words, env=run.environment, check=True, capture_output=True)
    left = [
        entry.name
        for entry in Path("/proc").glob("[0-9]*")
        if (owner := owner_of_process(int(entry.name))) and int(owner[:10]) in commands
    ]
    files = [
        str(path) for path in (*run.out.rglob("*.partial"), *run.out.rglob(".kernel"), *run.out.glob(".lock.json"))
    ]
    return [f"left: {left} {files}"] if left or files else []


def _changeable_clock(folder: Path) -> dict[str, str]:
    source, library, clock = folder / "clock.c", folder / "clock.so", folder / "clock.txt"
    source.write_text(CLOCK_SOURCE)
    clock.write_text("0")
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"], check=True)
    return {"LD_PRELOAD": str(library), "PROMISES_CLOCK": str(clock)}


def _output(run: Run) -> str:
    return re.sub(r"\s+", " ", (run.folder / "output.txt").read_text(errors="replace")[-1500:])


def undisturbed() -> tuple[dict[str, str], float]:
    """What a run measures to which nothing happens, and the wall time that it takes. Raises CalledProcessError if it
    does not end well."""
    with tempfile.TemporaryDirectory(prefix="promises-") as name:
        folder = Path(name)
        (folder / "scenario.toml").write_text(SCENARIO)
        run = Run(folder, random.Random(), {**os.environ, "PYTHONPATH": str(ROOT)}, folder / "run")
        begun_s = time.monotonic()
        subprocess.run(run.command(), env=run.environment, check=True, capture_output=True)
        return measured(run.out), time.monotonic() - begun_s


def main() -> None:
    """Reads the arguments, and tries the faults."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=10, help="each fault")
    parser.add_argument("--only", choices=list(FAULTS), help="this fault alone")
    parser.add_argument("--seed", type=int, default=0, help="other moments")
    arguments = parser.parse_args()
    for program, fault in (("mount", "disk-full"), ("gcc", "clock-changed")):
        if shutil.which(program) is None and arguments.only in (None, fault):
            raise SystemExit(f"{fault} needs {program}; leave it out with --only")
    reference, took_s = undisturbed()
    print(f"undisturbed: {took_s:.0f} s, {len(reference)} things to compare", flush=True)
    broken = 0
    for fault in [arguments.only] if arguments.only else FAULTS:
        lost = 0
        for number in range(arguments.times):
            if problem := tried(fault, number, reference, took_s, arguments.seed):
                lost += 1
                print(f"{fault} {number}: {problem}", flush=True)
        print(f"{fault}: tried {arguments.times} times, promise broken {lost} times", flush=True)
        broken += lost
    if broken:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
