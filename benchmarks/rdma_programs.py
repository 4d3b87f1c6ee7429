"""RDMA programs over rxe: rates and latencies next to those that RoCEv2's headers allow, and whether runs repeat.

    python -m benchmarks.rdma_programs [--rates 25gbit,100gbit] [PROGRAM ...]

PROGRAM is one of the names below (default: all). Each runs twice between two hosts at one switch, at an MTU of 4200, and what
it wrote and its virtual time have to be the same to the nanosecond. perftest and rping are unmodified; programs over UCX
have `examples/verbs_waits.c` preloaded. Ends with status 1 if a program fails, two runs differ, or a rate is more than 2 %
below or 0.5 % above its ideal.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.commands import gradwire
from gradwire import PACKAGE
from gradwire.network.roce import least_latency_s, payload_share
from gradwire.workloads.units import RATE

MTU_BYTES = 4200
MIB = 1 << 20
LIMIT_S = 900.0
TOO_SLOW, TOO_FAST = 0.02, 0.005
"""Of rates: what startup and the last answer take of a short run, and what UCX takes to ask for each long message; and rounding."""
EXAMPLES = PACKAGE.parent / "examples"
SERVED = "test $GRADWIRE_HOST = h1 && exec {server}; sleep 0.1; exec {client}"
OVER_UCX: Mapping[str, str] = {
    "UCX_TLS": "rc,self",
    "UCX_NET_DEVICES": "rxe0:1",
    "UCX_IB_GID_INDEX": "1",
    "UCX_UD_VERBS_ETH_DGID_CHECK": "n",
}
"""rxe's index 1 is the host's IPv4 address, and it does not fill in the field that the check reads."""
SCENARIO = """
title = "RDMA programs"
[cluster]
workers = 2
[fabric]
rate = "{rate_bps:.0f}bit"
mtu_bytes = {mtu_bytes}
rdma = "rxe"
[program.measured]
command = {command}
launch = "{launch}"
"""


@dataclass(frozen=True)
class Program:
    """What runs on both hosts, and what is measured."""

    command: str
    size_bytes: int
    #: Finds the figure in what the first or the second host wrote: microseconds of a latency, or MiB/s of a rate.
    figure: str
    is_rate: bool = False
    is_write: bool = False
    is_mpi: bool = False

    def ideal(self, rate_bps: float) -> float:
        """The figure by headers alone."""
        if self.is_rate:
            return rate_bps / 8 * payload_share(self.size_bytes, MTU_BYTES, is_write=self.is_write) / MIB
        return least_latency_s(self.size_bytes, MTU_BYTES, [rate_bps, rate_bps], is_write=self.is_write) * 1e6


def _perftest(program: str, size_bytes: int, repetitions: int, column: int) -> Program:
    command = f"{program} -F -n {repetitions} -s {size_bytes}"
    figure = rf"^ *{size_bytes} +{repetitions}" + r" +[\d.]+" * column + r" +([\d.]+)"
    is_rate, is_write = program.endswith("bw"), "write" in program
    return Program(SERVED.format(server=command, client=f"{command} h1"), size_bytes, figure, is_rate, is_write)


def _ucx(test: str, size_bytes: int, repetitions: int, column: int) -> Program:
    command = f"env {_words(OVER_UCX)} LD_PRELOAD=FOLDER/verbs_waits.so ucx_perftest"
    client = f"{command} h1 -t {test} -n {repetitions} -s {size_bytes}"
    figure = rf"Final: +{repetitions}" + r" +[\d.]+" * column + r" +([\d.]+)"
    return Program(SERVED.format(server=command, client=client), size_bytes, figure, is_rate=test.endswith("bw"))


def _mpi(size_bytes: int, repetitions: int, what: str = "") -> Program:
    exported = " ".join(f"-x {name}={value}" for name, value in OVER_UCX.items())
    mpirun = "mpirun --allow-run-as-root -np 2 --mca pml ucx --mca osc ucx -x LD_PRELOAD=FOLDER/verbs_waits.so"
    command = f"{mpirun} {exported} FOLDER/pingpong {size_bytes} {repetitions} {what}"
    return Program(command, size_bytes, r"^([\d.]+)$", is_rate=bool(what), is_mpi=True)


def _words(environment: Mapping[str, str]) -> str:
    return " ".join(f"{name}={value}" for name, value in environment.items())


PROGRAMS: Mapping[str, Program] = {
    "ib_write_bw, 64 KiB": _perftest("ib_write_bw", 65536, 300, 1),
    "ib_send_lat, 8 B": _perftest("ib_send_lat", 8, 100, 2),
    "ib_send_lat, 4 KiB": _perftest("ib_send_lat", 4096, 100, 2),
    "ib_write_lat, 4 KiB": _perftest("ib_write_lat", 4096, 100, 2),
    "ucx_perftest tag_lat, 8 B": _ucx("tag_lat", 8, 1000, 0),
    "ucx_perftest tag_bw, 64 KiB": _ucx("tag_bw", 65536, 1000, 4),
    "Open MPI, 8 B there and back": _mpi(8, 200),
    "Open MPI, 4 KiB there and back": _mpi(4096, 200),
    "Open MPI, 1 MiB one after the other": _mpi(MIB, 60, "stream"),
    "rping, 100 times 4 KiB": Program(
        SERVED.format(server="rping -s -C 100 -S 4096", client="rping -c -a 10.0.0.1 -C 100 -S 4096 -v"), 4096, ""
    ),
}


@dataclass(frozen=True)
class Outcome:
    """One run."""

    text: str
    duration_s: float

    def figure(self, program: Program) -> float | None:
        """What the program measured."""
        if not program.figure:
            return None
        found = re.findall(program.figure, self.text, re.MULTILINE)
        if not found:
            raise SystemExit(f"no figure in what the programs wrote:\n{self.text}")
        return float(found[-1])


def run(program: Program, rate_bps: float, compiled: Path) -> Outcome:
    """Runs it once. Raises SystemExit if it fails, or the network is not valid."""
    command = program.command.replace("FOLDER", str(compiled))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        scenario = SCENARIO.format(
            rate_bps=rate_bps,
            mtu_bytes=MTU_BYTES,
            command=json.dumps(command),
            launch="mpi" if program.is_mpi else "each",
        )
        (folder / "programs.toml").write_text(scenario)
        done = gradwire("run", "programs.toml", "--out", "run", cwd=folder, limit_s=LIMIT_S)
        if done.returncode:
            raise SystemExit(f"{command}: status {done.returncode}\n{done.stdout}{done.stderr}")
        (point,) = (folder / "run" / "points").iterdir()
        summary = json.loads((point / "summary.json").read_text())
        text = "".join(path.read_text() for path in sorted((point / "output" / "measured").glob("*.out")))
    return Outcome(text, summary["report"]["duration_s"])


def compile_programs(folder: Path, names: Sequence[str]) -> None:
    """Puts what UCX and MPI need into a folder. Raises CalledProcessError."""
    waits = ["-shared", "-fPIC", "-o", folder / "verbs_waits.so", EXAMPLES / "verbs_waits.c", "-ldl"]
    if any("UCX" in PROGRAMS[name].command for name in names):
        subprocess.run(["gcc", "-O2", *map(str, waits)], check=True)
    if any(PROGRAMS[name].is_mpi for name in names):
        subprocess.run(["mpicc", "-O2", "-o", folder / "pingpong", EXAMPLES / "programs" / "pingpong.c"], check=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", nargs="*", metavar="PROGRAM")
    parser.add_argument("--rates", default="25gbit,100gbit")
    options = parser.parse_args(arguments)
    names, failed = options.program or list(PROGRAMS), False
    if unknown := sorted({*names} - {*PROGRAMS}):
        parser.error(f"no program {unknown[0]!r}: one of {', '.join(PROGRAMS)}")
    print(
        "| | rate | measured | ideal | unit | virtual time, s | same twice |\n|---|---|---|---|---|---|---|", flush=True
    )
    with tempfile.TemporaryDirectory() as compiled:
        compile_programs(Path(compiled), names)
        for name in names:
            for rate in options.rates.split(","):
                program, rate_bps = PROGRAMS[name], RATE.parse(rate)
                once, again = (run(program, rate_bps, Path(compiled)) for _ in range(2))
                figure, ideal = once.figure(program), program.ideal(rate_bps)
                off = figure / ideal - 1 if figure is not None and program.is_rate else 0.0
                failed |= once != again or off < -TOO_SLOW or off > TOO_FAST
                shown = (
                    ("", "", "")
                    if figure is None
                    else (f"{figure:g}", f"{ideal:.4g}", ("us", "MiB/s")[program.is_rate])
                )
                same = "yes" if once == again else f"no: {again.duration_s:.9f} s"
                print(f"| {name} | {rate} | {' | '.join(shown)} | {once.duration_s:.9f} | {same} |", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
