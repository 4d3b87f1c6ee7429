"""Installs completion in a user's home: the script in a file of its own, and the lines that load it at the end of the
shell's own file.

That file is the user's. It is never written anew, which a full disk would leave empty: lines are added to it, all of
them or none, and nothing is changed if it has them.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from gradwire.faults import InputFault
from gradwire.files import replace_text
from gradwire.regular_files import MESSAGE_BYTES, IrregularFileError, read_bytes
from gradwire.runs.launch.place import writing

SCRIPTS = {
    "bash": Path(".bash_completions/gradwire.sh"),
    "zsh": Path(".zfunc/_gradwire"),
    "fish": Path(".config/fish/completions/gradwire.fish"),
}
"""Where each shell has the script, below the home. fish looks for it there by itself."""
OWN = {"bash": Path(".bashrc"), "zsh": Path(".zshrc")}
"""The files of the user's that have to load it."""
ADDING = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def install(shell: str, script: str) -> Path:
    """Installs a script for a shell of SCRIPTS, and returns its path. Raises InputFault or MachineFault."""
    home = Path.home()
    if not home.is_absolute():
        raise InputFault(f"HOME: is {str(home)!r}, and has to be an absolute path; set it to your home folder")
    path = home / SCRIPTS[shell]
    own = home / OWN[shell] if shell in OWN else None
    missing: list[str] = []
    if own is not None:
        with writing(own):
            missing = _missing(shell, path, _held(own))
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_text(path, f"{script}\n")
    if own is not None and missing:
        with writing(own):
            _add(own, missing)
    return path


def _held(path: Path) -> str:
    """What a shell's own file has; "" if there is none. Bytes that are no text in UTF-8 match nothing."""
    try:
        return read_bytes(path, MESSAGE_BYTES, follow=True, bounded=True).decode("utf-8", "replace")
    except FileNotFoundError:
        return ""


def _missing(shell: str, script: Path, held: str) -> list[str]:
    """The lines that load the script and that a shell's own file, which holds `held`, does not have."""
    line = f"source '{script}'" if shell == "bash" else "fpath+=~/.zfunc; autoload -Uz compinit; compinit"
    missing = [] if line in held else [line]
    return missing if shell == "bash" or "zstyle" in held else [*missing, "zstyle ':completion:*' menu select"]


def _add(path: Path, lines: list[str]) -> None:
    """Adds lines at the end of a file, all or none. Raises OSError."""
    file = os.open(path, ADDING, 0o666)
    try:
        before = os.fstat(file)
        if not stat.S_ISREG(before.st_mode):
            raise IrregularFileError(path, "is not a regular file")
        rest = "".join(f"\n{line}" for line in lines).encode() + b"\n"
        try:
            while rest:
                rest = rest[os.write(file, rest) :]
        except OSError as error:
            os.ftruncate(file, before.st_size)
            error.filename = str(path)
            raise
    finally:
        os.close(file)
