"""The task that the command outside gives to the job of a Mininet script: the content of task.json."""

from __future__ import annotations

from pathlib import Path

import msgspec

from gradwire.inside.program_protocol import FOLDER, TASK_FILE

TEMPORARY = "tmp"
"""In the run folder: what the script finds as /tmp."""
PROGRAMS = FOLDER / "bin"
"""Small programs that Mininet calls, for machines that do not have them; last on the path."""
MODULES = FOLDER / "mininet-python"
"""What comes first on the script's Python path: the changed copy of Mininet."""
INPUT = FOLDER / "input"
"""The socket by which a script asks for a line of input."""


class ScriptTask(msgspec.Struct, frozen=True, kw_only=True):
    """A script to run."""

    #: The Python to run it with, its file, and its arguments.
    python: str
    script: str
    arguments: tuple[str, ...]
    #: Its whole environment.
    env: dict[str, str]
    #: The folder that it starts in.
    folder: str
    #: The folder of the Mininet that is copied.
    mininet: str
    #: gradwire's own Python, and the folder that its package lies in.
    own_python: str
    own_path: str
    #: Folders below /tmp that the script sees besides its own.
    seen: tuple[str, ...]
    #: Folders that it finds empty.
    covered: tuple[str, ...]
    #: Whether both outputs are one pipe, so that what is written keeps its order.
    one_output: bool
    #: Whether a person types its input.
    typed: bool
    #: Virtual seconds that it may take.
    time_limit_s: float
    #: What is kept of all that it writes. 0: everything.
    output_limit_bytes: int
    #: Of its CPU time, the multiple that computation takes of virtual time.
    cpu_time: float = 0.0


def write_task(folder: Path, task: ScriptTask) -> None:
    """Writes a task, so that a person can read it as well."""
    (folder / TASK_FILE).write_bytes(msgspec.json.format(msgspec.json.encode(task), indent=1) + b"\n")


def read_task(folder: Path) -> ScriptTask:
    """Reads what `write_task` wrote."""
    return msgspec.json.decode((folder / TASK_FILE).read_bytes(), type=ScriptTask)
