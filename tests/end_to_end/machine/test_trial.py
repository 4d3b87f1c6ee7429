"""A kernel that runs, and one that does not for each known cause that can be brought about here: one message, and no point starts.

Causes are brought about for real, in a process of its own. What cannot be (Yama, security modules) is in tests/unit/vm/test_causes.py, with
the kernel's own words.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from gradwire import PACKAGE
from gradwire.cli.proof import prove_network
from gradwire.vm.batch_job import run_virtual
from gradwire.vm.kernel_death import KernelFault
from gradwire.vm.machine import Boot
from gradwire.vm.trial import try_kernel
from tests.shared.machine_code import bring_machine_code

pytestmark = pytest.mark.kernel

LIMIT_S = 120.0
"""More than any of this takes on a busy machine."""
SCENARIO = """
title = "Two workers"
[cluster]
workers = 2
[fabric]
rate = "10gbit"
[model]
name = "alexnet"
device = "k40"
[strategy]
name = "ring"
"""

PTRACE, PTRACE_SYSEMU, PTRACE_SETREGSET = 101, 31, 0x4205
EPERM, EIO, EFAULT = 1, 5, 14
FILTER = """
import ctypes, struct
PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, SECCOMP_MODE_FILTER = 22, 38, 2
ALLOW, ERRNO = 0x7FFF0000, 0x00050000
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06
def install(*code):
    text = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *word) for word in code))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(code), ctypes.addressof(text)))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
    assert libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0) == 0
def refuse(call, errno):
    install((LOAD, 0, 0, 0), (EQUAL, 0, 1, call), (RETURN, 0, 0, ERRNO | errno), (RETURN, 0, 0, ALLOW))
def refuse_argument(call, argument, errno):
    install(
        (LOAD, 0, 0, 0), (EQUAL, 0, 3, call), (LOAD, 0, 0, 16), (EQUAL, 0, 1, argument),
        (RETURN, 0, 0, ERRNO | errno), (RETURN, 0, 0, ALLOW),
    )
"""
"""Installs a seccomp filter, as a container has one: `refuse` a system call, or only with one first argument."""
GRADWIRE = "\nfrom gradwire.cli.command_line import main\nmain()\n"


def gradwire(
    program: str, folder: Path, *words: str, within: tuple[str, ...] = (), **env: str
) -> subprocess.CompletedProcess[str]:
    """Runs the command line in a Python process that runs `program` before."""
    (folder / "two.toml").write_text(SCENARIO)
    known = {name: value for name, value in os.environ.items() if name != "TMPDIR"}
    return subprocess.run(
        [*within, sys.executable, "-c", program + GRADWIRE, *words],
        cwd=folder,
        env={**known, "PYTHONPATH": str(PACKAGE.parent), **env},
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )


def assert_told_once(done: subprocess.CompletedProcess[str], folder: Path, what: str, remedy: str) -> None:
    """One message with cause and remedy, no table, no report, and no point."""
    first, *rest = done.stderr.splitlines()
    assert first.startswith("error (machine): "), done.stderr
    assert what in first
    assert any(line.startswith("remedy: ") and remedy in line for line in rest), done.stderr
    assert (done.stdout + done.stderr).count(what) == 1
    assert done.returncode == 3
    assert [line for line in done.stdout.splitlines() if line and " to run, " not in line] == []
    assert sorted(path.name for path in folder.glob("results/[!.]*")) == [
        "clock.json",
        "provenance.json",
        "scenario.toml",
    ]


RUN = ("run", "two.toml", "--out", "results")


@pytest.mark.parametrize(
    ("program", "what", "remedy"),
    [
        (f"{FILTER}refuse({PTRACE}, {EPERM})", "a seccomp filter is in force here", "--cap-add SYS_PTRACE"),
        (f"{FILTER}refuse_argument({PTRACE}, {PTRACE_SETREGSET}, {EFAULT})", "register state is larger", "clearcpuid"),
        (f"{FILTER}refuse_argument({PTRACE}, {PTRACE_SYSEMU}, {EIO})", "ptrace only in part", "virtual machine"),
        ("import resource as r; r.setrlimit(r.RLIMIT_FSIZE, (100 << 20,) * 2)", "limit on file sizes", "ulimit -f"),
        ("import resource as r; r.setrlimit(r.RLIMIT_AS, (2 << 30,) * 2)", "a memory limit", "ulimit -v"),
    ],
    ids=["seccomp", "register-state", "part-of-ptrace", "file-size", "address-space"],
)  # fmt: skip
def test_what_the_machine_refuses(virtual_kernel: Path, tmp_path: Path, program: str, what: str, remedy: str) -> None:
    assert_told_once(gradwire(program, tmp_path, *RUN), tmp_path, what, remedy)


def damaged(kernel: Path, folder: Path, content: bytes) -> Path:
    """A cache with a kernel of the right name and this content."""
    path = folder / "cache" / kernel.name
    bring_machine_code(path.parent)
    path.write_bytes(content)
    path.chmod(0o755)
    return path


def test_a_kernel_that_is_cut_short(virtual_kernel: Path, tmp_path: Path) -> None:
    path = damaged(virtual_kernel, tmp_path, virtual_kernel.read_bytes()[:2_000_000])
    done = gradwire("", tmp_path, *RUN, GRADWIRE_CACHE=str(path.parent))
    assert_told_once(done, tmp_path, "is cut short: it has 2000000 of", "gradwire kernel --force")


def test_a_kernel_with_rubbish_in_it(virtual_kernel: Path, tmp_path: Path) -> None:
    content = bytearray(virtual_kernel.read_bytes())
    content[len(content) // 8 : -len(content) // 8] = b"\xff" * len(content[len(content) // 8 : -len(content) // 8])
    damaged(virtual_kernel, tmp_path, bytes(content))
    done = gradwire("", tmp_path, *RUN, GRADWIRE_CACHE=str(tmp_path / "cache"))
    assert_told_once(done, tmp_path, "the virtual-time kernel does not run here", "gradwire kernel --force")


def test_a_kernel_killed_at_boot(virtual_kernel: Path, tmp_path: Path) -> None:
    kernel = damaged(virtual_kernel, tmp_path, virtual_kernel.read_bytes())
    ended = threading.Event()
    killer = threading.Thread(target=_kill_first, args=(kernel, ended))
    killer.start()
    try:
        with pytest.raises(KernelFault, match="something killed it") as raised:
            try_kernel(kernel)
    finally:
        ended.set()
        killer.join()
    assert raised.value.cause.name == "killed"


def test_a_killed_kernel_that_leaves_a_process_behind(tmp_path: Path) -> None:
    """The process keeps the pipes open, and is ended as well."""
    kernel = tmp_path / "kernel"
    kernel.write_text('#!/bin/sh\ncase "$*" in *--help*) exit 0;; esac\nsleep 1000 &\nkill -KILL $$\n')
    kernel.chmod(0o755)
    with pytest.raises(KernelFault, match="something killed it"):
        run_virtual(
            Boot(["true"], env={}, cpu=0, memory_mb=64, workdir=tmp_path, kernel=kernel), time_limit_s=30, on_line=print
        )


def _kill_first(kernel: Path, ended: threading.Event) -> None:
    """Kills the first process that boots the kernel, and not one that it starts, whose death it may wait out."""
    while not ended.is_set():
        for folder in Path("/proc").iterdir():
            try:
                words = (folder / "cmdline").read_bytes().split(b"\0") if folder.name.isdigit() else []
            except (FileNotFoundError, ProcessLookupError):
                continue
            pid = int(folder.name) if words and words[0] == str(kernel).encode() and b"--help" not in words else 0
            if pid and os.getpgid(pid) == pid:
                os.kill(pid, signal.SIGKILL)
                return


def test_too_little_memory(virtual_kernel: Path) -> None:
    with pytest.raises(KernelFault, match="2 MiB") as raised:
        try_kernel(virtual_kernel, 2)
    assert raised.value.cause.name == "memory: too little"


INSIDE = """
import sys
from pathlib import Path
from gradwire.vm.trial import try_kernel
try_kernel(Path(sys.argv[1]))
"""


def test_inside_gradwires_own_kernel(virtual_kernel: Path, tmp_path: Path) -> None:
    said: list[str] = []
    status = run_virtual(
        Boot(
            [sys.executable, "-c", INSIDE, str(virtual_kernel)],
            env={"PYTHONPATH": str(PACKAGE.parent)},
            cpu=max(os.sched_getaffinity(0)),
            memory_mb=1024,
            workdir=tmp_path,
            openvswitch=False,
            kernel=virtual_kernel,
        ),
        time_limit_s=LIMIT_S,
        on_line=said.append,
    )
    assert status == 1
    assert "user-mode kernel" in said[-2]
    assert said[-1].startswith("remedy: ")


MOUNTS_OF_ITS_OWN = ("unshare", "--mount", "sh", "-c")
BARRED = "mount --bind {0} {0} && mount -o remount,bind,noexec {0}"
ALLOWED = "mount --bind {0} {0} && mount -o remount,bind,exec {0}"
"""For the repository and the Python environment, which may lie in /tmp."""
NOEXEC = " && ".join(
    [*map(BARRED.format, ("/dev/shm", "/tmp")), *map(ALLOWED.format, (PACKAGE.parent, sys.prefix)), 'exec "$@"']
)
HIDDEN = 'mount -t tmpfs none /usr/share/openvswitch && exec "$@"'


@pytest.mark.root
@pytest.mark.root
@pytest.mark.parametrize(
    ("mounts", "what", "remedy"),
    [
        (NOEXEC, "/dev/shm: mounted noexec", "mount -o remount,exec /dev/shm"),
        (HIDDEN, "Open vSwitch does not start", "openvswitch"),
    ],
    ids=["noexec", "no-openvswitch"],
)
def test_what_mounts_forbid(virtual_kernel: Path, tmp_path: Path, mounts: str, what: str, remedy: str) -> None:
    done = gradwire("", tmp_path, *RUN, within=(*MOUNTS_OF_ITS_OWN, mounts, "sh"))
    assert_told_once(done, tmp_path, what, remedy)


FULL = """
from pathlib import Path
from gradwire.vm import machine
machine.choose_memory_folder = lambda _: Path("full")  # another filled it after there had been room
"""


@pytest.mark.root
@pytest.mark.root
def test_a_memory_folder_that_fills_up(virtual_kernel: Path, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    mounts = 'mount -t tmpfs -o size=4M none full && exec "$@"'
    program = FULL.replace('"full"', repr(str(tmp_path / "full")))
    done = gradwire(program, tmp_path, *RUN, within=(*MOUNTS_OF_ITS_OWN, mounts, "sh"))
    assert_told_once(done, tmp_path, "has no room left", "mount -o remount,size=6144M")


def test_a_kernel_that_runs_is_tried_in_seconds(virtual_kernel: Path) -> None:
    shared = set(Path("/dev/shm").iterdir())
    assert try_kernel(virtual_kernel) < LIMIT_S
    assert set(Path("/dev/shm").iterdir()) <= shared


def test_the_doctor_proves_a_flow_at_its_rate(virtual_kernel: Path) -> None:
    finding = prove_network([])
    assert finding.ok, finding
    assert re.search(r"9\.4[12] Gbit/s .*9\.41 \(1\.00", finding.detail), finding
