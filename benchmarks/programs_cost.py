"""What programs cost: CPU time from the prompt to the end, memory of the kernel, and what they measured in virtual time.

    .venv/bin/python -m benchmarks.programs_cost [ROW ...] [--python PYTHON] [--rounds N]

ROW is one of the names below (default: all whose programs are there). PYTHON has torch. CPU time is that of gradwire,
of the kernel and of all programs, user and system; of several rounds the least counts, for other work on the machine
adds to it and never takes from it. The last column is what no change that only saves work may move, with all that it
was if rounds differ. To compare two versions, run this in a checkout of each, one directly after the other.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import re
import resource
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.commands import gradwire

SET_CHILD_SUBREAPER = 36
"""PR_SET_CHILD_SUBREAPER (linux/prctl.h): the kernel's processes outlive it, and are waited for here."""
LIMIT_S = 600.0
PYTHON = "PYTHON"
COMPILED = "COMPILED"
"""In a command: the Python with torch, and the folder of compiled programs."""
ALL_REDUCE = """
import sys, time, torch, torch.distributed as dist
torch.set_num_threads(1)
dist.init_process_group("gloo")
data = torch.ones(int(sys.argv[2]) * 2**20 // 4)
times_s = []
for _ in range(int(sys.argv[1])):
    begin_s = time.perf_counter()
    dist.all_reduce(data)
    times_s.append(time.perf_counter() - begin_s)
if dist.get_rank() == 0: print(f"measured {sorted(times_s)[len(times_s) // 2] * 1e3:.4f} ms")
dist.destroy_process_group()
"""
SERVED = "test $GRADWIRE_HOST = h1 && exec %s; sleep 0.1; %s"
SOURCES = Path(__file__).with_name("programs")
NGINX = """daemon off; worker_processes 1; pid /run/tmp/nginx.pid; error_log stderr; user root;
events {} http { access_log off; client_body_temp_path /run/tmp/b; proxy_temp_path /run/tmp/p;
fastcgi_temp_path /run/tmp/f; uwsgi_temp_path /run/tmp/u; scgi_temp_path /run/tmp/s;
server { listen 80; root FOLDER; } }
"""
ANSWER_BYTES = 4096
JAVA = "java -Dsun.net.httpserver.nodelay=true -cp COMPILED Server"
PUTS = "begin=$(date +%s%N); for key in $(seq 50); do etcdctl --endpoints h1:2379 put key$key value >/dev/null || exit 1; done"
WARM = ("--warm-imports", "torch")
TORCH_8 = ("--workers", "8", "--rate", "25gbit", "--memory", "8G", "--launch", "torch")
TWO = ("--workers", "2", "--rate", "100gbit")


@dataclass(frozen=True)
class Row:
    """One measurement."""

    options: tuple[str, ...]
    command: tuple[str, ...]
    #: Programs that it needs.
    needs: tuple[str, ...] = ()
    #: Finds what it measured in what it wrote.
    result: str = r"measured (.*)"


def _served(server: str, client: str) -> tuple[str, ...]:
    """A command for two hosts, of which the first serves the second."""
    return ("sh", "-c", SERVED % (server, client))


ROWS: Mapping[str, Row] = {
    "nothing, 2 hosts": Row(TWO, ("true",)),
    "import torch, 1 host": Row((*TWO, "--hosts", "h1"), (PYTHON, "-c", "import torch")),
    "first all-reduce, 8 hosts": Row(TORCH_8, (PYTHON, "-c", ALL_REDUCE, "1", "1")),
    "first all-reduce, 8 hosts, warm": Row((*TORCH_8, *WARM), (PYTHON, "-c", ALL_REDUCE, "1", "1")),
    "first all-reduce, 32 hosts, warm": Row(
        ("--workers", "32", *TORCH_8[2:], *WARM), (PYTHON, "-c", ALL_REDUCE, "1", "1")
    ),
    "12 all-reduces of 128 MiB, 8 hosts": Row(TORCH_8, (PYTHON, "-c", ALL_REDUCE, "12", "128")),
    "12 all-reduces of 128 MiB, 8 hosts, warm": Row((*TORCH_8, *WARM), (PYTHON, "-c", ALL_REDUCE, "12", "128")),
    "iperf3, 10 GB": Row(
        TWO, _served("iperf3 -s -1 >/dev/null", "iperf3 -c h1 -n 10G"), ("iperf3",), r"([\d.]+ Gbits/sec) +receiver"
    ),
    "MPI halo exchange, 8 hosts": Row(
        ("--workers", "8", "--rate", "100gbit", "--launch", "mpi"),
        ("mpirun", "-np", "8", f"{COMPILED}/halo", "200", "65536"),
        ("mpirun", "mpicc"),
    ),
    "redis-benchmark": Row(
        TWO,
        _served(
            "timeout 100 redis-server --save '' --bind 0.0.0.0 --protected-mode no >/dev/null",
            "redis-benchmark -h h1 -t set -n 20000 -q; redis-cli -h h1 shutdown nosave",
        ),
        ("redis-server", "redis-benchmark"),
        r"SET: ([\d.]+ requests)",
    ),
    "nginx and wrk": Row(
        (
            "--workers",
            "2",
            "--rate",
            "1gbit",
        ),  # what computes in no time answers millions of requests a second otherwise
        _served("nginx -c COMPILED/nginx.conf", "wrk -t 1 -c 8 -d 1 http://h1/; nginx -s stop -c COMPILED/nginx.conf"),
        ("nginx", "wrk"),
        r"Requests/sec: +([\d.]+)",
    ),
    "etcd, 50 puts": Row(
        TWO,
        _served(
            "sh -c 'timeout -s INT 60 etcd --data-dir $TMPDIR/etcd --log-level error --listen-client-urls http://0.0.0.0:2379 "
            "--advertise-client-urls http://h1:2379; true'",
            f"sleep 5; {PUTS}; echo measured $((($(date +%s%N) - begin) / 1000)) us; sleep 60",
        ),
        ("etcd", "etcdctl"),
    ),
    "Go server": Row(
        TWO, _served("sh -c 'timeout 60 COMPILED/server serve; true'", "COMPILED/server ask h1 4000; sleep 60"), ("go",)
    ),
    "Java server": Row(
        TWO,
        _served(f"sh -c 'timeout 60 {JAVA} serve; true'", f"sleep 1; {JAVA} ask h1 4000; sleep 60"),
        ("java", "javac"),
    ),
}


@dataclass(frozen=True)
class Cost:
    """What a run took and found."""

    cpu_s: float
    memory: str
    result: str


def measured(row: Row, places: Mapping[str, str]) -> Cost:
    """Runs a row. places: what stands for PYTHON and COMPILED. Raises SystemExit if it is not valid."""
    command = [_replaced(word, places) for word in row.command]
    with tempfile.TemporaryDirectory() as folder:
        before_s = _spent_s()
        done = gradwire("exec", "--out", "run", *row.options, "--", *command, cwd=Path(folder), limit_s=LIMIT_S)
        _reap()
        spent_s = _spent_s() - before_s
    if done.returncode:
        raise SystemExit(
            f"{' '.join(command)}: ended with {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        )
    used = re.search(r"memory used: ([\d.]+ GiB)", done.stdout)
    found = re.findall(row.result, done.stdout)
    return Cost(spent_s, used[1] if used else "", found[-1] if found else "")


def compile_programs(folder: Path) -> None:
    """Compiles those whose compiler is there, and writes nginx's configuration."""
    (folder / "nginx.conf").write_text(NGINX.replace("FOLDER", str(folder)))
    (folder / "index.html").write_bytes(b"x" * ANSWER_BYTES)
    for command in (
        ("mpicc", "-O2", "-o", str(folder / "halo"), str(SOURCES / "halo.c")),
        ("go", "build", "-o", str(folder / "server"), str(SOURCES / "server.go")),
        ("javac", "-d", str(folder), str(SOURCES / "Server.java")),
    ):
        if shutil.which(command[0]):
            subprocess.run(command, check=True)


def _replaced(word: str, places: Mapping[str, str]) -> str:
    for name, place in places.items():
        word = place if word == name else re.sub(rf"{name}(?=[/ ])", place, word)
    return word


def _spent_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _reap() -> None:
    """Waits for the kernel's processes, whose time counts from then on."""
    while True:
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _is_there(row: Row, python: str) -> bool:
    if (
        PYTHON in row.command
        and subprocess.run([python, "-c", "import torch"], capture_output=True, check=False).returncode
    ):
        return False
    return all(shutil.which(name) for name in row.needs)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=", ".join(ROWS))
    parser.add_argument("--python", default=shutil.which("python3"))
    parser.add_argument("--rounds", type=int, default=1)
    chosen = parser.parse_args(arguments)
    unknown = [name for name in chosen.rows if name not in ROWS]
    if unknown:
        parser.error(f"no row is called {unknown[0]!r}")
    ctypes.CDLL(None).prctl(SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    print("| programs | CPU (s) | memory | measured |\n| --- | --- | --- | --- |", flush=True)
    with tempfile.TemporaryDirectory() as compiled:
        compile_programs(Path(compiled))
        for name in chosen.rows or ROWS:
            if not _is_there(ROWS[name], chosen.python):
                print(f"| {name} | not installed | | |", flush=True)
                continue
            rounds = [measured(ROWS[name], {PYTHON: chosen.python, COMPILED: compiled}) for _ in range(chosen.rounds)]
            least = min(rounds, key=lambda cost: cost.cpu_s)
            results = " and ".join(dict.fromkeys(cost.result for cost in rounds))
            print(f"| {name} | {least.cpu_s:.1f} | {least.memory} | {results} |", flush=True)


if __name__ == "__main__":
    main()
