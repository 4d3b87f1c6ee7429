"""Processes that a job starts, as programs and as forks. What forks is a process of its own: pytest's has several threads."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gradwire.child_process import signal_name
from tests.shared.parts import tells

ROOT = Path(__file__).resolve().parent.parent.parent
PEER = """
import signal, sys, time

def main():
    what = sys.argv[1]
    if what == "echo":
        for line in sys.stdin:
            sys.stdout.write(line.upper())
            sys.stdout.flush()
        return 7
    if what == "files":
        import os
        print(sorted(map(int, os.listdir("/proc/self/fd")))[:-1], os.getcwd(), open("/proc/self/comm").read().strip())
    if what == "exit":
        sys.exit("no reason")
    if what == "fault":
        raise ValueError("a defect")
    if what == "asleep":
        time.sleep(600)

if __name__ == "__main__":
    sys.exit(main())
"""
"""A module that is started either way. (Listing descriptors opens one more.)"""
BEGIN = """
import os, signal, subprocess, sys, threading
from gradwire.child_process import start
signal.signal(signal.SIGTERM, lambda *_: None)
kept = open(os.devnull)
errors = open("errors", "wb")
def begun(what, talks=False):
    return start("peer", [what], errors, by_fork=BY_FORK, talks=talks)
"""


def outcome(folder: Path, code: str, *, by_fork: bool) -> str:
    """What a job prints that starts `peer`."""
    (folder / "peer").mkdir()
    (folder / "peer" / "__init__.py").touch()
    (folder / "peer" / "__main__.py").write_text(PEER)
    done = subprocess.run(
        [sys.executable, "-c", f"BY_FORK = {by_fork}\n{BEGIN}\n{code}"],
        cwd=folder,
        env={"PYTHONPATH": f"{ROOT}:{folder}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert not done.stderr, done.stderr
    return done.stdout.strip()


either_way = pytest.mark.parametrize("by_fork", [False, True])


@either_way
def test_it_hears_answers_and_ends_with_its_input(tmp_path: Path, *, by_fork: bool) -> None:
    code = """
child = begun("echo", talks=True)
child.stdin.write(b"hello\\n")
print(child.stdout.readline(), child.poll())
child.stdin.close()
print(child.wait(120), child.poll(), child.returncode)
"""
    assert outcome(tmp_path, code, by_fork=by_fork) == "b'HELLO\\n' None\n7 7 7"


@either_way
def test_it_has_only_its_streams_open_and_lies_where_the_package_does(tmp_path: Path, *, by_fork: bool) -> None:
    child = 'child = begun("files", talks=True)\nprint(child.stdout.read().decode(), child.wait())'
    name = "peer" if by_fork else "python"
    assert outcome(tmp_path, child, by_fork=by_fork).startswith(f"[0, 1, 2] {ROOT} {name}")


@either_way
@pytest.mark.parametrize(
    ("what", "status", "said"), [("exit", 1, "no reason"), ("fault", 1, "ValueError: a defect"), ("nothing", 0, "")]
)
def test_its_end_is_its_status_and_its_words(
    tmp_path: Path, what: str, status: int, said: str, *, by_fork: bool
) -> None:
    assert outcome(tmp_path, f'print(begun("{what}").wait())', by_fork=by_fork) == str(status)
    assert said in (tmp_path / "errors").read_text()


@either_way
@pytest.mark.parametrize(("way", "status"), [("terminate", -15), ("kill", -9)])
def test_it_can_be_waited_for_and_ended(tmp_path: Path, way: str, status: int, *, by_fork: bool) -> None:
    """SIGTERM means to it what it means to any process, whatever the job does with it."""
    code = f"""
child = begun("asleep")
try:
    child.wait(0.01)
except subprocess.TimeoutExpired:
    print("runs")
child.{way}()
print(child.wait())
child.{way}()
"""
    assert outcome(tmp_path, code, by_fork=by_fork) == f"runs\n{status}"


def test_what_runs_at_the_jobs_end_runs_once(tmp_path: Path) -> None:
    code = 'import atexit; atexit.register(lambda: print("end"))\nprint("begun", begun("nothing").wait())'
    assert outcome(tmp_path, code, by_fork=True) == "begun 0\nend"


def test_a_job_with_threads_is_not_forked(tmp_path: Path) -> None:
    code = """
stop = threading.Event()
threading.Thread(target=stop.wait).start()
try:
    begun("nothing")
except Exception as fault:
    print(type(fault).__name__, fault)
stop.set()
"""
    assert tells(outcome(tmp_path, code, by_fork=True), "InternalFault peer", "2 threads")


@pytest.mark.parametrize(("number", "name"), [(15, "SIGTERM"), (9, "SIGKILL"), (40, "signal 40"), (64, "SIGRTMAX")])
def test_each_signal_has_a_name(number: int, name: str) -> None:
    assert signal_name(number) == name
