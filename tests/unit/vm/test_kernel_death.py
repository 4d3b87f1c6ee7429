"""What kernels say at their end, and the cause that it tells of. The excerpts are what 6.12 really said."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from gradwire.vm.kernel_death import (
    LAST_WORDS,
    MOST_BOOTS,
    STOPPED,
    DeathCause,
    Ending,
    KernelFault,
    Surroundings,
    cause_of,
    kernel_died,
    last_words,
    unless_stopped,
)
from tests.shared.parts import tells

NO_PTRACE = "ptrace: Operation not permitted\ncheck_ptrace : expected SIGSTOP, got status = 9"
BUS_ERROR = """kmsg_dump:
<5>Linux version 6.12.117 (gradwire@gradwire) (gcc (Debian 12.2.0-14+deb12u1) 12.2.0) #1 2000-01-01
<6>Zone ranges:
<6>  Normal   [mem 0x0000000000000000-0x0000000079167fff]
<6>Initmem setup node 0 [mem 0x0000000000000000-0x0000000019167fff]
<3>Bus error - the host /dev/shm or /tmp mount likely just ran out of space
<0>Kernel panic - not syncing: Kernel mode signal 7"""
DAMAGED = """kmsg_dump:
<5>Linux version 6.12.117 (gradwire@gradwire) (gcc (Debian 12.2.0-14+deb12u1) 12.2.0) #1 2000-01-01
<6>Zone ranges:
<7>pcpu-alloc: s0 r0 d32768 u32768 alloc=1*32768
<4>
<6>Pid: 0, comm: swapper Not tainted 6.12.117
<6>RIP: 0033:0x0000000060121714
<6>RSP: 0000000060377e70  EFLAGS: 00010246
<6>RAX: 0000000060325818 RBX: 00000000826f6c80 RCX: 0000000000000000
<6>R13: 0000000000000003 R14: 00000000826f6c80 R15: 00000000826f6c84
<0>Kernel panic - not syncing: Segfault with no mm"""
NO_SWITCH = """/root/gradwire/vm/init.sh: line 46: ovsdb-server: command not found
tail: cannot open '/run/openvswitch/*.log' for reading: No such file or directory
gradwire: Open vSwitch does not start:
Kernel panic - not syncing: Attempted to kill init! exitcode=0x00000100"""
NO_SCHEMA = """ovsdb-tool: failed to read schema: "/usr/share/openvswitch/vswitch.ovsschema" could not be read as JSON
tail: cannot open '/run/openvswitch/*.log' for reading: No such file or directory
gradwire: Open vSwitch does not start:
Kernel panic - not syncing: Attempted to kill init! exitcode=0x00000100"""
NO_LOOPBACK = """ip: error while loading shared libraries: libmd.so.0: cannot open shared object file: Error 24
gradwire: cannot raise the loopback interface
Kernel panic - not syncing: Attempted to kill init! exitcode=0x00000100"""
INIT_KILLED = "Kernel panic - not syncing: Attempted to kill init! exitcode=0x0000000b"


def ending(console: str = "", returncode: int = 1) -> Ending:
    return Ending(Path("/cache/kernel"), tuple(console.splitlines()), returncode, Path("/dev/shm"), 3072)


def cause(console: str = "", returncode: int = 1, surroundings: Surroundings | None = None) -> DeathCause:
    return cause_of(ending(console, returncode), surroundings or Surroundings())


@pytest.mark.parametrize(
    ("console", "name", "seen", "remedy"),
    [
        (
            f"userspace - ptrace set fp regs failed, errno = 14\n{INIT_KILLED}",
            "register state",
            "errno = 14",
            "clearcpuid=amx_tile",
        ),
        (
            f"fp_regs_load - put_fp_registers failed, errno = 14\n{INIT_KILLED}",
            "register state",
            "errno = 14",
            "please report",
        ),
        (
            "This processor's register state has 11008 bytes, and this kernel has room for 4096.",
            "register state",
            "11008",
            "please report",
        ),
        (BUS_ERROR, "memory: folder full", "/dev/shm", "mount -o remount,size=6144M /dev/shm"),
        (
            "Too few physical memory! Needed=935329792, given=926220288",
            "memory: too little",
            "3072 MiB",
            "run.memory_mb",
        ),
        (
            "<0>Kernel panic - not syncing: Failed to allocate 9232384 bytes for node 0 memory map",
            "memory: too little",
            "9232384",
            "run.memory_mb",
        ),
        (
            "setup_physmem - mapping 258838528 bytes of memory at 0x(____ptrval____) failed - errno = -12",
            "memory: limit",
            "258838528",
            "ulimit -v",
        ),
        (
            "Operation not permitted\n/dev/shm must be not mounted noexec",
            "memory: noexec",
            "/dev/shm",
            "mount -o remount,exec /dev/shm",
        ),
        ("taskset: failed to execute /c/kernel: Permission denied", "kernel file", "Permission denied", "--force"),
        ("setpriv: failed to execute taskset: No such file or directory", "util-linux", "taskset", "util-linux"),
        (
            f"userspace - ptrace continue failed, op = 31, errno = 5\n{INIT_KILLED}",
            "ptrace: incomplete",
            "op = 31",
            "virtual machine",
        ),
        (
            "check_ptrace: PTRACE_SETOPTIONS failed: Operation not permitted",
            "ptrace: incomplete",
            "SETOPTIONS",
            "virtual machine",
        ),
        ("missing", "ptrace: incomplete", "gVisor", "virtual machine"),
        ("SECCOMP userspace requested but not functional!", "seccomp", "SECCOMP", "seccomp=unconfined"),
        (NO_SWITCH, "Open vSwitch", "ovsdb-server: command not found", "openvswitch"),
        (NO_SCHEMA, "Open vSwitch", "failed to read schema", "openvswitch"),
        (NO_LOOPBACK, "first process", "cannot raise the loopback interface", "gradwire doctor"),
    ],
)
def test_what_the_console_says_tells_the_cause_and_its_remedy(console: str, name: str, seen: str, remedy: str) -> None:
    found = cause(console)
    assert found.name == name
    assert seen in found.what
    assert remedy in found.remedy


@pytest.mark.parametrize(
    ("surroundings", "name", "remedy"),
    [
        (Surroundings(filtered=True, yama_scope=1), "ptrace: seccomp filter", "--cap-add SYS_PTRACE"),
        (Surroundings(filtered=True, yama_scope=3), "ptrace: Yama", "/etc/sysctl.d"),
        (Surroundings(yama_scope=2), "ptrace: Yama", "sysctl -w kernel.yama.ptrace_scope=1"),
        (Surroundings(yama_scope=1), "ptrace: security module", "setsebool"),
        (Surroundings(), "ptrace: security module", "AppArmor"),
    ],
)
def test_who_forbids_ptrace_is_told_apart(surroundings: Surroundings, name: str, remedy: str) -> None:
    for console in (NO_PTRACE, NO_PTRACE.replace("Operation not permitted", "Function not implemented")):
        found = cause(console, surroundings=surroundings)
        assert found.name == name
        assert remedy in found.remedy


@pytest.mark.parametrize(
    "console",
    [
        f"userspace - child stopped with signal 19\nuserspace - child stopped with signal 18\n{INIT_KILLED}",
        "<3>wait_stub_done : failed to wait for SIGTRAP, pid = 23618, n = 23618, errno = 25, status = 0x127f",
        "start_userspace : expected SIGSTOP, got status = 0",
        "check_ptrace : expected SIGSTOP, got status = 4735",
        "check_sysemu: expected SIGTRAP or (SIGTRAP | 0x80), got status = 4991\nmissing",
    ],
)
def test_a_signal_that_stopped_one_of_its_processes_is_told_apart(console: str) -> None:
    found = cause(console, -signal.SIGABRT)
    assert found.name == STOPPED
    assert "Ctrl-Z" in found.remedy


@pytest.mark.parametrize(
    "console", ["userspace - child stopped with signal 1", "wait_stub_done : failed to wait for SIGTRAP, status = 0x9"]
)
def test_other_signals_to_its_processes_are_no_stop(console: str) -> None:
    assert cause(console, -signal.SIGABRT).name != STOPPED


def stopped_times(times: int) -> tuple[list[str], Callable[[], int]]:
    """What is done, and a machine that is stopped so often before it runs to its end."""
    done: list[str] = []

    def boot() -> int:
        done.append("boot")
        if done.count("boot") <= times:
            raise KernelFault("ended", DeathCause(STOPPED, "what", "remedy"))
        return 7

    return done, boot


@pytest.mark.parametrize("times", range(MOST_BOOTS))
def test_a_machine_that_was_stopped_is_booted_again_after_it_is_cleared(times: int) -> None:
    done, boot = stopped_times(times)
    assert unless_stopped(boot, lambda: done.append("clear")) == (7, times)
    assert done == [*(["boot", "clear"] * times), "boot"]


@pytest.mark.parametrize(("wanted", "boots"), [(True, MOST_BOOTS), (False, 1)])
def test_it_is_not_booted_for_ever_or_for_nobody(wanted: bool, boots: int) -> None:
    done, boot = stopped_times(MOST_BOOTS)
    with pytest.raises(KernelFault, match="ended"):
        unless_stopped(boot, lambda: None, lambda: wanted)
    assert len(done) == boots


@pytest.mark.parametrize("status", [31, 159])
def test_a_filter_that_kills_who_asks_for_ptrace(status: int) -> None:
    console = f"check_ptrace : expected SIGSTOP, got status = {status}"
    assert cause(console, surroundings=Surroundings(filtered=True)).name == "ptrace: seccomp filter"


def test_inside_a_user_mode_kernel_nothing_else_matters() -> None:
    found = cause("missing", surroundings=Surroundings(nested=True, filtered=True))
    assert found.name == "nested kernel"


@pytest.mark.parametrize(
    ("how", "console", "name", "remedy"),
    [
        (signal.SIGKILL, "", "killed", "dmesg"),
        (signal.SIGKILL, "whatever it said", "killed", "dmesg"),
        (signal.SIGTERM, "", "killed", "run it again"),
        (signal.SIGXFSZ, "", "file size limit", "ulimit -f"),
        (signal.SIGSEGV, "", "kernel file", "gradwire kernel --force"),
        (signal.SIGABRT, DAMAGED, "unknown", "please report"),
    ],
)
def test_the_signal_tells_where_the_console_does_not(how: int, console: str, name: str, remedy: str) -> None:
    found = cause(console, -how)
    assert found.name == name
    assert remedy in found.remedy


def test_a_known_cause_is_told_without_the_console_and_an_unknown_one_with_its_last_words_once() -> None:
    known = str(kernel_died("it died", ending(NO_PTRACE), Surroundings(filtered=True)))
    assert tells(known.splitlines()[0], "it died:", "(ptrace: Operation not permitted)")
    assert known.splitlines()[1].startswith("remedy: ")
    assert len(known.splitlines()) == 2
    unknown = kernel_died("it died", ending(f"{DAMAGED}\n{DAMAGED}"), Surroundings())
    assert str(unknown).splitlines()[3:] == [DAMAGED.rpartition("<0>")[2]]
    silent = str(kernel_died("it died", ending("", 3), Surroundings()))
    assert silent.splitlines()[0] == "it died: without a message (status 3)"
    assert "last words" not in silent


def test_last_words_are_few_and_each_is_there_once() -> None:
    assert last_words([f"line {i // 2}" for i in range(100)]) == [f"line {i}" for i in range(50 - LAST_WORDS, 50)]


def test_a_fault_keeps_its_cause_under_another_headline() -> None:
    fault = KernelFault("it died", DeathCause("name", "what", "remedy"), ["last"]).under("it does not run")
    assert str(fault) == "it does not run: what\nremedy: remedy\nthe kernel's last words:\nlast"
    assert fault.cause.name == "name"


def test_surroundings_are_read_from_this_machine() -> None:
    assert Surroundings.here().nested is ("User Mode Linux" in Path("/proc/cpuinfo").read_text())
