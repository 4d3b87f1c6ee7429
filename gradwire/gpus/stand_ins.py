"""The stand-ins, which are compiled once: `python -m gradwire.gpus.stand_ins`, as `make setup` does.

libamdhip64.so.5 and librocm_smi64.so.1 have the names that a program's loader asks for. The third library is preloaded:
its threads sleep until something happened.
"""

from __future__ import annotations

import hashlib
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gradwire.faults import Fault, UnfitMachine
from gradwire.files import unfit_for_writing
from gradwire.vm.kernel import cache_folder
from gradwire.vm.packages import install_command

SOURCES = Path(__file__).with_name("sources")
PREBUILT = Path(__file__).with_name("prebuilt")
"""Folder of the stand-ins that a wheel ships with; the repository has none."""
PRELOADED = "libgradwire_waits.so"
COMPILER = "gcc"
FLAGS = ("-std=gnu11", "-O2", "-Wall", "-Wextra", "-fPIC", "-shared", "-fvisibility=hidden")
COMPILE_LIMIT_S = 300.0


@dataclass(frozen=True)
class StandIn:
    """A library, and what it is compiled from."""

    name: str
    sources: Sequence[str]
    options: Sequence[str] = ()

    def command(self, target: Path) -> list[str]:
        """The compiler's command, in the folder of the sources, that writes it to `target`."""
        sources = sorted(str(path.relative_to(SOURCES)) for pattern in self.sources for path in SOURCES.glob(pattern))
        return [COMPILER, *FLAGS, *self.options, f"-Wl,-soname,{self.name}", "-o", str(target), *sources]


STAND_INS = (
    StandIn(
        "libamdhip64.so.5",
        ("[d-m]*.c", "progress.c", "s*.c", "collectives/*.c"),
        ('-DMISSING_NAMES="hip_missing.h"', "-Wl,--version-script=hip.map"),
    ),
    StandIn(
        "librocm_smi64.so.1",
        ("rocm_smi.c", "missing.c", "settings.c", "ending.c"),
        ('-DMISSING_NAMES="rocm_smi_missing.h"',),
    ),
    StandIn(PRELOADED, ("waits.c",)),
)


def stand_ins_folder() -> Path:
    """The folder of the compiled stand-ins: those that the installation ships with, or else those of the cache, which are
    compiled if they are not there. Raises UnfitMachine where they cannot be."""
    if PREBUILT.exists():
        return PREBUILT
    folder = cache_folder() / f"gpus-{sources_digest()}"
    if not folder.exists():
        try:
            _compile_at_once(folder)
        except OSError as error:
            raise unfit_for_writing(error, folder) from error
    return folder


def sources_digest() -> str:
    """A hash of all sources, and of how they are compiled."""
    paths = sorted(path for path in SOURCES.rglob("*") if path.is_file())
    texts = [f"{path.relative_to(SOURCES)}\0".encode() + path.read_bytes() for path in paths]
    return hashlib.sha256(b"\0".join([repr((FLAGS, STAND_INS)).encode(), *texts])).hexdigest()[:16]


def compile_stand_ins(folder: Path) -> None:
    """Compiles all into a folder. Raises UnfitMachine if there is no compiler, or it fails."""
    for stand_in in STAND_INS:
        try:
            done = subprocess.run(
                stand_in.command(folder / stand_in.name),
                cwd=SOURCES,
                capture_output=True,
                text=True,
                check=False,
                timeout=COMPILE_LIMIT_S,
            )
        except FileNotFoundError as error:
            raise UnfitMachine(
                f"{COMPILER}, which compiles the stand-ins for GPUs: {install_command(COMPILER)}"
            ) from error
        except subprocess.TimeoutExpired as error:
            raise UnfitMachine(f"{COMPILER} took more than {COMPILE_LIMIT_S:g} s for {stand_in.name}") from error
        if done.returncode:
            raise UnfitMachine(f"{COMPILER} does not compile {stand_in.name}:\n{done.stderr}")


def _compile_at_once(folder: Path) -> None:
    """So that of several processes that do it none sees a part."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="compiling-", dir=folder.parent) as temporary:
        part = Path(temporary) / "gpus"
        part.mkdir()
        compile_stand_ins(part)
        try:
            part.rename(folder)
        except OSError:
            if not folder.exists():  # otherwise another process was first
                raise


def main() -> None:
    """Compiles them, if need be, and says where they are."""
    try:
        print(f"stand-ins for GPUs: {stand_ins_folder()}")
    except Fault as fault:
        raise SystemExit(f"error: {fault}") from fault


if __name__ == "__main__":
    main()
