"""`gradwire mininet` and `gradwire mn`: boots a kernel in virtual time, and runs a Mininet script in it from beginning to
end."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import BinaryIO

import msgspec

from gradwire import PACKAGE
from gradwire.faults import InputFault, MachineFault
from gradwire.files import replacing, without_links
from gradwire.inside.program_protocol import (
    Event,
    Output,
    OutputFull,
    ScriptReport,
    line_of,
    output_file,
)
from gradwire.inside.stock_mininet.changes import ASKING_VARIABLE, LINK_RATE_VARIABLE, MOST_MBIT
from gradwire.inside.stock_mininet.task import INPUT, MODULES, PROGRAMS, TEMPORARY, ScriptTask, write_task
from gradwire.inside.typed_protocol import (
    Interrupt,
    LineAsked,
    LineGiven,
    Over,
    Passed,
    Rested,
    WindowAsked,
    WindowOutput,
)
from gradwire.programs.clock_pace import Person
from gradwire.programs.conversation import Conversation, conversation
from gradwire.programs.execution import SUMMARY_FILE
from gradwire.programs.interpreter import PythonInterpreter
from gradwire.programs.launch import NOT_OF_THE_KERNEL, path_on_hosts
from gradwire.programs.outputs import OUTPUT_LIMIT_BYTES
from gradwire.programs.outside import TAIL_BYTES, wanted_outside
from gradwire.programs.program_file import covered_folders, file_defect
from gradwire.programs.talk import Talk
from gradwire.programs.windows import CommandWindows
from gradwire.vm.owners import temporary_folder
from gradwire.vm.session import PaceListener, SessionLimits

TEMPORARY_PATH = Path("/tmp")
INPUT_LINE_BYTES = 1 << 20
PLACE = "script"


@dataclass(frozen=True)
class LinePrompt:
    """A line that a script wants."""

    #: Text before the cursor.
    prompt: bytes
    asked: LineAsked


@dataclass(frozen=True)
class ScriptRequest:
    """A script to run."""

    interpreter: PythonInterpreter
    script: Path
    arguments: Sequence[str]
    #: Rate of links that name none.
    link_rate_bps: float
    memory_mb: int
    #: Virtual seconds that it may take, and wall seconds that the whole run may.
    time_limit_s: float
    wall_limit_s: float
    #: Wall seconds that the virtual clock may stand still.
    stall_limit_s: float
    #: The run's, which must exist.
    folder: Path
    #: Files that also show the output, by stream.
    shown: Mapping[int, BinaryIO] = field(default_factory=dict)
    #: Gives the next line of input, with its end; empty at the end.
    read_line: Callable[[LinePrompt], bytes] = lambda _: b""
    #: Whether a person types it.
    typed: bool = False
    output_limit_bytes: int = OUTPUT_LIMIT_BYTES
    on_output_full: Callable[[], None] = lambda: None
    one_output: bool = False
    #: Hears how the run is getting on.
    listener: PaceListener | None = None
    #: Virtual time that computation takes, as a multiple of the script's CPU time.
    cpu_time: float = 0.0


class ScriptSummary(msgspec.Struct, frozen=True):
    """The result of a run, as it is kept in its folder."""

    command: tuple[str, ...]
    wall_s: float
    memory_bytes: int
    report: ScriptReport
    #: Whether the script failed and wrote what programs write that want the internet.
    wanted_the_internet: bool


def check_script(path: Path) -> Path:
    """The absolute path of a script's file. Raises InputFault for a path that is none, or cannot be seen in the
    kernel."""
    if not path.is_file():
        raise InputFault(f"{path}: {'is a folder' if path.is_dir() else 'no such file'}; give a Mininet script, or mn")
    try:
        defect = file_defect(without_links(path))
    except OSError as error:
        raise InputFault(f"{path}: cannot be read: {error.strerror}") from error
    if defect:
        raise InputFault(f"{path}: {defect}")
    return path.absolute()


def script_environment(request: ScriptRequest, environment: Mapping[str, str]) -> dict[str, str]:
    """The caller's environment for a script. Windows cannot be opened in the kernel, so DISPLAY is left out."""
    kept = {name: value for name, value in environment.items() if name not in (*NOT_OF_THE_KERNEL, "DISPLAY")}
    return {
        "PYTHONUNBUFFERED": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "HOME": "/tmp",
        "SHELL": "/bin/bash",
        **kept,
        "PATH": path_on_hosts(kept.get("PATH", ""), str(PROGRAMS)),
        "PYTHONPATH": ":".join(filter(None, (str(MODULES), kept.get("PYTHONPATH")))),
        ASKING_VARIABLE: str(INPUT),
        LINK_RATE_VARIABLE: f"{request.link_rate_bps / 1e6:f}",
    }


def check_link_rate(rate_bps: float) -> None:
    """Raises InputFault for a rate that links cannot have."""
    if not 0 < rate_bps <= MOST_MBIT * 1e6:
        raise InputFault("--rate: links have up to 100 Gbit/s; give such a rate, e.g. --rate 10gbit")


class _ScriptTalk:
    """The conversation with a script's job, and with the person who types. folder: of the windows' socket."""

    def __init__(self, request: ScriptRequest, job: Conversation, files: ExitStack, folder: Path) -> None:
        self._request, self._job, self._files = request, job, files
        self._talk = Talk(job.running)
        self._windows = CommandWindows(folder, self._talk.send, os.environ)
        files.callback(self._windows.close)
        self._limits = SessionLimits(job.running.time_limit(request.wall_limit_s), request.stall_limit_s)
        self._kept: dict[int, BinaryIO] = {}
        self._interrupts = 0
        self._asked: LineAsked | None = None
        self._in_time = True
        self.tail = b""
        self.report: ScriptReport | None = None

    def follow(self) -> None:
        """Handles the messages of the job, and answers them, until nothing more will come."""
        # A line is also read while a command runs in a window.
        while not self._hear_until(lambda: self._asked is not None and (self._talk.rests or bool(self._windows))):
            self._answer()

    def _hear_until(self, until: Callable[[], bool]) -> bool:
        """Handles the messages of the job until `until` is true or nothing more will come. Returns whether nothing more
        will come."""
        self._in_time = self._job.follow(
            self._take, lambda: self._is_over or until(), self._limits, watched=self._windows.watch
        )
        return self._is_over

    @property
    def _is_over(self) -> bool:
        return not self._in_time or self.report is not None or self._job.refused is not None

    def _take(self, event: Event) -> None:
        """Handles one event of the job."""
        match event:
            case Output(stream=stream, data=data):
                self._write(stream, data)
            case OutputFull():
                self._request.on_output_full()
            case LineAsked():
                self._asked = event
            case WindowAsked(node=node):
                self._job.running.answer(line_of(self._windows.open(node)))
            case Rested() | Passed() | WindowOutput() | Over():
                seen = self._interrupts
                self._talk.take(event, self._windows, lambda: self._interrupts > seen, reads_lines=self._asked is None)
            case ScriptReport():
                self.report = event

    def _write(self, stream: int, data: bytes) -> None:
        if stream not in self._kept:
            path = output_file(self._request.folder, PLACE, stream)
            path.parent.mkdir(exist_ok=True)
            self._kept[stream] = self._files.enter_context(path.open("wb", buffering=0))
        self._kept[stream].write(data)
        self.tail = (self.tail + data)[-TAIL_BYTES:]
        if shown := self._request.shown.get(stream):
            shown.write(data)
            shown.flush()

    def _answer(self) -> None:
        """Gives the script the line that it has asked for."""
        assert self._asked is not None
        question = LinePrompt(self.tail.rpartition(b"\n")[2], self._asked)
        self._interrupts = 0
        answer: LineGiven | Interrupt
        try:
            line = self._talk.line(lambda: self._request.read_line(question), self._windows, self._hear_until)
            answer = LineGiven(line[:INPUT_LINE_BYTES])
        except KeyboardInterrupt:
            answer = Interrupt()
        self._asked = None
        self.tail += b"\n"  # that of the line: what comes now stands at the beginning of another
        self._talk.person = Person()
        self._talk.send(answer)

    @contextmanager
    def interrupting(self) -> Iterator[None]:
        """Turns Ctrl-C into an interrupt of the script; the third ends the command."""

        def interrupt(_: int, frame: FrameType | None) -> None:
            if self._talk.is_read_by_copy:
                return  # which hears it as well
            self._interrupts += 1
            if self._interrupts > 2 or _is_reading(frame):
                raise KeyboardInterrupt
            self._talk.send(Interrupt())

        before = signal.signal(signal.SIGINT, interrupt)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)


def _is_reading(frame: FrameType | None) -> bool:
    """Returns whether a line of input is being read."""
    while frame is not None:
        if frame.f_code is _ScriptTalk._answer.__code__:
            return True
        frame = frame.f_back
    return False


def run_script(request: ScriptRequest) -> ScriptSummary:
    """Runs the script, with its output shown and kept, and leaves a summary in the folder.

    Raises MachineFault if a limit is reached or the kernel dies, InputFault for a script that stops the virtual clock.
    Whatever happens, what was written is kept, and no process is left.
    """
    folder, here = request.folder, Path.cwd()
    (folder / TEMPORARY).mkdir(exist_ok=True)
    (folder / TEMPORARY).chmod(0o1777)
    python = request.interpreter.python
    needed = (here, request.script.parent, python.parent.parent, PACKAGE.parent)
    seen = [path for path in needed if path.is_relative_to(TEMPORARY_PATH)]
    task = ScriptTask(
        python=str(request.interpreter.python),
        script=str(request.script),
        arguments=tuple(request.arguments),
        env=script_environment(request, os.environ),
        folder=str(here),
        mininet=str(request.interpreter.mininet),
        own_python=sys.executable,
        own_path=str(PACKAGE.parent),
        seen=tuple(str(path) for path in dict.fromkeys(seen) if path != TEMPORARY_PATH),
        covered=covered_folders(folder, here),
        one_output=request.one_output,
        typed=request.typed,
        time_limit_s=request.time_limit_s,
        output_limit_bytes=request.output_limit_bytes,
        cpu_time=request.cpu_time,
    )
    write_task(folder, task)
    begin_s = time.monotonic()
    try:
        with (
            temporary_folder() as own,
            ExitStack() as files,
            conversation(
                "mininet_job",
                folder,
                memory_mb=request.memory_mb,
                job_name="the script",
                listener=request.listener,
            ) as job,
        ):
            heard = _ScriptTalk(request, job, files, own)
            with heard.interrupting():
                heard.follow()
            memory_bytes = job.running.memory_bytes()
    finally:
        _remove_empty(folder / TEMPORARY)
    job.raise_refused()
    name = request.script.name
    if heard.report is None:
        raise MachineFault(
            f"after {request.wall_limit_s:g} s of wall time {name} had not ended and was stopped; give more with "
            "--wall-limit"
        )
    wanted = bool(heard.report.status) and wanted_outside(heard.tail)
    command = (str(request.script), *request.arguments)
    summary = ScriptSummary(command, time.monotonic() - begin_s, memory_bytes, heard.report, wanted)
    with replacing(folder / SUMMARY_FILE) as partial:
        partial.write_bytes(msgspec.json.format(msgspec.json.encode(summary), indent=1) + b"\n")
    if heard.report.status is None:
        raise MachineFault(
            f"after {request.time_limit_s:g} s of virtual time {name} had not ended and was stopped; give more with "
            f"--time-limit, or see what it waits for in {folder / 'output'}"
        )
    return summary


def _remove_empty(folder: Path) -> None:
    """Removes folders in which nothing is, and the folder itself if nothing is left. Follows no link."""
    for place, _, _ in os.walk(folder, topdown=False):
        with suppress(OSError):
            Path(place).rmdir()
