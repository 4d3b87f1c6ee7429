"""What a system call costs in the virtual-time kernel, in microseconds of wall time; several kernels side by side, for
their ratio.

    .venv/bin/python benchmarks/system_call.py [KERNEL ...] [--calls N] [--rounds N]

KERNEL is a file (default: the one that runs use). Each round boots every kernel twice, with N calls of getppid and
with none, and takes the difference; a call stops the calling process, which the kernel follows by ptrace or seccomp.
Printed are each kernel's fastest round and, for all but the first, its ratio to the first: other work on the machine
makes rounds slower, never faster.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

from gradwire.faults import Fault
from gradwire.vm.batch_job import run_virtual
from gradwire.vm.kernel import cached_kernel
from gradwire.vm.machine import Boot

CALLS = "import os, sys\nfor _ in range(int(sys.argv[1])): os.getppid()"
LIMIT_S = 300.0


def wall_s(kernel: Path, calls: int) -> float:
    """Wall time of a machine that makes so many calls, from boot to end."""
    start_s = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        status = run_virtual(
            Boot(
                [sys.executable, "-S", "-c", CALLS, str(calls)],
                env={},
                cpu=max(os.sched_getaffinity(0)),
                memory_mb=512,
                workdir=Path(folder),
                openvswitch=False,
                kernel=kernel,
            ),
            time_limit_s=LIMIT_S,
            on_line=print,
        )
    if status != 0:
        raise SystemExit(f"{kernel}: the job ended with status {status}")
    return time.perf_counter() - start_s


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernels", nargs="*", type=Path, metavar="KERNEL")
    parser.add_argument("--calls", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    default = cached_kernel()
    kernels = options.kernels or ([default] if default else [])
    if not kernels:
        raise SystemExit("no kernel: run `gradwire kernel` first")
    rounds: dict[Path, list[float]] = {kernel: [] for kernel in kernels}
    for _ in range(options.rounds):
        for kernel, seconds in rounds.items():
            seconds.append(wall_s(kernel, options.calls) - wall_s(kernel, 0))
    first_s = min(rounds[kernels[0]])
    for kernel, seconds in rounds.items():
        spread = f"{min(seconds) / options.calls * 1e6:.2f} us (slowest round {max(seconds) / options.calls * 1e6:.2f})"
        print(
            f"{kernel.name}: {spread}"
            + ("" if kernel == kernels[0] else f", {min(seconds) / first_s:.3f} of the first")
        )


if __name__ == "__main__":
    try:
        main()
    except Fault as fault:
        sys.exit(str(fault))
