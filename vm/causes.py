"""Why a virtual-time kernel died: its last words and what the machine shows, told as a cause with its remedy.

The messages are those of Linux 6.12's arch/um, gathered by bringing each cause about (tests/end_to_end has most of them).

User namespaces are no cause: the kernel makes its namespaces inside and takes none of the machine's, so neither
`kernel.unprivileged_userns_clone`, `user.max_user_namespaces` nor AppArmor's restriction of them matters. Tried with none allowed.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gradwire.faults import MachineFault
from gradwire.vm.kernel import renewal
from gradwire.vm.packages import install_command

LAST_WORDS = 10
"""Lines of the console that are shown where the cause is not known."""
_LEVEL = re.compile(r"^<\d>")
_REPORT = re.compile(r"^<[5-7]>")
_NOISE = re.compile(
    r"^\s*($|kmsg_dump:|(RIP|RSP|R[A-D]X|R[SD]I|RBP|R\d\d|CS|EFLAGS|Pid|CPU|Modules linked in|Call Trace|Stack|Code): ?"
    r"|[0-9a-f]{16}\b|\[<[0-9a-f]+>\])"
)
"""Register and stack dumps, which say nothing to anybody but the kernel's own developers."""


@dataclass(frozen=True)
class Ending:
    """How a kernel ended. console: its last lines. returncode: as of subprocess, -n after signal n."""

    kernel: Path
    console: tuple[str, ...]
    returncode: int
    memory_folder: Path
    memory_mb: int


@dataclass(frozen=True)
class Surroundings:
    """What decides on the machine's side. nested: this is a user-mode kernel itself. filtered: a seccomp filter is in force.

    yama_scope: of kernel.yama.ptrace_scope; None where there is no Yama.
    """

    nested: bool = False
    filtered: bool = False
    yama_scope: int | None = None

    @staticmethod
    def here() -> Surroundings:
        """Those of this process."""
        yama = _read("/proc/sys/kernel/yama/ptrace_scope").strip()
        return Surroundings(
            nested="User Mode Linux" in _read("/proc/cpuinfo"),
            filtered=re.search(r"^Seccomp:\s*[12]$", _read("/proc/self/status"), re.MULTILINE) is not None,
            yama_scope=int(yama) if yama else None,
        )


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""


@dataclass(frozen=True)
class Cause:
    """name: for tests and for people who sort reports. what: what is wrong, what was seen. remedy: what mends it."""

    name: str
    what: str
    remedy: str


class KernelFault(MachineFault):
    """A kernel that did not do what it was booted for. last_words: of its console, where the cause does not say it all."""

    def __init__(self, headline: str, cause: Cause, last_words: Sequence[str] = ()) -> None:
        self.cause = cause
        self.last_words = tuple(last_words)
        console = ["the kernel's last words:", *last_words] if last_words else []
        super().__init__("\n".join([f"{headline}: {cause.what}", f"remedy: {cause.remedy}", *console]))

    def under(self, headline: str) -> KernelFault:
        """The same with another beginning."""
        return KernelFault(headline, self.cause, self.last_words)


UNKNOWN = "unknown"


def kernel_died(headline: str, ending: Ending, surroundings: Surroundings) -> KernelFault:
    """The fault for a kernel that died; with its last words where nobody knows the cause."""
    cause = cause_of(ending, surroundings)
    return KernelFault(headline, cause, last_words(ending.console) if cause.name == UNKNOWN else ())


def last_words(console: Sequence[str]) -> list[str]:
    """The last of what a console says, without mere reports, dumps of registers, and what was said before."""
    said = (_LEVEL.sub("", line) for line in console if not _REPORT.match(line))
    return list(dict.fromkeys(line for line in said if not _NOISE.match(line)))[-LAST_WORDS:]


NESTED = Cause(
    "nested kernel",
    "this is gradwire's own user-mode kernel, or another one, and it cannot carry a second (it has no PTRACE_SYSEMU)",
    "run gradwire on the machine itself, not inside one of its points",
)


def cause_of(ending: Ending, surroundings: Surroundings) -> Cause:
    """What the kernel died of."""
    if surroundings.nested:
        return NESTED
    console = "\n".join(_LEVEL.sub("", line) for line in ending.console)
    for pattern, told in MESSAGES:
        if match := pattern.search(console):
            return told(match, ending, surroundings)
    return _by_signal(ending, console)


def _by_signal(ending: Ending, console: str) -> Cause:
    killed_by = -ending.returncode
    if killed_by == signal.SIGKILL:
        return Cause(
            "killed",
            "something killed it (SIGKILL): as a rule the machine, or the container's limit, when memory ran out",
            "see `dmesg | grep -i -e oom -e 'killed process'`; run fewer points at once (--jobs), or allow more memory",
        )
    if killed_by == signal.SIGXFSZ:
        return Cause(
            "file size limit",
            "its memory is a file, and the limit on the size of files is smaller (SIGXFSZ)",
            "`ulimit -f unlimited`",
        )
    name = signal.Signals(killed_by).name if killed_by > 0 else f"status {ending.returncode}"
    if killed_by > 0 and not console.strip():
        if killed_by in (signal.SIGSEGV, signal.SIGBUS, signal.SIGILL):
            return Cause(
                "kernel file", f"it crashed before its first word ({name}): its file is damaged", renewal(ending.kernel)
            )
        return Cause("killed", f"something ended it ({name})", "run it again; if it ends so again, find out what does")
    seen = "for a reason that is not known" if console.strip() else "without a word"
    return Cause(
        UNKNOWN,
        f"{seen} ({name})",
        f"{renewal(ending.kernel)}; if it still dies, please report this, with what `gradwire doctor` says",
    )


def _no_ptrace(match: re.Match[str], _: Ending, surroundings: Surroundings) -> Cause:
    """The kernel traces its processes, which asks the machine for PTRACE_TRACEME. Yama's scopes 0 and 1 allow that."""
    seen, scope = f"it may not trace its own processes ({match[0]})", surroundings.yama_scope
    if scope == 3:
        return Cause(
            "ptrace: Yama",
            f"{seen}: kernel.yama.ptrace_scope is 3, which forbids it to all",
            "take `kernel.yama.ptrace_scope = 3` out of /etc/sysctl.d and boot the machine anew: it cannot be lowered before",
        )
    if scope == 2:
        return Cause(
            "ptrace: Yama",
            f"{seen}: kernel.yama.ptrace_scope is 2, which leaves it to administrators",
            "`sysctl -w kernel.yama.ptrace_scope=1` as root, or in a container `--cap-add SYS_PTRACE`",
        )
    if surroundings.filtered:
        return Cause(
            "ptrace: seccomp filter",
            f"{seen}: a seccomp filter is in force here, as in containers and sandboxes",
            "start the container with `--cap-add SYS_PTRACE` (Docker, Podman) or the capability SYS_PTRACE (Kubernetes); "
            "if that does not do, with `--security-opt seccomp=unconfined`",
        )
    return Cause(
        "ptrace: security module",
        f"{seen}, though there is neither a seccomp filter nor Yama's limit: a security module forbids it",
        "with SELinux `setsebool deny_ptrace off`; with AppArmor let the profile of gradwire's process have `ptrace`",
    )


def _part_of_ptrace(match: re.Match[str], *_: object) -> Cause:
    return Cause(
        "ptrace: incomplete",
        f"the machine has only a part of ptrace ({match[0]}), as gVisor, WSL 1 and emulators do",
        "run gradwire on Linux itself or in a full virtual machine",
    )


def _no_filters(match: re.Match[str], *_: object) -> Cause:
    return Cause(
        "seccomp",
        f"it may not install seccomp filters, which this kernel's system calls go by ({match[0]})",
        "start the container with `--security-opt seccomp=unconfined`, or set GRADWIRE_KERNEL_SOURCE to a linux-source of 6.12",
    )


def _register_state(match: re.Match[str], *_: object) -> Cause:
    return Cause(
        "register state",
        f"this processor has a larger register state than the kernel has room for ({match[0]})",
        "boot the machine with `clearcpuid=amx_tile`, or give a virtual machine a processor model without AMX; and please report this",
    )


def _memory_full(_: re.Match[str], ending: Ending, __: Surroundings) -> Cause:
    folder = ending.memory_folder
    return Cause(
        "memory: folder full",
        f"{folder}, where its memory is, has no room left",
        f"run fewer points at once (--jobs), or enlarge it: `mount -o remount,size={2 * ending.memory_mb}M {folder}`",
    )


def _too_little_memory(match: re.Match[str], ending: Ending, _: Surroundings) -> Cause:
    return Cause(
        "memory: too little",
        f"{ending.memory_mb} MiB of memory are too little for it ({match[0]})",
        "give it more: `--set run.memory_mb=3072` is the default",
    )


def _no_address_space(match: re.Match[str], *_: object) -> Cause:
    return Cause(
        "memory: limit",
        f"a limit on memory does not let it have its own ({match[0]})",
        "`ulimit -v unlimited`, or with overcommit_memory = 2 `sysctl -w vm.overcommit_memory=0` as root",
    )


def _noexec(match: re.Match[str], ending: Ending, _: Surroundings) -> Cause:
    folder = ending.memory_folder
    return Cause(
        "memory: noexec",
        f"{folder}, where its memory is, is mounted noexec ({match[0]})",
        f"`mount -o remount,exec {folder}` as root, or set TMPDIR to a folder that allows programs",
    )


def _not_run(match: re.Match[str], ending: Ending, _: Surroundings) -> Cause:
    if match["program"] == "setpriv":
        return Cause("util-linux", f"a program is missing ({match[0]})", install_command("taskset"))
    return Cause("kernel file", f"its file cannot be run ({match[0]})", renewal(ending.kernel))


def _no_openvswitch(match: re.Match[str], *_: object) -> Cause:
    return Cause(
        "Open vSwitch",
        f"Open vSwitch does not start in it ({match['why']})",
        f"{install_command('openvswitch')}; if it is installed, install it again",
    )


def _first_process(match: re.Match[str], *_: object) -> Cause:
    return Cause(
        "first process",
        f"its first process could not set it up ({match['why']})",
        "see `gradwire doctor` for what is missing; if nothing is, please report this",
    )


MESSAGES: tuple[tuple[re.Pattern[str], Callable[[re.Match[str], Ending, Surroundings], Cause]], ...] = tuple(
    (re.compile(pattern, re.MULTILINE), told)
    for pattern, told in (
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
        (r"^(?P<program>setpriv|taskset): failed to execute .+", _not_run),
        (r"(?P<why>ovs\S+: .+)(.|\n)*^gradwire: Open vSwitch does not start", _no_openvswitch),
        (r"^gradwire: (?P<why>.+)", _first_process),
    )
)
"""What a console says, and the cause that it tells of; the first that fits."""
