"""What is typed at the prompt of `gradwire shell`: the names of nodes, and the words of Mininet's command line."""

from __future__ import annotations

import cmd
import io
import readline
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stdout
from itertools import count
from pathlib import Path
from typing import Protocol

from gradwire.datatypes.fabric import Fabric, Link
from gradwire.faults import InputFault, InternalFault, MachineFault
from gradwire.programs.program_protocol import NO_HOST, Change, Command, Execute, PingAll
from gradwire.programs.prompt_python import Net, Node
from gradwire.programs.transfer_rates import transfer_rates
from gradwire.reading_budget import reading_budget
from gradwire.regular_files import read_text
from gradwire.vm.session import KernelDied
from gradwire.workloads.units import rate_text

CONTROLLER = "c0"
PROMPT = "gradwire> "
SCRIPT_BYTES = 1 << 20
"""More than a person writes into a file of commands."""
FIRST_PORT = 5300
"""Of iperf3's servers, each of which has a separate port: one whose client has failed keeps its own."""
HELP = """\
NODE COMMAND        runs a command line on a node, with `sh`: h1 ping -c 3 h2
NODE COMMAND &      lets it run while other commands do: h1 iperf3 -s &
pingall, pingpair   sends an echo request from each host to each other one, or between the first two; pingallfull and
                    pingpairfull say how long each answer took
iperf [H1 H2]       TCP's rate from one host to another, by iperf3 for a second; by default from the first to the last
iperfudp BW H1 H2   the same for UDP at a rate such as 10M
link A B up|down    brings the links between two nodes down or up; `switch S stop|start` takes a switch away
nodes, links, net, ports, intfs, dump
                    what the network consists of; `dump` has addresses and processes
xterm NODE...       windows with shells of nodes, in tmux or on a display; while none of their commands runs, and none of
                    this prompt, the clock stands still
sh, dpctl           a command where the switches are, or one of ovs-ofctl for each switch: dpctl dump-flows
py, px              a Python expression or statement: py h1.cmd("hostname"), py net.hosts
source FILE         carries out the commands of a file
time [COMMAND]      the virtual clock, which stands still between commands, or how long a command takes on it
exit                ends the network and all programs; so does Ctrl-D

A program reads what you type. Ctrl-C ends it; twice, at once. Each command begins in the folder that gradwire was
started in."""


def nodes(fabric: Fabric) -> str:
    """The names of all nodes."""
    return f"available nodes are:\n{' '.join([CONTROLLER, *fabric.host_names(), *fabric.switch_names()])}"


def links(fabric: Fabric) -> Iterator[str]:
    """A line per link, with its rate."""
    for link in fabric.links():
        yield f"{link.a.interface}<->{link.b.interface} ({rate_text(link.rate_bps)})"


def net(fabric: Fabric) -> Iterator[str]:
    """A line per node: its ports, each with the port at the other end."""
    far = {end: other for link in fabric.links() for end, other in ((link.a, link.b), (link.b, link.a))}
    for name in (*fabric.host_names(), *fabric.switch_names()):
        ends = [f"{port.interface}:{other.interface}" for port, other in far.items() if port.device == name]
        yield " ".join([name, *ends])
    yield CONTROLLER


def interfaces(fabric: Fabric, node: str) -> list[str]:
    """The names of a node's interfaces."""
    ends = (end for link in fabric.links() for end in (link.a, link.b))
    return [end.interface for end in sorted(ends, key=lambda end: end.number) if end.device == node]


def intfs(fabric: Fabric) -> Iterator[str]:
    """A line per node: its interfaces."""
    for name in (*fabric.host_names(), *fabric.switch_names()):
        yield f"{name}: {','.join(interfaces(fabric, name))}"


def ports(fabric: Fabric) -> Iterator[str]:
    """A line per switch: its interfaces, each with the number by which the switch knows it."""
    ends = [end for link in fabric.links() for end in (link.a, link.b)]
    for name in fabric.switch_names():
        own = sorted((end for end in ends if end.device == name), key=lambda end: end.number)
        yield " ".join([name, *(f"{end.interface}:{end.number}" for end in own)])


def dump(fabric: Fabric, pids: Sequence[int]) -> Iterator[str]:
    """A line per node: its addresses, and of a host the process that holds it."""
    for host, (name, pid) in enumerate(zip(fabric.host_names(), pids, strict=True)):
        yield f"<Host {name}: {name}-eth0:{fabric.host_ip(host)} pid={pid}>"
    for name in fabric.switch_names():
        yield f"<OVSSwitch {name}: {','.join(interfaces(fabric, name))}>"
    yield f"<RemoteController {CONTROLLER}: 127.0.0.1:6653>"


def links_between(fabric: Fabric, a: str, b: str) -> list[Link]:
    """The links that join two nodes. Raises InputFault if none does."""
    found = [link for link in fabric.links() if {link.a.device, link.b.device} == {a, b}]
    if not found:
        raise InputFault(f"no link between {a} and {b}; `links` lists those that there are")
    return found


class Carrier(Protocol):
    """What carries commands out in the kernel."""

    @property
    def pids(self) -> Sequence[int]:
        """By host: a process in its namespaces."""

    @property
    def virtual_s(self) -> float:
        """The virtual clock."""

    def ask(self, command: Command) -> str:
        """Has a command carried out; returns why it was refused, or ""."""

    def heard(self, command: Execute) -> str:
        """The same for one whose output is not shown but returned. Raises InputFault if it was refused."""

    def open_window(self, name: str, host: int) -> str:
        """Opens a window with a node's shell; says where, or why it cannot."""


class Stopped(InputFault):
    """A program stopped the network for good, such as by a loop in which no virtual time passes."""


class Shell(cmd.Cmd):
    """The prompt. Node names begin commands; the other words are Mininet's."""

    prompt = PROMPT

    def __init__(self, fabric: Fabric, carrier: Carrier) -> None:
        super().__init__()
        self._fabric, self._carrier = fabric, carrier
        self._places = {name: index for index, name in enumerate(fabric.host_names())}
        self._places |= dict.fromkeys((*fabric.switch_names(), CONTROLLER), NO_HOST)
        self._server_ports = count(FIRST_PORT)
        self._locals: dict[str, object] = {}
        #: Files whose commands are carried out, each by the one before it.
        self._sources: list[Path] = []

    @property
    def own_words(self) -> list[str]:
        """The commands that do not begin with a node."""
        return sorted(name[3:] for name in dir(self) if name.startswith("do_") and name != "do_EOF")

    def emptyline(self) -> bool:
        """Does nothing."""
        return False

    def precmd(self, line: str) -> str:
        """A line without its comment, of a file of commands as well."""
        return "" if line.lstrip().startswith("#") else line

    def onecmd(self, line: str) -> bool:
        """Carries out one line; what is wrong with it is said, and the next may come. Raises Stopped."""
        try:
            return super().onecmd(line)
        except Stopped:
            raise
        except InputFault as fault:
            print(fault)
            return False

    def default(self, line: str) -> None:
        """A command on a node."""
        node, _, text = line.partition(" ")
        text = text.strip()
        if node not in self._places:
            names = self._fabric.host_names()
            print(f"{node}: no such command or node; hosts are {names[0]} to {names[-1]}, and `help` lists commands")
        elif not text:
            print(f"{node}: which command? Such as: {node} ip address")
        else:
            background = text.endswith("&") and not text.endswith("&&")
            text = text[:-1].rstrip() if background else text
            self._ask(Execute(self._places[node], text, background))

    def do_noecho(self, line: str) -> None:
        """noecho NODE COMMAND: as without it"""
        self.default(line)

    def do_sh(self, line: str) -> None:
        """sh COMMAND: where the switches are"""
        self._ask(Execute(NO_HOST, line, background=False))

    def do_dpctl(self, line: str) -> None:
        """dpctl COMMAND [ARGUMENTS]: ovs-ofctl's, for each switch"""
        command, _, arguments = line.partition(" ")
        if not command:
            raise InputFault("usage: dpctl COMMAND [ARGUMENTS], such as: dpctl dump-flows")
        for switch in self._fabric.switch_names():
            print(f"*** {switch} {'-' * 72}")
            sys.stdout.flush()
            self._ask(Execute(NO_HOST, f"ovs-ofctl -O OpenFlow13 {command} {switch} {arguments}", background=False))

    def do_pingall(self, _: str) -> None:
        """pingall: each host asks each other one"""
        self._ask(PingAll())

    def do_pingpair(self, _: str) -> None:
        """pingpair: the first two hosts ask each other"""
        self._ask(PingAll(hosts=self._pair()))

    def do_pingallfull(self, _: str) -> None:
        """pingallfull: pingall, and how long each answer took"""
        self._ask(PingAll(is_full=True))

    def do_pingpairfull(self, _: str) -> None:
        """pingpairfull: pingpair, and how long each answer took"""
        self._ask(PingAll(hosts=self._pair(), is_full=True))

    def _pair(self) -> tuple[int, ...]:
        return tuple(range(min(2, self._fabric.hosts)))

    def do_iperf(self, line: str) -> None:
        """iperf [H1 H2]: TCP's rate, for a second"""
        client, server = self._ends(line.split(), "iperf [H1 H2]")
        print(f"*** Iperf: testing TCP bandwidth between {client} and {server}")
        print(f"*** Results: {self._rates(client, server)}")

    def do_iperfudp(self, line: str) -> None:
        """iperfudp [BW H1 H2]: UDP's rate, for a second at BW, such as 10M"""
        words = line.split() or ["10M"]
        client, server = self._ends(words[1:], "iperfudp BW H1 H2, such as: iperfudp 10M h1 h2")
        print(f"*** Iperf: testing UDP bandwidth between {client} and {server}")
        print(f"*** Results: {[words[0], *self._rates(client, server, f'-u -b {words[0]}')]}")

    def _ends(self, words: Sequence[str], usage: str) -> tuple[str, str]:
        names = self._fabric.host_names()
        if len(words) not in (0, 2):
            raise InputFault(f"usage: {usage}")
        for word in words:
            if word not in names:
                raise InputFault(f"{word}: no such host; hosts are {names[0]} to {names[-1]}")
        client, server = words or (names[0], names[-1])
        if client == server:
            raise InputFault(f"{client} to {server}: give two hosts")
        return client, server

    def _rates(self, client: str, server: str, options: str = "") -> list[str]:
        """What the server received and the client sent, in the words of iperf."""
        if shutil.which("iperf3") is None:
            raise InputFault("iperf3 is not installed on this machine: apt-get install iperf3")
        port, address = next(self._server_ports), self._fabric.host_ip(self._places[server])
        serve = f"exec iperf3 -s -1 -p {port} > /dev/null 2>&1"
        self._ask(Execute(self._places[server], serve, background=True))
        ask = f"sleep 0.1; exec iperf3 --json -t 1 {options} -p {port} -c {address}"
        said = self._carrier.heard(Execute(self._places[client], ask, background=False))
        return transfer_rates(said)

    def do_link(self, line: str) -> None:
        """link A B up|down: the links between two nodes"""
        words = line.split()
        if len(words) != 3 or words[2] not in ("up", "down"):
            raise InputFault("usage: link A B up|down, such as: link s1 h1 down")
        for link in links_between(self._fabric, *words[:2]):
            self._ask(Change("link-down", link.a.interface, is_out=words[2] == "down"))

    def do_switch(self, line: str) -> None:
        """switch S start|stop: a switch without its controller, its rules and its links, and with them again"""
        words = line.split()
        if len(words) != 2 or words[1] not in ("start", "stop"):
            raise InputFault("usage: switch S start|stop, such as: switch s1 stop")
        if words[0] not in self._fabric.switch_names():
            raise InputFault(f"{words[0]}: no such switch; there are {' '.join(self._fabric.switch_names())}")
        self._ask(Change("switch-restart", words[0], is_out=words[1] == "stop"))

    def do_nodes(self, _: str) -> None:
        """nodes: their names"""
        print(nodes(self._fabric))

    def do_links(self, _: str) -> None:
        """links: which ports they join, and at which rate"""
        print(*links(self._fabric), sep="\n")

    def do_net(self, _: str) -> None:
        """net: of each node, its ports and what is at their other ends"""
        print(*net(self._fabric), sep="\n")

    def do_ports(self, _: str) -> None:
        """ports: of each switch, with their numbers"""
        print(*ports(self._fabric), sep="\n")

    def do_intfs(self, _: str) -> None:
        """intfs: the interfaces of each node"""
        print(*intfs(self._fabric), sep="\n")

    def do_dump(self, _: str) -> None:
        """dump: addresses, and processes that hold hosts"""
        print(*dump(self._fabric, self._carrier.pids), sep="\n")

    def do_time(self, line: str) -> bool:
        """time [COMMAND]: the virtual clock, or how long a command takes on it"""
        if not line:
            print(f"{self._carrier.virtual_s:.9f} s of virtual time since the network was built")
            return False
        begin_s = self._carrier.virtual_s
        is_over = self.onecmd(line)
        print(f"*** Elapsed time: {self._carrier.virtual_s - begin_s:.6f} secs")
        return is_over

    def do_source(self, line: str) -> bool:
        """source FILE: carries out its commands"""
        if not line:
            raise InputFault("usage: source FILE")
        try:
            path = Path(line).expanduser().resolve()
            with reading_budget(path):
                text = read_text(path, SCRIPT_BYTES, errors="replace")
        except (OSError, RuntimeError, ValueError) as error:  # no such user's home; no path
            raise InputFault(f"error reading file {line}: {getattr(error, 'strerror', None) or error}") from error
        if path in self._sources:
            raise InputFault(f"{line}: carries out itself")
        self._sources.append(path)
        try:
            return any(self.onecmd(self.precmd(each)) for each in text.splitlines())
        finally:
            self._sources.pop()

    def do_py(self, line: str) -> None:
        """py EXPRESSION: Python's value of it; `net` and the names of nodes are there"""
        self._evaluate(lambda known: eval(line, known))

    def do_px(self, line: str) -> None:
        """px STATEMENT: carried out by Python, which keeps its names for the next one"""
        self._evaluate(lambda known: exec(line, known))

    def _evaluate(self, act: Callable[[dict[str, object]], object]) -> None:
        if not self._locals:
            known = self._net()
            self._locals = {"net": known, **{node.name: node for node in known.values()}}
        try:
            value = act(self._locals)
        except (Stopped, KernelDied, MachineFault, InternalFault):
            raise
        except Exception as error:  # noqa: BLE001 (whatever a person's expression raises)
            print(f"{type(error).__name__}: {error}")
        else:
            if value is not None:
                print(value if isinstance(value, str) else repr(value))

    def _net(self) -> Net:
        fabric = self._fabric
        hosts = [
            Node(self, name, fabric.host_ip(index), fabric.host_mac(index), interfaces(fabric, name))
            for index, name in enumerate(fabric.host_names())
        ]
        return Net(
            self, hosts, [Node(self, name, None, None, interfaces(fabric, name)) for name in fabric.switch_names()]
        )

    def heard(self, node: str, line: str) -> str:
        """What a command line on a node writes. Raises InputFault if it cannot be run there."""
        return self._carrier.heard(Execute(self._places[node], line, background=False))

    def do(self, line: str) -> str:
        """What a command of the prompt writes."""
        written = io.TextIOWrapper(io.BytesIO(), write_through=True)
        with redirect_stdout(written):
            self.onecmd(line)
        written.seek(0)
        return written.read()

    def do_xterm(self, line: str) -> None:
        """xterm NODE...: a window with a node's shell"""
        if not line:
            raise InputFault("usage: xterm NODE..., such as: xterm h1 h2")
        for node in line.split():
            if node not in self._places:
                raise InputFault(f"{node}: no such node; `nodes` lists them")
            print(self._carrier.open_window(node, self._places[node]))

    do_gterm = do_xterm

    def do_x(self, _: str) -> None:
        """x NODE COMMAND: not possible here"""
        print("programs in the virtual-time kernel reach no display; xterm NODE opens a window with a shell")

    def make_ready(self) -> None:
        """Has readline complete words, as `cmdloop` does."""
        readline.set_completer(self.complete)  # type: ignore[arg-type]  # typeshed: a list for a word
        readline.parse_and_bind("tab: complete")

    def do_help(self, line: str) -> None:
        """help [COMMAND]"""
        act = getattr(self, f"do_{line}", None) if line else None
        print(HELP if act is None else act.__doc__)

    def do_exit(self, _: str) -> bool:
        """exit: ends the network and all programs"""
        return True

    do_quit = do_exit

    def do_EOF(self, _: str) -> bool:  # noqa: N802 (cmd's name for the end of the input)
        """Ctrl-D"""
        print()
        return True

    def completenames(self, text: str, *_: object) -> list[str]:
        """Nodes and commands that begin so."""
        return [word for word in (*self._places, *self.own_words) if word.startswith(text)]

    def completedefault(self, text: str, *_: object) -> list[str]:
        """Nodes, as arguments of a command on one."""
        return [word for word in self._places if word.startswith(text)]

    def _ask(self, command: Command) -> None:
        if refused := self._carrier.ask(command):
            print(refused)
