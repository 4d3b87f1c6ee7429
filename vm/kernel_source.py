"""What the virtual-time kernel is made of: the distribution's source, the project's config, the tools. Decides, builds nothing."""

from __future__ import annotations

import errno
import hashlib
import os
import platform
import re
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from gradwire.faults import InputFault, InternalFault, MachineFault

CONFIG = Path(__file__).with_name("kernel.config")
SOURCE_FOLDER = Path("/usr/src")
SOURCE_VARIABLE = "GRADWIRE_KERNEL_SOURCE"
VERSION_MIN = (6, 12)
"""First kernel that this config was tried on; earlier ones lack fixes of time travel."""
INSTALL_SOURCE = "apt-get install --no-install-recommends linux-source-6.12"
BUILD_ROOM_MB = 1000
"""Room that a build needs in the cache folder: 790 MiB at its peak, and slack."""
COMPILED_OBJECTS = 608
"""Lines `CC` of a build of 6.12 with kernel.config; only the progress bar rests on it."""
COMPILER_FLAGS = "-mcmodel=small"
"""User-mode kernels default to -mcmodel=large for the sake of modules, which makes every call an indirect one."""

EDITS = {
    "arch/um/include/linux/time-internal.h": ("#define TIMER_MULTIPLIER 256\n", "#define TIMER_MULTIPLIER 16\n"),
    "arch/um/os-Linux/util.c": ("\treturn getrandom(buf, len, flags);\n", "\tmemset(buf, 0, len);\n\treturn len;\n"),
    "init/main.c": ("\trandom_init_early(command_line);\n", '\trandom_init_early("");\n'),
}
"""What is changed in the kernel's own text: file to (what stands there once, what is put in its place).

Reading the clock costs TIMER_MULTIPLIER nanoseconds of virtual time, so that a loop which waits for time to pass ends (timer_read in
arch/um/kernel/time.c). Processes read one after the other, about twice a burst of 64 KiB: at 256 ns all hosts together carry 0.6 Tbit/s
exactly and no more, which 8 ports of 100 Gbit/s exceed.

The other two make runs repeat. The kernel takes its first random numbers from the host and from its command line. They decide ports, hash
seeds and what Python's and Open vSwitch's tables are gone through first, and with that how often the clock is read. Here they start from
nothing: the same in every run and secret in none, for nothing leaves the machine."""

TOOLS = {
    "bc": "bc",
    "bison": "bison",
    "flex": "flex",
    "gcc": "gcc libc6-dev",
    "make": "make",
    "strip": "binutils",
    "tar": "tar",
    "xz": "xz-utils",
}
"""Programs that a build calls, each with the Debian packages that bring it."""

_NAME = re.compile(r"linux-source-(\d+(?:\.\d+)*)\.tar\.(?:xz|bz2|gz|zst)")
_ON = re.compile(r"(CONFIG_\w+)=(.+)")
_OFF = re.compile(r"# (CONFIG_\w+) is not set")
_COMPILED = re.compile(r"  CC +(\S+)")


@dataclass(frozen=True)
class Source:
    """A source package: the tarball and the kernel version that its name states."""

    tarball: Path
    version: tuple[int, ...]

    @property
    def version_text(self) -> str:
        """Version as people write it."""
        return ".".join(map(str, self.version))

    def digest(self) -> str:
        """Eight hex digits that change when the tarball does (name, size, time; reading 150 MB at every start is too slow)."""
        facts = self.tarball.stat()
        return _digest(f"{self.tarball.name} {facts.st_size} {facts.st_mtime_ns}")


def source_of(tarball: Path) -> Source | None:
    """The source package that `tarball` is by its name; None when the name is another one."""
    match = _NAME.fullmatch(tarball.name)
    return Source(tarball, tuple(map(int, match[1].split(".")))) if match else None


def newest_source(tarballs: Iterable[Path]) -> Source | None:
    """The newest of the packages that is new enough (VERSION_MIN); None when there is none."""
    sources = [source for tarball in tarballs if (source := source_of(tarball))]
    return max((s for s in sources if s.version >= VERSION_MIN), key=lambda s: s.version, default=None)


def find_source() -> Source:
    """The tarball that GRADWIRE_KERNEL_SOURCE names, or the newest one in /usr/src.

    Raises InputFault for a wrong variable, MachineFault when no package is installed.
    """
    named = os.environ.get(SOURCE_VARIABLE)
    if named is not None:
        source = source_of(Path(named))
        if source is None or not source.tarball.is_file():
            raise InputFault(f"{SOURCE_VARIABLE}={named}: must be a file named linux-source-<version>.tar.xz")
        if source.version < VERSION_MIN:
            raise InputFault(
                f"{SOURCE_VARIABLE}={named}: must be of version {'.'.join(map(str, VERSION_MIN))} or later"
            )
        return source
    source = newest_source(SOURCE_FOLDER.glob("linux-source-*"))
    if source is None:
        raise MachineFault(f"no kernel source of 6.12 or later in {SOURCE_FOLDER}: run `{INSTALL_SOURCE}`")
    return source


def check_tools() -> None:
    """Raises MachineFault when the machine is no x86-64 or lacks a tool, with the command that installs it."""
    if platform.machine() != "x86_64":
        raise MachineFault(
            f"the virtual-time kernel exists for x86_64 only, this is {platform.machine()}: use --clock wall"
        )
    missing = missing_tools()
    if missing:
        packages = " ".join(dict.fromkeys(TOOLS[tool] for tool in missing))
        raise MachineFault(
            f"tools missing to build the kernel ({', '.join(missing)}): run `apt-get install --no-install-recommends {packages}`"
        )


def missing_tools() -> list[str]:
    """Programs of TOOLS that are not on the path, and gcc where the C library's headers are missing."""
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if "gcc" not in missing and not Path("/usr/include/stdio.h").exists():
        missing.append("gcc")
    return missing


def config_digest(config_text: str) -> str:
    """Eight hex digits that change with the config's options, the compiler flags and the edits, and not with the config's comments."""
    options = sorted(f"{name}={value}" for name, value in wanted_options(config_text).items())
    return _digest("\n".join([COMPILER_FLAGS, *options, *(f"{path} {edit}" for path, edit in EDITS.items())]))


def edited(text: str, path: str) -> str:
    """The text of the kernel's file `path` with its edit; raises InternalFault when what it replaces does not stand there just once."""
    old, new = EDITS[path]
    if text.count(old) != 1:
        raise InternalFault(
            f"this kernel's {path} has `{old.strip()}` {text.count(old)} times, where an edit of it needs it once. "
            f"Please report this; until then set {SOURCE_VARIABLE} to a linux-source of 6.12"
        )
    return text.replace(old, new)


def kernel_name(source: Source, config_text: str) -> str:
    """File name of the kernel in the cache."""
    return f"kernel-{source.version_text}-{config_digest(config_text)}-{source.digest()}"


def wanted_options(config_text: str) -> dict[str, str | None]:
    """Options that a config states: name to value, None for `is not set`. Other lines are comments."""
    options: dict[str, str | None] = {}
    for line in config_text.splitlines():
        if match := _ON.fullmatch(line):
            options[match[1]] = match[2]
        elif match := _OFF.fullmatch(line):
            options[match[1]] = None
    return options


def lost_options(wanted: Mapping[str, str | None], final: Mapping[str, str | None]) -> list[str]:
    """Lines of `wanted` that are not so in the final config: Kconfig drops what it does not like without a word."""
    return [
        f"{name}={value or 'n'} became {final.get(name) or 'n'}"
        for name, value in wanted.items()
        if final.get(name) != value
    ]


def compiled_object(line: str) -> str | None:
    """Name of the object that a line of make's output says to be compiling."""
    match = _COMPILED.match(line)
    return match[1] if match else None


def build_fault(step: str, last_lines: Iterable[str], log: Path) -> MachineFault:
    """The error for a failed step (`unpacking`, `configuring`, `compiling`), from the last lines that it wrote."""
    lines = list(last_lines)
    if any(os.strerror(errno.ENOSPC) in line for line in lines):
        return disk_full(log.parent)
    last = "\n".join(lines[-5:])
    return MachineFault(f"{step} the kernel failed; all that it said is in {log}, the last of it:\n{last}")


def disk_full(folder: Path) -> MachineFault:
    """The error for a cache folder without room."""
    return MachineFault(
        f"no room left in {folder} while building the kernel: {BUILD_ROOM_MB} MiB are needed while it builds and 6 after; "
        "free some, or set GRADWIRE_CACHE to a folder with room"
    )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]
