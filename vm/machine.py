"""Boots the virtual-time kernel, runs one job in it as root, and brings out its output and exit status. Needs no root.

Virtual time (`time-travel=inf-cpu`, https://docs.kernel.org/virt/uml/user_mode_linux_howto_v2.html): the kernel's clock
stands still while a process computes and jumps to the next timer when all of them wait. The whole kernel with all its
processes is pinned to one CPU: spread over two, a system call costs four times as much (each is a hand-over between two
host processes).
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from gradwire.faults import InputFault, MachineFault
from gradwire.vm.causes import Cause, Ending, KernelFault, Surroundings, kernel_died, last_words
from gradwire.vm.kernel import cached_kernel
from gradwire.vm.streaming import FollowEnd, follow, pipe, process_group

INIT = Path(__file__).with_name("init.sh")
BOX_NAME = ".kernel"
"""Folder inside the job's folder for what caller and kernel tell each other; removed whatever happens."""
JOB_FOLDER = "/run/job"
"""Where the job finds the folder it starts in, whatever that is called outside."""
HELP_LIMIT_S = 20.0
CONSOLE_LINES_KEPT = 200
"""A panic before the console is there repeats all that the kernel has said so far, after the line that tells why."""
BOOT_TIME_NS = 1_735_689_600_000_000_000
"""What every kernel's calendar shows at its start, 2025-01-01: the host's time would be a random number to it, and runs must repeat."""
MIB = 1 << 20
JOB_DEFAULTS = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/run",
    "TMPDIR": "/run/tmp",
    "TERM": "dumb",  # the job's output is a terminal line, but nobody looks at it
    "PYTHONUNBUFFERED": "1",
    "PYTHONDONTWRITEBYTECODE": "1",  # root inside may be a user outside who cannot write there
}
KERNEL_ENVIRONMENT = {
    "PATH": JOB_DEFAULTS["PATH"],
    # The kernel is linked statically, and glibc then keeps the area that it registers for restartable sequences low in memory. The kernel's
    # processes unmap that, and the host ends a process whose registered area is gone: SIGSEGV at its first instruction.
    "GLIBC_TUNABLES": "glibc.pthread.rseq=0",
}


def run_virtual(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cpu: int,
    memory_mb: int = 3072,
    time_limit_s: float,
    on_line: Callable[[str], None],
    workdir: Path,
    openvswitch: bool = True,
    kernel: Path | None = None,
    stop: threading.Event | None = None,
) -> int:
    """Runs `argv` as root in a fresh kernel in virtual time; returns its exit status (128 + n after signal n).

    env: all of the job's environment; PATH, HOME, TMPDIR, TERM and two settings of Python have defaults (JOB_DEFAULTS).
    cpu: the one CPU to use. memory_mb: memory of the kernel, taken as it is used, from a tmpfs of the machine.
    time_limit_s: wall seconds. on_line: gets each line of the job's output (stdout and stderr), as it comes.
    workdir: where the job starts, under the name JOB_FOLDER; the host's files are all visible, with the caller's rights, but for
    /dev, /proc, /sys and /run, which are the kernel's own. openvswitch: start Open vSwitch first, 30 virtual seconds after boot.
    kernel: which one to boot (default: the cached one). stop: set it from another thread to end the run early.

    Raises KernelFault when the kernel dies or the time is over; MachineFault when there is no kernel, no room for its memory, or
    `stop` was set; InputFault when the job cannot be told to it. Whatever happens, on return no process
    and no file of the kernel is left; when the calling process is killed, the kernel dies with it.
    """
    kernel = kernel or cached_kernel()
    if kernel is None:
        raise MachineFault("the virtual-time kernel is not built yet: run `make setup`, or see `gradwire doctor`")
    memory_folder = choose_memory_folder(memory_mb)
    token = secrets.token_hex(16)
    with _box(workdir) as box, pipe() as (job_read, job_end), pipe() as (console_read, console_end):
        (box / "job").write_bytes(job_text(argv, {**JOB_DEFAULTS, **env}))
        command = boot_command(
            kernel,
            cpu=cpu,
            memory_mb=memory_mb,
            token=token,
            openvswitch=openvswitch,
            seccomp=knows_seccomp(kernel),
        )
        console: deque[str] = deque(maxlen=CONSOLE_LINES_KEPT)
        output = TokenWatch(token, on_line)
        kernel_env = {**KERNEL_ENVIRONMENT, "TMPDIR": str(memory_folder)}
        with process_group(
            command, env=kernel_env, stdin=job_end.fileno(), stdout=console_end.fileno(), cwd=workdir
        ) as process:
            job_end.close()
            console_end.close()
            end = follow(
                {job_read: output.take, console_read: console.append},
                time_limit_s=time_limit_s,
                finished=lambda: output.seen,
                stop=stop,
            )
        if end is FollowEnd.TIMED_OUT:
            raise _time_over(time_limit_s, console)
        if end is FollowEnd.STOPPED:
            raise MachineFault("the run was stopped before its job had ended")
        if not (box / "status").exists():
            ending = Ending(kernel, tuple(console), process.returncode, memory_folder, memory_mb)
            raise kernel_died("the virtual-time kernel died before its job had ended", ending, Surroundings.here())
        return int((box / "status").read_text())


class TokenWatch:
    """Hands lines on until the token that the kernel's first process writes after the job's last line."""

    def __init__(self, token: str, take: Callable[[str], None]) -> None:
        self._token = token
        self._take = take
        self.seen = False

    def take(self, line: str) -> None:
        """Takes one line; one that ends in the token is the last, and may start with an unfinished line of the job."""
        if self.seen:
            return
        if line.endswith(self._token):
            self.seen = True
            line = line.removesuffix(self._token)
            if not line:
                return
        self._take(line)


def job_text(argv: Sequence[str], env: Mapping[str, str]) -> bytes:
    """What init.sh reads: NAME=VALUE of the environment and the command, each ended by a NUL.

    Raises InputFault for a NUL inside, a `=` in the name of the command, or an empty command.
    """
    if not argv or "=" in argv[0]:
        raise InputFault(f"job command {list(argv)}: must start with a program whose name has no '='")
    words = [*(f"{name}={value}" for name, value in env.items()), *argv]
    if any("\0" in word for word in words):
        raise InputFault("job command: a NUL character cannot be handed to a program")
    return "".join(f"{word}\0" for word in words).encode()


def boot_command(kernel: Path, *, cpu: int, memory_mb: int, token: str, openvswitch: bool, seccomp: bool) -> list[str]:
    """The command that boots `kernel` on CPU `cpu` in the job's folder, console on its stdout, the job's output on its stdin.

    What follows the kernel's name is the same for all folders and always as long: see init.sh.
    """
    return [
        *("taskset", "-c", str(cpu)),
        str(kernel),
        f"mem={memory_mb}M",
        "time-travel=inf-cpu",
        f"time-travel-start={BOOT_TIME_NS}",
        *(["seccomp=on"] if seccomp else []),
        *("rootfstype=hostfs", "rootflags=/", "rw", "quiet"),
        *("con=null", "con0=null,fd:1", "con1=null,fd:0"),
        "umid=gradwire",
        f"uml_dir={BOX_NAME}",
        f"GRADWIRE_BOX={BOX_NAME}",
        f"GRADWIRE_TOKEN={token}",
        f"GRADWIRE_OPENVSWITCH={int(openvswitch)}",
        "init=/bin/bash",
        "--",
        _quoted(INIT),
    ]


def _quoted(path: Path) -> str:
    """`path` as a word of the kernel's command line, which knows double quotes and no escapes; raises MachineFault."""
    if '"' in str(path) or "\n" in str(path):
        raise MachineFault(f"{path}: its name must have no double quote and no line end; install gradwire elsewhere")
    return f'"{path}"' if " " in str(path) else str(path)


@lru_cache
def knows_seccomp(kernel: Path) -> bool:
    """True for kernels (6.16 and later) whose system calls can go by seccomp, at 0.6 of ptrace's cost."""
    try:
        listing = subprocess.run([kernel, "--help"], capture_output=True, text=True, check=False, timeout=HELP_LIMIT_S)
    except (OSError, subprocess.TimeoutExpired):  # booting it says more
        return False
    return any(line.startswith("seccomp=") for line in listing.stdout.splitlines())


def memory_folders() -> list[Path]:
    """Where the kernel's memory may live, best first: a tmpfs is faster, and never written to a disk."""
    return [Path("/dev/shm"), Path(os.environ.get("TMPDIR", "/tmp")), Path("/tmp")]


def room_for_memory_mb(folder: Path) -> int:
    """MiB free for a kernel's memory in `folder`; 0 where it is missing, read-only or forbids running code (noexec)."""
    if not os.access(folder, os.W_OK) or forbids_programs(folder):
        return 0
    facts = os.statvfs(folder)
    return facts.f_bavail * facts.f_frsize // MIB


def forbids_programs(folder: Path) -> bool:
    """Whether `folder` is on a file system mounted noexec: the kernel maps its memory as code too."""
    return folder.exists() and bool(os.statvfs(folder).f_flag & os.ST_NOEXEC)


def memory_remedy(memory_mb: int) -> str:
    """How to make room for a kernel's memory on this machine."""
    barred = [folder for folder in memory_folders() if forbids_programs(folder)]
    if barred:
        return (
            f"allow programs in {barred[0]} with `mount -o remount,exec {barred[0]}` as root, or set TMPDIR to a folder with room "
            f"that allows them; start a container with `--tmpfs /dev/shm:rw,exec,size={2 * memory_mb}M`"
        )
    return (
        f"run fewer points at once (--jobs), enlarge /dev/shm with `mount -o remount,exec,size={2 * memory_mb}M /dev/shm` as root, "
        "or set TMPDIR to a folder with room"
    )


def room_seen(folder: Path, room_mb: int) -> str:
    """A folder and its room, in words."""
    return f"{folder}: mounted noexec" if forbids_programs(folder) else f"{folder}: {room_mb} MiB usable"


def choose_memory_folder(memory_mb: int) -> Path:
    """First of `memory_folders` that has room; raises MachineFault when none has."""
    rooms = {folder: room_for_memory_mb(folder) for folder in memory_folders()}
    for folder, room_mb in rooms.items():
        if room_mb >= memory_mb:
            return folder
    seen = ", ".join(room_seen(folder, room_mb) for folder, room_mb in rooms.items())
    raise MachineFault(f"no room for {memory_mb} MiB of kernel memory ({seen})\nremedy: {memory_remedy(memory_mb)}")


@contextmanager
def _box(workdir: Path) -> Iterator[Path]:
    """A fresh folder in `workdir`, removed at the end.

    In the run's own folder and not in /tmp: should this process be killed, nothing stays outside the run, and the next
    run in the same folder replaces it.
    """
    box = workdir.absolute() / BOX_NAME
    if box.exists():
        shutil.rmtree(box)
    try:
        box.mkdir(parents=True)
    except OSError as error:
        raise MachineFault(f"cannot write to {workdir}: {error.strerror}; choose another --out") from error
    try:
        yield box
    finally:
        shutil.rmtree(box)


def _time_over(time_limit_s: float, console: Sequence[str]) -> KernelFault:
    cause = Cause(
        "time limit",
        f"its limit of {time_limit_s:g} s of wall time is over",
        "give it more (`--set run.time_limit=...`), or leave the machine to it",
    )
    return KernelFault("the run was ended", cause, last_words(console))
