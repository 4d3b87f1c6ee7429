"""Changes a script's Mininet, so that it fits virtual time and fast lines. Runs in the Python of the script, which
may have nothing of gradwire's, and imports nothing of it: a copy of Mininet calls `change` at the end of each module.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import select
import shutil
import socket
import sys
from collections.abc import Iterator
from typing import Any

LINK_RATE_VARIABLE = "GRADWIRE_LINK_MBIT"
ASKING_VARIABLE = "GRADWIRE_ASKING"
"""The path of the socket that lines and windows are asked for at."""
MOST_MBIT = 100_000
"""The fastest link. Mininet ignores rates above 1,000 Mbit/s, which real time does not carry."""
MININETS_OWN_MBIT = 1000
"""Up to here, a link has Mininet's own commands."""
BURST_S = 2e-6
"""HTB's burst on faster links, as that of gradwire's own ports (Fabric.burst_bytes)."""
FRAME_BYTES = 1514
QUANTUM_BYTES = 65536
LEAST_QUEUE = 1000
"""Frames that netem holds by default."""
SECONDS = {"": 1e-6, "us": 1e-6, "usec": 1e-6, "usecs": 1e-6, "ms": 1e-3, "msec": 1e-3, "msecs": 1e-3} | dict.fromkeys(
    ("s", "sec", "secs"), 1.0
)
"""Units of tc(8); a number alone is in microseconds."""


def change(module: dict[str, Any]) -> None:
    """Changes one module of Mininet, by its names."""
    name = module["__name__"].rpartition(".")[2]
    act = {
        "link": _change_links,
        "node": _change_nodes,
        "nodelib": _change_nat,
        "net": _change_network,
        "term": _change_terminals,
        "cli": _change_prompt,
    }.get(name)
    if act is not None:
        act(module)


def shape(rate_mbit: float) -> str:
    """HTB's bursts and quantum for a link, in the words of tc. The quantum shares between classes, of which there is
    one; without it tc warns of fast ones."""
    burst = max(FRAME_BYTES + 86, round(rate_mbit * 1e6 * BURST_S / 8))
    return f"burst {burst}b cburst {burst}b quantum {QUANTUM_BYTES}"


def duration_s(text: str) -> float:
    """Seconds of a delay as tc takes it, such as "5ms"; 0 for what it would refuse."""
    found = re.fullmatch(r"\s*([\d.]+)\s*([a-z]*)\s*", str(text))
    if not found or found[2] not in SECONDS:
        return 0.0
    try:
        return float(found[1]) * SECONDS[found[2]]
    except ValueError:
        return 0.0


def queue_frames(rate_mbit: float, delay_s: float) -> int:
    """Frames that netem has to hold, so that it drops nothing while a link of this rate and delay is full."""
    return LEAST_QUEUE + round(rate_mbit * 1e6 * delay_s / 8 / FRAME_BYTES)


def _change_links(module: dict[str, Any]) -> None:
    interface, shaped = module["Intf"], module["TCIntf"]
    rates = shaped.bwCmds
    configure = shaped.config

    def commands(self: Any, bw: Any = None, **options: Any) -> Any:
        made, parent = rates(self, bw, **options)
        if bw and float(bw) > MININETS_OWN_MBIT:
            made = [command.replace("burst 15k", shape(float(bw))) for command in made]
        return made, parent

    def config(self: Any, bw: Any = None, **options: Any) -> Any:
        # A link that names no rate would be as fast as memory, and a test over it would never end.
        bw = bw or _link_mbit()
        is_delayed = options.get("delay") or options.get("loss")
        if float(bw) > MININETS_OWN_MBIT and is_delayed and options.get("max_queue_size") is None:
            delay_s = sum(duration_s(options[name]) for name in ("delay", "jitter") if options.get(name))
            options["max_queue_size"] = queue_frames(float(bw), delay_s)
        return configure(self, bw, **options)

    shaped.bwParamMax = MOST_MBIT
    shaped.bwCmds, shaped.config = commands, config
    _shape_plain_links(module["Link"], interface, shaped)


def _shape_plain_links(link: Any, interface: Any, shaped: Any) -> None:
    """Gives the ends of links of Mininet's plain kind the rate of links that name none."""
    make = link.__init__

    def init(self: Any, *words: Any, **options: Any) -> None:
        make(self, *words, **options)
        for end in (self.intf1, self.intf2):
            if isinstance(end, interface) and not isinstance(end, shaped):
                rate = f"{_link_mbit():f}Mbit {shape(_link_mbit())}"
                end.cmd(f"tc qdisc add dev {end} root handle 5:0 htb default 1")
                end.cmd(f"tc class add dev {end} parent 5:0 classid 5:1 htb rate {rate}")

    link.__init__ = init


def _link_mbit() -> float:
    return float(os.environ.get(LINK_RATE_VARIABLE, "10000"))


def _change_nodes(module: dict[str, Any]) -> None:
    """A limit of CPU time has no effect where computing takes no time: such a host is a plain one. And Open vSwitch's
    controller has to speak a version in which its switches understand it (tools.py)."""
    limited, plain, warn = module["CPULimitedHost"], module["Host"], module["warn"]

    def once(said: list[str] = []) -> None:  # noqa: B006 (what was said, for all hosts)
        if not said:
            said.append("*** gradwire: limits of CPU time have no effect, because computing takes no virtual time\n")
            warn(said[0])

    def init(self: Any, name: str, sched: str = "cfs", **parameters: Any) -> None:
        self.sched = sched
        plain.__init__(self, name, **parameters)

    def no_limit(*_: Any, **__: Any) -> None:
        once()

    node = module["Node"]
    start_shell = node.startShell

    def start(self: Any, *words: Any, **options: Any) -> None:
        # By its shell's prompt, Mininet knows that a command has ended; a shell that a command is must have another.
        start_shell(self, *words, **options)
        if self.shell:
            self.cmd("export -n PS1")

    node.startShell = start
    any_controller = module["Controller"]
    stop = any_controller.stop

    def stop_controller(self: Any, *words: Any, **options: Any) -> None:
        # `mn --test all` starts one twice. The second ends at once, and until its shell forgets it, which it does when it
        # lists its jobs, that takes their common name for ambiguous and ends neither: stopping would wait for ever.
        self.cmd("jobs > /dev/null")
        stop(self, *words, **options)

    any_controller.stop = stop_controller
    controller = module["OVSController"]
    make = controller.__init__

    def init_controller(self: Any, name: str, **parameters: Any) -> None:
        parameters.setdefault("cargs", "-O OpenFlow10,OpenFlow13 -v ptcp:%d")
        make(self, name, **parameters)

    controller.__init__ = init_controller
    _change_user_switch(module)
    limited.__init__ = init
    limited.init = classmethod(lambda cls: setattr(cls, "inited", True))
    limited.setCPUFrac = limited.setCPUs = limited.cgroupSet = no_limit
    limited.popen, limited.cleanup = plain.popen, plain.cleanup


def _change_user_switch(module: dict[str, Any]) -> None:
    """OpenFlow's reference switch is on few machines; Open vSwitch takes its place, and says so."""
    if shutil.which("ofdatapath") is not None:
        return
    ovs, warn = module["OVSSwitch"], module["warn"]
    said: list[str] = []

    def init(self: Any, name: str, **parameters: Any) -> None:
        if not said:
            said.append("*** gradwire: ofdatapath is not installed; Open vSwitch takes the place of UserSwitch\n")
            warn(said[0])
        parameters.pop("dpopts", None)  # of ofdatapath
        ovs.__init__(self, name, **parameters)

    module["UserSwitch"] = type("UserSwitch", (ovs,), {"__init__": init})


INTERFACES = "/etc/network/interfaces"


def _change_nat(module: dict[str, Any]) -> None:
    """NAT notes its interface for NetworkManager in a file that few machines have, and that is not the script's."""

    def opened(file: Any, *words: Any, **options: Any) -> Any:
        return io.StringIO() if file == INTERFACES else open(file, *words, **options)  # noqa: PTH123 (it stands for open)

    module["open"] = opened


def _change_network(module: dict[str, Any]) -> None:
    network = module["Mininet"]
    test = network.iperf

    def iperf(self: Any, hosts: Any = None, *words: Any, **options: Any) -> Any:
        # With a program that is not there, Mininet would wait for its answer for ever.
        if shutil.which("iperf") is None:
            raise FileNotFoundError("iperf is not installed on this machine: apt-get install iperf")
        hosts = hosts or [self.hosts[0], self.hosts[-1]]
        with _heard_to_its_end(hosts[-1]):
            return test(self, hosts, *words, **options)

    def start_terms(self: Any) -> None:
        # Mininet asks for a DISPLAY, which is not the only place where windows open here.
        self.terms += module["makeTerms"]([*self.controllers, *self.switches, *self.hosts])

    network.iperf, network.startTerms = iperf, start_terms


def _change_terminals(module: dict[str, Any]) -> None:
    """Windows open outside the kernel, where there is tmux or a display; programs of nodes reach none."""
    error = module["error"]

    def make_term(node: Any, *_: Any, **__: Any) -> list[Any]:
        number, said = _wanted(node)
        (error if number < 0 else sys.modules["mininet.log"].output)(f"{said}\n")
        return []

    def make_terms(nodes: Any, *_: Any, **__: Any) -> list[Any]:
        for node in nodes:
            make_term(node)
        return []

    def run_x11(node: Any, *_: Any) -> list[Any]:
        error(f"programs in the virtual-time kernel reach no display; xterm {node} opens a window with a shell\n")
        return []

    module["makeTerm"], module["makeTerms"] = make_term, make_terms
    module["runX11"] = module["tunnelX11"] = run_x11


def _wanted(node: Any) -> tuple[int, str]:
    """Asks for a window with a shell on a node: its number, or -1, and what became of it."""
    question = {"event": "wanted", "node": str(node), "pid": node.pid}
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as asking:
        asking.connect(os.environ[ASKING_VARIABLE])
        asking.sendall(json.dumps(question).encode() + b"\n")
        number, said = json.loads(asking.makefile("rb").readline())
    return number, said


def _change_prompt(module: dict[str, Any]) -> None:
    """The names of nodes are completed as commands are, and a command whose program is missing says so and no more."""
    prompt, error = module["CLI"], module["error"]
    commands, carry_out = prompt.completenames, prompt.onecmd

    def onecmd(self: Any, line: str) -> Any:
        try:
            return carry_out(self, line)
        except FileNotFoundError as missing:
            error(f"{missing}\n")
            return None

    def nodes(self: Any, text: str) -> list[str]:
        return sorted(name for name in self.mn if name.startswith(text))

    def complete_names(self: Any, text: str, *words: Any) -> list[str]:
        return [*commands(self, text, *words), *nodes(self, text)]

    def complete_default(self: Any, text: str, *_: Any) -> list[str]:
        return nodes(self, text)

    prompt.completenames, prompt.completedefault, prompt.onecmd = complete_names, complete_default, onecmd


@contextlib.contextmanager
def _heard_to_its_end(server: Any) -> Iterator[None]:
    """Lets a test end when iperf's server has said what it will.

    Mininet waits for two results, of which the first is that of the trial whether the server listens. Since 2.1,
    iperf has none for that, and Mininet's wait has no limit, for it also asks whether the terminal can be written to,
    which it always can. So when a result has come and then nothing for as long as Mininet meant to wait, this makes up
    the other's unit, which Mininet counts, without a number, which it would show.
    """
    monitor, said = server.monitor, []

    def heard(timeoutms: float | None = None, findPid: bool = True) -> Any:  # noqa: N803 (Mininet's name)
        if timeoutms is None or server.readbuf or select.select([server.stdout], [], [], timeoutms / 1e3)[0]:
            said.append(monitor(findPid=findPid))
            return said[-1]
        return "/sec" if "/sec" in "".join(said) else ""

    server.monitor = heard
    try:
        yield
    finally:
        del server.monitor
