"""Runs a user's PyTorch script once for each recorded rank, as one process on this machine, and leaves a recording of
each (gradwire/recorder/).

The script is the user's own code with the user's rights, as in any shell. Its files are read with the same care as
files from strangers. When the script ends, or is ended, the processes that it started end with it.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from gradwire import PACKAGE
from gradwire.child_process import signal_name
from gradwire.faults import InputFault
from gradwire.files import replacing
from gradwire.programs.descendants import ending_descendants
from gradwire.reading_budget import reading_budget
from gradwire.regular_files import MESSAGE_BYTES, RECORD_BYTES, IrregularFileError, read_bytes, read_text
from gradwire.typed_json import decoded
from gradwire.vm.owners import OWNER_VARIABLE, temporary_folder, this_process

LAUNCHERS = ("torchrun", "accelerate", "deepspeed", "mpirun", "mpiexec", "srun", "horovodrun")
"""Programs that start ranks, of which there is one here."""
LAUNCHING_MODULES = ("torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch")
OUTPUT_BYTES = 16 << 20
"""Largest size of a script's output that is kept: the rest is dropped."""
CHUNK_BYTES = 1 << 16
LOOK_S = 0.2
"""Seconds between two looks at the wall clock while the script writes nothing."""
STATE, CHILD = ".state", ".child"
"""Behind a recording's name: how far the script came, and whether a process that it started became a rank
(gradwire/recorder/start.py)."""


@dataclass(frozen=True)
class RecordingRequest:
    """The script to record, the ranks, and the limits."""

    program: Sequence[str]
    #: Ranks to run the script as, one after the other.
    ranks: Sequence[int]
    world: int
    #: Ranks of a machine, for the variables of torchrun.
    gpus_per_host: int
    #: Optimizer steps after which a script is ended, if no two of them are alike before.
    iterations: int
    #: Whether large tensors are computed.
    values: bool
    #: Wall-clock time of each rank.
    time_limit_s: float
    folder: Path


def check_program(program: Sequence[str]) -> str:
    """The path of a program that can be run as one rank. Raises InputFault."""
    if not program:
        raise InputFault("say what to record behind --, such as: gradwire record ... -- python train.py")
    name = Path(program[0]).name
    module = program[program.index("-m") + 1] if "-m" in program[:-1] else ""
    if name in LAUNCHERS or module in LAUNCHING_MODULES:
        raise InputFault(
            f"{module or name}: starts the ranks of a job, and here one process stands for all of them: give the command "
            "that each rank runs, such as python train.py; it finds RANK, WORLD_SIZE and LOCAL_RANK in its environment"
        )
    found = shutil.which(program[0])
    if found is None:
        raise InputFault(f"{program[0]}: there is no such program, or it may not be run")
    return found


def record(request: RecordingRequest) -> Iterator[Path]:
    """Yields the recording of each rank when it is there. Raises InputFault for a script that leaves none."""
    executable = check_program(request.program)
    request.folder.mkdir(parents=True, exist_ok=True)
    for rank in request.ranks:
        with _python_path() as path:
            script = _Script(request, rank, executable, path)
            with ending_descendants():
                script.run()
            yield script.take()


def recording_file(folder: Path, rank: int) -> Path:
    """Path of a rank's recording."""
    return folder / f"rank{rank}.json"


@contextmanager
def _python_path() -> Iterator[Path]:
    """A folder with the recorder, and nothing else of gradwire's packages."""
    with temporary_folder() as folder:
        (folder / PACKAGE.name).symlink_to(PACKAGE)
        shutil.copy(PACKAGE / "script_start" / "sitecustomize.py", folder / "sitecustomize.py")
        yield folder


class _RecordingState(msgspec.Struct):
    """Word of how far a script came, as gradwire/recorder/left_files.py leaves it."""

    state: str
    about: str


class _Script:
    """One rank's run."""

    def __init__(self, request: RecordingRequest, rank: int, executable: str, python_path: Path) -> None:
        self._request, self._rank, self._executable = request, rank, executable
        self._path = python_path
        self._made = python_path / "recording.json"
        self._name = _script_name(request.program)
        self._output = request.folder / f"rank{rank}.output"

    def run(self) -> None:
        """Runs the script to its end. Raises InputFault for one that leaves no recording."""
        process = self._start()
        try:
            status = self._follow(process)
        finally:
            _end(process)
        if (child := self._state(CHILD)) is not None:
            raise InputFault(
                f"{self._name}: a process that it started became a rank ({child[1]}): here one process "
                "stands for all ranks; give a script that is one rank, as under torchrun, and starts none"
            )
        if status is None:
            raise InputFault(
                f"{self._name}: still ran after {self._request.time_limit_s:g} s ({self._how_far()}); --time-limit gives it "
                f"longer, and what it wrote is in {self._output}"
            )
        if status or not self._made.exists():
            raise self._failure(status)

    def take(self) -> Path:
        """Moves the recording to where it stays; returns the path."""
        file = recording_file(self._request.folder, self._rank)
        try:
            with reading_budget(self._made):
                content = read_bytes(self._made, RECORD_BYTES)
        except IrregularFileError as error:
            raise InputFault(f"{self._name}: what it left as its recording {error.strerror}") from error
        with replacing(file) as partial:
            partial.write_bytes(content)
        return file

    def _start(self) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(
                list(self._request.program),
                executable=self._executable,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=self._environment(os.environ),
                start_new_session=True,
            )
        except OSError as error:
            raise InputFault(f"{self._request.program[0]}: cannot be started: {error.strerror}") from error

    def _environment(self, given: Mapping[str, str]) -> dict[str, str]:
        request, rank = self._request, self._rank
        local = min(request.gpus_per_host, request.world)
        settings = {
            "file": str(self._made),
            "rank": rank,
            "world": request.world,
            "iterations": request.iterations,
            "values": request.values,
        }
        return {
            **given,
            "PYTHONPATH": os.pathsep.join(filter(None, (str(self._path), given.get("PYTHONPATH")))),
            "PYTHONUNBUFFERED": "1",
            "GRADWIRE_SCRIPT_START": "gradwire.recorder.start",
            "GRADWIRE_RECORD": json.dumps(settings),
            OWNER_VARIABLE: this_process(),
            # As torchrun has them.
            "RANK": str(rank),
            "WORLD_SIZE": str(request.world),
            "LOCAL_RANK": str(rank % local),
            "LOCAL_WORLD_SIZE": str(local),
            "GROUP_RANK": str(rank // local),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": "29500",
            # No GPU of this machine is used, and nothing is compiled into operations that nobody can count.
            "CUDA_VISIBLE_DEVICES": "",
            "TORCHDYNAMO_DISABLE": "1",
        }

    def _follow(self, process: subprocess.Popen[bytes]) -> int | None:
        """Keeps the script's output until it ends. Returns its status, or None if its time is over or it is to be
        ended."""
        assert process.stdout is not None
        ends_s = time.monotonic() + self._request.time_limit_s
        pipe, kept = process.stdout.fileno(), 0
        os.set_blocking(pipe, False)
        with self._output.open("wb") as output:
            is_open = True
            while time.monotonic() < ends_s and not self._state(CHILD):
                ready, _, _ = select.select([pipe] if is_open else [], [], [], LOOK_S)
                chunk = os.read(pipe, CHUNK_BYTES) if ready else b""
                output.write(chunk[: OUTPUT_BYTES - kept])
                output.flush()
                kept = min(OUTPUT_BYTES, kept + len(chunk))
                is_open = is_open and not (ready and not chunk)
                if not chunk and process.poll() is not None:  # what it started may still hold the pipe
                    return process.returncode
        return None

    def _state(self, kind: str) -> tuple[str, str] | None:
        """State of the script according to the recorder in it, and words about it; None if it cannot be read."""
        try:
            with reading_budget(self._made):
                said = decoded(read_bytes(Path(f"{self._made}{kind}"), MESSAGE_BYTES), _RecordingState)
            return said.state[:200], said.about[:200]
        except (OSError, ValueError):
            return None

    def _how_far(self) -> str:
        state = self._state(STATE)
        if state is None:
            return f"and no Python in it recorded anything: is {self._request.program[0]} one?"
        if state[0] == "steps":
            return f"{state[1]} steps of its optimizer were seen, no two of them alike"
        return "no step of an optimizer was seen: where a script has none, it is recorded to its end"

    def _failure(self, status: int) -> InputFault:
        state = self._state(STATE)
        if state is None:
            return InputFault(
                f"{self._request.program[0]}: {_ending(status)} and recorded nothing: it is not a Python, or was started "
                "without the module `site` (-I, -S, -E)"
            )
        if state[0] == "no torch":
            return InputFault(
                f"{self._request.program[0]}: this Python ({state[1]}) has no torch, which the script imports: give one that "
                "has it, such as the python of the environment in which the script is used"
            )
        if not status:
            return InputFault(f"{self._name}: ended without having imported torch, so nothing was recorded")
        return InputFault(f"{self._name}: {_ending(status)}: {self._last_line()} (all that it wrote: {self._output})")

    def _last_line(self) -> str:
        with suppress(OSError, UnicodeDecodeError):
            with reading_budget(self._output):
                text = read_text(self._output, 2 * OUTPUT_BYTES, errors="replace")
            lines = [line for line in text.split("\n") if line.strip()]
            # Python's own words, and not a comment that torch writes behind them.
            told = [line for line in lines if _ERROR in line.split(":")[0] and not line.startswith(" ")]
            return (told or lines or ["it wrote nothing"])[-1].strip()[:400]
        return "what it wrote cannot be read"


_ERROR = "Error"


def _script_name(program: Sequence[str]) -> str:
    return next((word for word in program[1:] if word.endswith(".py")), program[0])


def _ending(status: int) -> str:
    return f"was ended by {signal_name(-status)}" if status < 0 else f"ended with status {status}"


def _end(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdout is not None:
        process.stdout.close()
