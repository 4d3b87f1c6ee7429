"""The network that programs run on, inside the kernel: fabric and controller as for points, hosts to enter, and no agents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from gradwire import PACKAGE
from gradwire.controller.process import ControllerProcess
from gradwire.network_namespace import namespace_of, network_namespace
from gradwire.runner.programs.inside.host import BIND, Host, mount
from gradwire.runner.programs.protocol import ENTER_HOST, FOLDER, PYTHON_FOLDER, PortTraffic
from gradwire.topo.abilities import probe_kernel
from gradwire.topo.command import write_sysctl
from gradwire.topo.fabric import Fabric
from gradwire.topo.network import Network

CONTROLLER_PORT = 6653
CONTROLLER_TIMEOUT_S = 60.0
UNKILLABLE = "-1000"
UNSENT_LIMIT_BYTES = 131072
"""Of a socket's bytes, those that may wait in its host's port (net.ipv4.tcp_limit_output_bytes). Programs' data and their ACKs share a
band, so with Linux's 4 MiB an ACK waits behind the data of its own connection: one that sends both ways had 6.1 of 9.4 Gbit/s, and 66 of
94. With two bursts of 64 KiB it has 9.1 and 93.9, and three senders to one receiver lose nothing (0.9997 of their ideal at 100 Gbit/s)."""
REMOTE_SHELL = f"""#!/bin/sh
# Runs a command on a host, as `ssh HOST COMMAND` would.
host=$1
shift
while read -r name pid; do
    if [ "$name" = "$host" ]; then
        export GRADWIRE_HOST="$host" TMPDIR="/run/tmp/$host"
        exec nsenter --target "$pid" --net --uts --mount -- sh -c 'cd "$1" && shift && exec sh -c "$*"' sh "$PWD" "$@"
    fi
done <{FOLDER}/hosts
echo "enter-host: no host is called $host" >&2
exit 255
"""


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

    def read(self) -> Reading:
        """All counters since the network was built."""
        fabric = self.network.fabric
        rates = dict(fabric.ports())
        ports = tuple(
            PortTraffic(
                counted.port.interface,
                rates[counted.port],
                counted.sent_bytes,
                sum(band.sent_packets for band in counted.bands),
                counted.drops,
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
def lab(fabric: Fabric) -> Iterator[Lab]:
    """Builds the network and installs all flows; takes everything down at the end. Raises MachineFault."""
    Path("/proc/self/oom_score_adj").write_text(UNKILLABLE)
    FOLDER.mkdir(exist_ok=True)
    PYTHON_FOLDER.mkdir(exist_ok=True)
    (PYTHON_FOLDER / PACKAGE.name).symlink_to(PACKAGE)
    _name_hosts(fabric)
    with ControllerProcess(fabric, CONTROLLER_PORT, FOLDER) as controller, ExitStack() as held:
        network = held.enter_context(Network(fabric, probe_kernel(), controller_port=CONTROLLER_PORT, owns_kernel=True))
        hosts = []
        for index, name in enumerate(fabric.host_names()):
            with network_namespace(namespace_of(network.host_pid(index))):
                write_sysctl("net/ipv4/tcp_limit_output_bytes", str(UNSENT_LIMIT_BYTES))
            hosts.append(Host(name, network.host_pid(index)))
            held.callback(hosts[-1].end)
        _write_remote_shell(hosts)
        controller.wait_ready(CONTROLLER_TIMEOUT_S)
        yield Lab(network, controller, hosts)


def _name_hosts(fabric: Fabric) -> None:
    """Lets all hosts find each other by name; the machine's own file stays as it is."""
    lines = ["127.0.0.1 localhost", *(f"{fabric.host_ip(i)} {name}" for i, name in enumerate(fabric.host_names()))]
    names = FOLDER / "etc-hosts"
    names.write_text("\n".join([*lines, ""]))
    mount(str(names), "/etc/hosts", "", BIND)


def _write_remote_shell(hosts: Sequence[Host]) -> None:
    (FOLDER / "hosts").write_text("".join(f"{host.name} {host.pid}\n" for host in hosts))
    ENTER_HOST.write_text(REMOTE_SHELL)
    ENTER_HOST.chmod(0o755)


def _traffic_since(now: PortTraffic, then: PortTraffic) -> PortTraffic:
    return PortTraffic(
        now.interface,
        now.rate_bps,
        now.sent_bytes - then.sent_bytes,
        now.packets - then.packets,
        now.drops - then.drops,
    )
