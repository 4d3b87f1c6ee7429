"""Boots the virtual-time kernel with one job in it, which is run as root, follows it to its end, and ends all of it.
Needs no root itself. A job is run from beginning to end (vm/batch_job.py), or talked with (vm/session.py).

Virtual time (`time-travel=inf-cpu`, https://docs.kernel.org/virt/uml/user_mode_linux_howto_v2.html): the kernel's clock
stands still while a process computes and jumps to the next timer when all processes wait. The whole kernel with all its
processes is pinned to one CPU: spread over two, a system call costs four times as much, because each one is a hand-over
between two host processes.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO, NamedTuple

from gradwire.datatypes.machine_size import DEFAULT_MEMORY_MB
from gradwire.faults import InputFault, MachineFault, UnfitMachine
from gradwire.vm.kernel import cached_kernel, renewal
from gradwire.vm.kernel_death import (
    STOPPED_WORDS,
    DeathCause,
    Ending,
    KernelFault,
    Surroundings,
    kernel_died,
    stopped_by_signal,
)
from gradwire.vm.kernel_source import has_noted_content, note_of
from gradwire.vm.memory_addresses import fixed_addresses
from gradwire.vm.memory_folders import choose_memory_folder
from gradwire.vm.owners import OWNER_VARIABLE, this_process
from gradwire.vm.streaming import (
    KILL_LIMIT_S,
    FollowEnd,
    TimeLimit,
    Watch,
    follow,
    is_stopped,
    pipe,
    process_group,
)

INIT = Path(__file__).with_name("init.sh")
BOX_NAME = ".kernel"
"""Folder inside the job's folder through which caller and kernel exchange data; always removed at the end."""
JOB_FOLDER = "/run/job"
"""Path inside the kernel of the folder that the job starts in, whatever its path outside."""
KEY_FILE = "key"
"""File in the box of a session with a secret of its caller and its job, who removes it."""
KEY_INSIDE = f"{JOB_FOLDER}/{BOX_NAME}/{KEY_FILE}"
STATUS_FILE = "status"
ONE_WAY, TWO_WAY = "con1=null,fd:0", "con1=fd:0"
"""The kernel's argument for a terminal that is only written to, and for one that the job reads as well."""
UMID = "gradwire"
BOOT_LIMIT_S = 30.0
"""Wall time to a kernel's first sign of life, which at a load of 5 came after 0.15 s: 200 times as long, and it will not come."""
HELP_LIMIT_S = 20.0
CONSOLE_LINES_KEPT = 200
"""Must be large: a panic before the console is ready repeats all earlier messages after the line with the reason."""
BOOT_TIME_NS = 1_735_689_600_000_000_000
"""Calendar time at every boot, 2025-01-01: the host's time would differ in every run, and runs must repeat."""
JOB_DEFAULTS = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/run",
    "TMPDIR": "/run/tmp",
    "TERM": "dumb",  # the job writes to a terminal, but nobody looks at it
    "PYTHONUNBUFFERED": "1",
    "PYTHONDONTWRITEBYTECODE": "1",  # root inside may be an ordinary user outside, without permission to write there
}
KERNEL_ENVIRONMENT = {
    "PATH": JOB_DEFAULTS["PATH"],
    # In the kernel's statically linked program, glibc keeps the area that it registers for restartable sequences low
    # in memory. The kernel's processes unmap that area, and the host kills a process whose registered area is gone:
    # SIGSEGV at its first instruction.
    "GLIBC_TUNABLES": "glibc.pthread.rseq=0",
}


class Terminal(NamedTuple):
    """The terminal that a job writes to (/dev/tty1), with its two ends outside."""

    #: ONE_WAY or TWO_WAY.
    argument: str
    #: Where what the job writes is read.
    near_fd: int
    #: The kernel's own.
    far_end: BinaryIO | socket.socket


@dataclass(frozen=True)
class Boot:
    """What to boot, and the job that it is for."""

    #: The job's command, which is run as root.
    argv: Sequence[str]
    #: Its whole environment; PATH, HOME, TMPDIR, TERM and two settings of Python have defaults (JOB_DEFAULTS).
    env: Mapping[str, str]
    #: The one CPU to use.
    cpu: int
    #: Folder that the job starts in, under the name JOB_FOLDER. All of the host's files are visible with the caller's
    #: rights, except for /dev, /proc, /sys and /run, which are the kernel's own.
    workdir: Path
    #: Memory of the kernel, allocated on use from a tmpfs of the machine.
    memory_mb: int = DEFAULT_MEMORY_MB
    #: By default the cached one.
    kernel: Path | None = None
    #: Whether to start Open vSwitch first, 30 virtual seconds after boot.
    openvswitch: bool = True
    #: Whether the job starts programs that are not to be trusted. Then system calls are intercepted by ptrace and never
    #: by seccomp, with which a program could read and write all of the kernel's memory (`seccomp=` in the help of Linux
    #: 6.16 as user-mode kernel).
    programs: bool = False
    #: What the kernel's first process writes behind the job's last line.
    token: str = ""
    #: What a message about the kernel's death calls the job.
    job_name: str = "its job"


class BootedKernel:
    """A kernel that runs a job. Made by `booted`."""

    def __init__(
        self,
        boot: Boot,
        kernel: Path,
        box: Path,
        memory_folder: Path,
        process: subprocess.Popen[bytes],
        descriptors: tuple[int, int],
    ) -> None:
        """descriptors: where the job's lines and the kernel's are read."""
        self._boot, self._memory_folder, self._descriptors = boot, memory_folder, descriptors
        self._watch = BootWatch(box, self.is_held)
        #: Its file.
        self.kernel = kernel
        #: Folder through which caller and kernel exchange data.
        self.box = box
        self.process = process
        self.console = Console()

    @property
    def status_file(self) -> Path:
        """The file that has the job's exit status once it has ended."""
        return self.box / STATUS_FILE

    def is_held(self) -> bool:
        """Returns whether a signal has stopped the kernel, which counts towards no limit."""
        return is_stopped(self.process.pid)

    def follow(
        self,
        take: Callable[[str], None],
        *,
        finished: Callable[[], bool],
        time_limit_s: float | TimeLimit,
        stop: threading.Event | None = None,
        watched: Watch | None = None,
    ) -> bool:
        """Passes each line of the job to `take` until `finished()`, or until the kernel is gone and has noted how the job
        ended; returns False if the limit of wall time comes before. stop, watched: as for vm/streaming.py.

        Raises KernelFault if the kernel dies, does not come up, or a signal has stopped one of its processes;
        MachineFault if `stop` was set.
        """
        job_fd, console_fd = self._descriptors
        try:
            end = follow(
                {job_fd: take, console_fd: self.console.take},
                time_limit_s=time_limit_s,
                # A kernel that is killed early in its boot may leave a process behind that keeps the pipes open.
                finished=lambda: finished() or bool(self.console.stopped) or self._has_ended() or self._watch.failed(),
                stop=stop,
                held=self.is_held,
                watched=watched,
            )
        except ConnectionResetError:  # the kernel is gone, with a line of ours that it had not read
            end = FollowEnd.CLOSED
        self.console.refuse_stopped()
        if end is FollowEnd.STOPPED:
            raise MachineFault("the run was stopped before its job had ended")
        if end is FollowEnd.TIMED_OUT:
            return False
        if end is FollowEnd.FINISHED and not self._has_ended():
            self._watch.refuse_failed(self.kernel)
        elif not finished() and not self.status_file.exists():
            raise self._died()
        return True

    def _has_ended(self) -> bool:
        return self.process.poll() is not None

    def _died(self) -> KernelFault:
        lines, status = tuple(self.console.lines), exit_status_of(self.process)
        ending = Ending(self.kernel, lines, status, self._memory_folder, self._boot.memory_mb)
        headline = f"the virtual-time kernel died before {self._boot.job_name} had ended"
        return kernel_died(headline, ending, Surroundings.here())


@contextmanager
def booted(boot: Boot, terminal: Terminal, files: Mapping[str, bytes]) -> Iterator[BootedKernel]:
    """Boots a kernel that runs a job, and ends all of it when the block ends, whatever happened.

    files: what the job finds in the kernel's folder, which nobody else may read. Raises UnfitMachine if there is no kernel
    or a damaged one; MachineFault if there is no room for its memory, or the job's folder cannot be written to, or is
    another at the end; InputFault if the command or the environment cannot be passed to a program. On return no process
    and no file of the kernel is left; if the calling process is killed, the kernel dies with it.
    """
    kernel = whole_kernel(boot.kernel)
    memory_folder = choose_memory_folder(boot.memory_mb)
    with _box(boot.workdir) as box, pipe() as (console_fd, console_end):
        for name, content in {"job": job_text(boot.argv, {**JOB_DEFAULTS, **boot.env}), **files}.items():
            with open(box / name, "wb", opener=_for_this_user) as file:
                file.write(content)
        with process_group(
            boot_command(kernel, boot, terminal.argument),
            env={**KERNEL_ENVIRONMENT, "TMPDIR": str(memory_folder), OWNER_VARIABLE: this_process()},
            stdin=terminal.far_end.fileno(),
            stdout=console_end.fileno(),
            cwd=boot.workdir,
        ) as process:
            terminal.far_end.close()
            console_end.close()
            yield BootedKernel(boot, kernel, box, memory_folder, process, (terminal.near_fd, console_fd))


def _for_this_user(path: str, flags: int) -> int:
    """Makes a file that no other user may read."""
    return os.open(path, flags | os.O_EXCL, 0o600)


def whole_kernel(kernel: Path | None) -> Path:
    """Returns the kernel, by default the cached one. Raises UnfitMachine if its content is not as noted."""
    kernel = kernel or cached_kernel()
    if kernel is None:
        raise UnfitMachine("the virtual-time kernel is not built yet: run `make setup`, or see `gradwire doctor`")
    try:
        if damage := content_damage(kernel):
            raise UnfitMachine(f"{damage.what}\nremedy: {damage.remedy}")
    except OSError as error:
        raise UnfitMachine(f"{kernel} cannot be read: {error.strerror}\nremedy: {renewal(kernel)}") from error
    return kernel


def content_damage(kernel: Path) -> DeathCause | None:
    """Returns a cause if a kernel's file no longer has the content that was noted when it was built or copied here;
    None if it has, or if nothing was noted.

    Reads it once for each change of the file, which takes 20 ms at most. Raises OSError.
    """
    status = kernel.stat()
    if _is_as_noted(kernel, status.st_ino, status.st_size, status.st_mtime_ns):
        return None
    what = (
        f"{kernel} has another content than when it was built or came here (its SHA-256 is not that in "
        f"{note_of(kernel).name})"
    )
    return DeathCause("kernel file", what, renewal(kernel))


@lru_cache
def _is_as_noted(kernel: Path, *_change: int) -> bool:
    return has_noted_content(kernel) is not False


class BootWatch:
    """Says whether a kernel comes up: it then makes a file with its process's number in its folder."""

    def __init__(self, box: Path, held: Callable[[], bool]) -> None:
        """held: whether the kernel is stopped, which does not count."""
        self._sign = box / UMID / "pid"
        self._limit = TimeLimit(BOOT_LIMIT_S, held)
        self._is_up = False

    def failed(self) -> bool:
        """Returns whether the machine has failed to boot within BOOT_LIMIT_S; must be called often (`TimeLimit`)."""
        self._is_up = self._is_up or self._sign.exists()
        return not self._is_up and self._limit.left_s() <= 0

    def refuse_failed(self, kernel: Path) -> None:
        """Raises KernelFault for a kernel that has not come up in time."""
        if self.failed():
            cause = DeathCause(
                "no sign of life",
                f"{kernel} gave no sign of life within {BOOT_LIMIT_S:g} s, which takes 0.2 s where the machine is idle",
                f"its file may be damaged: {renewal(kernel)}; if other work holds the machine up, wait for it",
            )
            raise KernelFault("the virtual-time kernel does not come up", cause)


class Console:
    """The output of a kernel itself, not of the job in it."""

    def __init__(self) -> None:
        #: The last lines.
        self.lines: deque[str] = deque(maxlen=CONSOLE_LINES_KEPT)
        #: The message by which the kernel showed that a signal has stopped one of its processes; "" if there was none.
        self.stopped = ""

    def take(self, line: str) -> None:
        """Takes a line."""
        self.lines.append(line)
        if not self.stopped and (match := STOPPED_WORDS.search(line)):
            self.stopped = match[0]

    def refuse_stopped(self) -> None:
        """Raises KernelFault if a signal has stopped one of the kernel's processes: it has died, and maybe not the
        kernel with it."""
        if self.stopped:
            raise KernelFault("the virtual-time kernel was ended", stopped_by_signal(self.stopped))


def job_text(argv: Sequence[str], env: Mapping[str, str]) -> bytes:
    """The input of init.sh: NAME=VALUE for each variable of the environment, then the command, each word ended by a
    NUL.

    Raises InputFault for a NUL inside a word, a `=` in the name of the command, or an empty command.
    """
    if not argv or "=" in argv[0]:
        raise InputFault(f"job command {list(argv)}: must start with a program whose name has no '='")
    words = [*(f"{name}={value}" for name, value in env.items()), *argv]
    if any("\0" in word for word in words):
        raise InputFault("job command: a NUL character cannot be passed to a program")
    return "".join(f"{word}\0" for word in words).encode()


def boot_command(kernel: Path, boot: Boot, terminal: str) -> list[str]:
    """The command that boots `kernel` in the job's folder, with the console on its stdout and the job's terminal on its
    stdin. terminal: ONE_WAY or TWO_WAY.

    The arguments after the kernel's name are the same for all folders and always have the same length: see init.sh.
    """
    return [
        *("taskset", "-c", str(boot.cpu)),
        *fixed_addresses(),
        str(kernel),
        f"mem={boot.memory_mb}M",
        "time-travel=inf-cpu",
        f"time-travel-start={BOOT_TIME_NS}",
        *(["seccomp=on"] if not boot.programs and knows_seccomp(kernel) else []),
        # No host speaks IPv6 unless its scenario says so: solicitations and duplicate address detection would be
        # unplanned traffic.
        "ipv6.disable_ipv6=1",
        "ib_core.netns_mode=0",  # an RDMA device belongs to one host
        # Tunnels have a device in every network namespace otherwise (tunl0, gre0 and others), which nobody asked for.
        "sysctl.net.core.fb_tunnels_only_for_init_net=2",
        *("rootfstype=hostfs", "rootflags=/", "rw", "quiet"),
        *("con=null", "con0=null,fd:1", terminal),
        f"umid={UMID}",
        f"uml_dir={BOX_NAME}",
        f"GRADWIRE_BOX={BOX_NAME}",
        f"GRADWIRE_TOKEN={boot.token}",
        f"GRADWIRE_OPENVSWITCH={int(boot.openvswitch)}",
        "init=/bin/bash",
        "--",
        _quoted(INIT),
    ]


def _quoted(path: Path) -> str:
    """`path` as a word of the kernel's command line, which has double quotes but no escapes.

    Raises MachineFault for a path with a double quote or a line end."""
    if '"' in str(path) or "\n" in str(path):
        raise MachineFault(
            f"{path}: its name must not contain a double quote or a line end; install gradwire elsewhere"
        )
    return f'"{path}"' if " " in str(path) else str(path)


@lru_cache
def knows_seccomp(kernel: Path) -> bool:
    """Returns whether this kernel can intercept system calls by seccomp, at 0.6 of the cost of ptrace (6.16 and up)."""
    try:
        listing = subprocess.run([kernel, "--help"], capture_output=True, text=True, check=False, timeout=HELP_LIMIT_S)
    except (OSError, subprocess.TimeoutExpired):  # booting it gives a better message
        return False
    return any(line.startswith("seccomp=") for line in listing.stdout.splitlines())


@contextmanager
def _box(workdir: Path) -> Iterator[Path]:
    """Creates a fresh folder in `workdir` and removes it at the end.

    It is in the run's own folder and not in /tmp: if this process is killed, nothing is left outside the run, and the
    next run in the same folder replaces it.

    Raises MachineFault at the end if `workdir` is another folder by then, in which the caller would read what the job
    did not write.
    """
    box = workdir.absolute() / BOX_NAME
    if box.is_symlink():
        box.unlink()
    elif box.exists():
        shutil.rmtree(box)
    try:
        box.mkdir(parents=True)
        before = workdir.stat()
    except OSError as error:
        raise MachineFault(f"cannot write to {workdir}: {error.strerror}; choose another --out") from error
    try:
        yield box
    finally:
        if not _is_still(workdir, before):
            raise MachineFault(
                f"{workdir}: was moved or replaced during the run, so what lies there now is not the run's"
            )
        shutil.rmtree(box)


def _is_still(folder: Path, before: os.stat_result) -> bool:
    """Returns whether a path still leads to the folder whose status was `before`."""
    try:
        return os.path.samestat(folder.stat(), before)
    except OSError:
        return False


def exit_status_of(process: subprocess.Popen[bytes]) -> int:
    """Waits for a kernel to end, and returns its exit status. Raises MachineFault if it does not end."""
    try:
        return process.wait(KILL_LIMIT_S)
    except subprocess.TimeoutExpired as error:
        raise MachineFault(
            f"the virtual-time kernel has closed its console and not ended within {KILL_LIMIT_S:g} s: run it again"
        ) from error
