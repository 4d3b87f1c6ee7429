"""The ingredients of the virtual-time kernel: the distribution's source, the config, the patches, the tools. Builds
nothing itself.

The compiled agent (agents/compiled) is one of them: it makes a system call that only this kernel has, and lies at the
end of the kernel's file. So the two are cached, shipped and handed to other machines as one, and neither is found
without the other. Where only the agent has changed, the kernel is taken from such a file, and not built again.
"""

from __future__ import annotations

import errno
import hashlib
import os
import platform
import re
import shutil
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from gradwire.faults import InputFault, InternalFault, MachineFault
from gradwire.files import replacing
from gradwire.vm.packages import install_command, source_remedy

CONFIG = Path(__file__).with_name("kernel.config")
SOURCE_FOLDER = Path("/usr/src")
SOURCE_VARIABLE = "GRADWIRE_KERNEL_SOURCE"
VERSION_MIN = (6, 12)
"""First kernel that this config was tried on; earlier ones lack fixes to time travel."""
BUILD_ROOM_MB = 1000
"""Room that a build needs in the cache folder: 790 MiB at its peak, plus slack."""
COMPILED_OBJECTS = 860
"""Number of `CC` lines in a build of 6.12 with kernel.config; only the progress bar depends on it."""
COMPILER_FLAGS = "-mcmodel=small"
"""User-mode kernels default to -mcmodel=large for the sake of modules, which makes every call indirect."""

PATCHES = Path(__file__).with_name("patches")
"""Patches to the kernel's source, each with its reason. Those in a folder named after a version apply to that version
only, the others to all versions."""

AGENT = Path(__file__).parent.parent / "agents" / "compiled"
"""The compiled agent's source, next to this folder both in the package and in the repository."""
AGENT_FLAGS = (
    *("-std=gnu11", "-O2", "-shared", "-fPIC", "-fvisibility=hidden"),
    # Older compilers only warn of these.
    *(f"-Werror={what}" for what in ("implicit-function-declaration", "int-conversion", "incompatible-pointer-types")),
    # Without a C library, so that any distribution's Python can load it.
    *("-ffreestanding", "-nostdlib", "-fno-stack-protector"),
    *("-Wl,--build-id=none", "-Wl,-z,defs", "-s"),
)
AGENT_MAGIC = b"gradwire agent 2"
_AGENT_TRAILER = struct.Struct("<Q8s16s")
"""The last bytes of a kernel's file: how many bytes of agent come before them, `bare_digest` of the kernel before it,
and AGENT_MAGIC."""

NOTE_SUFFIX = ".sha256"
"""Suffix of the file that holds the SHA-256 of a kernel or of its source, as `sha256sum` writes it; next to the kernel,
or in the cache of the source."""
PACKAGES_KNOWN = Path("/var/lib/dpkg/info")
"""Folder in which dpkg keeps the MD5 of each installed file, on Debian and its derivatives."""

TOOLS = ("bc", "bison", "flex", "gcc", "make", "patch", "strip", "tar", "xz")
"""Programs that a build calls."""

_NAME = re.compile(r"linux-source-(\d+(?:\.\d+)*)\.tar\.(?:xz|bz2|gz|zst)")
_ON = re.compile(r"(CONFIG_\w+)=(.+)")
_OFF = re.compile(r"# (CONFIG_\w+) is not set")
_COMPILED = re.compile(r"  CC +(\S+)")


@dataclass(frozen=True)
class KernelSource:
    """A source package of the kernel."""

    #: The package itself.
    tarball: Path
    #: Kernel version in the name of the tarball.
    version: tuple[int, ...]

    @property
    def version_text(self) -> str:
        """The version as people write it."""
        return ".".join(map(str, self.version))

    def digest(self) -> str:
        """Eight hex digits over the tarball's name, size and time; reading 150 MB at every start would be too slow."""
        status = self.tarball.stat()
        return _digest(f"{self.tarball.name} {status.st_size} {status.st_mtime_ns}")


def source_of(tarball: Path) -> KernelSource | None:
    """The source package that the name of `tarball` describes; None for other names."""
    match = _NAME.fullmatch(tarball.name)
    return KernelSource(tarball, tuple(map(int, match[1].split(".")))) if match else None


def newest_source(tarballs: Iterable[Path]) -> KernelSource | None:
    """The newest package of at least VERSION_MIN; None if there is none."""
    sources = [source for tarball in tarballs if (source := source_of(tarball))]
    return max((s for s in sources if s.version >= VERSION_MIN), key=lambda s: s.version, default=None)


def find_source() -> KernelSource:
    """The source package that GRADWIRE_KERNEL_SOURCE names, or the newest one in /usr/src.

    Raises InputFault for a wrong variable, MachineFault if no package is installed.
    """
    path = os.environ.get(SOURCE_VARIABLE)
    if path is not None:
        source = source_of(Path(path))
        if source is None or not source.tarball.is_file():
            raise InputFault(f"{SOURCE_VARIABLE}={path}: must be a file named linux-source-<version>.tar.xz")
        if source.version < VERSION_MIN:
            raise InputFault(f"{SOURCE_VARIABLE}={path}: must be of version {'.'.join(map(str, VERSION_MIN))} or later")
        return source
    source = newest_source(SOURCE_FOLDER.glob("linux-source-*"))
    if source is None:
        raise MachineFault(f"no kernel source of 6.12 or later in {SOURCE_FOLDER}: `{source_remedy(SOURCE_VARIABLE)}`")
    return source


def check_tools() -> None:
    """Raises MachineFault if the machine is not x86-64 or lacks a tool, with the command that installs the tool."""
    if platform.machine() != "x86_64":
        raise MachineFault(
            f"the virtual-time kernel exists for x86_64 only, and this is {platform.machine()}: use --clock wall"
        )
    missing = missing_tools()
    if missing:
        raise MachineFault(f"tools missing to build the kernel ({', '.join(missing)}): `{install_command(*missing)}`")


def missing_tools() -> list[str]:
    """Programs of TOOLS that are not on the PATH; includes gcc if the C library's headers are missing."""
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if "gcc" not in missing and not Path("/usr/include/stdio.h").exists():
        missing.append("gcc")
    return missing


def patches_for(version: tuple[int, ...]) -> list[Path]:
    """The patches for a source of this version, in the order in which they are applied."""
    series = ".".join(map(str, version[:2]))
    return [*sorted(PATCHES.glob("*.patch")), *sorted((PATCHES / series).glob("*.patch"))]


def config_digest(config_text: str) -> str:
    """Eight hex digits over all that a kernel's file is made from but its source: that of `bare_digest`, and the
    compiled agent."""
    agent = [*AGENT_FLAGS, *(f"{path.name}\n{path.read_text(encoding='utf-8')}" for path in agent_sources())]
    return _digest("\n".join([_bare_text(config_text), AGENT_MAGIC.decode(), *agent]))


def bare_digest(config_text: str) -> str:
    """Eight hex digits over what the kernel itself is made from but its source: options, compiler flags and patches,
    without comments.

    A kernel with the same digits, of the same source, needs another agent at most.
    """
    return _digest(_bare_text(config_text))


def _bare_text(config_text: str) -> str:
    options = sorted(f"{name}={value}" for name, value in wanted_options(config_text).items())
    changes = [
        f"{path.relative_to(PATCHES)}\n{_without_reason(path.read_text(encoding='utf-8'))}"
        for path in sorted(PATCHES.rglob("*.patch"))
    ]
    return "\n".join([COMPILER_FLAGS, *options, *changes])


def agent_sources() -> list[Path]:
    """The files that the compiled agent is made from."""
    return sorted((*AGENT.glob("*.c"), *AGENT.glob("*.h")))


def agent_command(target: Path) -> list[str]:
    """The command that compiles the agent."""
    code = [str(path) for path in agent_sources() if path.suffix == ".c"]
    return ["gcc", *AGENT_FLAGS, "-o", str(target), *code]


def attach_agent(kernel: Path, agent: Path, bare: str) -> None:
    """Puts the compiled agent at the end of a kernel's file, which is a program as before. bare: the kernel's
    `bare_digest`."""
    content = agent.read_bytes()
    with kernel.open("ab") as file:
        file.write(content + _AGENT_TRAILER.pack(len(content), bare.encode(), AGENT_MAGIC))


def note_of(file: Path) -> Path:
    """Returns the path of the note that holds the SHA-256 of a file."""
    return file.with_name(file.name + NOTE_SUFFIX)


def note_content(file: Path, note: Path | None = None) -> None:
    """Notes the content that a file has, by default next to it. Raises OSError."""
    with replacing(note or note_of(file)) as partial:
        partial.write_text(f"{_hash_of(file, 'sha256')}  {file.name}\n")


def has_noted_content(file: Path, note: Path | None = None) -> bool | None:
    """Returns whether a file still has the content that was noted; None if there is no note, or it cannot be read.
    Raises OSError if the file cannot be read."""
    try:
        noted = (note or note_of(file)).read_text(encoding="utf-8").split()[0]
    except (OSError, UnicodeDecodeError, IndexError):
        return None
    return _hash_of(file, "sha256") == noted


def _hash_of(file: Path, algorithm: str) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, algorithm).hexdigest()


def source_damage(source: KernelSource, cache: Path) -> str:
    """Describes how the content of a source package differs from what it should be; "" if it does not, or if that is
    unknown.

    It should be what its package says, where dpkg installed it, and what it was when a kernel was first built from it,
    which the cache keeps. Reads the package, a second for each 100 MB. Raises OSError.
    """
    known = _md5_of_package(source.tarball)
    if known and _hash_of(source.tarball, "md5") != known:
        return f"its MD5 is not {known}, as its package says"
    if has_noted_content(source.tarball, _note_of_source(source, cache)) is False:
        return "it has another content than when a kernel was first built from it, and the same size and date"
    return ""


def note_source(source: KernelSource, cache: Path) -> None:
    """Notes the content of a source package that a kernel was built from. Raises OSError."""
    if not _note_of_source(source, cache).exists():
        note_content(source.tarball, _note_of_source(source, cache))


def _note_of_source(source: KernelSource, cache: Path) -> Path:
    return cache / f"source-{source.version_text}-{source.digest()}{NOTE_SUFFIX}"


def _md5_of_package(file: Path) -> str:
    """The MD5 of an installed file by the package that it came with; "" if none says it."""
    wanted = str(file.absolute()).removeprefix("/")
    for listing in PACKAGES_KNOWN.glob("linux-source-*.md5sums"):
        for line in listing.read_text(encoding="utf-8").splitlines():
            md5, _, name = line.partition("  ")
            if name == wanted:
                return md5
    return ""


def agent_in(kernel: Path) -> bytes | None:
    """The compiled agent in a kernel's file; None if it has none. Raises OSError."""
    parts = _parts(kernel)
    if parts is None:
        return None
    with kernel.open("rb") as file:
        file.seek(parts.agent_at)
        return file.read(parts.agent_bytes)


def kernel_in(kernel: Path, bare: str) -> bytes | None:
    """The kernel itself, without the agent at its end; None if it has none, or another `bare_digest`. Raises
    OSError."""
    parts = _parts(kernel)
    if parts is None or parts.bare != bare:
        return None
    with kernel.open("rb") as file:
        return file.read(parts.agent_at)


class _SourceParts(NamedTuple):
    agent_at: int
    agent_bytes: int
    bare: str


def _parts(kernel: Path) -> _SourceParts | None:
    with kernel.open("rb") as file:
        end = file.seek(0, os.SEEK_END) - _AGENT_TRAILER.size
        if end < 0:
            return None
        file.seek(end)
        size_bytes, bare, magic = _AGENT_TRAILER.unpack(file.read())
    if magic != AGENT_MAGIC or size_bytes > end:
        return None
    return _SourceParts(end - size_bytes, size_bytes, bare.decode(errors="replace"))


def _without_reason(patch: str) -> str:
    """A patch from its first changed file on; the text above that is for people."""
    return patch[patch.index("\n--- ") :]


def patch_command(tree: Path, patch: Path) -> list[str]:
    """The command that applies a patch exactly: lines may have moved, but none may differ."""
    return [
        "patch",
        "--directory",
        str(tree),
        "--strip=1",
        "--fuzz=0",
        "--forward",
        "--no-backup-if-mismatch",
        f"--input={patch}",
    ]


def unfit_patch(source: KernelSource, patch: Path, fault: MachineFault) -> InternalFault:
    """The fault for a patch whose lines differ from the source."""
    return InternalFault(
        f"{patch.name} does not fit kernel {source.version_text}: {fault}\n"
        f"Please report this; until then set {SOURCE_VARIABLE} to a linux-source of 6.12"
    )


def kernel_name(source: KernelSource, config_text: str) -> str:
    """File name of the kernel in the cache."""
    return f"kernel-{source.version_text}-{config_digest(config_text)}-{source.digest()}"


def wanted_options(config_text: str) -> dict[str, str | None]:
    """Options of a config by their names; the value is None for `is not set`. Other lines are comments."""
    options: dict[str, str | None] = {}
    for line in config_text.splitlines():
        if match := _ON.fullmatch(line):
            options[match[1]] = match[2]
        elif match := _OFF.fullmatch(line):
            options[match[1]] = None
    return options


def lost_options(wanted: Mapping[str, str | None], final: Mapping[str, str | None]) -> list[str]:
    """Options of `wanted` that differ in the final config: Kconfig silently drops the ones it does not accept."""
    return [
        f"{name}={value or 'n'} became {final.get(name) or 'n'}"
        for name, value in wanted.items()
        if final.get(name) != value
    ]


def compiled_object(line: str) -> str | None:
    """The object being compiled according to a line of make's output; None for other lines."""
    match = _COMPILED.match(line)
    return match[1] if match else None


def build_fault(step: str, last_lines: Iterable[str], log: Path) -> MachineFault:
    """The fault for a failed step (`unpacking`, `configuring`, `compiling`), made from the last lines of its output."""
    lines = list(last_lines)
    if any(os.strerror(errno.ENOSPC) in line for line in lines):
        return disk_full(log.parent)
    last = "\n".join(lines[-5:])
    return MachineFault(f"{step} the kernel failed; the full output is in {log}, its last lines:\n{last}")


def disk_full(folder: Path) -> MachineFault:
    """The fault for a cache folder without room."""
    return MachineFault(
        f"no room left in {folder} while building the kernel: a build needs {BUILD_ROOM_MB} MiB, of which the kernel "
        "keeps 6; free some, or set GRADWIRE_CACHE to a folder with room"
    )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]
