"""Boots the virtual-time kernel, runs one job in it as root, and returns its output and exit status. Needs no root
itself.

Virtual time (`time-travel=inf-cpu`, https://docs.kernel.org/virt/uml/user_mode_linux_howto_v2.html): the kernel's clock
stands still while a process computes and jumps to the next timer when all processes wait. The whole kernel with all its
processes is pinned to one CPU: spread over two, a system call costs four times as much, because each one is a hand-over
between two host processes.
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

from gradwire.datatypes.machine_size import DEFAULT_MEMORY_MB
from gradwire.faults import InputFault, MachineFault, UnfitMachine
from gradwire.files import refuse_full_disk
from gradwire.vm.kernel import cached_kernel, renewal
from gradwire.vm.kernel_death import (
    STOPPED_WORDS,
    DeathCause,
    Ending,
    KernelFault,
    Surroundings,
    kernel_died,
    last_words,
    stopped_by_signal,
)
from gradwire.vm.kernel_source import agent_in, has_noted_content, note_of
from gradwire.vm.memory_addresses import fixed_addresses
from gradwire.vm.owners import OWNER_VARIABLE, this_process
from gradwire.vm.streaming import KILL_LIMIT_S, FollowEnd, TimeLimit, follow, is_stopped, pipe, process_group

INIT = Path(__file__).with_name("init.sh")
BOX_NAME = ".kernel"
"""Folder inside the job's folder through which caller and kernel exchange data; always removed at the end."""
JOB_FOLDER = "/run/job"
"""Path inside the kernel of the folder that the job starts in, whatever its path outside."""
AGENT_FILE = "agent.so"
COMPILED_AGENT = f"{JOB_FOLDER}/{BOX_NAME}/{AGENT_FILE}"
"""Path inside the kernel of the compiled agent, if the kernel's file has one."""
KEY_FILE = "key"
"""File in the box of a session with a secret of its caller and its job, who removes it."""
KEY_INSIDE = f"{JOB_FOLDER}/{BOX_NAME}/{KEY_FILE}"
STATUS_FILE = "status"
UMID = "gradwire"
BOOT_LIMIT_S = 30.0
"""Wall time to a kernel's first sign of life, which at a load of 5 came after 0.15 s: 200 times as long, and it will not come."""
HELP_LIMIT_S = 20.0
CONSOLE_LINES_KEPT = 200
"""Must be large: a panic before the console is ready repeats all earlier messages after the line with the reason."""
BOOT_TIME_NS = 1_735_689_600_000_000_000
"""Calendar time at every boot, 2025-01-01: the host's time would differ in every run, and runs must repeat."""
TIME_LIMIT = "time limit"
"""Name of the cause that is not a fault of the kernel's."""
MIB = 1 << 20
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


def run_virtual(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cpu: int,
    memory_mb: int = DEFAULT_MEMORY_MB,
    time_limit_s: float,
    on_line: Callable[[str], None],
    workdir: Path,
    openvswitch: bool = True,
    kernel: Path | None = None,
    stop: threading.Event | None = None,
    programs: bool = False,
) -> int:
    """Runs `argv` as root in a fresh kernel in virtual time; returns its exit status (128 + n after signal n).

    env: the job's whole environment; PATH, HOME, TMPDIR, TERM and two settings of Python have defaults (JOB_DEFAULTS).
    cpu: the one CPU to use.
    memory_mb: memory of the kernel, allocated on use from a tmpfs of the machine.
    time_limit_s: limit in wall seconds.
    on_line: called with each line of the job's output (stdout and stderr) as it arrives.
    workdir: folder that the job starts in, under the name JOB_FOLDER. All of the host's files are visible with the
        caller's rights, except for /dev, /proc, /sys and /run, which are the kernel's own.
    openvswitch: whether to start Open vSwitch first, 30 virtual seconds after boot.
    kernel: kernel to boot (default: the cached one).
    stop: ends the run early when another thread sets it.
    programs: whether the job starts programs that are not to be trusted. Then system calls are intercepted by ptrace
        and never by seccomp, with which a program could read and write all of the kernel's memory (`seccomp=` in the
        help of Linux 6.16 as user-mode kernel).

    Raises KernelFault if the kernel dies, does not come up or the time limit is reached; UnfitMachine if there is no
    kernel or a damaged one; MachineFault if there is no room for its memory, or `stop` was set; InputFault if the
    command or the environment cannot be passed to a program. On return no process and no file of the kernel is left,
    whatever happened; if the calling process is killed, the kernel dies with it.
    """
    kernel = whole_kernel(kernel)
    memory_folder = choose_memory_folder(memory_mb)
    token = secrets.token_hex(16)
    with _box(workdir) as box, pipe() as (job_read, job_end), pipe() as (console_read, console_end):
        (box / "job").write_bytes(job_text(argv, {**JOB_DEFAULTS, **env}))
        if agent := agent_in(kernel):
            (box / AGENT_FILE).write_bytes(agent)
        command = boot_command(
            kernel,
            cpu=cpu,
            memory_mb=memory_mb,
            token=token,
            openvswitch=openvswitch,
            seccomp=not programs and knows_seccomp(kernel),
        )
        console = Console()
        output = TokenWatch(token, on_line)
        kernel_env = {**KERNEL_ENVIRONMENT, "TMPDIR": str(memory_folder), OWNER_VARIABLE: this_process()}
        with process_group(
            command, env=kernel_env, stdin=job_end.fileno(), stdout=console_end.fileno(), cwd=workdir
        ) as process:
            job_end.close()
            console_end.close()

            def held() -> bool:
                return is_stopped(process.pid)

            boot = BootWatch(box, held)
            end = follow(
                {job_read: output.take, console_read: console.take},
                time_limit_s=time_limit_s,
                # A kernel that is killed early in its boot may leave a process behind that keeps the pipes open.
                finished=lambda: output.seen or bool(console.stopped) or process.poll() is not None or boot.failed(),
                stop=stop,
                held=held,
            )
            if process.poll() is None and not output.seen:
                boot.refuse_failed(kernel)
        console.refuse_stopped()
        if end is FollowEnd.TIMED_OUT:
            raise _time_over(time_limit_s, console.lines)
        if end is FollowEnd.STOPPED:
            raise MachineFault("the run was stopped before its job had ended")
        if not output.seen and not (box / STATUS_FILE).exists():
            ending = Ending(kernel, tuple(console.lines), exit_status_of(process), memory_folder, memory_mb)
            raise kernel_died("the virtual-time kernel died before its job had ended", ending, Surroundings.here())
        return _noted_status(box / STATUS_FILE)


def _noted_status(file: Path) -> int:
    """The job's exit status, which the kernel's first process has noted. Raises UnfitMachine if it could not be."""
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    if text.strip().isdigit():
        return int(text)
    folder = file.parent.parent
    refuse_full_disk(folder)
    raise UnfitMachine(
        f"{folder}: what the kernel wrote there has not arrived ({file.name} has {len(text)} bytes); see whether its "
        "disk fails (`dmesg`), and give the command again"
    )


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


class TokenWatch:
    """Passes lines on until the token that the kernel's first process writes after the job's last line."""

    def __init__(self, token: str, take: Callable[[str], None]) -> None:
        self._token = token
        self._take = take
        self.seen = False

    def take(self, line: str) -> None:
        """Takes one line. The line that ends in the token is the last; it may begin with the job's unfinished line."""
        if self.seen:
            return
        if line.endswith(self._token):
            self.seen = True
            line = line.removesuffix(self._token)
            if not line:
                return
        self._take(line)


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


def boot_command(kernel: Path, *, cpu: int, memory_mb: int, token: str, openvswitch: bool, seccomp: bool) -> list[str]:
    """The command that boots `kernel` on CPU `cpu` in the job's folder, with the console on its stdout and the job's
    output on its stdin.

    The arguments after the kernel's name are the same for all folders and always have the same length: see init.sh.
    """
    return [
        *("taskset", "-c", str(cpu)),
        *fixed_addresses(),
        str(kernel),
        f"mem={memory_mb}M",
        "time-travel=inf-cpu",
        f"time-travel-start={BOOT_TIME_NS}",
        *(["seccomp=on"] if seccomp else []),
        # No host speaks IPv6 unless its scenario says so: solicitations and duplicate address detection would be
        # unplanned traffic.
        "ipv6.disable_ipv6=1",
        "ib_core.netns_mode=0",  # an RDMA device belongs to one host
        # Tunnels have a device in every network namespace otherwise (tunl0, gre0 and others), which nobody asked for.
        "sysctl.net.core.fb_tunnels_only_for_init_net=2",
        *("rootfstype=hostfs", "rootflags=/", "rw", "quiet"),
        *("con=null", "con0=null,fd:1", "con1=null,fd:0"),
        f"umid={UMID}",
        f"uml_dir={BOX_NAME}",
        f"GRADWIRE_BOX={BOX_NAME}",
        f"GRADWIRE_TOKEN={token}",
        f"GRADWIRE_OPENVSWITCH={int(openvswitch)}",
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


def memory_folders() -> list[Path]:
    """Folders that may hold the kernel's memory, best first: a tmpfs is faster and never written to a disk."""
    return [Path("/dev/shm"), Path(os.environ.get("TMPDIR", "/tmp")), Path("/tmp")]


def room_for_memory_mb(folder: Path) -> int:
    """Free MiB for a kernel's memory in `folder`; 0 if it is missing, read-only or forbids running code (noexec)."""
    if not os.access(folder, os.W_OK) or forbids_programs(folder):
        return 0
    status = os.statvfs(folder)
    return status.f_bavail * status.f_frsize // MIB


def forbids_programs(folder: Path) -> bool:
    """Returns whether `folder` is on a file system mounted noexec: the kernel maps its memory as code too."""
    return folder.exists() and bool(os.statvfs(folder).f_flag & os.ST_NOEXEC)


def memory_remedy(memory_mb: int) -> str:
    """Returns the instruction for making room for a kernel's memory on this machine."""
    barred = [folder for folder in memory_folders() if forbids_programs(folder)]
    if barred:
        return (
            f"allow programs in {barred[0]} with `mount -o remount,exec {barred[0]}` as root, or set TMPDIR to a "
            "folder with room that allows them; start a container with `--tmpfs "
            f"/dev/shm:rw,exec,size={2 * memory_mb}M`"
        )
    return (
        f"run fewer points at once (--jobs), enlarge /dev/shm with `mount -o remount,exec,size={2 * memory_mb}M "
        "/dev/shm` as root, or set TMPDIR to a folder with room"
    )


def room_seen(folder: Path, room_mb: int) -> str:
    """Describes a folder and its room."""
    return f"{folder}: mounted noexec" if forbids_programs(folder) else f"{folder}: {room_mb} MiB usable"


def choose_memory_folder(memory_mb: int) -> Path:
    """The first of `memory_folders` with enough room; raises MachineFault if none has it."""
    rooms = {folder: room_for_memory_mb(folder) for folder in memory_folders()}
    for folder, room_mb in rooms.items():
        if room_mb >= memory_mb:
            return folder
    listing = ", ".join(room_seen(folder, room_mb) for folder, room_mb in rooms.items())
    raise MachineFault(f"no room for {memory_mb} MiB of kernel memory ({listing})\nremedy: {memory_remedy(memory_mb)}")


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


def _time_over(time_limit_s: float, console: Sequence[str]) -> KernelFault:
    cause = DeathCause(
        TIME_LIMIT,
        f"it reached its limit of {time_limit_s:g} s of wall time",
        "give it more (`--set run.time_limit=...`), or keep other work off the machine",
    )
    return KernelFault("the run was ended", cause, last_words(console))
