"""Points of programs made ready to run: each with a folder, and a key that names everything that decides its result."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gradwire.faults import InputFault
from gradwire.runner.code_digest import sources_digest
from gradwire.runner.programs.launch import Launch, Started
from gradwire.runner.programs.program_file import check_folder, file_defect
from gradwire.runner.stored.point_folders import folder_name
from gradwire.runner.stored.stored_run import in_words
from gradwire.vm.kernel import cached_kernel
from gradwire.workloads.programs.loading import ProgramPoint
from gradwire.workloads.programs.schema import ProgramSection

INSIDE_MODULES = ("gradwire.runner.programs.inside.exec_job", "gradwire.controller.__main__")
"""What the machine boots with. With all that they import, they are the code that carries programs out."""
LIMITS = {"time_limit", "memory_mb", "stall_limit"}
"""Keys of a run that decide whether it comes to its end, and not its result."""
SHELL = "/bin/sh"
SHELL_LETTERS = set("$=`(){};&|<>*?!#~")
"""What makes a word more than a program's name."""
LOOK_UP_LIMIT_S = 10.0


@dataclass(frozen=True)
class PlannedPrograms:
    """What a machine will run for a point."""

    point: ProgramPoint
    folder: Path
    #: Hash of everything that decides the result, as far as gradwire can see it.
    key: str

    @property
    def label(self) -> str:
        """The point in a few words."""
        return in_words(self.point.parameters) or self.folder.name

    @property
    def started(self) -> list[Started]:
        """What to start where, and when."""
        return [_started(self.point, name, program) for name, program in self.point.section.program.items()]


def plan_programs(points: Sequence[ProgramPoint], folder: Path) -> list[PlannedPrograms]:
    """Makes points ready for a run folder. Raises InputFault for a command that this machine cannot execute."""
    check_folder(Path.cwd())
    lines = dict.fromkeys(line for point in points for line in _wrong_commands(point))
    if lines:
        raise InputFault("\n".join(lines))
    return [PlannedPrograms(point, folder / "points" / folder_name(point), key_of(point)) for point in points]


def _wrong_commands(point: ProgramPoint) -> Iterator[str]:
    for name, program in point.section.program.items():
        if defect := command_defect(program.command):
            yield f"{point.origin}: program.{name}.command: {defect}"


def command_defect(command: str) -> str:
    """Why a line's first word cannot be executed, by the shell itself; "" if nothing speaks against it, or it is no plain word."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        return f"{error}: {command}"
    word = words[0] if words else ""
    if not word or set(word) & SHELL_LETTERS:
        return ""
    asked = [SHELL, "-c", 'command -v -- "$1"', SHELL, word]
    found = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=LOOK_UP_LIMIT_S).stdout.strip()
    if not found:
        return f"{word}: no such program on the PATH; install it, or give its path"
    path = Path(found)
    defect = file_defect(path.resolve()) if path.is_absolute() and path.is_file() else ""
    return f"{found}: {defect}" if defect else ""


def key_of(point: ProgramPoint) -> str:
    """Hash of the point, of the code and kernel that carry it out, and of the files that its commands name.

    What programs read besides, such as libraries and data, is not seen: remove the point's folder to run it again.
    """
    kernel = cached_kernel()
    decisive = {
        "section": point.section.model_dump(mode="json", exclude={"run": LIMITS}),
        "fabric": point.fabric.to_json(),
        "kernel": kernel.name if kernel else "",
        "code": sources_digest(INSIDE_MODULES),
        "files": {name: _named_files(program) for name, program in point.section.program.items()},
    }
    return hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()[:16]


def _named_files(program: ProgramSection) -> dict[str, str]:
    """The files that a command names, the program itself among them, each with the hash of its content."""
    try:
        words = shlex.split(program.command)
    except ValueError:
        words = []
    found = {word: Path(shutil.which(word) or word) for word in (*words, *map(str, program.arguments.values()))}
    return {word: _file_hash(path) for word, path in found.items() if path.is_file() and os.access(path, os.R_OK)}


def _file_hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


def _started(point: ProgramPoint, name: str, program: ProgramSection) -> Started:
    return Started(
        argv=[SHELL, "-c", program.command],
        hosts=point.hosts_of(program),
        launch=Launch(program.launch),
        name=name,
        variables={variable: _text(value) for variable, value in program.arguments.items()},
        start_s=program.start,
        background=program.background,
        traffic_class=program.traffic_class,
    )


def _text(value: str | float | bool) -> str:
    """A value as a shell has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
