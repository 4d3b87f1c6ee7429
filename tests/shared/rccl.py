"""RCCL as this machine has it: Debian's package (trixie and later: librccl1), or the folder that GRADWIRE_RCCL names.

In that folder, packages of another release are unpacked: librccl1, libc6, libstdc++6 and libgcc-s1. Programs are then
started by that release's loader, for RCCL needs a newer C library than Debian 12 has.
"""

from __future__ import annotations

import ctypes.util
import os
import sys
import sysconfig
from pathlib import Path

FOLDER_VARIABLE = "GRADWIRE_RCCL"
LIBRARIES = Path("usr/lib/x86_64-linux-gnu")


def rccl_folder() -> Path | None:
    """The folder with unpacked packages; None if no variable names one."""
    named = os.environ.get(FOLDER_VARIABLE)
    return Path(named) / LIBRARIES if named else None


def has_rccl() -> bool:
    """Whether programs can be started with RCCL."""
    folder = rccl_folder()
    return (folder / "librccl.so.1").exists() if folder else ctypes.util.find_library("rccl") is not None


def python_with_rccl() -> list[str]:
    """The words that start this Python, as a shell's script that has LD_LIBRARY_PATH, so that it finds RCCL and the
    stand-ins; the script's own arguments follow."""
    python, folder = str(Path(sys.executable).resolve()), rccl_folder()
    packages = f"PYTHONPATH={sysconfig.get_path('purelib')}"
    if folder is None:
        return ["env", packages, python]
    own = sysconfig.get_config_var("LIBDIR")
    line = f'exec {folder}/ld-linux-x86-64.so.2 --library-path "$LD_LIBRARY_PATH:{folder}:{own}:/{LIBRARIES}" {python} "$@"'
    return ["env", packages, "sh", "-c", line, "sh"]
