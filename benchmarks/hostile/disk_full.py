"""Runs on disks that have no room, with the real machine: `python -m benchmarks.hostile.disk_full [--sizes N] [--every
N]`, as root.

A point runs on a tmpfs of so many KiB, once for each of a grid of sizes up to what it needs, so that the machine's own
writes fail as well as those of the command. And it runs once for every N-th write of the command, which fails as do
all after it (failing_writes.py). Each such run has to end with status 3 and one message that says that there is no
room, or, where everything fits, with 0. After room was made, the same command has to end with 0 and to have measured
what an undisturbed run does, every op to the nanosecond.
"""

from __future__ import annotations

import argparse
import errno
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from benchmarks.hostile import failing_writes
from benchmarks.promises import LIMIT_S, ROOT, SCENARIO, measured

SMALLEST_KIB = 8
ROOM_KIB = 64 << 10
NO_ROOM = ("No space left on device", "its disk is full")


def command(folder: Path, out: Path, **variables: str) -> tuple[int, str]:
    """Exit status and output of the run."""
    words = [sys.executable, "-m", "gradwire", "run", str(folder / "scenario.toml"), "--out", str(out)]
    done = subprocess.run(
        [*words, "--set", "strategy.name=ring"],
        env={**os.environ, "PYTHONPATH": str(ROOT), **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )
    return done.returncode, done.stdout + done.stderr


@contextmanager
def disk(folder: Path, size_kib: int) -> Iterator[Path]:
    """A disk of that size."""
    place = folder / "disk"
    place.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size_kib}k", "disk-full", str(place)], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


def enlarged(place: Path) -> None:
    """Makes room on a disk."""
    subprocess.run(["mount", "-o", f"remount,size={ROOM_KIB}k", str(place)], check=True)


def complaint(status: int, said: str, *, may_fit: bool) -> str:
    """What is wrong with how a run without room ended; "" if nothing is."""
    if status == 0 and may_fit:
        return ""
    messages = [line for line in said.splitlines() if line.startswith("error (")]
    if (
        status == 3
        and len(messages) == 1
        and any(words in messages[0] for words in NO_ROOM)
        and "Traceback" not in said
    ):
        return ""
    return f"ended with status {status}: {said[-1500:]}"


def resumed(folder: Path, out: Path, reference: Mapping[str, str]) -> str:
    """What is wrong with the run after there is room again; "" if nothing is."""
    status, said = command(folder, out)
    if status:
        return f"given again, it ended with status {status}: {said[-1500:]}"
    found = measured(out)
    return (
        "" if found == reference else f"measured something else: {sorted(set(found.items()) ^ set(reference.items()))}"
    )


def on_small_disk(folder: Path, size_kib: int, reference: Mapping[str, str]) -> tuple[int, str]:
    """Exit status on a disk of that size, and what is wrong."""
    with disk(folder, size_kib) as place:
        status, said = command(folder, place / "run")
        wrong = complaint(status, said, may_fit=True)
        enlarged(place)
        return status, wrong or resumed(folder, place / "run", reference)


def at_write(folder: Path, library: Path, number: int, reference: Mapping[str, str]) -> tuple[int, str]:
    """Exit status where that write and all after it fail, and what is wrong."""
    with disk(folder, ROOM_KIB) as place:
        out = place / "run"
        variables = failing_writes.environment(library, out, number, errno.ENOSPC, stays=True)
        status, said = command(folder, out, **variables)
        return status, complaint(status, said, may_fit=False) or resumed(folder, out, reference)


def writes_of(folder: Path, library: Path) -> int:
    """How many writes of the command there are: it fails at the last and not behind it."""
    fewest, most = 1, 2
    while _fails(folder, library, most):
        fewest, most = most, most * 2
    while most - fewest > 1:
        middle = (fewest + most) // 2
        fewest, most = (middle, most) if _fails(folder, library, middle) else (fewest, middle)
    return fewest


def _fails(folder: Path, library: Path, number: int) -> bool:
    with disk(folder, ROOM_KIB) as place:
        out = place / "run"
        variables = failing_writes.environment(library, out, number, errno.ENOSPC, stays=True)
        return command(folder, out, **variables)[0] != 0


def main() -> None:
    """Reads the arguments, and tries."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, default=40, help="of disks, evenly up to what a run needs")
    parser.add_argument("--every", type=int, default=10, help="write of the command; 0: none")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="disk-full-") as name:
        folder = Path(name)
        (folder / "scenario.toml").write_text(SCENARIO)
        library = failing_writes.build(folder)
        with disk(folder, ROOM_KIB) as place:
            status, said = command(folder, place / "run")
            assert status == 0, said
            reference = measured(place / "run")
            facts = os.statvfs(place)
            needed_kib = (facts.f_blocks - facts.f_bfree) * facts.f_frsize >> 10
        print(f"undisturbed: {needed_kib} KiB, {len(reference)} things to compare", flush=True)
        step = max(1, (needed_kib + needed_kib // 4 - SMALLEST_KIB) // max(1, arguments.sizes))
        sizes = [SMALLEST_KIB + step * number for number in range(arguments.sizes)]
        broken = 0
        ended: Counter[int] = Counter()
        for size in sizes:
            status, wrong = on_small_disk(folder, size, reference)
            ended[status] += 1
            broken += _told(f"{size} KiB", wrong)
        print(f"disks of {len(sizes)} sizes: {dict(ended)} by exit status", flush=True)
        if arguments.every:
            count = writes_of(folder, library)
            numbers = range(1, count + 1, arguments.every)
            for number in numbers:
                broken += _told(f"write {number}", at_write(folder, library, number, reference)[1])
            print(f"{len(numbers)} of {count} writes of the command failed", flush=True)
    print(f"promise broken {broken} times", flush=True)
    if broken:
        raise SystemExit(1)


def _told(what: str, wrong: str) -> bool:
    if wrong:
        print(f"{what}: {wrong}", flush=True)
    return bool(wrong)


if __name__ == "__main__":
    main()
