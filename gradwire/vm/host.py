"""Runs one job as root on the machine's own kernel, in wall-clock time, with the same interface as in virtual time.

The job has separate network, mount and process namespaces, with separate Open vSwitch daemons in them. It sees no
other network of the machine and cannot touch one, and the kernel takes down whatever it made when its first process
ends, even after `kill -9`.
"""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from gradwire.faults import InputFault, MachineFault
from gradwire.files import without_links
from gradwire.vm.owners import OWNER_VARIABLE, this_process
from gradwire.vm.packages import install_command
from gradwire.vm.streaming import FollowEnd, follow, pipe, process_group

INIT = Path(__file__).with_name("host_init.sh")
SCHEMA = Path("/usr/share/openvswitch/vswitch.ovsschema")
PRIVATE = Path("/run")
"""Folder that every run has for itself: it does not see what the machine has there."""
END_LIMIT_S = 10.0
INIT_FAILED = 125
"""Exit status of host_init.sh if the job could not be started; the last line says why."""
NAMESPACES = ("unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")


def require_root() -> None:
    """Raises MachineFault for users other than root."""
    if os.geteuid() != 0:
        raise MachineFault(
            "--clock wall needs root for network namespaces and tc: run it with sudo, or use --clock virtual"
        )


def run_on_host(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cpu: int | None = None,
    time_limit_s: float,
    on_line: Callable[[str], None],
    workdir: Path,
    openvswitch: bool = True,
    stop: threading.Event | None = None,
) -> int:
    """Runs `argv` as root on the machine's own kernel; returns its exit status (128 + n after signal n).

    `env` is the job's whole environment except for PATH (the caller's by default), TMPDIR and the location of Open
    vSwitch. `cpu` is the one CPU to use, None for all. The other parameters and the exceptions are those of `run_virtual`
    and its `Boot`; MachineFault is raised also for users other than root, and where namespaces cannot be made.

    On return no process, interface or mount of the job is left, whatever happened; if the calling process is killed,
    the job dies with it.
    """
    require_root()
    workdir.mkdir(parents=True, exist_ok=True)
    if without_links(workdir).is_relative_to(PRIVATE):
        raise InputFault(f"{workdir}: on the wall clock a run sees another {PRIVATE}; give another --out")
    if openvswitch and not SCHEMA.exists():
        raise MachineFault(f"Open vSwitch is not installed: run `{install_command('openvswitch')}`")
    pinned = [] if cpu is None else ["taskset", "-c", str(cpu)]
    command = [*pinned, *NAMESPACES, "bash", str(INIT), str(int(openvswitch)), *argv]
    own_env = {"TERM": "dumb", "TMPDIR": "/run/tmp", OWNER_VARIABLE: this_process()}
    job_env = {"PATH": os.environ["PATH"], "PYTHONUNBUFFERED": "1", **own_env, **env}
    last_line = ""

    def take(line: str) -> None:
        nonlocal last_line
        last_line = line
        on_line(line)

    with (
        pipe() as (read_end, writer),
        process_group(command, env=job_env, stdout=writer.fileno(), cwd=workdir) as process,
    ):
        writer.close()
        end = follow(
            {read_end: take},
            time_limit_s=time_limit_s,
            finished=lambda: process.poll() is not None,
            stop=stop,
        )
        if end is FollowEnd.CLOSED:
            end = _wait(process, END_LIMIT_S)
        if end is FollowEnd.TIMED_OUT:
            raise MachineFault(f"the run was ended after its limit of {time_limit_s:g} s of wall time")
        if end is FollowEnd.STOPPED:
            raise MachineFault("the run was stopped before its job had ended")
        status = process.wait()
    if status == INIT_FAILED or last_line.startswith("unshare: "):
        raise MachineFault(f"a run on the wall clock cannot begin: {last_line}")
    return status if status >= 0 else 128 - status


def _wait(process: subprocess.Popen[bytes], limit_s: float) -> FollowEnd:
    try:
        process.wait(limit_s)
    except subprocess.TimeoutExpired:
        return FollowEnd.TIMED_OUT
    return FollowEnd.FINISHED
