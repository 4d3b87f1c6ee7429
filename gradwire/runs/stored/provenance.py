"""The origin of a run folder's results: gradwire's version, the command, the kernel, and the machine, noted when a run
begins.

A folder that is resumed has a note for each time, because points of several runs may lie in it.
"""

from __future__ import annotations

import platform
import shlex
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

import msgspec

from gradwire import PACKAGE
from gradwire.files import replacing
from gradwire.inside.point_protocol import write_json
from gradwire.runs.stored.run_files import read_message, reading
from gradwire.vm.kernel import cached_kernel
from gradwire.vm.machines import Clock

PROVENANCE_FILE = "provenance.json"
NOT_RECORDED = "not recorded"
"""Text for values that the folder has no notes of."""
CPU_FACTS = Path("/proc/cpuinfo")
GIT_LIMIT_S = 5.0


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """One time at which a run of the folder began, with its versions and its machine. An empty text stands for a fact
    that could not be found out."""

    #: Date and time in ISO 8601, in UTC.
    began_at: str
    #: Version of gradwire.
    version: str
    #: Commit of gradwire's checkout, with "+" behind it if its files differ from the commit; "" if it is not a
    #: checkout of git.
    commit: str = ""
    #: Command that began it, ready to be repeated; "" if it was none.
    command: str = ""
    #: Name of the virtual-time kernel, or the release of the machine's own on the wall clock.
    kernel: str = ""
    clock: Clock
    #: Origin of a measured scale of the wall clock.
    scale_from: str = ""
    #: Model of the processor.
    processor: str = ""
    python: str = ""


class Provenance(msgspec.Struct, frozen=True):
    """The content of provenance.json."""

    #: In order of time, the last one being that of the newest results.
    starts: tuple[Start, ...] = ()


def typed_command(words: Sequence[str]) -> str:
    """A command as it was typed, from the program's path and its arguments, quoted so that a shell takes it."""
    name, *arguments = words
    return shlex.join([Path(name).name.replace("__main__.py", "gradwire"), *arguments])


def note_start(folder: Path, clock: Clock, command: str, scale_from: str = "") -> None:
    """Notes that a run begins in a run folder. command: the one that began it. Raises InputFault for a damaged
    note."""
    known = provenance(folder).starts
    with replacing(folder / PROVENANCE_FILE) as partial:
        write_json(
            partial,
            Provenance((*known, msgspec.structs.replace(_start(clock, command), scale_from=scale_from))),
            indent=1,
        )


def provenance(folder: Path) -> Provenance:
    """Reads the notes of a run folder; an empty Provenance if there are none. Raises InputFault for a damaged
    file."""
    path = folder / PROVENANCE_FILE
    if not path.exists() and not path.is_symlink():
        return Provenance()
    with reading(path, f"remove {path}: only what it says of earlier runs is lost"):
        return read_message(path, Provenance)


def facts(noted: Provenance, clock: Clock | None) -> list[tuple[str, str]]:
    """Names and values that a report has on the origin of its results. clock: of the run folder, if it is known."""
    start = noted.starts[-1] if noted.starts else None
    clock = start.clock if start else clock
    divided = "not divided" if clock and clock.scale == 1 else f"divided by {clock.scale}" if clock else NOT_RECORDED
    measured = start.scale_from if start else ""
    shown = [
        ("run on", _when(noted)),
        ("command", start.command if start else ""),
        ("gradwire", _version(start) if start else ""),
        ("kernel", start.kernel if start else ""),
        (
            "clock",
            f"{clock.name}; bytes and rates are {divided}{f' ({measured})' if measured else ''}" if clock else "",
        ),
        ("processor", start.processor if start else ""),
        ("Python", start.python if start else ""),
    ]
    return [(name, value or NOT_RECORDED) for name, value in shown]


def _when(noted: Provenance) -> str:
    times = [start.began_at.replace("T", " ").replace("+00:00", " UTC") for start in noted.starts]
    before = f", and begun before on {', '.join(times[:-1])}" if times[1:] else ""
    return f"{times[-1]}{before}" if times else ""


def _version(start: Start) -> str:
    commit = start.commit.removesuffix("+")
    changed = ", with changes" if start.commit.endswith("+") else ""
    return f"{start.version}, commit {commit}{changed}" if commit else start.version


def _start(clock: Clock, command: str) -> Start:
    kernel = cached_kernel() if clock.name == "virtual" else None
    return Start(
        began_at=datetime.now(UTC).isoformat(timespec="seconds"),
        version=metadata.version("gradwire"),
        commit=_commit(PACKAGE.parent),
        command=command,
        kernel=kernel.name if kernel else platform.release() if clock.name == "wall" else "",
        clock=clock,
        processor=_processor(),
        python=platform.python_version(),
    )


def _commit(root: Path) -> str:
    """The commit that is checked out in `root`; "" if it is not the root of a checkout, or git is not there to ask."""
    if not (root / ".git").exists():
        return ""
    try:
        said = [
            subprocess.run(
                ["git", "-C", str(root), *words], capture_output=True, text=True, check=True, timeout=GIT_LIMIT_S
            ).stdout.strip()
            for words in (["rev-parse", "--short=12", "HEAD"], ["status", "--porcelain", "--untracked-files=no"])
        ]
    except (OSError, subprocess.SubprocessError):
        # A commit that cannot be told, as in a checkout of another user, is shown as not known: no result depends on
        # it.
        return ""
    return said[0] + ("+" if said[1] else "")


def _processor() -> str:
    lines = CPU_FACTS.read_text(encoding="utf-8").splitlines() if CPU_FACTS.exists() else []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.machine())
