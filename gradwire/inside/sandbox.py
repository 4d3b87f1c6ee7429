"""Limits what programs in the kernel can reach, so that none of them decides what is reported of its run.

Programs are root in the kernel, and have the caller's rights to the machine's files. They are taken to be hostile:
each of them would like to be called valid. What says how a run went is the job that started them (this package), its
terminal, the files that it exchanges with the command outside, and the kernel itself. These are kept apart:

- **Processes.** Programs live in a separate process namespace. They see no process of the job, of the switches or
  of the controller,
  and cannot signal one. Its first process is ended after the programs are, and takes along all that they left running,
  before the job counts what the network carried or writes a log.
- **Capabilities.** They keep KEPT and can regain no other. Without CAP_SYS_ADMIN nothing is mounted, unmounted or
  entered: hostfs, mounted
  again, would show the machine's /proc, and in it the memory of the kernel that they run in. Without CAP_MKNOD no
  other devices exist. Without CAP_SYS_PTRACE the kernel refuses /proc/PID/mem, /proc/PID/fd and ptrace of any process
  that has more capabilities than they have (cap_ptrace_access_check in security/commoncap.c).
- **Files.** They see a /dev without terminals and without the kernel's log, a /proc with their own processes, and a /run
  without the sockets of Open vSwitch and of the run's folder only the files that they report figures in. Global settings
  and the code that judges (`judging_folders`) are read-only. Devices elsewhere do not open. Of the machine's folders,
  those of `covered` are empty: the run's own, where its logs and records will lie, and each further place where the
  machine shows its processes.

The job's lines carry a signature besides (inside/signatures.py), so that what came to the terminal in another way
would be noticed.

Programs of one run are not kept apart from each other: a program can end others, and write their figures. Nor is a
later run kept from what a program does to its caller's files, such as a shell's start-up files, or gradwire's own if
the caller may write them. docs/trust/hostile-input.md says so. The commands of `gradwire shell` on switches are not confined: they
are for reading what the switches know.
"""

from __future__ import annotations

import os
import signal
import stat
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from gradwire import PACKAGE
from gradwire.inside.namespaces import (
    BIND,
    NEW_MOUNTS,
    NEW_PIDS,
    NO_DEVICES,
    READ_ONLY,
    REMOUNT,
    end_held,
    enter,
    held,
    mount,
    set_of_process,
    unshare,
)
from gradwire.inside.program_protocol import FIGURES_FOLDER, FOLDER

KEPT = {
    "CAP_CHOWN": 0,
    "CAP_DAC_OVERRIDE": 1,
    "CAP_FOWNER": 3,
    "CAP_FSETID": 4,
    "CAP_KILL": 5,
    "CAP_SETGID": 6,
    "CAP_SETUID": 7,
    "CAP_SETPCAP": 8,
    "CAP_NET_BIND_SERVICE": 10,
    "CAP_NET_ADMIN": 12,
    "CAP_NET_RAW": 13,
    "CAP_IPC_LOCK": 14,
    "CAP_SYS_CHROOT": 18,
    "CAP_SYS_NICE": 23,
    "CAP_SYS_RESOURCE": 24,
    "CAP_AUDIT_WRITE": 29,
    "CAP_SETFCAP": 31,
}
"""Capabilities of programs (linux/capability.h): those that Docker's containers have by default, without CAP_MKNOD.
With CAP_NET_ADMIN they set up their host's network, and with the others they lock memory, and set their processes'
priorities and limits."""
PYTHON_FOLDERS = ("stdlib", "platstdlib", "purelib", "platlib")
"""Of its packages, in the words of sysconfig."""
LAST_CAPABILITY = Path("/proc/sys/kernel/cap_last_cap")
DROP_OF_BOUNDING_SET = 24
"""PR_CAPBSET_DROP (linux/prctl.h)."""
DEVICES = {"null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9), "tty": (5, 0)}
"""Programs' /dev, with the numbers of Documentation/admin-guide/devices.txt."""
TUNNEL = (10, 200)
RDMA = "/dev/infiniband"
"""What programs reach RDMA devices by. The kernel lets a program open only its own host's."""
LINKS = {"ptmx": "pts/ptmx", "fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"}


class ProcessNamespace:
    """A namespace of processes, whose first process has made a view of the file system for all of them.

    make_view: what that process does first. Raises MachineFault if the kernel refuses any of it.
    """

    def __init__(self, make_view: Callable[[], None]) -> None:
        self._outside = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
        unshare(NEW_PIDS, "make a namespace of processes")
        try:
            self._first = held(make_view)
        finally:
            enter(self._outside, NEW_PIDS)
        self._inside = os.open(f"/proc/{self._first}/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
        #: The path of the namespaces of its first process, to those outside.
        self.namespaces = f"/proc/{self._first}/ns"

    def descriptors(self) -> tuple[int, ...]:
        """Those that `births` needs."""
        return self._outside, self._inside

    @contextmanager
    def births(self) -> Iterator[None]:
        """Processes that the calling thread starts in the block are born in the namespace."""
        enter(self._inside, NEW_PIDS)
        try:
            yield
        finally:
            enter(self._outside, NEW_PIDS)

    def end(self) -> None:
        """Ends every process in it, once. The caller must have waited for those that it started itself."""
        if self._first:
            end_held(self._first)
            self._first = 0


class Sandbox(ProcessNamespace):
    """The sandbox of programs: a process namespace, and the view of the file system that all hosts begin with.

    folder: the job's. covered: folders that programs find empty. Raises MachineFault if the kernel refuses any of it.
    """

    def __init__(self, folder: Path, covered: Sequence[str]) -> None:
        super().__init__(lambda: _make_view(folder, covered))
        #: The path of the namespace of its mounts, to those outside.
        self.mounts = f"{self.namespaces}/mnt"


def give_up_capabilities() -> None:
    """Leaves KEPT of the capabilities to the program that the calling process is about to become."""
    for number in _GIVEN_UP:
        set_of_process(DROP_OF_BOUNDING_SET, number, f"give up capability {number}")


def _given_up() -> tuple[int, ...]:
    return tuple(number for number in range(int(LAST_CAPABILITY.read_text()) + 1) if number not in KEPT.values())


_GIVEN_UP = _given_up()
"""Read once, so that a program's start has no further calls."""


def _make_view(job: Path, covered: Sequence[str]) -> None:
    """Makes the view, in the first process of a sandbox, which from then on reaps what other programs leave."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    unshare(NEW_MOUNTS, "give programs separate mounts")
    mount("", "/", "", REMOUNT | BIND | NO_DEVICES)
    mount("proc", "/proc", "proc")
    _make_settings_read_only()
    _make_devices()
    _make_run(job / FIGURES_FOLDER)
    cover(covered)
    protect(judging_folders())


def judging_folders() -> tuple[str, ...]:
    """Returns the folders of the code that runs points, judges them and shows them: gradwire, what it imports, and its
    cache, which has the kernel and this job's byte code.

    The command outside has the same Python and imports some of it only when programs have ended.
    """
    places = {str(PACKAGE), *(sysconfig.get_path(name) for name in PYTHON_FOLDERS)}
    if sys.pycache_prefix:
        places.add(str(Path(sys.pycache_prefix).parents[1]))  # the cache, as vm/byte_code.py lays it out
    return tuple(sorted(place for place in places if Path(place).is_dir()))


def protect(folders: Iterable[str]) -> None:
    """Lets the namespace of the calling process read folders, and change nothing below them."""
    for folder in folders:
        mount(folder, folder, "", BIND)
        mount("", folder, "", REMOUNT | BIND | READ_ONLY | NO_DEVICES)


def cover(folders: Sequence[str]) -> None:
    """Makes folders empty to the namespace of the calling process."""
    for folder in folders:
        if Path(folder).is_dir():  # what lies in the machine's /dev, /proc, /run and /sys is not seen anyway
            mount("tmpfs", folder, "tmpfs", READ_ONLY, "mode=555")


def _make_settings_read_only() -> None:
    """Makes /proc/sys read-only, except for the settings of a host's own network."""
    network = os.open("/proc/sys/net", os.O_PATH)
    mount("/proc/sys", "/proc/sys", "", BIND)
    mount("", "/proc/sys", "", REMOUNT | BIND | READ_ONLY)
    mount(f"/proc/self/fd/{network}", "/proc/sys/net", "", BIND)
    os.close(network)


def _make_devices() -> None:
    terminals = os.open("/dev/pts", os.O_PATH)
    rdma = os.open(RDMA, os.O_PATH) if Path(RDMA).is_dir() else None
    mount("tmpfs", "/dev", "tmpfs", options="mode=755")
    old_mask = os.umask(0)
    for folder in ("net", "pts", "shm"):
        Path("/dev", folder).mkdir(0o755)
    for name, (major, minor) in {**DEVICES, "net/tun": TUNNEL}.items():
        os.mknod(f"/dev/{name}", stat.S_IFCHR | 0o666, os.makedev(major, minor))
    os.umask(old_mask)
    for name, target in LINKS.items():
        Path("/dev", name).symlink_to(target)
    mount(f"/proc/self/fd/{terminals}", "/dev/pts", "", BIND)
    os.close(terminals)
    if rdma is not None:
        Path(RDMA).mkdir(0o755)
        mount(f"/proc/self/fd/{rdma}", RDMA, "", BIND)
        mount("", RDMA, "", REMOUNT | BIND | READ_ONLY)
        os.close(rdma)


def _make_run(figures: Path) -> None:
    """A /run that all hosts share, with temporary files, what gradwire tells them, and their files of figures."""
    kept = [path for path in (Path("/run/tmp"), FOLDER, figures) if path.is_dir()]
    opened = {path: os.open(path, os.O_PATH) for path in kept}
    mount("tmpfs", "/run", "tmpfs", options="mode=1777")
    figures.parent.mkdir()
    mount("tmpfs", str(figures.parent), "tmpfs", options="mode=755")
    for path, descriptor in opened.items():
        path.mkdir(exist_ok=True)
        mount(f"/proc/self/fd/{descriptor}", str(path), "", BIND)
        os.close(descriptor)
    for folder in (FOLDER, figures.parent):
        mount("", str(folder), "", REMOUNT | BIND | READ_ONLY)
