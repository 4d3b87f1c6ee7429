"""The host and the environment that each program is started with, including the variables that a launcher such as
torchrun or mpirun would set. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from gradwire.faults import InputFault
from gradwire.gpus.choice import GpuChoice
from gradwire.gpus.choice import variables as gpu_variables
from gradwire.inside.program_protocol import (
    ENTER_HOST,
    FIGURES_VARIABLE,
    PYTHON_FOLDER,
    Program,
    WarmPython,
    figures_file,
    hosts_file,
    hydra_hosts_file,
    place_name,
)
from gradwire.network.fabric import Fabric, Port
from gradwire.programs.python_command import warm_python, words_of

SHELL_LINE = ("/bin/sh", "-c")
"""Shell that a scenario's line is handed to."""
MASTER_PORT = 29500
"""torchrun's default."""
NETWORK = "10.0.0.0/16"
NOT_OF_THE_KERNEL = ("TMPDIR", "TEMP", "TMP", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS")
"""Variables that name places of the machine which the kernel does not have, or of which every host has a separate
one."""

SYSTEM_PATH = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
"""Folders of `tc`, `bridge` and Mininet's programs, which an ordinary user's path may lack: programs are root on their
hosts."""


class Launch(StrEnum):
    """The way in which programs are started."""

    #: One process per host, which finds its peers by itself.
    EACH = "each"
    #: One process per host, with what torchrun gives a rank.
    TORCH = "torch"
    #: One process, mpirun, on the first host; it starts the others.
    MPI = "mpi"


@dataclass(frozen=True)
class Started:
    """A program, and where and when it is started."""

    argv: Sequence[str]
    #: Indices of the hosts, in the order of their ranks.
    hosts: Sequence[int]
    launch: Launch = Launch.EACH
    #: Name of a scenario's program.
    name: str = ""
    #: Variables of its own.
    variables: Mapping[str, str] = field(default_factory=dict)
    #: Virtual seconds after which it starts.
    start_s: float = 0.0
    #: Whether it is ended when all others have ended.
    background: bool = False
    #: Traffic class of all that it sends; None: with control.
    traffic_class: int | None = None
    #: Modules that a Python imports once, of which each program is then a fork.
    warm_imports: Sequence[str] = ()
    #: GPUs of each of its hosts.
    gpus: GpuChoice | None = None

    @property
    def started_on(self) -> Sequence[int]:
        """The hosts on which a process is started: for an mpirun the first, which reaches the others."""
        return self.hosts[:1] if self.launch is Launch.MPI else self.hosts


def programs(
    started: Sequence[Started], fabric: Fabric, environment: Mapping[str, str], folder: Path
) -> tuple[Program, ...]:
    """Programs to start on each host. environment: the caller's, which programs inherit. folder: the run's, as it is
    called inside the kernel. Raises InputFault for imports ahead of a command that is not a plain one of Python."""

    def program(each: Started, host: int, index: int) -> Program:
        shared, place = (
            shared_environment(fabric, each.hosts, environment),
            place_name(each.name, fabric.host_names()[host]),
        )
        variables = {
            **shared,
            **_own(fabric, host, index),
            **_told(each, fabric, index),
            **(gpu_variables(each.gpus, shared, calls_file(folder, place)) if each.gpus else {}),
            FIGURES_VARIABLE: str(figures_file(folder, place)),
            **each.variables,
        }
        return Program(
            host,
            tuple(each.argv),
            variables,
            each.name,
            each.start_s,
            each.background,
            each.traffic_class,
            warm_start(each, variables),
        )

    return tuple(program(each, host, index) for each in started for index, host in enumerate(each.started_on))


def calls_file(folder: Path, place: str) -> Path:
    """The file in which a program on a host (`place_name`) leaves which calls to GPUs got invented answers."""
    return figures_file(folder, place).with_suffix(".gpus")


def warm_start(started: Started, variables: Mapping[str, str]) -> WarmPython | None:
    """The Python, with its modules imported, that a program is forked from; None for a program that is executed.
    variables: its environment.

    Raises InputFault if its command is not a plain one of Python.
    """
    if not started.warm_imports:
        return None
    if started.launch is Launch.MPI:
        raise InputFault('launch = "mpi" starts an mpirun, before which no modules can be imported')
    argv = started.argv
    is_line = len(argv) == 3 and (Path(argv[0]).name, argv[1]) == ("sh", "-c")
    words = words_of(argv[2], variables) if is_line else argv
    return warm_python(words, started.warm_imports)


def path_on_hosts(callers: str, *further: str) -> str:
    """The PATH of programs on hosts: the caller's folders, then the system's, then `further` ones, each once."""
    return ":".join(dict.fromkeys([*filter(None, callers.split(":")), *SYSTEM_PATH, *further]))


def shared_environment(fabric: Fabric, hosts: Sequence[int], environment: Mapping[str, str]) -> dict[str, str]:
    """The caller's environment, with the variables that the programs of all hosts get."""
    kept = {name: value for name, value in environment.items() if name not in NOT_OF_THE_KERNEL}
    names = fabric.host_names()
    return {
        # So that a program's lines come when it writes them: its outputs are pipes.
        "PYTHONUNBUFFERED": "1",
        **kept,
        "PATH": path_on_hosts(kept.get("PATH", "")),
        # Behind the caller's own, whose modules come first.
        "PYTHONPATH": ":".join(filter(None, (kept.get("PYTHONPATH"), str(PYTHON_FOLDER)))),
        "GRADWIRE_HOSTS": " ".join(names[host] for host in hosts),
        "GRADWIRE_ADDRESSES": " ".join(fabric.host_ip(host) for host in hosts),
        "GRADWIRE_RATE_BPS": f"{fabric.rate_bps:.0f}",
        "GRADWIRE_PAYLOAD_BPS": f"{fabric.rate_bps * fabric.goodput_share():.0f}",
    }


def _own(fabric: Fabric, host: int, index: int) -> dict[str, str]:
    """Variables that tell a host's program about itself."""
    name = fabric.host_names()[host]
    return {
        "HOSTNAME": name,
        "TMPDIR": f"/run/tmp/{name}",
        "GRADWIRE_HOST": name,
        "GRADWIRE_INDEX": str(index),
        "GRADWIRE_ADDRESS": fabric.host_ip(host),
    }


def _told(started: Started, fabric: Fabric, index: int) -> dict[str, str]:
    """Variables that a launcher would set."""
    hosts = started.hosts
    match started.launch:
        case Launch.EACH:
            return {}
        case Launch.TORCH:
            interface = Port(fabric.host_names()[hosts[index]], 0).interface
            return {
                "RANK": str(index),
                "WORLD_SIZE": str(len(hosts)),
                "LOCAL_RANK": "0",
                "LOCAL_WORLD_SIZE": "1",
                "GROUP_RANK": str(index),
                "MASTER_ADDR": fabric.host_ip(hosts[0]),
                "MASTER_PORT": str(MASTER_PORT),
                "GLOO_SOCKET_IFNAME": interface,
                "NCCL_SOCKET_IFNAME": interface,
            }
        case Launch.MPI:
            return _mpi(str(hosts_file(started.name)), str(hydra_hosts_file(started.name)))


def _mpi(hosts: str, hydra_hosts: str) -> dict[str, str]:
    """Lets an unmodified mpirun reach all hosts without ssh: that of Open MPI 4, of Open MPI 5 (PRRTE), and of MPICH
    (Hydra)."""
    return {
        "OMPI_MCA_plm_rsh_agent": str(ENTER_HOST),
        "OMPI_MCA_orte_default_hostfile": hosts,
        "OMPI_MCA_btl_tcp_if_include": NETWORK,
        "OMPI_MCA_oob_tcp_if_include": NETWORK,
        # The others look for hardware that no host has, and on the way PSM2 measures the processor's cycle counter,
        # which is not virtual, against the clock: that took 1.1 to 1.8 s of virtual time, another time in each run, so
        # that no run repeated.
        "OMPI_MCA_pml": "ob1",
        "OMPI_ALLOW_RUN_AS_ROOT": "1",  # programs are root inside the kernel, and whoever started gradwire outside
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "PRTE_MCA_plm_ssh_agent": str(ENTER_HOST),
        "PRTE_MCA_prte_default_hostfile": hosts,
        "PRTE_ALLOW_RUN_AS_ROOT": "1",
        "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "HYDRA_LAUNCHER": "rsh",  # which is called with a host and a command, and no options of ssh
        "HYDRA_LAUNCHER_EXEC": str(ENTER_HOST),
        "HYDRA_HOST_FILE": hydra_hosts,
        # What MPICH sends with. By default it waits for memory that another thread or process fills, with no call that
        # lets time pass: it polls no network before it has peers, spins for its locks, and has shared memory between
        # processes of a host.
        "UCX_ADAPTIVE_PROGRESS": "n",
        "UCX_USE_MT_MUTEX": "y",
        "UCX_TLS": "tcp,self",
    }
