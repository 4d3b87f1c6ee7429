"""An agent process, which carries the ranks of one or more hosts: `python -m gradwire.agents`.

It reads commands from standard input and answers on standard output, as agents/messages.py says. It ends with its
input. Errors go to standard error, with exit status 1.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from gradwire.agents.compiled.compiled_replay import CompiledReplay, can_replay
from gradwire.agents.compiled.library import load as load_compiled
from gradwire.agents.connections import (
    CongestionWindows,
    HostEntry,
    SocketOptions,
    congestion_of,
    connect,
    end_at_once,
    join,
    listen,
    needs_python,
    raise_file_limit,
    send_acks_with_data,
    window_states,
)
from gradwire.agents.departures import PortLine
from gradwire.agents.flowlets import Flowlets
from gradwire.agents.interpreter import Interpreter
from gradwire.agents.loop import ReplayLoop
from gradwire.agents.messages import (
    AgentSettings,
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
    decode_command,
    read_settings,
    say,
)
from gradwire.agents.multicast_sockets import Multicast
from gradwire.agents.pace import ComputePace
from gradwire.agents.perils import Interrupted, Perils
from gradwire.agents.transfer import LOW_WATER_BYTES
from gradwire.datatypes.plan import Plan
from gradwire.datatypes.records import COMPILED, IN_PYTHON, NOT_SERVED, AgentSummary
from gradwire.faults import Fault
from gradwire.network.fabric import Fabric
from gradwire.network.wire.flows import connection_of_send, connections_of

CONNECT_TIMEOUT_S = 30.0


class Agent:
    """Replays plans, one after another, for its hosts."""

    def __init__(self) -> None:
        self._compiled: ctypes.CDLL | None = None
        self._python = IN_PYTHON
        self._replay: CompiledReplay | None = None
        self._loop: ReplayLoop | CompiledReplay | None = None

    def obey(self, command: Command) -> None:
        """Carries out a command, and answers."""
        match command:
            case Carry(path):
                settings = read_settings(Path(path), AgentSettings)
                self.carry(settings.hosts, settings.fabric, settings.sockets)
                if settings.compiled_agent:
                    self._compiled = load_compiled(Path(settings.compiled_agent))
                    self._python = IN_PYTHON if self._compiled else NOT_SERVED
            case LoadPlan():
                self.load(command)
            case Connect():
                self.connect()
            case Go(start_ns):
                self.go(start_ns)
            case Finish():
                self.finish()

    def carry(self, hosts: Sequence[HostEntry], fabric: Fabric, options: SocketOptions) -> None:
        """Takes these hosts, whose plans follow."""
        self._hosts = {host.index: host for host in hosts}
        self._fabric, self._options = fabric, options

    @property
    def _tells_congestion(self) -> bool:
        """Returns whether a congestion control was chosen in the scenario or for a host, so that the agent has to
        report which one its sockets have."""
        return bool(self._options.congestion) or any(self._fabric.congestion_of_hosts)

    def load(self, command: LoadPlan) -> None:
        """Reads the plan and listens on every host."""
        self._plan = Plan.load(Path(command.plan))
        self._log = Path(command.log)
        ranks = {rank for rank, host in enumerate(self._plan.rank_host.tolist()) if host in self._hosts}
        workers = self._plan.workers.tolist()
        faults = [fault for fault in command.faults if workers[fault.worker] in ranks]
        self._pace = ComputePace(faults, workers) if faults else None
        self._perils = Perils(faults, workers, ranks, command.stall_limit_ns) if command.stall_limit_ns else None
        served = None if needs_python(self._fabric) else self._compiled
        if served and can_replay(self._plan) and not faults and self._perils is None:
            self._replay = CompiledReplay(served, self._plan, ranks, command.iterations)
        else:
            self._replay = None
            self._interpreter = Interpreter(self._plan, ranks, command.iterations, self._pace)
        self._connections = connections_of(self._plan)
        self._listeners = [listen(host, self._options) for host in self._hosts.values()]
        self._multicast = Multicast(self._plan, self._hosts, self._fabric, self._options)
        say(Listening())

    def connect(self) -> None:
        """Opens this agent's side of all connections and waits for the other side."""
        self._multicast.say_hello()
        mine = [c for c in self._connections if c.src_host in self._hosts]
        outgoing = {c.number: connect(c, self._hosts[c.src_host], self._fabric, self._options) for c in mine}
        expected = {c.number: self._fabric.host_ip(c.src_host) for c in self._connections if c.dst_host in self._hosts}
        incoming = join(outgoing, self._listeners, expected, CONNECT_TIMEOUT_S)
        for listener in self._listeners:
            listener.close()
        if self._fabric.host_tcp.is_stock:
            send_acks_with_data(incoming, self._connections)
        sends = connection_of_send(self._plan, self._connections)
        ends_by_departure = self._options.unsent_bytes is None
        line_of = {host: PortLine.of_tcp(self._fabric, host) for host in self._hosts} if ends_by_departure else {}
        self._outgoing = outgoing
        by_flowlet = self._fabric.routing.policy.chooses_for_flowlets
        self._flowlets = Flowlets(self._fabric, self._connections, outgoing) if by_flowlet else None
        self._windows = CongestionWindows(outgoing) if self._tells_congestion else None
        self._accepted = sorted({congestion_of(sock) for sock in incoming.values()}) if self._windows else []
        if self._replay is not None:
            self._replay.connect(self._connections, sends, outgoing, incoming, line_of)
            self._loop = self._replay
        else:
            self._loop = ReplayLoop(
                self._plan,
                self._interpreter,
                sends,
                self._connections,
                outgoing,
                incoming,
                self._multicast,
                line_of,
                self._perils,
                1 if self._fabric.host_tcp.is_stock else LOW_WATER_BYTES,
                self._flowlets,
            )
        say(Connected())

    def go(self, start_ns: int) -> None:
        """Replays the plan, beginning at `start_ns` of the monotonic clock, and writes the log."""
        assert self._loop is not None
        gc.disable()
        if isinstance(self._loop, ReplayLoop):
            self._loop.run(start_ns, self._iterated, lambda what: say(Died(what)))
        else:
            self._loop.run(start_ns, self._iterated)
        ended_ns = time.monotonic_ns() - start_ns
        gc.enable()
        self._loop.log.save(self._log)
        lateness = self._loop.lateness_ns if len(self._loop.lateness_ns) else np.zeros(1, np.int64)
        summary = AgentSummary(
            hosts=tuple(self._hosts),
            messages_sent=self._loop.messages_sent,
            messages_received=self._loop.messages_received,
            bytes_sent=self._loop.bytes_sent,
            bytes_received=self._loop.bytes_received,
            lateness_ns_max=int(lateness.max()),
            lateness_ns_p99=int(np.percentile(lateness, 99)),
            multicast_repairs=self._multicast.repairs,
            faults=self._pace.records(ended_ns) if self._pace is not None else (),
            sockets=self._windows.states(self._connections) if self._windows is not None else (),
            accepted_congestion=tuple(self._accepted),
            windows=window_states(self._outgoing, self._connections) if self._options.path_bytes else (),
            flowlets=self._flowlets.counts() if self._flowlets is not None else (),
            code=self._python if self._replay is None else COMPILED,
        )
        say(Replayed(summary))
        if isinstance(self._loop, ReplayLoop):
            self._loop.answer_until(sys.stdin.fileno(), start_ns)

    def _iterated(self, done: int) -> None:
        if self._windows is not None:
            self._windows.look()
        say(RanksIterated(done))

    def finish(self) -> None:
        """Closes the connections."""
        if self._loop is not None:
            if self._fabric.routing.policy.hashes_connections:
                end_at_once(self._outgoing.values())
            self._loop.close()
            self._loop = None
        say(Finished())


def main() -> int:
    """Runs the agent until its standard input ends."""
    raise_file_limit()
    agent = Agent()
    try:
        for line in sys.stdin:
            agent.obey(decode_command(line))
    except Fault as fault:
        if isinstance(fault, Interrupted):
            say(CutShort(str(fault), fault.awaited))
        print(f"{type(fault).__name__}: {fault}", file=sys.stderr, flush=True)
        # Returning would close the sockets first, and an agent that misses them might be found dead before this one.
        os._exit(1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
