"""What a host's kernel takes for real programs: `host_costs.c`, which a row's command loads before its program."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from gradwire.faults import InternalFault, MachineFault
from gradwire.files import replacing
from gradwire.runs.stored.run_folder import RUNS
from gradwire.vm.packages import install_command

FOLDER = RUNS / "world-programs"
"""The run folders of programs, and the library, whichever sources were asked for."""
SOURCE = Path(__file__).with_name("host_costs.c")
COMPILER = "gcc"
FLAGS = ("-std=gnu11", "-O2", "-shared", "-fPIC", "-Wall")
LIBRARIES = ("-ldl", "-lm")


def path_of_library() -> Path:
    """Where the library lies once it is built, from the folder in which gradwire runs; another name for another source or
    other flags."""
    content = SOURCE.read_bytes() + " ".join((*FLAGS, *LIBRARIES)).encode()
    return FOLDER / f"host-costs-{hashlib.sha256(content).hexdigest()[:8]}.so"


def build() -> None:
    """Builds the library, also where one is there: a folder of runs may be somebody else's, and programs would load it.
    Raises MachineFault if there is no compiler."""
    library = path_of_library()
    compiler = shutil.which(COMPILER)
    if compiler is None:
        raise MachineFault(f"{COMPILER} is missing, to build {SOURCE.name}: `{install_command(COMPILER)}`")
    library.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as scratch:
        built = Path(scratch) / library.name
        command = [compiler, *FLAGS, "-o", str(built), str(SOURCE), *LIBRARIES]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        if ended.returncode:
            raise InternalFault(f"{SOURCE.name} cannot be built: {ended.stderr.strip()}")
        with replacing(library) as unfinished:
            unfinished.write_bytes(built.read_bytes())
