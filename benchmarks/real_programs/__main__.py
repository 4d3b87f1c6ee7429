"""Runs real programs between emulated hosts: `python -m benchmarks.real_programs [PROGRAM ...]`.

Prints a table: what was asked, what it took in virtual time, what round trips and lines allow, and seconds of wall time. A program
whose Debian packages or modules of Python are not installed is named with them. Ends with status 1 if a run is not valid, or a program
is missing.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.commands import gradwire
from benchmarks.real_programs.programs import PROGRAMS, RATE_BPS, Program

HOSTS = Path(__file__).with_name("hosts")
RESULT = re.compile(r"^RESULT (.+) ([\d.]+)$", re.MULTILINE)
LIMIT_S = 900.0
STALL_LIMIT = "1min"
"""Several processes that import large modules, one after the other, take longer than exec's own limit."""


def make_keys(folder: Path) -> None:
    """Makes keys of ssh and a certificate, which last for this command."""
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
    request = (
        f"req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=h1 -keyout {folder / 'tls.key'} -out {folder / 'tls.crt'}"
    )
    subprocess.run(["openssl", *request.split()], check=True, capture_output=True)


def missing_packages(program: Program) -> list[str]:
    """Returns those of its packages that this machine does not have."""
    return [
        name
        for name in program.packages
        if subprocess.run(["dpkg-query", "-W", name], capture_output=True, check=False).returncode
    ]


def missing_modules(program: Program, python: str) -> list[str]:
    """Returns those of its modules that a Python does not have, by the names that pip has for them."""
    return [
        name
        for name, module in program.modules.items()
        if subprocess.run([python, "-c", f"import {module}"], capture_output=True, check=False).returncode
    ]


def run(name: str, program: Program, folder: Path, python: str) -> bool:
    """Runs one and prints its rows. Returns whether it ran and is valid."""
    if missing := missing_packages(program):
        print(f"| {program.title} | not here: apt-get install {' '.join(missing)} | | | |", flush=True)
        return False
    if missing := missing_modules(program, python):
        print(f"| {program.title} | not here: {python} -m pip install {' '.join(missing)} | | | |", flush=True)
        return False
    begin_s = time.monotonic()
    done = gradwire(
        *("exec", "--out", str(folder / name), "--workers", str(program.hosts), "--rate", f"{RATE_BPS:.0f}bit"),
        *("--set", f"fabric.delay={program.delay_s:g}s", "--stall-limit", STALL_LIMIT),
        *("--", "env", f"KEYS={folder}", f"SCRIPTS={HOSTS}", f"PYTHON={python}", "bash", str(HOSTS / f"{name}.sh")),
        cwd=folder,
        limit_s=LIMIT_S,
    )
    wall_s = time.monotonic() - begin_s
    written = "".join(path.read_text(errors="replace") for path in sorted((folder / name / "output").glob("*.out")))
    results = {label: float(seconds) for label, seconds in RESULT.findall(written)}
    if done.returncode or any(figure.name not in results for figure in program.figures):
        print(
            f"{name}: status {done.returncode}\n{written[-2000:]}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}",
            file=sys.stderr,
        )
        return False
    for figure in program.figures:
        measured_s = results[figure.name]
        print(
            f"| {program.title} | {figure.asked} | {measured_s * 1e3:.5g} | {figure.allowed_s * 1e3:.5g} | {wall_s:.0f} |",
            flush=True,
        )
    return True


def main() -> None:
    """Reads the arguments and runs the programs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", choices=[*PROGRAMS, []], help=", ".join(PROGRAMS))
    parser.add_argument(
        "--python", default="python3", help="a Python with the modules of grpc, nats, fsdp, jax, ray and aioquic"
    )
    arguments = parser.parse_args()
    chosen = arguments.programs or [*PROGRAMS]
    print("| program | asked | took, ms | the wire allows, ms | wall time, s |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        make_keys(Path(folder))
        results = [run(name, PROGRAMS[name], Path(folder), arguments.python) for name in chosen]
    sys.exit(not all(results))


if __name__ == "__main__":
    main()
