"""Runs programs while a plan is replayed: a separate process, which starts them in their time and ends them on request.

`python -m gradwire.inside.beside_job FOLDER PID...`, inside the kernel; the ids are of processes in the
hosts' networks. It says when it is ready, begins when it reads a line, and ends all programs when its input ends.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import msgspec

from gradwire.faults import Fault, MachineFault
from gradwire.files import unfit_for_writing
from gradwire.inside.namespaces import name_hosts
from gradwire.inside.program_load import hosts_to_enter, program_load
from gradwire.inside.program_protocol import (
    ENDED_FILE,
    PROGRAMS_FILE,
    EndedBeside,
    Output,
    OutputFull,
    ProgramEnded,
    output_file,
    place_name,
    read_task,
)
from gradwire.inside.sandbox import Sandbox
from gradwire.network.fabric import Fabric

READY, BEGIN = "ready", b"begin\n"


class Kept:
    """Keeps what programs write in files, and when they end. Its input ends when they are to end."""

    def __init__(self, folder: Path, names: Sequence[str]) -> None:
        self._folder, self._names = folder, names
        self._begin_s = 0.0
        self.is_over = False
        #: What kept it from writing, after which it writes no more. All programs have to be ended, and so heard, before that is told.
        self.trouble: OSError | None = None
        self.statuses: dict[str, int] = {}
        self.ended_s: dict[str, float] = {}

    def begin(self) -> None:
        """Waits for the replay to begin."""
        self.is_over = os.read(self.fileno(), len(BEGIN)) != BEGIN
        self._begin_s = time.monotonic()

    def fileno(self) -> int:
        """Its input."""
        return sys.stdin.fileno()

    def heard(self) -> None:
        """Returns None: only the end of the input comes."""
        os.set_blocking(self.fileno(), False)
        try:
            self.is_over = os.read(self.fileno(), 1) == b""
        except BlockingIOError:
            self.is_over = False

    def say(self, event: Output | OutputFull | ProgramEnded) -> None:
        """Keeps what a program wrote, or that it ended."""
        if isinstance(event, OutputFull) or self.trouble is not None:
            return  # what was dropped is noted at the end
        place = place_name(event.program, self._names[event.host])
        if isinstance(event, ProgramEnded):
            self.statuses[place] = event.status
            self.ended_s[place] = time.monotonic() - self._begin_s
            return
        path = output_file(self._folder, place, event.stream)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("ab") as file:
                file.write(event.data)
        except OSError as error:
            self.trouble = error


def run_beside(folder: Path, pids: Sequence[int]) -> None:
    """Runs the programs of a point's folder until the input ends, and notes what became of them. Raises a Fault, and OSError
    if something cannot be written."""
    task = read_task(folder / PROGRAMS_FILE)
    fabric = replace(Fabric.from_json(task.fabric_json), ipv6=True)
    names = fabric.host_names()
    name_hosts(fabric)
    # Sandbox and hosts are processes that have this process's output open, for whose end the replay waits.
    sandbox, kept = Sandbox(folder, task.covered), Kept(folder, names)
    with (
        hosts_to_enter(task, names, pids, sandbox) as hosts,
        program_load(task, hosts, sandbox, kept) as load,
    ):
        print(READY, flush=True)
        kept.begin()
        try:
            load.follow(time.monotonic(), lambda: kept.is_over)
        finally:
            load.end()
    if kept.trouble is not None:
        raise kept.trouble
    started = tuple(place_name(program.name, names[program.host]) for program, _ in load.started)
    ended = EndedBeside(started, kept.statuses, kept.ended_s, load.dropped_output_bytes)
    (folder / ENDED_FILE).write_bytes(msgspec.json.encode(ended))


@contextmanager
def programs_beside(folder: Path, pids: Sequence[int]) -> Iterator[None]:
    """Runs the programs of a point's folder during the block. pids: of threads in the network namespaces of the hosts.

    Raises MachineFault if they cannot be run.
    """
    command = [sys.executable, "-m", "gradwire.inside.beside_job", str(folder), *map(str, pids)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        said = process.stdout.readline().strip()
        if said != READY:
            raise MachineFault(said or "the process that runs programs with the strategy ended early")
        process.stdin.write(BEGIN.decode())
        process.stdin.flush()
        yield
        process.stdin.close()
        trouble = process.stdout.read().strip()
    if process.returncode:
        raise MachineFault(trouble or "the process that ran programs with the strategy failed")


def main() -> int:
    """The process; its status is 1 after a fault, which it says."""
    try:
        run_beside(Path(sys.argv[1]), [int(pid) for pid in sys.argv[2:]])
    except Fault as fault:
        print(str(fault).replace("\n", " "), flush=True)
        return 1
    except OSError as error:
        print(unfit_for_writing(error, Path(sys.argv[1])), flush=True)
        return 1
    except Exception:  # noqa: BLE001 (the replay can tell nobody otherwise)
        print(traceback.format_exc(), flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
