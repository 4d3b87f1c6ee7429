"""The commands that a scenario names: refused if this machine cannot execute them, identified by the files that they
name, and started, alone or next to a strategy."""

from __future__ import annotations

import functools
import hashlib
import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from gradwire.faults import InputFault
from gradwire.files import without_links
from gradwire.inside.program_protocol import PROGRAMS_FILE, JobTask, make_figures_folders, place_name, write_task
from gradwire.network.fabric import Fabric
from gradwire.programs.launch import SHELL_LINE, Launch, Started, path_on_hosts, programs, warm_start
from gradwire.programs.launch import programs as launched
from gradwire.programs.outputs import OUTPUT_LIMIT_BYTES
from gradwire.programs.program_file import OWN_OF_THE_KERNEL, check_folder, covered_folders, file_defect
from gradwire.scenario.sections.program import ProgramSection, class_alone, class_beside, hosts_of
from gradwire.vm.machine import JOB_FOLDER

SHELL = SHELL_LINE[0]
SHELL_LETTERS = set("$=`(){};&|<>*?!#~")
"""Characters that make a word more than a program's name."""
LOOK_UP_LIMIT_S = 10.0


def refuse_wrong_commands(programs: Mapping[str, ProgramSection]) -> None:
    """Raises InputFault, with the key of each, for commands that this machine cannot execute, or not from this
    folder."""
    check_folder(Path.cwd())
    defects = {name: command_defect(program.command) for name, program in programs.items()}
    lines = [f"program.{name}.command: {defect}" for name, defect in defects.items() if defect]
    warm = {name: _warm_defect(program) for name, program in programs.items()}
    lines += [f"program.{name}.warm_imports: {defect}" for name, defect in warm.items() if defect]
    if lines:
        raise InputFault("\n".join(lines))


def _warm_defect(program: ProgramSection) -> str:
    """Why no modules can be imported before a program starts; "" if they can be, or none are to be."""
    try:
        warm_start(_on_hosts("", program, ()), {name: _text(value) for name, value in program.arguments.items()})
    except InputFault as fault:
        return str(fault)
    return ""


@functools.cache
def command_defect(command: str) -> str:
    """Why a line's first word cannot be executed, by the shell itself; "" if nothing speaks against it, or it is not a
    plain word."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        return f"{error}: {command}"
    word = words[0] if words else ""
    if not word or set(word) & SHELL_LETTERS:
        return ""
    asked = [SHELL, "-c", 'command -v -- "$1"', SHELL, word]
    there = {**os.environ, "PATH": path_on_hosts(os.environ.get("PATH", os.defpath))}
    try:
        found = subprocess.run(
            asked, env=there, capture_output=True, text=True, check=False, timeout=LOOK_UP_LIMIT_S
        ).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):  # whatever it is, it is not a name of a program
        found = ""
    if not found:
        return f"{word}: no such program on the PATH; install it, or give its path"
    path = Path(found)
    defect = file_defect(without_links(path)) if path.is_absolute() and path.is_file() else ""
    return f"{found}: {defect}" if defect else ""


def named_files(programs: Mapping[str, ProgramSection]) -> dict[str, dict[str, str]]:
    """The files that commands and their arguments name, the programs themselves among them, each with the hash of its
    content."""
    return {name: _named_files(program) for name, program in programs.items()}


def _named_files(program: ProgramSection) -> dict[str, str]:
    words = {word for text in (program.command, *map(str, program.arguments.values())) for word in _words(text)}
    found = {word: Path(shutil.which(word) or word) for word in sorted(words)}
    return {word: _file_hash(path, path.stat().st_mtime_ns) for word, path in found.items() if _is_file(path)}


def _words(text: str) -> Iterator[str]:
    """The words of a line for a shell, also those within quotation marks and behind an equals sign, which may be names
    of files."""
    try:
        lexer = shlex.shlex(text, posix=True, punctuation_chars=True)
        lexer.commenters = ""
        words = list(lexer)
    except ValueError:
        return
    for word in words:
        parts = {part for part in (word, *word.split("=")) if part}
        yield from parts
        for part in parts:
            if len(part.split()) > 1 and part != text:
                yield from _words(part)


def _is_file(path: Path) -> bool:
    """Returns whether programs find the same file at this path as it is here; False for a path that cannot be
    one."""
    try:
        own = any(path.absolute().is_relative_to(folder) for folder in OWN_OF_THE_KERNEL)
        return not own and path.is_file() and os.access(path, os.R_OK)
    except (OSError, ValueError):
        return False


@functools.cache
def _file_hash(path: Path, _: int) -> str:
    """Hash of a file's content, computed once as long as the file is as old as it was."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


def told(started: Sequence[Started], fabric: Fabric) -> list[object]:
    """Everything that programs are started with, besides the caller's environment, in plain values."""
    return [msgspec.to_builtins(program) for program in launched(started, fabric, {}, Path("run"))]


def started(programs: Mapping[str, ProgramSection], fabric: Fabric) -> list[Started]:
    """Programs to start, with their hosts and times."""
    return [_started(name, program, fabric) for name, program in programs.items()]


def started_beside(programs: Mapping[str, ProgramSection], fabric: Fabric) -> list[Started]:
    """Programs to start next to a strategy, each with its traffic class."""
    return [
        replace(each, traffic_class=class_beside(program))
        for each, program in zip(started(programs, fabric), programs.values(), strict=True)
    ]


def _started(name: str, program: ProgramSection, fabric: Fabric) -> Started:
    launched = _on_hosts(name, program, hosts_of(program, fabric.host_names()))
    return replace(launched, traffic_class=class_alone(program.traffic_class, fabric))


def _on_hosts(name: str, program: ProgramSection, hosts: Sequence[int]) -> Started:
    return Started(
        argv=[*SHELL_LINE, program.command],
        hosts=hosts,
        launch=Launch(program.launch),
        name=name,
        variables={variable: _text(value) for variable, value in program.arguments.items()},
        start_s=program.start,
        background=program.background,
        traffic_class=program.traffic_class,
        warm_imports=program.warm_imports,
    )


def _text(value: str | float | bool) -> str:
    """A value as a shell would expand it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def write_programs(folder: Path, sections: Mapping[str, ProgramSection], fabric: Fabric) -> None:
    """Writes the programs that a point's machine runs during the replay into its folder."""
    launched, names = started_beside(sections, fabric), fabric.host_names()
    task = JobTask(
        fabric_json=fabric.to_json(),
        folder=str(Path.cwd()),
        programs=programs(launched, fabric, os.environ, Path(JOB_FOLDER)),
        hosts={program.name: tuple(program.hosts) for program in launched},
        output_limit_bytes=OUTPUT_LIMIT_BYTES,
        covered=covered_folders(folder.parent, Path.cwd()),  # with other points, which run at the same time
        enters=any(program.launch is Launch.MPI for program in launched),
    )
    write_task(folder / PROGRAMS_FILE, task)
    make_figures_folders(
        folder, [place_name(program.name, names[host]) for program in launched for host in program.started_on]
    )
