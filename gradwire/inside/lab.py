"""The network that programs run on, inside the kernel: fabric and controller as for points, hosts to enter, and no
agents."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from gradwire.datatypes.line_counts import LineCount
from gradwire.faults import Fault, InternalFault
from gradwire.inside.channel import Channel
from gradwire.inside.computation import charge_computation
from gradwire.inside.door import door
from gradwire.inside.host import Host
from gradwire.inside.namespaces import name_hosts
from gradwire.inside.program_protocol import FOLDER, TASK_FILE, PortTraffic, Ready, Refused, Task, read_task
from gradwire.inside.sandbox import Sandbox
from gradwire.inside.testbed import Testbed, TestbedOptions, build_testbed
from gradwire.network.fabric import Fabric, Port
from gradwire.network_namespace import namespace_of, network_namespace
from gradwire.topo.command import write_sysctl
from gradwire.topo.counters import PortQueues
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
class Reading:
    """The network's counters at one moment."""

    queues: Sequence[PortQueues]
    tcp_segments: int
    tcp_retransmits: int
    table_misses: int
    dropped_reports: int
    upcalls: int


@dataclass(frozen=True)
class Counted:
    """The network's counters between two readings."""

    ports: tuple[PortTraffic, ...]
    #: Empty in a kernel without counters of lines.
    lines: tuple[LineCount, ...]
    tcp_segments: int
    tcp_retransmits: int
    table_misses: int
    dropped_reports: int
    upcalls: int


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

    def read(self) -> Reading:
        """All counters since the network was built but those of lines; those of switches' rules come last, for Open vSwitch
        collects them only every half a second, and ports would carry on meanwhile."""
        tcp, ports, datapath = self.network.tcp_counters(), self.network.port_queues(), self.network.datapath_counters()
        return Reading(
            ports,
            sum(host.segments_sent for host in tcp),
            sum(host.segments_retransmitted for host in tcp),
            datapath.table_misses,
            datapath.dropped_reports,
            datapath.upcalls,
        )

    def count_since(self, earlier: Reading) -> Counted:
        """Returns what the network carried after the reading `earlier`."""
        counters = self.network.line_counters
        lines = counters.settled() if counters is not None else ()
        now = self.read()
        return Counted(
            ports_traffic(self.network, now.queues, earlier.queues, lines),
            lines,
            now.tcp_segments - earlier.tcp_segments,
            now.tcp_retransmits - earlier.tcp_retransmits,
            now.table_misses - earlier.table_misses,
            now.dropped_reports - earlier.dropped_reports,
            now.upcalls - earlier.upcalls,
        )


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
def lab(task: Task, folder: Path) -> Iterator[Lab]:
    """Builds a task's network and installs all flows; takes everything down at the end. folder: the job's. Raises
    MachineFault."""
    fabric = replace(Fabric.from_json(task.fabric_json), ipv6=True)
    Path("/proc/self/oom_score_adj").write_text(UNKILLABLE)
    names = [task.labels.get(name, name) for name in fabric.host_names()]
    name_hosts(fabric, names)
    ports = [port for port, _ in fabric.ports()]
    impaired = ports if task.any_fault else impaired_ports(fabric, task.faults)
    with network_of_programs(fabric, impaired, task.labels) as bed, ExitStack() as held:
        sandbox = Sandbox(folder, task.covered)
        held.callback(sandbox.end)
        hosts = []
        for index, name in enumerate(names):
            hosts.append(Host(name, bed.network.host_pid(index), sandbox))
            held.callback(hosts[-1].end)
        if task.enters:
            held.enter_context(door(hosts, sandbox))
        bed.wait_ready()
        charge_computation(task.cpu_time)
        yield Lab(bed, hosts, sandbox)


def ports_traffic(
    network: Network, now: Sequence[PortQueues], before: Sequence[PortQueues], lines: Sequence[LineCount]
) -> tuple[PortTraffic, ...]:
    """Returns what each port sent between two readings, in their order. lines: as counted between the same readings."""
    rates = {port.interface: rate for port, rate in network.fabric.ports()}
    by_port = {line.port: line for line in lines}
    return tuple(
        port_traffic(queues, earlier, rates[queues.port.interface], by_port.get(queues.port.interface))
        for queues, earlier in zip(now, before, strict=True)
    )


def port_traffic(now: PortQueues, before: PortQueues, rate_bps: float, line: LineCount | None) -> PortTraffic:
    """Returns what a port sent between two readings, by its line, or by its queues in a kernel without counters of
    lines."""
    interface, replaced_by = now.port.interface, now.put_in_place_of(before)
    sent_bytes, packets = now.sent_bytes - before.sent_bytes, now.packets_sent - before.packets_sent
    by_band: tuple[int, ...] = ()
    drops = now.drops - before.drops
    if now.bands and before.bands and not replaced_by:
        bands = now.bands.since(before.bands)
        sent_bytes, packets, drops = bands.sent_bytes, sum(band.packets_sent for band in bands.bands), bands.drops
        by_band = tuple(band.bytes_sent for band in bands.bands)
    if line is not None:
        sent_bytes, packets = line.size_bytes, line.frames
    return PortTraffic(interface, rate_bps, sent_bytes, packets, drops, by_band, replaced_by)


Job = Callable[[Task, Path, Lab, Channel], None]


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
        channel.say(Refused(type(fault).__name__, str(fault)))
    except Exception:  # noqa: BLE001 (the caller outside cannot see it otherwise)
        channel.say(Refused(InternalFault.__name__, traceback.format_exc()))
