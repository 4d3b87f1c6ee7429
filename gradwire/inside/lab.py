"""The network that programs run on, inside the kernel: fabric and controller as for points, hosts to enter, and no
agents."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from gradwire.faults import Fault, InternalFault, MachineFault
from gradwire.inside.channel import Channel
from gradwire.inside.computation import charge_computation
from gradwire.inside.host import Host
from gradwire.inside.kernel_messages import killed_for_memory
from gradwire.inside.namespaces import name_hosts
from gradwire.inside.program_load import hosts_to_enter
from gradwire.inside.program_protocol import FOLDER, TASK_FILE, JobTask, Ready, Refused, read_task
from gradwire.inside.sandbox import Sandbox
from gradwire.inside.testbed import Testbed, TestbedOptions, build_testbed
from gradwire.network.fabric import Fabric, Port
from gradwire.network_namespace import namespace_of, network_namespace
from gradwire.topo.command import write_sysctl
from gradwire.topo.fault_commands import impaired_ports
from gradwire.topo.host_parameters import path_of
from gradwire.topo.network import Network
from gradwire.topo.rdma import add_rdma_devices

UNKILLABLE = "-1000"
UNSENT_LIMIT_KEY = "net.ipv4.tcp_limit_output_bytes"
UNSENT_LIMIT_BYTES = 131072
"""Of a socket's bytes, those that may wait in its host's port, unless the scenario sets another number. Programs' data
and their ACKs share a band, so with Linux's 4 MiB an ACK waits behind the data of the same connection: one that sends
both ways had 6.1 of 9.4 Gbit/s, and 66 of 94. With two bursts of 64 KiB it has 9.1 and 93.9, and three senders to one
receiver lose nothing (0.9997 of their ideal at 100 Gbit/s)."""


@dataclass(frozen=True)
class Lab:
    """A network with its flows installed, and the hosts that programs enter."""

    testbed: Testbed
    hosts: Sequence[Host]
    sandbox: Sandbox

    @property
    def network(self) -> Network:
        """The network."""
        return self.testbed.network


@contextmanager
def network_of_programs(fabric: Fabric, impaired: Collection[Port], labels: Mapping[str, str]) -> Iterator[Testbed]:
    """Builds the network that programs run on, and takes it down at the end. impaired, labels: as for `Network`. Raises
    MachineFault."""
    with build_testbed(fabric, FOLDER, TestbedOptions(impaired=impaired, labels=labels)) as bed:
        add_rdma_devices(bed.network)
        for host in range(fabric.hosts):
            if not fabric.host_tcp.is_stock and UNSENT_LIMIT_KEY not in fabric.host_parameters[host]:
                with network_namespace(namespace_of(bed.network.host_pid(host))):
                    write_sysctl(path_of(UNSENT_LIMIT_KEY), str(UNSENT_LIMIT_BYTES))
        yield bed


@contextmanager
def lab(task: JobTask, folder: Path) -> Iterator[Lab]:
    """Builds a task's network and installs all flows; takes everything down at the end. folder: the job's. Raises
    MachineFault."""
    fabric = replace(Fabric.from_json(task.fabric_json), ipv6=True)
    Path("/proc/self/oom_score_adj").write_text(UNKILLABLE)
    names = [task.labels.get(name, name) for name in fabric.host_names()]
    name_hosts(fabric, names)
    ports = [port for port, _ in fabric.ports()]
    impaired = ports if task.any_fault else impaired_ports(fabric, task.faults)
    with network_of_programs(fabric, impaired, task.labels) as bed:
        sandbox, pids = Sandbox(folder, task.covered), [bed.network.host_pid(host) for host in range(fabric.hosts)]
        with hosts_to_enter(task, names, pids, sandbox) as hosts:
            bed.wait_ready()
            charge_computation(task.cpu_time)
            yield Lab(bed, hosts, sandbox)


FULL_MEMORY = (
    "the kernel's memory was full, and it killed {killed} processes, perhaps also of its switches: {fault}; files in /run and /dev/shm "
    "take memory too. Use --memory, fewer hosts, or programs that need less"
)
Job = Callable[[JobTask, Path, Lab, Channel], None]


def run_inside(job: Job) -> None:
    """Runs `job` on the folder named on the command line, with the key in the file named behind it.

    Whatever ends it early is raised as a Refused.
    """
    folder, key_file = map(Path, sys.argv[1:])
    channel = Channel(key_file)
    try:
        task = read_task(folder / TASK_FILE)
        with lab(task, folder) as ready:
            channel.say(Ready(tuple(host.pid for host in ready.hosts)))
            job(task, folder, ready, channel)
    except Fault as fault:
        killed = killed_for_memory() if isinstance(fault, MachineFault) else 0
        told = FULL_MEMORY.format(killed=killed, fault=fault) if killed else str(fault)
        channel.say(Refused(type(fault).__name__, told))
    except Exception:  # noqa: BLE001 (the caller outside cannot see it otherwise)
        channel.say(Refused(InternalFault.__name__, traceback.format_exc()))
