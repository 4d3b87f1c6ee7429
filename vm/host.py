"""Runs one job as root on the machine's own kernel, in wall-clock time, with the same interface as in virtual time.

The job uses the machine's own Open vSwitch if it runs. Otherwise a private pair of daemons is started in a temporary folder,
which the job finds through OVS_RUNDIR; they end with the job.
"""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from gradwire.faults import MachineFault
from gradwire.vm.packages import install_command
from gradwire.vm.streaming import FollowEnd, dies_with_parent, follow, kill_group, pipe, process_group

SYSTEM_RUNDIR = Path("/var/run/openvswitch")
SCHEMA = Path("/usr/share/openvswitch/vswitch.ovsschema")
START_LIMIT_S = 20
END_LIMIT_S = 10.0
OVS_MAX_IDLE_MS = 3_600_000
"""How long the datapath keeps an unused flow. The default is 10 s: after longer computations the first packet of a gradient went
through ovs-vswitchd and the next ones did not, and TCP took the packets that arrived out of order for lost (5 retransmits in 375 MB)."""


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
    memory_mb: int = 0,  # noqa: ARG001 (both clocks have the same interface)
    time_limit_s: float,
    on_line: Callable[[str], None],
    workdir: Path,
    openvswitch: bool = True,
    stop: threading.Event | None = None,
) -> int:
    """Runs `argv` as root on the machine's own kernel; returns its exit status (128 + n after signal n).

    `env` is the job's whole environment except for PATH (the caller's by default) and the location of Open vSwitch. `cpu` is the one
    CPU to use, None for all. `memory_mb` has no effect: the job shares the machine's memory. The other parameters and the exceptions
    are those of `run_virtual`; MachineFault is raised also for users other than root.

    The job has to remove the network devices that it creates: when a run is ended early (or the calling process dies), the job
    gets SIGTERM, and its process group is killed END_LIMIT_S later.
    """
    require_root()
    workdir.mkdir(parents=True, exist_ok=True)
    command = list(argv) if cpu is None else ["taskset", "-c", str(cpu), *argv]
    with _openvswitch(needed=openvswitch) as ovs_env:
        job_env = {"PATH": os.environ["PATH"], "PYTHONUNBUFFERED": "1", "TERM": "dumb", **env, **ovs_env}
        with (
            pipe() as (read_end, writer),
            process_group(command, env=job_env, stdout=writer.fileno(), cwd=workdir, death_signal="TERM") as process,
            _asked_to_end(process),
        ):
            writer.close()
            # Does not wait for the output to close: shells that Mininet left behind would keep it open.
            end = follow(
                {read_end: on_line},
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
    return status if status >= 0 else 128 - status


@contextmanager
def _asked_to_end(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Sends SIGTERM on exit to a job that still runs, and gives it some seconds to clean up before it is killed."""
    try:
        yield
    finally:
        if process.poll() is None:
            process.terminate()
            _wait(process, END_LIMIT_S)


def _wait(process: subprocess.Popen[bytes], limit_s: float) -> FollowEnd:
    try:
        process.wait(limit_s)
    except subprocess.TimeoutExpired:
        return FollowEnd.TIMED_OUT
    return FollowEnd.FINISHED


def system_openvswitch_runs(rundir: Path = SYSTEM_RUNDIR) -> bool:
    """Whether the machine's own ovsdb-server answers and its ovs-vswitchd is alive."""
    try:
        with socket.socket(socket.AF_UNIX) as database:
            database.connect(str(rundir / "db.sock"))
        os.kill(int((rundir / "ovs-vswitchd.pid").read_text()), 0)
    except (OSError, ValueError):
        return False
    return True


def daemon_commands(folder: Path) -> tuple[list[str], list[str]]:
    """Commands that run a private ovsdb-server and ovs-vswitchd in the foreground, with all their files in `folder`."""
    quiet = ["--verbose=console:off", "--pidfile", "--log-file"]
    database = ["ovsdb-server", f"--remote=punix:{folder}/db.sock", *quiet, str(folder / "conf.db")]
    return database, ["ovs-vswitchd", *quiet, f"unix:{folder}/db.sock"]


@contextmanager
def _openvswitch(*, needed: bool) -> Iterator[dict[str, str]]:
    """Yields the environment variables by which the job finds Open vSwitch; a private pair of daemons lives as long as the context."""
    if not needed or system_openvswitch_runs():
        yield {}
        return
    if not SCHEMA.exists():
        raise MachineFault(f"Open vSwitch is not installed: run `{install_command('openvswitch')}`")
    with tempfile.TemporaryDirectory(prefix="gradwire-ovs-") as name:
        folder = Path(name)
        places = dict.fromkeys(("OVS_RUNDIR", "OVS_DBDIR", "OVS_LOGDIR", "OVS_SYSCONFDIR"), name)
        env = {"PATH": os.environ["PATH"], **places}
        _call(["ovsdb-tool", "create", str(folder / "conf.db"), str(SCHEMA)], env)
        database, switch = daemon_commands(folder)
        with _daemon(database, env), _daemon(switch, env) as switch_process:
            # Returns once the database has the new value and ovs-vswitchd has acted on it: both are up then.
            _call(
                [
                    "ovs-vsctl",
                    "--retry",
                    f"--timeout={START_LIMIT_S}",
                    "set",
                    "Open_vSwitch",
                    ".",
                    "external_ids:owner=gradwire",
                    f"other_config:max-idle={OVS_MAX_IDLE_MS}",
                ],
                env,
            )
            try:
                yield places
            finally:
                # Also removes the bridges and the datapath, which would stay in the kernel after a plain kill.
                _call(["ovs-appctl", f"--timeout={START_LIMIT_S}", "-t", "ovs-vswitchd", "exit", "--cleanup"], env)
                _wait(switch_process, END_LIMIT_S)


@contextmanager
def _daemon(argv: list[str], env: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """Runs a foreground process that is killed when the context ends."""
    process = subprocess.Popen(
        dies_with_parent(argv),
        env=dict(env),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        kill_group(process)


def _call(argv: list[str], env: Mapping[str, str]) -> None:
    completed = subprocess.run(argv, env=dict(env), capture_output=True, text=True, check=False)
    if completed.returncode != 0:
        raise MachineFault(f"Open vSwitch: `{' '.join(argv)}` failed: {completed.stderr.strip()}")
