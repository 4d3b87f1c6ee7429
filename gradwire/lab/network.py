"""A lab's network as Python sees it: it is drawn first, and built when the first program starts or time passes."""

from __future__ import annotations

import os
import random
import shutil
import signal
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from gradwire.analysis.port_traffic import PortTraffic, ports_traffic
from gradwire.datatypes.records import PlannedFault
from gradwire.faults import InputFault
from gradwire.files import replacing
from gradwire.inside.program_protocol import (
    Begin,
    Conclude,
    Inject,
    Kill,
    Proceed,
    StopClock,
    how_it_ended,
)
from gradwire.lab.devices import Host, Link, Switch
from gradwire.lab.drawing import (
    Drawing,
    Drawn,
    LinkLike,
    line_rate_bps,
    link_defect,
    name_defect,
    seconds,
    share,
    size_bytes,
)
from gradwire.lab.machine import LabMachine
from gradwire.lab.programs import LimitReached, Process, Result, tail
from gradwire.lab.settings import Settings
from gradwire.network.fabric import Fabric
from gradwire.programs.launch import path_on_hosts, shared_environment
from gradwire.programs.program_file import check_program
from gradwire.runs.launch.place import writing

S_NS = 1_000_000_000
SHELL = "/bin/sh"
KILLED = 128 + signal.SIGKILL
OF_THE_CALLER = ("_", "OLDPWD", "SHLVL", "COLUMNS", "LINES")
"""Variables that differ from one terminal and one test to the next, by which no program's memory is to differ."""
OF_PYTEST = "PYTEST_"
DEFAULT_RATE = "10gbit"


class Network:
    """A network of hosts, switches and links on which programs run in virtual time. Made by `gradwire.lab.network`.

    It is built when the first program starts or time passes; from then on, nothing can be added. All methods raise
    InputFault for what cannot be, and MachineFault for what the machine lacks.
    """

    def __init__(self, settings: Settings) -> None:
        settings.check()
        self.settings = settings
        #: Random numbers of the lab's seed, for start times and whatever else a test varies.
        self.random = random.Random(settings.seed)
        self._kinds: dict[str, str] = {}
        self._hosts: dict[str, Host] = {}
        self._switches: dict[str, Switch] = {}
        self._links: list[Drawn] = []
        self._machine: LabMachine | None = None
        self._fabric: Fabric | None = None
        self._drawing: Drawing | None = None
        self._processes: list[Process] = []
        self._moments: dict[int, Callable[[], object]] = {}
        self._faults = 0
        self._is_closed = self._has_warned = False
        self._killed_for_memory = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None and not issubclass(kind, Exception):  # Ctrl-C: nobody waits for packets
            self._end()
        else:
            self.close()

    def host(self, name: str) -> Host:
        """Adds a host, which others find by this name."""
        self._add(name, "host")
        return self._hosts.setdefault(name, Host(self, name))

    def hosts(self, *names: str) -> tuple[Host, ...]:
        """Adds several hosts."""
        return tuple(self.host(name) for name in names)

    def switch(self, name: str = "") -> Switch:
        """Adds a switch; by default it is called s1, s2, ..."""
        name = name or f"s{len(self._switches) + 1}"
        self._add(name, "switch")
        return self._switches.setdefault(name, Switch(self, name))

    def link(
        self,
        a: Host | Switch,
        b: Host | Switch,
        rate: str | float = DEFAULT_RATE,
        *,
        delay: str | float = 0.0,
        jitter: str | float = 0.0,
        loss: str | float = 0.0,
        buffer: str | float = 0,
        ecn: str | float = 0,
    ) -> Link:
        """Joins a host and a switch, or two switches. Packets of each direction take `delay` and up to `jitter` more,
        and `loss` of them is lost.

        buffer: what a switch's port at the link holds before it drops, in bytes; by default, queues have no end. ecn:
        from which length on it marks.
        """
        self._refuse_built("a link")
        for end in (a, b):
            if end.network is not self:
                raise InputFault(f"{end.name} is of another network")
        if defect := link_defect(a.name, b.name, self._kinds, self._links):
            raise InputFault(defect)
        like = LinkLike(
            line_rate_bps("rate", rate),
            seconds("delay", delay),
            seconds("jitter", jitter),
            share("loss", loss),
            size_bytes("buffer", buffer),
            size_bytes("ecn", ecn),
        )
        self._links.append(Drawn(a.name, b.name, like))
        return Link(self, len(self._links) - 1, f"{a.name}-{b.name}")

    @property
    def now_s(self) -> float:
        """The lab's virtual clock, which begins when the network is built and stands still unless something waits."""
        return self._machine.now_ns / S_NS if self._machine else 0.0

    @property
    def boot_s(self) -> float:
        """The wall time that it took to boot the machine and to build the network."""
        return self._built().boot_s

    @property
    def processes(self) -> Sequence[Process]:
        """All programs that were started."""
        return tuple(self._processes)

    def sleep(self, duration: str | float) -> None:
        """Lets virtual time pass, while programs run."""
        self._proceed((), self._built().now_ns + round(seconds("duration", duration) * S_NS))

    def wait(self, *processes: Process, timeout: str | float | None = None) -> list[Result]:
        """Lets virtual time pass until all of these have ended, `timeout` at most. Raises LimitReached; programs
        continue after that."""
        for process in processes:
            self._wait(process, timeout)
        return [process.result for process in processes]

    def at(self, time: str | float, act: Callable[[], object]) -> None:
        """Calls a function at a time of the lab's clock, while the clock stands still: the next wait that reaches that
        time does so."""
        at_ns = self._time_ns("time", time)
        number = len(self._moments)
        self._moments[number] = act
        self._built().ask(StopClock(number, at_ns))

    def ports(self) -> dict[str, PortTraffic]:
        """Returns what each port has sent, lost and dropped so far, by the name of its interface, such as
        "h1-eth0"."""
        machine = self._built()
        fabric, labels = self._fabric, self._labels()
        assert fabric is not None
        return {_labelled(port.interface, labels): port for port in ports_traffic(fabric, machine.count().counts)}

    def close(self) -> None:
        """Ends all programs and the machine, and leaves the packets where the settings say. May be called twice."""
        try:
            if not self._is_closed and self.settings.packets is not None:
                self.keep(Path(self.settings.packets))
        finally:
            self._end()

    def keep(self, folder: Path) -> list[Path]:
        """Ends all programs and the machine, and keeps the captured packets in a folder, which is emptied of others.

        Returns the files, in the pcapng format: one for the port of each host; none of a lab whose machine died.
        """
        machine = self._machine
        files: list[Path] = []
        try:
            if machine is not None and machine.is_alive and self.settings.captures:
                machine.ask(Conclude())
                files = _copied(sorted(machine.captures.glob("*.pcapng")), folder)
        finally:
            self._end()
        return files

    def story(self) -> str:
        """Returns the events so far, for a person: the clock, and how each program ended with its last errors."""
        lines = [f"seed {self.settings.seed}, {self.now_s:.9f} s of virtual time"]
        for process in self._processes:
            state = "ran" if process.is_running else f"{how_it_ended(process.result.returncode)}"
            lines.append(f"{process.host}: {process.command}: {state}{tail(process.stderr)}")
        return "\n".join(lines)

    # What devices ask for.

    def start(self, host: Host, command: str | Sequence[str], env: dict[str, str], stdin: str) -> Process:
        """Starts a program; `Host.start` is what tests call."""
        _refuse_missing(command)
        machine, shown = self._built(), command if isinstance(command, str) else " ".join(command)
        argv = (SHELL, "-c", command) if isinstance(command, str) else tuple(command)
        number = len(self._processes)
        name = f"p{number:04d}"
        begin = Begin(name, self._index(host), argv, self._environment(host) | env, str(Path.cwd()), stdin.encode())
        machine.ask(begin)
        process = Process(
            host.name, shown, machine.programs[name], self._wait, lambda signal_number: self._kill(name, signal_number)
        )
        self._processes.append(process)
        return process

    def inject(self, fault: PlannedFault) -> None:
        """Plans a fault; the methods of links and switches are what tests call."""
        self._built().ask(Inject(fault))

    def fault_name(self, kind: str) -> str:
        """A name that no other fault has."""
        self._faults += 1
        return f"{kind}-{self._faults}"

    def fault_time_ns(self, at: str | float | None) -> int:
        """Begin of a fault, in nanoseconds of the lab's clock: now if `at` is None."""
        return self._built().now_ns if at is None else self._time_ns("at", at)

    def port_of(self, link: int) -> str:
        """The fabric's name of a port at the link with this number."""
        self._built()
        assert self._drawing is not None
        assert self._fabric is not None
        return self._drawing.port_of(link, self._fabric)

    def fabric_name(self, label: str) -> str:
        """The fabric's name of a device."""
        return next(name for name, called in self._labels().items() if called == label)

    def address_of(self, host: Host) -> str:
        """The IPv4 address of a host."""
        self._built()
        assert self._fabric is not None
        return self._fabric.host_ip(self._index(host))

    def _add(self, name: str, kind: str) -> None:
        self._refuse_built(f"a {kind}")
        if defect := name_defect(name, self._kinds, is_host=kind == "host"):
            raise InputFault(defect)
        self._kinds[name] = kind

    def _refuse_built(self, what: str) -> None:
        if self._machine is not None or self._is_closed:
            raise InputFault(f"{what} cannot be added: the network is built when the first program starts")

    def _built(self) -> LabMachine:
        if self._is_closed:
            raise InputFault("the lab has ended: its block is over")
        if self._machine is None:
            self._drawing = Drawing(tuple(self._hosts), tuple(self._switches), tuple(self._links))
            self._fabric = self._drawing.fabric(seed=self.settings.seed, mtu_bytes=self.settings.mtu_bytes)
            self._machine = LabMachine(self._fabric, self._drawing.labels(), self.settings)
        return self._machine

    def _labels(self) -> dict[str, str]:
        self._built()
        assert self._drawing is not None
        return self._drawing.labels()

    def _index(self, host: Host) -> int:
        return list(self._hosts).index(host.name)

    def _time_ns(self, key: str, time: str | float) -> int:
        at_ns, now_ns = round(seconds(key, time) * S_NS), self._built().now_ns
        if at_ns < now_ns:
            raise InputFault(f"{key} = {time!r}: is over; the lab's clock is at {now_ns / S_NS:.9f} s")
        return at_ns

    def _environment(self, host: Host) -> dict[str, str]:
        assert self._fabric is not None
        kept = {
            name: value
            for name, value in os.environ.items()
            if name not in OF_THE_CALLER and not name.startswith(OF_PYTEST)
        }
        return {
            **shared_environment(self._fabric, range(len(self._hosts)), kept),
            "PYTHONDONTWRITEBYTECODE": "1",
            "GRADWIRE_HOSTS": " ".join(self._hosts),
            "GRADWIRE_HOST": host.name,
            "GRADWIRE_INDEX": str(self._index(host)),
            "GRADWIRE_ADDRESS": self._fabric.host_ip(self._index(host)),
        }

    def _wait(self, process: Process, timeout: str | float | None) -> None:
        machine = self._built()
        limit_s = seconds("timeout", self.settings.time_limit if timeout is None else timeout)
        until_ns = machine.now_ns + round(limit_s * S_NS)
        name = f"p{self._processes.index(process):04d}"
        if process.is_running and not self._proceed((name,), until_ns):
            raise LimitReached(
                f"{process.command} on {process.host} had not ended after {limit_s:g} s of virtual time; give "
                f"more with timeout, or see what it waits for{tail(process.stderr or process.stdout)}"
            )

        if process.result.returncode == KILLED:
            self._warn_of_memory(machine)

    def _warn_of_memory(self, machine: LabMachine) -> None:
        killed = machine.count().killed_for_memory
        if killed > self._killed_for_memory:
            self._killed_for_memory = killed
            warnings.warn(
                f"the kernel's memory of {self.settings.memory} was full, so it ended a program; memory gives it more",
                stacklevel=5,
            )

    def _proceed(self, awaited: tuple[str, ...], until_ns: int) -> bool:
        """Lets time pass; whether the programs ended."""
        machine = self._built()
        while True:
            held = machine.ask(Proceed(awaited, until_ns))
            if machine.is_output_full and not self._has_warned:
                self._has_warned = True
                warnings.warn(
                    f"programs have written {self.settings.output_limit}: the rest is not kept; output_limit keeps more",
                    stacklevel=4,
                )
            if held.moment < 0:
                return held.ended
            self._moments.pop(held.moment)()

    def _kill(self, name: str, number: int) -> None:
        self._built().ask(Kill(name, int(signal.Signals(number))))

    def _end(self) -> None:
        self._is_closed = True
        if self._machine is not None:
            self._machine.end()


def _copied(files: Sequence[Path], folder: Path) -> list[Path]:
    """Copies captures into a folder, each completely or not at all, and removes those that it had. Raises InputFault or
    MachineFault for one that cannot be written."""
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob("*.pcapng"):
            old.unlink()
        for file in files:
            with replacing(folder / file.name) as partial:
                shutil.copyfile(file, partial)
    return [folder / file.name for file in files]


def _labelled(interface: str, labels: dict[str, str]) -> str:
    """Name of an interface, with the user's name of its device."""
    device, dash, port = interface.partition("-")
    return f"{labels.get(device, device)}{dash}{port}"


def _refuse_missing(command: str | Sequence[str]) -> None:
    """Raises InputFault for a program that this machine does not have or cannot execute."""
    if not isinstance(command, str):
        if not command:
            raise InputFault("which program? Give its words, or a line for the shell")
        check_program(command, path_on_hosts(os.environ.get("PATH", os.defpath)))
        return
    from gradwire.programs.commands import command_defect  # noqa: PLC0415 (what reads scenarios takes long to import)

    if not command.strip():
        raise InputFault("which program? The command is empty")
    if defect := command_defect(command):
        raise InputFault(defect)
