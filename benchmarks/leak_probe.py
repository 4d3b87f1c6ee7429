"""What processes and the kernel hold, line by line: a program that runs in the emulated machine during a soak
(benchmarks/soak.py).

`python leak_probe.py PERIOD_S PATTERN...` prints a line of JSON each PERIOD_S seconds: open descriptors and resident
KiB of the processes whose name or command line has a PATTERN, how many programs run, and what /proc/meminfo and
/proc/net/sockstat count. It imports nothing but the standard library, and ends when it is killed.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from pathlib import Path

MEMORY = ("MemAvailable", "AnonPages", "Shmem", "Slab", "SUnreclaim", "KernelStack", "PageTables", "Percpu")
PAGE_KIB = os.sysconf("SC_PAGE_SIZE") // 1024


def held(pattern: re.Pattern[str]) -> dict[str, object]:
    """What is held now."""
    processes = [folder for folder in Path("/proc").iterdir() if folder.name.isdigit()]
    memory = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    return {
        "uptime_s": time.monotonic(),
        "processes": sum(map(_is_program, processes)),
        "of": {folder.name: own for folder in processes if (own := _of_process(folder, pattern))},
        "kib": {name: int(memory[name].split()[0]) for name in MEMORY},
        "sockets": Path("/proc/net/sockstat").read_text().split()[2],
    }


def _is_program(folder: Path) -> bool:
    """Whether a process is a program's, for the kernel's own come and go with its work."""
    try:
        return bool((folder / "cmdline").read_bytes())
    except OSError:
        return False


def _of_process(folder: Path, pattern: re.Pattern[str]) -> dict[str, object] | None:
    try:
        # The name first: forks share their parent's command line, and have separate names.
        parts = (folder / "comm").read_bytes(), (folder / "cmdline").read_bytes().replace(b"\0", b" ")
        words = b" ".join(parts).decode(errors="replace")
        found = pattern.search(words)
        if found is None or Path(__file__).name in words:
            return None
        descriptors = len(list((folder / "fd").iterdir()))
        resident_kib = int((folder / "statm").read_text().split()[1]) * PAGE_KIB
    except OSError:  # it has ended
        return None
    return {"name": found[0], "descriptors": descriptors, "resident_kib": resident_kib}


def main() -> None:
    """Prints for ever."""
    period_s, patterns = float(sys.argv[1]), "|".join(map(re.escape, sys.argv[2:]))
    while True:
        print(json.dumps(held(re.compile(patterns))), flush=True)
        time.sleep(period_s)


if __name__ == "__main__":
    main()
