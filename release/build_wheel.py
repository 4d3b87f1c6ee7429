"""Builds the wheel for x86-64 with the virtual-time kernel inside: `make wheel`.

    .venv/bin/python release/build_wheel.py [--out dist] [--source]

It is built from a copy of what git tracks, so that nothing else gets in and no kernel stays in the source tree. Next
to the kernel lies what its license asks for: KERNEL.md says what it was built from and how, and the licenses' own words
come from the kernel's source.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import stat
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from zipfile import ZipFile

from gradwire.faults import Fault, InternalFault
from gradwire.gpus.stand_ins import PREBUILT as PREBUILT_STAND_INS
from gradwire.gpus.stand_ins import compile_stand_ins
from gradwire.vm.kernel import PREBUILT, build_kernel, cache_folder
from gradwire.vm.kernel_source import (
    COMPILER_FLAGS,
    CONFIG,
    NOTE_SUFFIX,
    PATCHES,
    KernelSource,
    find_source,
    kernel_name,
    note_content,
    patches_for,
)

ROOT = Path(__file__).resolve().parent.parent
PLATFORM = "manylinux_2_17_x86_64"
"""Any Linux of this machine type with the GNU C Library 2.17 or later. PyPI takes no tag that promises less; the kernel needs
no library, as `auditwheel show` says, and numba has wheels for no other C library."""
TEMPLATE = Path(__file__).with_name("KERNEL.md")
LICENSES = {"COPYING.GPL-2.0": "LICENSES/preferred/GPL-2.0", "COPYING.LGPL-2.1": "LICENSES/preferred/LGPL-2.1"}
"""Names next to the kernel, and where its source has these texts."""
BANNER = re.compile(rb"Linux version (\S+) \(\S+\) \((.+)\) #")
"""What every kernel says of itself when it boots: its version and what compiled it."""


@dataclass(frozen=True)
class Origin:
    """What a kernel was built from.

    version: the kernel's own. compiler: compiler and linker. package: the source package, with its version; "" where
    no package brought it.
    """

    version: str
    compiler: str
    tarball: str
    sha256: str
    package: str
    patches: Sequence[str]


def banner(kernel: bytes) -> tuple[str, str]:
    """Version and compiler, as the kernel itself has them. Raises InternalFault when it is not a kernel."""
    match = BANNER.search(kernel)
    if match is None:
        raise InternalFault("the kernel does not name its version and its compiler")
    return match[1].decode(), match[2].decode()


def origin_text(origin: Origin) -> str:
    """KERNEL.md: what the kernel's license asks to stand next to it."""
    folder = origin.tarball.split(".tar")[0]
    patching = [
        f"patch --directory {folder} --strip=1 --fuzz=0 --input=$PWD/../patches/{name}" for name in origin.patches
    ]
    return TEMPLATE.read_text().format(
        version=origin.version,
        source=f"`{origin.tarball}`" + (f" of Debian's package `{origin.package}`" if origin.package else ""),
        sha256=origin.sha256,
        changes=", ".join(f"`../patches/{name}`" for name in origin.patches),
        flags=COMPILER_FLAGS,
        compiler=origin.compiler,
        tarball=origin.tarball,
        folder=folder,
        patching="\n".join(patching),
    )


def origin_of(kernel: Path, source: KernelSource) -> Origin:
    """What `kernel` was built from, by itself and by the source's tarball."""
    with source.tarball.open("rb") as tarball:
        sha256 = hashlib.file_digest(tarball, "sha256").hexdigest()
    patches = [str(path.relative_to(PATCHES)) for path in patches_for(source.version)]
    version, compiler = banner(kernel.read_bytes())
    return Origin(version, compiler, source.tarball.name, sha256, package_of(source.tarball), patches)


def package_of(tarball: Path) -> str:
    """The installed package that has this file, and its version; "" where dpkg knows none or is not there."""
    with suppress(OSError, subprocess.CalledProcessError):
        owner = _output("dpkg-query", "--search", str(tarball)).partition(":")[0]
        return _output("dpkg-query", "--show", "--showformat=${Package} ${Version}", owner)
    return ""


def _output(*command: str) -> str:
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True).stdout


def add_kernel(kernel: Path, source: KernelSource, folder: Path) -> None:
    """Puts the kernel, and what has to be next to it, into `folder`."""
    folder.mkdir()
    shipped = Path(shutil.copy(kernel, folder))
    shipped.chmod(0o755)
    note_content(shipped)
    (folder / "KERNEL.md").write_text(origin_text(origin_of(kernel, source)))
    wanted = {f"{source.tarball.name.split('.tar')[0]}/{path}": name for name, path in LICENSES.items()}
    with tarfile.open(source.tarball, "r|*") as archive:
        for member in archive:
            if name := wanted.pop(member.name, None):
                text = archive.extractfile(member)
                assert text is not None
                (folder / name).write_bytes(text.read())
            if not wanted:  # far ahead of most of the tarball, which takes long to unpack
                return
    raise InternalFault(f"{source.tarball} lacks {', '.join(wanted)}")


def add_stand_ins(folder: Path) -> None:
    """Compiles the stand-ins for GPUs into `folder`. They need the GNU C Library 2.34, and the collective library that they are
    for a later one, so the wheel's tag, which speaks of what gradwire itself runs, stays as it is."""
    folder.mkdir()
    compile_stand_ins(folder)


def copy_tracked(tree: Path) -> None:
    """All files that git tracks, as they are now, into `tree`."""
    for name in filter(None, _output("git", "-C", str(ROOT), "ls-files", "-z").split("\0")):
        target = tree / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target, follow_symlinks=False)


def build_wheel(tree: Path, out: Path, platform: str) -> Path:
    """Builds the wheel of the project in `tree`, with the packages of this environment; returns its place in `out`."""
    (tree / "setup.cfg").write_text(f"[bdist_wheel]\nplat_name = {platform}\n")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*command, "--wheel-dir", str(tree / "dist"), str(tree)], check=True)
    (wheel,) = (tree / "dist").glob("*.whl")
    out.mkdir(parents=True, exist_ok=True)
    return Path(shutil.copy(wheel, out))


def runs_as_it_lies(wheel: Path) -> bool:
    """Whether the wheel has one kernel, which pip will let anybody run."""
    with ZipFile(wheel) as archive:
        beside = [entry for entry in archive.infolist() if "/prebuilt/kernel-" in entry.filename]
        kernels = [entry for entry in beside if not entry.filename.endswith(NOTE_SUFFIX)]
    return len(kernels) == 1 and stat.S_IMODE(kernels[0].external_attr >> 16) == 0o755


def main() -> None:
    """Builds the kernel, if need be, and the wheel, and says what to publish."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    parser.add_argument("--source", action="store_true", help="put the kernel's source there too, as its license asks")
    asked = parser.parse_args()
    os.environ.setdefault("SOURCE_DATE_EPOCH", _output("git", "-C", str(ROOT), "log", "-1", "--format=%ct").strip())
    source = find_source()
    kernel = cache_folder() / kernel_name(source, CONFIG.read_text())
    if not kernel.exists():
        print("building the virtual-time kernel, which takes some minutes", flush=True)
        kernel = build_kernel(lambda *_: None)
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "gradwire"
        copy_tracked(tree)
        add_kernel(kernel, source, tree / "gradwire" / "vm" / PREBUILT.name)
        add_stand_ins(tree / "gradwire" / "gpus" / PREBUILT_STAND_INS.name)
        wheel = build_wheel(tree, asked.out, PLATFORM)
    if not runs_as_it_lies(wheel):
        raise InternalFault(f"{wheel} has no kernel that can be run")
    print(f"wheel: {wheel} ({wheel.stat().st_size / 1e6:.1f} MB)")
    tarball = Path(shutil.copy(source.tarball, asked.out)) if asked.source else source.tarball
    print(f"to be published with it, for the kernel's license: {tarball}")


if __name__ == "__main__":
    try:
        main()
    except (Fault, subprocess.CalledProcessError) as fault:
        sys.exit(f"error: {fault}")
