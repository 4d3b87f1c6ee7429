"""The network that programs run on, inside the kernel: fabric and controller as for points, hosts to enter, and no agents."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from gradwire.controller.process import ControllerProcess
from gradwire.datatypes.fabric import Fabric
from gradwire.faults import Fault, InternalFault
from gradwire.network_namespace import namespace_of, network_namespace
from gradwire.programs.inside.channel import Channel
from gradwire.programs.inside.door import door
from gradwire.programs.inside.host import Host
from gradwire.programs.inside.namespaces import name_hosts
from gradwire.programs.inside.sandbox import Sandbox
from gradwire.programs.program_protocol import FOLDER, TASK_FILE, PortTraffic, Ready, Refused, Task, read_task
from gradwire.topo.abilities import probe_kernel
from gradwire.topo.command import write_sysctl
from gradwire.topo.host_parameters import path_of
from gradwire.topo.network import Network

CONTROLLER_PORT = 6653
CONTROLLER_TIMEOUT_S = 60.0
UNKILLABLE = "-1000"
UNSENT_LIMIT_KEY = "net.ipv4.tcp_limit_output_bytes"
UNSENT_LIMIT_BYTES = 131072
"""Of a socket's bytes, those that may wait in its host's port, unless the scenario sets another number. Programs' data and their ACKs
share a band, so with Linux's 4 MiB an ACK waits behind the data of its own connection: one that sends both ways had 6.1 of 9.4 Gbit/s, and
66 of 94. With two bursts of 64 KiB it has 9.1 and 93.9, and three senders to one receiver lose nothing (0.9997 of their ideal at 100
Gbit/s)."""


@dataclass(frozen=True)
class Reading:
    """The network's counters at one moment, or between two."""

    ports: tuple[PortTraffic, ...]
    tcp_segments: int
    tcp_retransmits: int
    table_misses: int
    upcalls: int

    def since(self, earlier: Reading) -> Reading:
        """What was counted after `earlier`."""
        return Reading(
            tuple(_traffic_since(now, then) for now, then in zip(self.ports, earlier.ports, strict=True)),
            self.tcp_segments - earlier.tcp_segments,
            self.tcp_retransmits - earlier.tcp_retransmits,
            self.table_misses - earlier.table_misses,
            self.upcalls - earlier.upcalls,
        )


@dataclass(frozen=True)
class Lab:
    """A network with its flows installed, and the hosts that programs enter."""

    network: Network
    controller: ControllerProcess
    hosts: Sequence[Host]
    sandbox: Sandbox

    def read(self) -> Reading:
        """All counters since the network was built."""
        fabric = self.network.fabric
        rates = dict(fabric.ports())
        ports = tuple(
            PortTraffic(
                counted.port.interface,
                rates[counted.port],
                counted.sent_bytes,
                sum(band.packets_sent for band in counted.bands),
                counted.drops,
                tuple(band.bytes_sent for band in counted.bands),
            )
            for counted in self.network.counters()
        )
        tcp, datapath = self.network.tcp_counters(), self.network.datapath_counters()
        return Reading(
            ports,
            sum(host.segments_sent for host in tcp),
            sum(host.segments_retransmitted for host in tcp),
            datapath.table_misses,
            datapath.upcalls,
        )


@contextmanager
def lab(task: Task, folder: Path) -> Iterator[Lab]:
    """Builds a task's network and installs all flows; takes everything down at the end. folder: the job's. Raises MachineFault."""
    fabric = replace(Fabric.from_json(task.fabric_json), ipv6=True)
    Path("/proc/self/oom_score_adj").write_text(UNKILLABLE)
    name_hosts(fabric)
    with ControllerProcess(fabric, CONTROLLER_PORT, FOLDER) as controller, ExitStack() as held:
        network = held.enter_context(Network(fabric, probe_kernel(), controller_port=CONTROLLER_PORT, owns_kernel=True))
        sandbox = Sandbox(folder, task.covered)
        held.callback(sandbox.end)
        hosts = []
        for index, name in enumerate(fabric.host_names()):
            if UNSENT_LIMIT_KEY not in fabric.host_parameters[index]:
                with network_namespace(namespace_of(network.host_pid(index))):
                    write_sysctl(path_of(UNSENT_LIMIT_KEY), str(UNSENT_LIMIT_BYTES))
            hosts.append(Host(name, network.host_pid(index), sandbox))
            held.callback(hosts[-1].end)
        if task.enters:
            held.enter_context(door(hosts, sandbox))
        controller.wait_ready(CONTROLLER_TIMEOUT_S)
        yield Lab(network, controller, hosts, sandbox)


def _traffic_since(now: PortTraffic, then: PortTraffic) -> PortTraffic:
    return PortTraffic(
        now.interface,
        now.rate_bps,
        now.sent_bytes - then.sent_bytes,
        now.packets - then.packets,
        now.drops - then.drops,
        tuple(here - there for here, there in zip(now.band_bytes, then.band_bytes, strict=True)),
    )


Job = Callable[[Task, Path, Lab, Channel], None]


def run_inside(job: Job) -> None:
    """Runs `job` on the folder named on the command line, with the key in the file named behind it.

    Whatever ends it early is told as a Refused.
    """
    folder, key_file = map(Path, sys.argv[1:])
    channel = Channel(key_file)
    try:
        task = read_task(folder / TASK_FILE)
        with lab(task, folder) as ready:
            channel.say(Ready(tuple(host.pid for host in ready.hosts)))
            job(task, folder, ready, channel)
    except Fault as fault:
        channel.say(Refused(type(fault).__name__, str(fault)))
    except Exception:  # noqa: BLE001 (the caller outside cannot see it otherwise)
        channel.say(Refused(InternalFault.__name__, traceback.format_exc()))
