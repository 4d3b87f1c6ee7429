"""Builds the virtual-time kernel once and keeps it in the cache folder, one file per config and source."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import tempfile
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from gradwire.faults import InternalFault, MachineFault
from gradwire.vm.kernel_source import (
    BUILD_ROOM_MB,
    COMPILED_OBJECTS,
    COMPILER_FLAGS,
    CONFIG,
    SOURCE_FOLDER,
    SOURCE_VARIABLE,
    KernelSource,
    agent_command,
    attach_agent,
    bare_digest,
    build_fault,
    check_tools,
    compiled_object,
    config_digest,
    disk_full,
    find_source,
    has_noted_content,
    kernel_in,
    kernel_name,
    lost_options,
    newest_source,
    note_content,
    note_of,
    note_source,
    patch_command,
    patches_for,
    source_damage,
    unfit_patch,
    wanted_options,
)
from gradwire.vm.packages import source_remedy
from gradwire.vm.streaming import FollowEnd, LineTaker, follow, pipe, process_group

Progress = Callable[[int, int, str], None]
"""Called with (objects compiled, total objects, current activity)."""

CACHE_VARIABLE = "GRADWIRE_CACHE"
PREBUILT = Path(__file__).with_name("prebuilt")
"""Folder of the kernel that a wheel ships with; the repository has none."""
BUILD_LIMIT_S = 2 * 3600.0
MIB = 1 << 20
UNUSED_CODE = (
    *("arch/a*", "arch/[chlmnops]*", "arch/riscv", "sound", "tools/perf", "tools/testing"),
    *(f"drivers/{name}" for name in ("gpu", "media", "net/ethernet", "net/wireless", "scsi", "staging")),
)
"""Folders whose code stays in the tarball, which saves writing 1 GB of files. Their Kconfig files are still needed."""


def cache_folder() -> Path:
    """Folder of the built kernels: GRADWIRE_CACHE, or ~/.cache/gradwire."""
    folder = os.environ.get(CACHE_VARIABLE)
    return Path(folder) if folder else Path.home() / ".cache" / "gradwire"


def cached_kernel() -> Path | None:
    """The kernel that this installation ships with, or else one in the cache that was built with the current config;
    None if there is none.

    Of several kernels in the cache, the one built from the installed source is preferred, then the newest: a kernel
    need not be built again because its source was removed or updated. If GRADWIRE_KERNEL_SOURCE is set, only the
    kernel of that source counts. Raises InputFault if that variable is wrong, InternalFault if the installation's
    kernel does not belong to its config.
    """
    config = CONFIG.read_text(encoding="utf-8")
    if os.environ.get(SOURCE_VARIABLE) is not None:
        path = cache_folder() / kernel_name(find_source(), config)
        return path if path.exists() else None
    if prebuilt := prebuilt_kernel(config):
        return prebuilt
    kernels = kernels_of(cache_folder(), config)
    source = newest_source(SOURCE_FOLDER.glob("linux-source-*"))
    preferred = source and cache_folder() / kernel_name(source, config)
    return preferred if preferred in kernels else max(kernels, key=lambda path: path.stat().st_mtime, default=None)


def prebuilt_kernel(config: str) -> Path | None:
    """The kernel that `make wheel` put into the installation; None in a source tree.

    Raises InternalFault if it was built with another config.
    """
    shipped = list(PREBUILT.glob("kernel-*"))
    fitting = kernels_of(PREBUILT, config)
    if shipped and not fitting:
        raise InternalFault(
            f"{shipped[0]} was not built with this version's {CONFIG.name} and patches: install gradwire again"
        )
    return next(iter(fitting), None)


def kernels_of(folder: Path, config: str) -> list[Path]:
    """Kernels in `folder` that were built with this config and the current patches, from any source."""
    return sorted(folder.glob(f"kernel-*-{config_digest(config)}-{'[0-9a-f]' * 8}"))


def kernel_named(name: str) -> Path | None:
    """The kernel of this name, which came with the installation or lies in the cache; None if neither has it."""
    places = (PREBUILT / name, cache_folder() / name)
    return next((path for path in places if path.exists()), None)


def keep_kernel(name: str, content: bytes) -> Path:
    """Puts a kernel that another machine has into the cache, unless one of its name is there. Raises MachineFault.

    At once and whole, so that of several processes that do it none sees a part of the file.
    """
    cache = cache_folder()
    target = cache / name
    try:
        if not target.exists():
            cache.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix="arriving-", dir=cache) as folder:
                part = Path(folder) / name
                part.write_bytes(content)
                part.chmod(0o755)
                note_content(part, note_of(target))
                part.replace(target)
    except OSError as error:
        raise MachineFault(
            f"{cache}: cannot keep kernel {name}: {error.strerror}; make room, or set {CACHE_VARIABLE} to a folder "
            "that can be written"
        ) from error
    return target


def renewal(kernel: Path) -> str:
    """Returns the instruction for replacing a damaged kernel."""
    if kernel.parent == PREBUILT:
        return "install gradwire again, which ships with this kernel"
    return "build the kernel again: `gradwire kernel --force`"


def ensure_kernel(on_progress: Progress) -> Path:
    """The cached kernel, built first if necessary; raises what `build_kernel` raises."""
    kernel = cached_kernel()
    if kernel is None:
        return build_kernel(on_progress)
    share_kernel(kernel)
    return kernel


def share_kernel(kernel: Path) -> None:
    """Copies a kernel that came with the installation into the cache, where a clone of the repository finds it."""
    shared = cache_folder() / kernel.name
    if kernel.parent == PREBUILT and not shared.exists():
        with suppress(OSError):  # only clones need the cache, and they report one that is not writable
            shared.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix="build-", dir=shared.parent) as folder:
                part = Path(shutil.copy(kernel, folder))
                note_content(part, note_of(shared))
                part.replace(shared)


def build_kernel(on_progress: Progress, *, anew: bool = False) -> Path:
    """Builds the kernel and returns its path in the cache. `anew` rebuilds one that exists, which may be damaged.

    Takes some minutes on all CPUs, or a second where the cache has the same kernel with another agent. Of two
    concurrent builds, the second waits for the first and uses its kernel. Whatever the outcome, only the kernel or the
    log of a failed build stays behind. Raises MachineFault (source or tools missing, no room, compiler failed), or
    InternalFault if the config does not fit the source.
    """
    source = find_source()
    check_tools()
    cache = cache_folder()
    target = cache / kernel_name(source, CONFIG.read_text(encoding="utf-8"))
    with (
        _out_of_room_named(cache),
        _locked(cache, lambda: on_progress(0, COMPILED_OBJECTS, "waiting for another build")),
    ):
        if anew or not target.exists():
            built = None if anew else _built_with_another_agent(source, cache)
            if built is None:
                _refuse_unfit(source, cache)
            with tempfile.TemporaryDirectory(prefix="build-", dir=cache) as folder, _log(target) as log:
                _Build(source, Path(folder), log, on_progress).run(target, built)
    return target


def _built_with_another_agent(source: KernelSource, cache: Path) -> bytes | None:
    """The kernel itself out of a whole file in the cache whose agent is another; None if there is none."""
    bare = bare_digest(CONFIG.read_text(encoding="utf-8"))
    for path in sorted(cache.glob(f"kernel-{source.version_text}-{'[0-9a-f]' * 8}-{source.digest()}")):
        if (content := kernel_in(path, bare)) is not None and has_noted_content(path):
            return content
    return None


def _refuse_unfit(source: KernelSource, cache: Path) -> None:
    if shutil.disk_usage(cache).free < BUILD_ROOM_MB * MIB:
        raise disk_full(cache)
    if damage := source_damage(source, cache):
        raise MachineFault(
            f"{source.tarball}: is damaged: {damage}; get it anew: `{source_remedy(SOURCE_VARIABLE, anew=True)}`"
        )


class _Build:
    """A build in its own folder, with the output of every step in the log."""

    def __init__(self, source: KernelSource, folder: Path, log: Path, on_progress: Progress) -> None:
        self._source = source
        self._folder = folder
        self._tree = folder / "linux"
        self._log = log
        self._report = on_progress
        self._done = 0

    def run(self, target: Path, built: bytes | None) -> None:
        """Builds the kernel and its agent, and puts them at `target`. built: the kernel, if only its agent is
        missing."""
        part = self._folder / target.name
        if built is None:
            self._build(part)
        else:
            part.write_bytes(built)
            part.chmod(0o755)
        agent = self._folder / "agent.so"
        self._step("compiling the agent", agent_command(agent))
        attach_agent(part, agent, bare_digest(CONFIG.read_text(encoding="utf-8")))
        note_of(target).unlink(missing_ok=True)
        part.replace(target)
        note_content(target)
        if built is None:
            note_source(self._source, target.parent)
        self._report(COMPILED_OBJECTS, COMPILED_OBJECTS, f"kernel {self._source.version_text} is built")

    def _build(self, part: Path) -> None:
        self._report(0, COMPILED_OBJECTS, f"unpacking {self._source.tarball.name}")
        self._tree.mkdir()
        self._step("unpacking", unpack_command(self._source.tarball, self._tree))
        for patch in patches_for(self._source.version):
            try:
                self._step("patching", patch_command(self._tree, patch))
            except MachineFault as fault:
                raise unfit_patch(self._source, patch, fault) from fault
        self._report(0, COMPILED_OBJECTS, "configuring")
        self._step("configuring", self._make(f"KCONFIG_ALLCONFIG={CONFIG}", "allnoconfig"))
        self._check_config()
        self._step("compiling", self._make(f"-j{len(os.sched_getaffinity(0))}", "linux"), self._count)
        self._step("stripping", ["strip", "-o", str(part), str(self._tree / "linux")])

    def _make(self, *arguments: str) -> list[str]:
        return ["make", "-C", str(self._tree), "ARCH=um", f"KCFLAGS={COMPILER_FLAGS}", *arguments]

    def _count(self, line: str) -> None:
        name = compiled_object(line)
        if name is not None:
            self._done = min(self._done + 1, COMPILED_OBJECTS)
            self._report(self._done, COMPILED_OBJECTS, name)

    def _check_config(self) -> None:
        lost = lost_options(
            wanted_options(CONFIG.read_text(encoding="utf-8")),
            wanted_options((self._tree / ".config").read_text(encoding="utf-8")),
        )
        if lost:
            raise InternalFault(
                f"kernel {self._source.version_text} does not take these lines of {CONFIG.name}: {'; '.join(lost)}. "
                f"Please report this; until then set {SOURCE_VARIABLE} to a linux-source of 6.12"
            )

    def _step(self, name: str, command: list[str], on_line: LineTaker = lambda _: None) -> None:
        """Runs one command to completion; raises MachineFault if it fails."""
        last: deque[str] = deque(maxlen=100)  # with parallel jobs, the error may be some lines back
        with self._log.open("a", encoding="utf-8") as log:

            def take(line: str) -> None:
                log.write(line + "\n")
                last.append(line)
                on_line(line)

            with (
                pipe() as (read_end, writer),
                process_group(command, env=build_environment(self._folder), stdout=writer.fileno()) as process,
            ):
                writer.close()
                end = follow({read_end: take}, time_limit_s=BUILD_LIMIT_S)
                status = process.wait() if end is FollowEnd.CLOSED else None
        if status != 0:
            raise build_fault(name, last, self._log)


def unpack_command(tarball: Path, tree: Path) -> list[str]:
    """The command that unpacks what a user-mode kernel is built from. Documentation keeps only its top level, for the
    Kconfig file."""
    top = tarball.name.split(".tar")[0]
    unused = [f"--exclude={top}/{folder}/*.[chS]" for folder in UNUSED_CODE]
    unused += [f"--exclude={top}/Documentation/*/*", "--exclude=*.dts", "--exclude=*.dtsi"]
    return ["tar", "-C", str(tree), "--strip-components=1", "--anchored", "--wildcards", *unused, "-xf", str(tarball)]


def build_environment(folder: Path) -> dict[str, str]:
    """The whole environment of make: if gradwire is called from a Makefile, its MAKEFLAGS and the like must not get
    in."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "TMPDIR": str(folder),
        "LC_ALL": "C",
        "KBUILD_BUILD_USER": "gradwire",
        "KBUILD_BUILD_HOST": "gradwire",
        "KBUILD_BUILD_TIMESTAMP": "2000-01-01",
    }


@contextmanager
def _locked(cache: Path, on_wait: Callable[[], None]) -> Iterator[None]:
    """Holds the cache folder's lock, calling `on_wait` first if it is taken; removes what a killed build left
    behind."""
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_wait()
            fcntl.flock(lock, fcntl.LOCK_EX)
        for stale in cache.glob("build-*"):
            shutil.rmtree(stale)
        yield


@contextmanager
def _log(target: Path) -> Iterator[Path]:
    """Yields the path of the build log next to the kernel; the log is kept only if the build fails."""
    log = target.with_name(f"{target.name}.log")
    log.write_text("")
    try:
        yield log
    except (MachineFault, InternalFault):
        raise
    except BaseException:
        log.unlink()
        raise
    else:
        log.unlink()


@contextmanager
def _out_of_room_named(cache: Path) -> Iterator[None]:
    """Turns the system's own errors about the cache folder into a MachineFault that names it."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise disk_full(cache) from error
        raise MachineFault(
            f"cannot build the kernel in {cache}: {error}; set GRADWIRE_CACHE to a folder you can write"
        ) from error
