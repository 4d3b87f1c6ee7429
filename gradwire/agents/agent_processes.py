"""Agent processes as the run loop sees them: it starts them, replays plans on all in step, and hears of a death at
once."""

from __future__ import annotations

import math
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Self, TypeVar

from gradwire.agents.connections import HostEntry, SocketOptions
from gradwire.agents.messages import (
    AgentSettings,
    Answer,
    Carry,
    Command,
    Connect,
    Connected,
    CutShort,
    Died,
    Finish,
    Finished,
    Go,
    Listening,
    LoadPlan,
    RanksIterated,
    Replayed,
    decode_answer,
    encode_line,
    write_settings,
)
from gradwire.agents.perils import last_words
from gradwire.child_process import start
from gradwire.datatypes.plan import Plan
from gradwire.datatypes.records import AgentSummary, OpLog, PlannedFault
from gradwire.faults import MachineFault
from gradwire.network.fabric import Fabric

Expected = TypeVar("Expected", Listening, Connected, Replayed, Finished)

LAST_WORDS_S = 1.0
"""How long the other agents may take to find out that one has ended, and to say what they wait for. Its connections
close at once, and so do those of each that ends for that: one after the other, a round trip each."""
START_DELAY_NS = 5_000_000
"""Time between the command to start and the start, in which every agent sets its timer."""
START_GRAIN_NS = 1_000_000_000
"""On the virtual clock a replay begins with a full second, for which nobody has to wait. Other processes and the
kernel itself wake up at other times, and as two timers of the virtual clock are half a microsecond apart at
least, all of them count. So what is done before the replay, such as the loading of a plan, does not shift it against
these: of 99,416 ops of a ring, 77,661 moved by up to half a microsecond when agents loaded plans in another way, and
544 do with this."""
OUT_OF_MAPPINGS = (
    " (on the virtual clock this is most likely a lack of memory mappings: a plan of millions of ops needs more than "
    "the machine's vm.max_map_count; run `sysctl -w vm.max_map_count=1048576` as root, or fuse small tensors with "
    "model.fused_parameters)"
)


@dataclass(frozen=True)
class Mishaps:
    """Faults that a replay carries out besides its plan, and the conditions under which it gives up."""

    #: Faults of workers, which agents carry out.
    faults: tuple[PlannedFault, ...] = ()
    #: How long nothing may move before agents give up; 0 for ever.
    stall_limit_ns: int = 0
    #: Hears when the replay begins, by the monotonic clock, shortly before it does.
    on_start: Callable[[int], None] = lambda _: None


UNHARMED = Mishaps()


class AgentDied(MachineFault):
    """An agent process ended in the middle of a run. said: why no agent could continue, "" if this one did not say
    that."""

    def __init__(self, message: str, said: str = "") -> None:
        super().__init__(message)
        self.said = said


class _Process:
    """One agent process, and the hosts that it carries."""

    def __init__(self, number: int, folder: Path, *, by_fork: bool) -> None:
        self.number = number
        self.hosts: Sequence[HostEntry] = ()
        self.ranks: list[int] = []
        self._unread = b""
        self.log_path = folder / f"agent-{number}.npz"
        self.error_path = folder / f"agent-{number}.log"
        self._settings_path = folder / f"agent-{number}.json"
        with self.error_path.open("wb") as errors:
            self._process = start("gradwire.agents", [], errors, by_fork=by_fork, talks=True)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def output(self) -> IO[bytes]:
        """The pipe on which it answers."""
        assert self._process.stdout is not None
        return self._process.stdout

    def answers(self) -> list[Answer]:
        """Reads the answers that have arrived, at least one; an empty list means that the process has ended.

        Bypasses Python's buffer, in which an answer would be invisible to whoever waits for the descriptor.
        """
        data = os.read(self.output.fileno(), 1 << 16)
        *lines, self._unread = (self._unread + data).split(b"\n")
        while data and not lines:
            data = os.read(self.output.fileno(), 1 << 16)
            *lines, self._unread = (self._unread + data).split(b"\n")
        return [decode_answer(line) for line in lines]

    def carry(self, hosts: Sequence[HostEntry], fabric: Fabric, sockets: SocketOptions, compiled_agent: str) -> None:
        """Gives it its hosts."""
        self.hosts = hosts
        settings = AgentSettings(
            hosts=tuple(hosts), fabric_json=fabric.to_json(), sockets=sockets, compiled_agent=compiled_agent
        )
        write_settings(self._settings_path, settings)
        self.tell(Carry(str(self._settings_path)))

    def tell(self, command: Command) -> None:
        """Sends a command."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(encode_line(command))
        except BrokenPipeError as error:
            raise self.death() from error

    def death(self) -> AgentDied:
        """The error for a process that ended early.

        Waits for the process, so call it only when its output has ended.
        """
        status = self._process.wait()
        how = f"signal {-status}" if status < 0 else f"exit status {status}"
        said = self.error_path.read_text().strip().splitlines()
        hosts = ", ".join(f"h{host.index + 1}" for host in self.hosts)
        which = f"ranks {', '.join(map(str, self.ranks))}" if self.ranks else "no ranks"
        last = f": {said[-1]}" if said else ""
        if status == -signal.SIGSEGV:
            last += OUT_OF_MAPPINGS
        return AgentDied(
            f"agent {self.number} ({which} on {hosts}) died with {how}{last}; its log is {self.error_path}"
        )

    def kill(self) -> None:
        """Kills the process, which would not notice in the middle of a replay that its input is closed; `stop` must
        follow."""
        self._process.kill()

    def stop(self) -> None:
        """Ends the process by closing its input, or kills it if that does not help."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self.output.close()


class AgentGroup:
    """All agents of a point, as a context manager that ends them whatever happens.

    Entering does not wait, so that their imports run while the network is built; `carrying` gives them their hosts.

    per_host: whether each host, or each machine with several NICs, has a separate process; otherwise one
        process carries all hosts, which is faster on one core.
    by_fork: whether they are forks of this process, which must have one thread then.
    """

    def __init__(self, fabric: Fabric, folder: Path, *, per_host: bool = False, by_fork: bool = False) -> None:
        self._fabric, self._folder = fabric, folder
        self._hosts_each = fabric.nics_per_host if per_host else fabric.endpoints
        self._by_fork = by_fork
        self._processes: list[_Process] = []
        self._deaths: list[str] = []
        self._cut_short: list[CutShort] = []
        #: Common start of the last replay, by the monotonic clock.
        self.start_ns = 0

    def __enter__(self) -> Self:
        """Starts the processes."""
        with ExitStack() as undo:
            undo.push(self.__exit__)
            for number in range(math.ceil(self._fabric.endpoints / self._hosts_each)):
                self._processes.append(_Process(number, self._folder, by_fork=self._by_fork))
            undo.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Ends the processes that run, at once after an error."""
        ending, self._processes = self._processes, []
        if error is not None:
            for process in ending:
                process.kill()
        for process in ending:
            process.stop()

    def kill(self) -> None:
        """Kills the processes in the middle of a replay, which then ends with AgentDied."""
        for process in self._processes:
            process.kill()

    @contextmanager
    def carrying(self, hosts: Sequence[HostEntry], sockets: SocketOptions, compiled_agent: str = "") -> Iterator[Self]:
        """Gives the agents the fabric's hosts. The processes end with the block, at once after an error: before the
        hosts do.

        compiled_agent: where the compiled agent lies, if they are to use it.
        """
        with ExitStack() as ending:
            ending.push(self.__exit__)
            for process in self._processes:
                first = process.number * self._hosts_each
                process.carry(hosts[first : first + self._hosts_each], self._fabric, sockets, compiled_agent)
            yield self

    def replay(
        self,
        plan: Plan,
        path: Path,
        iterations: int,
        on_iteration: Callable[[int], None],
        mishaps: Mishaps = UNHARMED,
        *,
        waits: bool = True,
    ) -> tuple[OpLog, tuple[AgentSummary, ...]]:
        """Replays the plan, stored at `path`; calls `on_iteration` with the number of iterations that all agents have
        done.

        waits: whether it may begin up to START_GRAIN_NS later; not where something else has begun with it.
        Raises AgentDied, with ranks and hosts, as soon as an agent ends early.
        """
        for process in self._processes:
            hosts = {host.index for host in process.hosts}
            process.ranks = [rank for rank, host in enumerate(plan.rank_host.tolist()) if host in hosts]
            load = LoadPlan(str(path), iterations, str(process.log_path), mishaps.faults, mishaps.stall_limit_ns)
            process.tell(load)
        self._collect(Listening)
        for process in self._processes:
            process.tell(Connect())
        self._collect(Connected)
        grain_ns = START_GRAIN_NS if self._by_fork and waits else 1
        self.start_ns = math.ceil((time.monotonic_ns() + START_DELAY_NS) / grain_ns) * grain_ns
        mishaps.on_start(self.start_ns)
        for process in self._processes:
            process.tell(Go(self.start_ns))
        done = self._collect(Replayed, on_iteration)
        for process in self._processes:
            process.tell(Finish())
        self._collect(Finished)
        summaries = tuple(answer.summary for answer in done)
        return OpLog.concatenate([OpLog.load(process.log_path) for process in self._processes]), summaries

    def _collect(self, expected: type[Expected], on_iteration: Callable[[int], None] | None = None) -> list[Expected]:
        """Waits until every agent has given the expected answer; returns the answers in the order of the agents."""
        answers: dict[int, Expected] = {}
        iterations = dict.fromkeys((p.number for p in self._processes), 0)
        with selectors.DefaultSelector() as selector:
            for process in self._processes:
                selector.register(process.output, selectors.EVENT_READ, process)
            while len(answers) < len(self._processes):
                for key, _ in selector.select():
                    process = key.data
                    process_answers = process.answers()
                    if not process_answers:
                        raise self._death_of(process)
                    for answer in process_answers:
                        if isinstance(answer, expected):
                            # It stays registered, because its death has to be noticed while others are still busy.
                            answers[process.number] = answer
                        elif isinstance(answer, RanksIterated) and on_iteration:
                            iterations[process.number] = answer.done
                            on_iteration(min(iterations.values()))
                    self._note(process_answers)
        return [answers[process.number] for process in self._processes]

    def _note(self, answers: list[Answer]) -> None:
        """Keeps what agents say of workers that die, and of how they themselves end."""
        self._deaths += [answer.what for answer in answers if isinstance(answer, Died)]
        self._cut_short += [answer for answer in answers if isinstance(answer, CutShort)]

    def _death_of(self, process: _Process) -> AgentDied:
        """The error for the first agent that ended early, with what the others know if it was cut short."""
        died = process.death()
        if not self._cut_short:
            return died
        self._hear([other for other in self._processes if other is not process])
        awaited = [line for cut_short in self._cut_short for line in cut_short.awaited]
        return AgentDied(str(died), last_words(self._cut_short[0].reason, self._deaths, awaited))

    def _hear(self, processes: list[_Process]) -> None:
        """Notes the last words of agents, for LAST_WORDS_S at most."""
        deadline_s = time.monotonic() + LAST_WORDS_S
        with selectors.DefaultSelector() as selector:
            for process in processes:
                selector.register(process.output, selectors.EVENT_READ, process)
            while selector.get_map() and (left_s := deadline_s - time.monotonic()) > 0:
                for key, _ in selector.select(left_s):
                    answers = key.data.answers()
                    self._note(answers)
                    if not answers:
                        selector.unregister(key.fileobj)
