"""Diagnoses why a virtual-time kernel died, from its console and the state of the machine, and names a remedy.

The messages are those of Linux 6.12's arch/um, collected by provoking each cause (tests/end_to_end covers most of
them).

User namespaces are never the cause: the kernel creates its namespaces inside itself and uses none of the machine's, so
`kernel.unprivileged_userns_clone`, `user.max_user_namespaces` and AppArmor's restriction of them do not matter. This
was tried with none allowed.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from gradwire.child_process import signal_name
from gradwire.datatypes.machine_size import DEFAULT_MEMORY_MB
from gradwire.faults import MachineFault
from gradwire.vm.kernel import renewal
from gradwire.vm.packages import install_command

LAST_WORDS = 10
"""Number of console lines shown when the cause is unknown."""
_LEVEL = re.compile(r"^<\d>")
_REPORT = re.compile(r"^<[5-7]>")
_NOISE = re.compile(
    r"^\s*($|kmsg_dump:|(RIP|RSP|R[A-D]X|R[SD]I|RBP|R\d\d|CS|EFLAGS|Pid|CPU|Modules linked in|Call Trace|Stack|Code): ?"
    r"|[0-9a-f]{16}\b|\[<[0-9a-f]+>\])"
)
"""Register and stack dumps, which mean something only to kernel developers."""


@dataclass(frozen=True)
class Ending:
    """The facts of a kernel's end."""

    #: File of the kernel.
    kernel: Path
    #: Last lines of its console.
    console: tuple[str, ...]
    #: As in subprocess: -n after signal n.
    returncode: int
    #: Folder that held the kernel's memory.
    memory_folder: Path
    #: Size of that memory.
    memory_mb: int


@dataclass(frozen=True)
class Surroundings:
    """The machine's side of a diagnosis."""

    #: Whether this machine is itself a user-mode kernel.
    nested: bool = False
    #: Whether a seccomp filter is in force.
    filtered: bool = False
    #: Value of kernel.yama.ptrace_scope; None without Yama.
    yama_scope: int | None = None

    @staticmethod
    def here() -> Surroundings:
        """The surroundings of this process."""
        yama = _read("/proc/sys/kernel/yama/ptrace_scope").strip()
        return Surroundings(
            nested="User Mode Linux" in _read("/proc/cpuinfo"),
            filtered=re.search(r"^Seccomp:\s*[12]$", _read("/proc/self/status"), re.MULTILINE) is not None,
            yama_scope=int(yama) if yama else None,
        )


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError:
        return ""


@dataclass(frozen=True)
class DeathCause:
    """The cause of a kernel's death, and its remedy."""

    #: Short name, for tests and for people who sort reports.
    name: str
    #: What is wrong and how it showed.
    what: str
    #: What fixes it.
    remedy: str


class KernelFault(MachineFault):
    """A kernel that failed at its job. `last_words` are lines of its console, for causes that do not explain
    everything."""

    def __init__(self, headline: str, cause: DeathCause, last_words: Sequence[str] = ()) -> None:
        self.cause = cause
        self.last_words = tuple(last_words)
        console = ["the kernel's last words:", *last_words] if last_words else []
        super().__init__("\n".join([f"{headline}: {cause.what}", f"remedy: {cause.remedy}", *console]))

    def under(self, headline: str) -> KernelFault:
        """Returns this fault with another headline."""
        return KernelFault(headline, self.cause, self.last_words)


Result = TypeVar("Result")
MOST_BOOTS = 3
"""How often a machine is booted if signals stop it. A user who stops a run and resumes it does that once or twice; more
is not an accident."""
UNKNOWN = "unknown"
STOPPED = "stopped"
"""The cause of which a kernel dies without a fault in it: booted again, it does what it would have done."""
STOPPED_WORDS = re.compile(
    # SIGCONT, SIGSTOP, SIGTSTP, SIGTTIN and SIGTTOU: by their numbers, and in what wait(2) says of a process that one
    # of them has stopped.
    r"child stopped with signal (?:1[89]|2[0-2])\b"
    r"|status(?: =)? (?:0x1[2-6]7f|4735|4991|5247|5503|5759)\b"
    # SIGCONT has taken back the SIGSTOP with which a new process waits for the kernel, and so it has ended.
    r"|start_userspace : expected SIGSTOP, got status = 0\b"
)
"""Messages of a kernel one of whose processes was stopped or resumed by a signal from outside. The kernel traces its
processes, so it sees every signal before they do. It takes a signal that it has not sent for the death of the process,
which may be its first."""


def kernel_died(headline: str, ending: Ending, surroundings: Surroundings) -> KernelFault:
    """The fault for a kernel that died, with its last words if the cause is unknown."""
    cause = cause_of(ending, surroundings)
    return KernelFault(headline, cause, last_words(ending.console) if cause.name == UNKNOWN else ())


def unless_stopped(
    boot: Callable[[], Result], clear: Callable[[], None], wanted: Callable[[], bool] = lambda: True
) -> tuple[Result, int]:
    """Calls `boot`, again if a signal stopped its machine, up to MOST_BOOTS times in all. Returns the result, and how
    many machines were stopped before it.

    clear: removes the files that a stopped machine leaves. wanted: returns whether the result is still needed; if not,
    the fault is raised. Raises what `boot` raises.
    """
    stopped = 0
    while True:
        try:
            return boot(), stopped
        except KernelFault as fault:
            if fault.cause.name != STOPPED or stopped == MOST_BOOTS - 1 or not wanted():
                raise
        clear()
        stopped += 1


def last_words(console: Sequence[str]) -> list[str]:
    """The last lines of a console, without informational messages, register dumps and repeated lines."""
    messages = (_LEVEL.sub("", line) for line in console if not _REPORT.match(line))
    return list(dict.fromkeys(line for line in messages if not _NOISE.match(line)))[-LAST_WORDS:]


NESTED = DeathCause(
    "nested kernel",
    "this is a user-mode kernel, gradwire's own or another, and cannot run a second one inside (it has no "
    "PTRACE_SYSEMU)",
    "run gradwire on the machine itself, not inside one of its points",
)


def cause_of(ending: Ending, surroundings: Surroundings) -> DeathCause:
    """The cause of a kernel's death."""
    if surroundings.nested:
        return NESTED
    console = "\n".join(_LEVEL.sub("", line) for line in ending.console)
    for pattern, cause_from in MESSAGES:
        if match := pattern.search(console):
            return cause_from(match, ending, surroundings)
    return _by_signal(ending, console)


def _by_signal(ending: Ending, console: str) -> DeathCause:
    killed_by = -ending.returncode
    if killed_by == signal.SIGKILL:
        return DeathCause(
            "killed",
            "something killed it (SIGKILL): usually the machine or the container's limit when memory ran out",
            "see `dmesg | grep -i -e oom -e 'killed process'`; run fewer points at once (--jobs), or allow more memory",
        )
    if killed_by == signal.SIGXFSZ:
        return DeathCause(
            "file size limit",
            "its memory is a file larger than the limit on file sizes (SIGXFSZ)",
            "`ulimit -f unlimited`",
        )
    name = signal_name(killed_by) if killed_by > 0 else f"status {ending.returncode}"
    if killed_by > 0 and not console.strip():
        if killed_by in (signal.SIGSEGV, signal.SIGBUS, signal.SIGILL):
            return DeathCause(
                "kernel file",
                f"it crashed before its first message ({name}): its file is damaged",
                renewal(ending.kernel),
            )
        return DeathCause(
            "killed",
            f"something ended it ({name})",
            "run it again; if it ends the same way, find out what sends the signal",
        )
    symptom = "for an unknown reason" if console.strip() else "without a message"
    return DeathCause(
        UNKNOWN,
        f"{symptom} ({name})",
        f"{renewal(ending.kernel)}; if it still dies, please report this with the output of `gradwire doctor`",
    )


def _stopped(match: re.Match[str], *_: object) -> DeathCause:
    return stopped_by_signal(match[0])


def stopped_by_signal(words: str) -> DeathCause:
    """The cause of a kernel's end, one of whose processes a signal has stopped or resumed, as these words of it say."""
    return DeathCause(
        STOPPED,
        f"a signal stopped or continued one of its processes, which it does not survive ({words.strip()})",
        "give the command again; to make it wait, stop only the command itself (Ctrl-Z), not the processes that it "
        "has started",
    )


def _no_ptrace(match: re.Match[str], _: Ending, surroundings: Surroundings) -> DeathCause:
    """The kernel traces its processes, for which the machine must permit PTRACE_TRACEME. Yama's scopes 0 and 1 do."""
    symptom, scope = f"it may not trace its own processes ({match[0]})", surroundings.yama_scope
    if scope == 3:
        return DeathCause(
            "ptrace: Yama",
            f"{symptom}: kernel.yama.ptrace_scope is 3, which forbids it to everyone",
            "remove `kernel.yama.ptrace_scope = 3` from /etc/sysctl.d and reboot the machine: until then it cannot be "
            "lowered",
        )
    if scope == 2:
        return DeathCause(
            "ptrace: Yama",
            f"{symptom}: kernel.yama.ptrace_scope is 2, which allows it to administrators only",
            "`sysctl -w kernel.yama.ptrace_scope=1` as root, or in a container `--cap-add SYS_PTRACE`",
        )
    if surroundings.filtered:
        return DeathCause(
            "ptrace: seccomp filter",
            f"{symptom}: a seccomp filter is in force here, as in containers and sandboxes",
            "start the container with `--cap-add SYS_PTRACE` (Docker, Podman) or the capability SYS_PTRACE "
            "(Kubernetes); if that is not enough, with `--security-opt seccomp=unconfined`",
        )
    return DeathCause(
        "ptrace: security module",
        f"{symptom}, although neither a seccomp filter nor Yama forbids it: a security module does",
        "with SELinux `setsebool deny_ptrace off`; with AppArmor let the profile of gradwire's process have `ptrace`",
    )


def _part_of_ptrace(match: re.Match[str], *_: object) -> DeathCause:
    return DeathCause(
        "ptrace: incomplete",
        f"the machine implements ptrace only in part ({match[0]}), like gVisor, WSL 1 and emulators",
        "run gradwire on Linux itself or in a full virtual machine",
    )


def _no_filters(match: re.Match[str], *_: object) -> DeathCause:
    return DeathCause(
        "seccomp",
        f"it may not install seccomp filters, which this kernel needs for system calls ({match[0]})",
        "start the container with `--security-opt seccomp=unconfined`, or set GRADWIRE_KERNEL_SOURCE to a "
        "linux-source of 6.12",
    )


def _register_state(match: re.Match[str], *_: object) -> DeathCause:
    return DeathCause(
        "register state",
        f"this processor's register state is larger than the kernel has room for ({match[0]})",
        "boot the machine with `clearcpuid=amx_tile`, or give a virtual machine a processor model without AMX; please "
        "report this too",
    )


def _memory_full(_: re.Match[str], ending: Ending, __: Surroundings) -> DeathCause:
    folder = ending.memory_folder
    return DeathCause(
        "memory: folder full",
        f"{folder}, which holds its memory, has no room left",
        f"run fewer points at once (--jobs), or enlarge it: `mount -o remount,size={2 * ending.memory_mb}M {folder}`",
    )


def _too_little_memory(match: re.Match[str], ending: Ending, _: Surroundings) -> DeathCause:
    return DeathCause(
        "memory: too little",
        f"{ending.memory_mb} MiB of memory are too little for it ({match[0]})",
        f"give it more: `--set run.memory_mb={DEFAULT_MEMORY_MB}` is the default",
    )


def _no_address_space(match: re.Match[str], *_: object) -> DeathCause:
    return DeathCause(
        "memory: limit",
        f"a memory limit prevents it from allocating its memory ({match[0]})",
        "`ulimit -v unlimited`, or with overcommit_memory = 2 `sysctl -w vm.overcommit_memory=0` as root",
    )


def _noexec(match: re.Match[str], ending: Ending, _: Surroundings) -> DeathCause:
    folder = ending.memory_folder
    return DeathCause(
        "memory: noexec",
        f"{folder}, which holds its memory, is mounted noexec ({match[0]})",
        f"`mount -o remount,exec {folder}` as root, or set TMPDIR to a folder that allows programs",
    )


def _not_run(match: re.Match[str], ending: Ending, _: Surroundings) -> DeathCause:
    if match["program"] == "setpriv":
        return DeathCause("util-linux", f"a program is missing ({match[0]})", install_command("taskset"))
    return DeathCause("kernel file", f"its file cannot be executed ({match[0]})", renewal(ending.kernel))


def _no_openvswitch(match: re.Match[str], *_: object) -> DeathCause:
    return DeathCause(
        "Open vSwitch",
        f"Open vSwitch does not start in it ({match['why']})",
        f"{install_command('openvswitch')}; if it is already installed, reinstall it",
    )


def _first_process(match: re.Match[str], *_: object) -> DeathCause:
    return DeathCause(
        "first process",
        f"its first process could not set up the system ({match['why']})",
        "see `gradwire doctor` for what is missing; if nothing is, please report this",
    )


MESSAGES: tuple[tuple[re.Pattern[str], Callable[[re.Match[str], Ending, Surroundings], DeathCause]], ...] = tuple(
    (re.compile(pattern, re.MULTILINE), cause_from)
    for pattern, cause_from in (
        (STOPPED_WORDS.pattern, _stopped),
        (r"register state has \d+ bytes, and this kernel has room for \d+", _register_state),
        (r"(put_fp_registers|ptrace set fp regs) failed, errno = 14", _register_state),
        (r"^ptrace: .+$", _no_ptrace),
        (r"^check_ptrace : expected SIGSTOP, got status = (31|159)$", _no_ptrace),  # SIGSYS: a filter that kills
        (r"SECCOMP userspace requested but not functional", _no_filters),
        (
            r"PTRACE_SETOPTIONS failed: .+|(ptrace continue failed, op = \d+|_fp_registers failed), errno = \d+",
            _part_of_ptrace,
        ),
        (r"^missing$", _part_of_ptrace),  # of "Checking syscall emulation for ptrace...missing"
        (r"^Bus error - the host .* ran out of space", _memory_full),
        (r"Too few physical memory!|Failed to allocate \d+ bytes for node 0 memory map", _too_little_memory),
        (r"mapping \d+ bytes of memory .* failed - errno = -12", _no_address_space),
        (r"must be not mounted noexec", _noexec),
        (r"^(?P<program>setpriv|taskset|setarch): failed to execute .+", _not_run),
        (r"(?P<why>ovs\S+: .+)(.|\n)*^gradwire: Open vSwitch does not start", _no_openvswitch),
        (r"^gradwire: (?P<why>.+)", _first_process),
    )
)
"""Patterns of console messages and the function that makes a cause from a match; the first match wins."""
