"""Mininet's nodes and links with their work deferred and batched. Only topo/network.py may import this, because it
imports mininet.

Mininet starts a shell for every node and types each command into it: about twenty processes per host. In the
virtual-time kernel a process costs tens of milliseconds, so here a host is a thread that sleeps, links are made by one
`ip` call, switches by one `ovs-vsctl` call, and a shell is started only when somebody wants one (`node.cmd`, the
Mininet command line). Mininet's program mnexec, which few distributions package, is not needed. What a node, an
interface or a link *is* remains Mininet's.
"""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import termios
import threading
from collections.abc import Sequence
from typing import Any

if sys.version_info < (3, 12):
    # setuptools puts its own distutils before Python's: a hundred modules, half a second in the virtual-time kernel,
    # of which Mininet uses one comparison of versions.
    import _distutils_hack  # type: ignore[import-untyped]

    _distutils_hack.remove_shim()

from mininet.link import Intf, Link
from mininet.net import Mininet
from mininet.node import Host, OVSSwitch, RemoteController
from mininet.topo import Topo
from mininet.util import numCores

from gradwire.faults import InternalFault, MachineFault
from gradwire.network_namespace import fresh_network_namespace
from gradwire.topo.wiring import Naming

PROMPT = chr(127)
STOP_S = 5.0
STACK_BYTES = 1 << 18


class LateShell:
    """A Mininet node that starts its shell at the first command instead of at its creation."""

    def startShell(self, _mnopts: str | None = None) -> None:  # noqa: N802
        """Sets the process that stands for the node: this one, for nodes in the initial namespace."""
        self.pid = os.getpid()
        self.waiting = False
        self.shell: subprocess.Popen[bytes] | None = None

    def cmd(self, *words: Any, **options: Any) -> Any:
        """Runs a command as Mininet's cmd does, in a shell that is started if there is none."""
        self._open_shell()
        return super().cmd(*words, **options)  # type: ignore[misc]

    def sendCmd(self, *words: Any, **options: Any) -> Any:  # noqa: N802
        """Sends a command as Mininet's sendCmd does, to a shell that is started if there is none."""
        self._open_shell()
        return super().sendCmd(*words, **options)  # type: ignore[misc]

    def popen(self, *words: Any, **options: Any) -> Any:
        """Starts a process as Mininet's popen does, in the node's namespace."""
        return super().popen(*words, **{"mncmd": ["setsid", *self._enter_command()], **options})  # type: ignore[misc]

    def _open_shell(self) -> None:
        """Starts the node's shell as Node.startShell does, but inside the namespace that the node already has."""
        if self.shell is not None:
            return
        self.master, self.slave = pty.openpty()
        settings = termios.tcgetattr(self.slave)
        settings[3] &= ~termios.ECHO
        termios.tcsetattr(self.slave, termios.TCSANOW, settings)
        shell = ["env", f"PS1={PROMPT}", "bash", "--norc", "--noediting", "-is", f"mininet:{self}"]
        self.shell = subprocess.Popen(
            ["setsid", *self._enter_command(), *shell], stdin=self.slave, stdout=self.slave, stderr=self.slave
        )
        self.stdin = self.stdout = os.fdopen(self.master, "r")
        self.pollOut = select.poll()
        self.pollOut.register(self.stdout)
        self.outToNode[self.stdout.fileno()] = self.inToNode[self.stdin.fileno()] = self  # type: ignore[attr-defined]
        while not self.read(1024).endswith(PROMPT):  # type: ignore[attr-defined]
            self.pollOut.poll()
        super().cmd("unset HISTFILE; set +m")  # type: ignore[misc]

    def _enter_command(self) -> list[str]:
        """Prefix of a command that runs it in the node's namespace."""
        return []


class NamespaceHolder(threading.Thread):
    """A thread that sleeps until it is ended, and keeps the namespaces of the thread that starts it."""

    def __init__(self) -> None:
        super().__init__(name="namespace", daemon=True)
        self._sleep = threading.Lock()
        self._sleep.acquire()

    def start(self) -> None:
        """Starts the thread, with a small stack: stacks count as the process's data, which has a limit."""
        usual_bytes = threading.stack_size(STACK_BYTES)
        try:
            super().start()
        except RuntimeError as error:
            raise MachineFault(f"a network namespace needs a thread to hold it: {error}; see `ulimit -u`") from error
        finally:
            threading.stack_size(usual_bytes)

    def run(self) -> None:
        """Sleeps until the thread is ended."""
        self._sleep.acquire()

    def end(self) -> None:
        """Ends the thread; may be called twice."""
        if self.is_alive():
            self._sleep.release()
            self.join(STOP_S)
            if self.is_alive():
                raise InternalFault(f"thread {self.native_id}, which holds a network namespace, did not end")


class QuietHost(LateShell, Host):  # type: ignore[misc]
    """A host is a network namespace held by a sleeping thread, whose id is `pid`: to /proc, and so to ip and nsenter,
    as a process's."""

    isSetup = True  # noqa: N815

    def startShell(self, _mnopts: str | None = None) -> None:  # noqa: N802
        """Makes the namespace, which exists when this returns; raises MachineFault where that is forbidden."""
        super().startShell()
        with fresh_network_namespace():
            self.holder = NamespaceHolder()
            self.holder.start()
        assert self.holder.native_id is not None
        self.pid = self.holder.native_id

    def config(self, **_parameters: Any) -> dict[str, Any]:
        """Does nothing: the network sets the addresses of all hosts at once."""
        return {}

    def terminate(self) -> None:
        """Ends the host's shell, by id, and the thread that holds its namespace."""
        super().terminate()
        self.holder.end()

    def _enter_command(self) -> list[str]:
        """Prefix of a command that runs it in the host's network namespace. It gets a sysfs of its own, because a sysfs
        shows the devices of the namespace that it was mounted in."""
        mount = ["unshare", "--mount", "sh", "-c", 'mount -t sysfs sysfs /sys && exec "$0" "$@"']
        return ["nsenter", f"--net=/proc/{self.pid}/ns/net", *mount]


class QuietIntf(Intf):  # type: ignore[misc]
    """An interface that exists once the network has made it, and is configured by the network."""

    def config(self, **parameters: Any) -> dict[str, Any]:
        """Only stores the address."""
        self.ip, self.prefixLen = parameters.get("address", (None, None))
        return {}

    def delete(self) -> None:
        """Only forgets the interface: the network deletes all of them at once."""
        self.node.delIntf(self)


class QuietLink(Link):  # type: ignore[misc]
    """A link whose veth pair the network makes together with all others."""

    def __init__(self, *nodes: Any, **options: Any) -> None:
        super().__init__(*nodes, **{**options, "fast": True, "intf": QuietIntf})

    @classmethod
    def makeIntfPair(cls, *_names: Any, **_options: Any) -> tuple[None, None]:  # noqa: N802
        """Makes no interfaces: the network makes all links at once."""
        return None, None


class BatchSwitch(LateShell, OVSSwitch):  # type: ignore[misc]
    """An Open vSwitch bridge that is made, and removed, together with all others."""

    isSetup = True  # noqa: N815

    def __init__(self, name: str, **parameters: Any) -> None:
        """Mininet raises the loopback interface with ifconfig, in a shell for each switch, unless it knows that it is
        in a namespace."""
        super().__init__(name, **{**parameters, "inNamespace": True})
        self.inNamespace = False
        self.controlIntf = QuietIntf("lo", self, port=0, address=("127.0.0.1", 8))

    def start(self, controllers: Sequence[Any]) -> None:
        """Does nothing: the network makes all bridges in one transaction."""

    @classmethod
    def batchStartup(cls, switches: Sequence[Any], **_options: Any) -> Sequence[Any]:  # noqa: N802
        """Does nothing, for the reason that `start` has."""
        return switches

    @classmethod
    def batchShutdown(cls, switches: Sequence[Any], **_options: Any) -> Sequence[Any]:  # noqa: N802
        """Only ends shells that somebody opened; the network removes all bridges in one transaction."""
        for switch in switches:
            switch.terminate()
        return switches


class OutsideController(LateShell, RemoteController):  # type: ignore[misc]
    """The controller that runs as a separate process, as Mininet sees it."""

    isSetup = True  # noqa: N815

    def checkListening(self) -> None:  # noqa: N802
        """Does nothing: a missing controller is noticed when its rules do not come."""

    def start(self) -> None:
        """Does nothing: the controller already runs."""

    def stop(self, deleteIntfs: bool = False) -> None:  # noqa: ARG002, N803
        """Only ends a shell that somebody opened."""
        self.terminate()


class QuietMininet(Mininet):  # type: ignore[misc]
    """Mininet without its first steps: fixLimits, which raises limits of the whole machine for good, and counting CPUs
    by a process."""

    def __init__(self, **options: Any) -> None:
        Mininet.inited = True
        numCores.ncores = os.cpu_count()
        super().__init__(**options)


class FabricTopo(Topo):  # type: ignore[misc]
    """A fabric as Mininet's description of a network."""

    def build(self, naming: Naming) -> None:
        """Adds every host, switch and link, with the fabric's names, addresses and port numbers."""
        fabric = naming.fabric
        for host, name in enumerate(fabric.endpoint_names()):
            self.addHost(naming.device(name), ip=f"{fabric.host_ip(host)}/16", mac=fabric.host_mac(host))
        for index, name in enumerate(fabric.switch_names()):
            self.addSwitch(naming.device(name), dpid=f"{index + 1:016x}")
        addresses = {name: (fabric.host_ip(host), "16") for host, name in enumerate(fabric.endpoint_names())}
        macs = {name: fabric.host_mac(host) for host, name in enumerate(fabric.endpoint_names())}
        for link in fabric.links():
            self.addLink(
                naming.device(link.a.device),
                naming.device(link.b.device),
                port1=link.a.number,
                port2=link.b.number,
                params1={"address": addresses.get(link.a.device, (None, None))},
                params2={"address": (None, None)},
                addr1=macs.get(link.a.device),
                addr2=None,
            )
