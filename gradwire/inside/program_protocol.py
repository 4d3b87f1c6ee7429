"""Messages between the command outside and the job in the kernel while programs run: a task as a file, then lines of
JSON both ways.

Programs leave their figures in a file per program and host, whose name is in the program's environment. Of programs
that run with a strategy, the machine notes what became of them in a file of the point's folder.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

import msgspec

from gradwire.datatypes.host_settings import HostParameter
from gradwire.datatypes.network_counts import NetworkCounts
from gradwire.datatypes.pauses import PauseState
from gradwire.datatypes.records import FaultRecord, PlannedFault
from gradwire.inside.typed_protocol import TypedCommand, TypedEvent

TASK_FILE = "task.json"
FOLDER = Path("/run/gradwire")
"""What the hosts share, inside the kernel: their names, the program that enters one, and what scripts import."""
ENTER_HOST = FOLDER / "enter-host"
PYTHON_FOLDER = FOLDER / "python"
"""A folder with this package and nothing else, on the path of programs' own Python: gradwire.devices is for them."""
SIGNALLED = 128
"""What a shell adds to the number of the signal that ended a program."""
NO_HOST = -1
"""In the place of a host's index: the machine itself, where the switches are."""


def place_name(program: str, host: str) -> str:
    """Returns the name of a program on a host, for messages and names of files: "h1", or "server/h1" for one that has
    a name."""
    return f"{program}/{host}" if program else host


def how_it_ended(status: int) -> str:
    """An exit status in words: 128 + n stands for signal n, if there is one of that number. Programs themselves end
    with 255."""
    number = status - SIGNALLED
    return f"was ended by signal {number}" if number in signal.valid_signals() else f"ended with status {status}"


def hosts_file(program: str) -> Path:
    """The file that lists a program's hosts for an mpirun of Open MPI, inside the kernel."""
    return FOLDER / f"mpi-hosts-{program}" if program else FOLDER / "mpi-hosts"


def hydra_hosts_file(program: str) -> Path:
    """Returns the path of the list of hosts for MPICH's mpirun (Hydra), which does not know `slots`."""
    return hosts_file(program).with_suffix(".hydra")


def write_hosts_files(program: str, hosts: Sequence[str]) -> None:
    """Writes both, with one process for each of these hosts."""
    hosts_file(program).write_text("".join(f"{host} slots=1\n" for host in hosts))
    hydra_hosts_file(program).write_text("".join(f"{host}:1\n" for host in hosts))


class Runs(StrEnum):
    """The kinds of code that a Python can be started with."""

    SCRIPT = "script"
    MODULE = "module"
    CODE = "code"


class WarmPython(msgspec.Struct, frozen=True):
    """A Python that begins with modules which were imported before it was started."""

    #: The interpreter and its options.
    interpreter: tuple[str, ...]
    runs: Runs
    #: The script's path, the module's name, or the code.
    what: str
    arguments: tuple[str, ...]
    #: The modules.
    imports: tuple[str, ...]


class Program(msgspec.Struct, frozen=True):
    """A program on a host."""

    #: Index of the host.
    host: int
    argv: tuple[str, ...]
    #: Its whole environment.
    env: dict[str, str]
    #: Of a scenario's programs, its name.
    name: str = ""
    #: Virtual seconds after which it starts.
    start_s: float = 0.0
    #: Whether it is ended when all others have ended.
    background: bool = False
    #: Of all that it sends, 0 the most urgent; None: with control, as what no agent sends.
    traffic_class: int | None = None
    #: What it is forked from in place of `argv` being executed.
    warm: WarmPython | None = None


class JobTask(msgspec.Struct, frozen=True, kw_only=True):
    """The task of the job in the kernel: build a network, and run programs or wait for commands."""

    #: The fabric, as text (`Fabric.to_json`).
    fabric_json: str = msgspec.field(name="fabric")
    #: The folder that programs start in.
    folder: str
    #: What is run at once. Empty for a shell.
    programs: tuple[Program, ...] = ()
    #: By program: indices of the hosts that it is for, in the order of their ranks.
    hosts: dict[str, tuple[int, ...]] = {}
    #: Environment of a shell's commands, beside what their host gives them.
    env: dict[str, str] = {}
    #: Virtual seconds that the programs may take.
    time_limit_s: float = 0.0
    #: What is kept of all that programs write, in sum. 0: all of it.
    output_limit_bytes: int = 0
    #: Names of the ports that are captured (`Fabric.ports_named`).
    capture: tuple[str, ...] = ()
    #: Folders of the machine that programs find empty.
    covered: tuple[str, ...] = ()
    #: Whether programs start programs on other hosts, as an mpirun does.
    enters: bool = False
    #: What happens to the network meanwhile.
    faults: tuple[PlannedFault, ...] = ()
    #: Whether any fault may happen at any link, besides these.
    any_fault: bool = False
    #: What hosts and switches are called, by their names in the fabric, where that is something else.
    labels: dict[str, str] = {}
    #: What is kept of each captured packet.
    snaplen_bytes: int = 160
    #: Of programs' CPU time, the multiple that computation takes of virtual time.
    cpu_time: float = 0.0


class Ready(msgspec.Struct, frozen=True, tag_field="event", tag="ready"):
    """The network is there."""

    #: By host: a process in its namespaces.
    pids: tuple[int, ...]


class Output(msgspec.Struct, frozen=True, tag_field="event", tag="output"):
    """A program wrote something."""

    host: int
    #: 1 for standard output, 2 for standard error.
    stream: int
    data: bytes
    program: str = ""


class OutputFull(msgspec.Struct, frozen=True, tag_field="event", tag="output_full"):
    """Programs have written as much as is kept: what they write from now on is not."""

    #: Who wrote it last.
    host: int
    program: str = ""


class ProgramEnded(msgspec.Struct, frozen=True, tag_field="event", tag="ended"):
    """A program has ended by itself."""

    host: int
    #: Its exit status, or 128 + n after signal n.
    status: int
    program: str = ""
    #: When, on the virtual clock of a lab.
    time_ns: int = -1


class Full(msgspec.Struct, frozen=True, tag_field="event", tag="full"):
    """The terminal may be full: nothing more is written, and no virtual time passes, before a Taken comes."""


class Report(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="report"):
    """All programs have ended: what the network carried meanwhile."""

    #: Virtual time from the start of the first program to the end of the last.
    duration_s: float
    #: Whether programs were ended because they took longer than the limit.
    timed_out: bool
    counts: NetworkCounts
    #: Programs that the kernel killed because its memory was full.
    killed_for_memory: int
    #: What programs wrote beyond their limit, which was not kept.
    dropped_output_bytes: int = 0
    #: Those that the scenario sets, as they were when all programs had ended.
    host_parameters: tuple[HostParameter, ...] = ()
    #: What became of the faults. Times count from the start of the first program.
    faults: tuple[FaultRecord, ...] = ()
    #: What flow control did, if there is any.
    pauses: PauseState | None = None


class ScriptReport(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="script"):
    """A script has ended, by itself or at its limit, with all that it had started."""

    #: Its exit status, or 128 + n after signal n; None if it was ended.
    status: int | None
    #: Virtual time from its start to its end.
    duration_s: float
    #: Programs that the kernel killed because its memory was full.
    killed_for_memory: int
    #: What it wrote beyond its limit, which was not kept.
    dropped_output_bytes: int = 0


class Refused(msgspec.Struct, frozen=True, tag_field="event", tag="refused"):
    """The job ends, or does not do what it was asked for, with a fault that was foreseen."""

    #: Name of the fault's class.
    kind: str
    message: str


class Taken(msgspec.Struct, frozen=True, tag_field="command", tag="taken"):
    """Everything up to a Full has been read: an answer."""


class Counted(msgspec.Struct, frozen=True, tag_field="event", tag="counted"):
    """The traffic that the network of a lab has carried so far, without the counters of Open vSwitch."""

    counts: NetworkCounts
    #: Programs that the kernel killed because its memory was full.
    killed_for_memory: int


class ClockHeld(msgspec.Struct, frozen=True, tag_field="event", tag="held"):
    """A lab has done what it was asked for, or refused it; the clock stands still until the next command comes."""

    #: The virtual clock, since the network was built.
    time_ns: int
    #: Whether the programs that were awaited have ended.
    ended: bool = False
    #: The moment that has come; -1 if none has.
    moment: int = -1


class Begin(msgspec.Struct, frozen=True, tag_field="command", tag="begin"):
    """Start a program of a lab."""

    #: What it is called in what is said of it.
    name: str
    host: int
    argv: tuple[str, ...]
    env: dict[str, str]
    #: The folder that it starts in.
    folder: str
    #: What it reads; the input is empty without.
    stdin: bytes = b""


class Kill(msgspec.Struct, frozen=True, tag_field="command", tag="kill"):
    """Send a signal to a program of a lab, and to all that it started."""

    name: str
    number: int


class Inject(msgspec.Struct, frozen=True, tag_field="command", tag="inject"):
    """Plan a fault, whose time counts from the building of the network."""

    fault: PlannedFault


class StopClock(msgspec.Struct, frozen=True, tag_field="command", tag="moment"):
    """Stop the clock at a time."""

    number: int
    at_ns: int


class Proceed(msgspec.Struct, frozen=True, tag_field="command", tag="proceed"):
    """Let virtual time pass until programs have ended, a moment comes, or a time."""

    #: Those that are waited for; none waits for the time alone.
    awaited: tuple[str, ...]
    until_ns: int


class Count(msgspec.Struct, frozen=True, tag_field="command", tag="count"):
    """Say what the network has carried so far."""


class Conclude(msgspec.Struct, frozen=True, tag_field="command", tag="conclude"):
    """End all programs and captures."""


LabEvent = Counted | ClockHeld
Event = Ready | Output | OutputFull | ProgramEnded | Full | Report | ScriptReport | Refused | LabEvent | TypedEvent
LabCommand = Begin | Kill | Inject | StopClock | Proceed | Count | Conclude
Command = Taken | TypedCommand | LabCommand
_events: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)
_commands: msgspec.json.Decoder[Command] = msgspec.json.Decoder(Command)


def write_task(path: Path, task: JobTask) -> None:
    """Writes a task, so that a person can read it as well."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(task), indent=1) + b"\n")


def read_task(path: Path) -> JobTask:
    """Reads what `write_task` wrote."""
    return msgspec.json.decode(path.read_bytes(), type=JobTask)


def line_of(message: Event | Command) -> str:
    """A message as a line without its end."""
    return msgspec.json.encode(message).decode()


def event_of(line: str) -> Event | None:
    """The event that a line of the job is; None for what others wrote to the same terminal."""
    try:
        return _events.decode(line)
    except (msgspec.DecodeError, RecursionError):
        return None


def command_of(line: bytes) -> Command:
    """The command that a line is. Raises msgspec.DecodeError if it is none."""
    return _commands.decode(line)


OUTPUT_FOLDER = "output"
SUFFIXES = {1: "out", 2: "err"}
"""By stream: of standard output and of standard error."""


def output_file(folder: Path, place: str, stream: int) -> Path:
    """Returns the file of a run folder that keeps the stream of a program on a host (`place_name`)."""
    return folder / OUTPUT_FOLDER / f"{place}.{SUFFIXES[stream]}"


FIGURES_VARIABLE = "GRADWIRE_FIGURES"
FIGURES_FOLDER = "figures"


def figures_file(folder: Path, place: str) -> Path:
    """The file of a program on a host (`place_name`) in a run folder: lines of JSON, each an object with a row of
    figures."""
    return folder / FIGURES_FOLDER / f"{place}.jsonl"


def make_figures_folders(folder: Path, places: list[str]) -> None:
    """Makes the folders that the files of these programs lie in."""
    for place in places:
        figures_file(folder, place).parent.mkdir(parents=True, exist_ok=True)


PROGRAMS_FILE = "programs.json"
"""In a point's folder: the programs, as inside/program_protocol.py has a JobTask."""
ENDED_FILE = "programs-ended.json"


class EndedBeside(msgspec.Struct, frozen=True):
    """How the programs ended that ran beside a strategy: the content of programs-ended.json."""

    #: Those that started, by program and host (`place_name`).
    started: tuple[str, ...]
    #: By program and host: the exit status, or 128 + n after signal n, of those that ended before the last iteration
    #: did.
    statuses: dict[str, int]
    #: And when, in seconds of virtual time after the replay began.
    ended_s: dict[str, float]
    #: What they wrote beyond OUTPUT_LIMIT_BYTES, which was not kept.
    dropped_output_bytes: int = 0

    @property
    def failed(self) -> dict[str, int]:
        """Those that failed."""
        return {place: status for place, status in self.statuses.items() if status}
