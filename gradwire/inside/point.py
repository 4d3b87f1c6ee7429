"""The inner half of the run loop: one point on one machine. `python -m gradwire.inside.point FOLDER`, inside the virtual
kernel or as root.

Reads FOLDER/task.json and its plans, builds the network, installs the flows, probes the rate, replays, counts, and
writes FOLDER/ops.npz and FOLDER/record.json. Its events (inside/point_protocol.py) go to standard output.
"""

from __future__ import annotations

import math
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gradwire.agents.agent_processes import UNHARMED, AgentGroup, Mishaps
from gradwire.agents.connections import HostEntry, SocketOptions
from gradwire.analysis.iterations import iteration_times_s
from gradwire.analysis.transfers import steady_flow_time_s
from gradwire.datatypes.plan import Plan
from gradwire.datatypes.records import (
    LOSING,
    AgentSummary,
    OpLog,
    PlannedFault,
    PointRecord,
)
from gradwire.faults import Fault
from gradwire.inside.capturing import capturing
from gradwire.inside.deadlock_watch import watching
from gradwire.inside.first_packets import announce_ways
from gradwire.inside.own_controller import await_ways
from gradwire.inside.point_protocol import (
    PAUSES_FILE,
    QUEUES_FILE,
    TASK_FILE,
    AgentsStarted,
    CandidateIterated,
    Event,
    Faulted,
    FirstByte,
    Iterated,
    NetworkStarted,
    PlanFile,
    PointRecorded,
    PointTask,
    Probed,
    ReplayEnded,
    ReplayStarted,
    built_fabric,
    read_json,
    say,
    write_json,
)
from gradwire.inside.processor_load import ProcessorReading
from gradwire.inside.queue_sampling import sampling
from gradwire.inside.readings import CounterReading, forget_counts
from gradwire.inside.testbed import Testbed, TestbedOptions, build_testbed
from gradwire.network.fabric import Fabric
from gradwire.network_namespace import namespace_of
from gradwire.topo.abilities import Abilities
from gradwire.topo.fault_commands import impaired_ports
from gradwire.topo.network import Network
from gradwire.workloads.patterns import compile_transfers, probe_phases

if TYPE_CHECKING:
    from gradwire.inside.fault_injection import Injection

PROBE_BYTES = 20_000_000
"""Bytes of each flow of the rate probe: many times the burst of `gso_bytes` by which the second port on the path lags
the first."""
PROBE_S_MIN, PROBE_S_MAX = 4e-3, 0.5
"""Shortest and longest probe at line rate, for fast links and slow ones."""
PROBE_MESSAGES = 5
"""Messages of each flow of the rate probe. Between the arrivals of the first and the last, four fifths of the bytes
have to pass."""


@dataclass(frozen=True)
class ReplayBench:
    """A network with its flows installed and agents on its hosts, ready to replay plans."""

    testbed: Testbed
    agents: AgentGroup
    #: What a user's controller says; empty without one.
    ways: tuple[tuple[int, ...], ...] = ()


@contextmanager
def bench(
    fabric: Fabric,
    sockets: SocketOptions,
    folder: Path,
    *,
    clock: str,
    per_host: bool,
    switch_prefix: str,
    compiled_agent: str = "",
    faults: Sequence[PlannedFault] = (),
    controller_app: str = "",
) -> Iterator[ReplayBench]:
    """Starts controller and agents, builds the network and installs the flows; takes everything down at the end.

    compiled_agent: where this machine has the compiled agent, if agents are to use it. faults: those that the network
        has to be made ready for. controller_app: the code of a user's controller.
    """
    say(NetworkStarted())
    # In virtual time one CPU carries all, and forks save its imports. On the wall clock numpy may have started threads.
    by_fork = clock == "virtual"
    agents = AgentGroup(fabric, folder, per_host=per_host, by_fork=by_fork)
    options = TestbedOptions(
        owns_kernel=clock == "virtual",
        by_fork=by_fork,
        controller_app=controller_app,
        switch_prefix=switch_prefix,
        impaired=impaired_ports(fabric, faults),
        socket_bytes=sockets.buffer_bytes,
        first_window=first_window_segments(fabric, sockets, faults),
    )
    with build_testbed(fabric, folder, options, agents) as bed:
        ways = await_ways(fabric, bed.network, bed.controller) if controller_app else ()
        if not controller_app:
            bed.wait_ready()
        hosts = [
            HostEntry(index, fabric.host_ip(index), namespace_of(bed.network.host_pid(index)))
            for index in range(fabric.endpoints)
        ]
        say(AgentsStarted())
        with agents.carrying(hosts, sockets, compiled_agent):
            yield ReplayBench(bed, agents, ways)


def first_window_segments(fabric: Fabric, sockets: SocketOptions, faults: Sequence[PlannedFault]) -> int:
    """TCP's first congestion window, for `Network`; 0 for the kernel's own.

    TCP stands in for RDMA, which begins at the line's rate. Where a round trip takes microseconds, so does TCP's slow
    start. Where links have a delay, and nothing is lost that would decide windows, connections therefore begin with
    all that their buffer holds. Otherwise the first iteration of two hosts at 25 Gbit/s with a round trip of 50 ms
    took 7.0 s, and not 0.53 s as all others did: cubic leaves its slow start early, and then adds a twentieth in each
    round trip. The same holds for flow control: cubic takes a full queue for a reason to stop growing, at 1.1 MB of seven
    senders to one at 100 Gbit/s, where RDMA has no window and pauses are what holds it back.
    """
    loses = bool(fabric.losses) or fabric.has_switch_queues or any(fault.kind in LOSING for fault in faults)
    return (
        0
        if loses or sockets.congestion or any(fabric.congestion_of_hosts)
        else math.ceil(sockets.buffer_bytes / fabric.mss_bytes())
        * (sockets.path_bytes > 0 or fabric.lossless is not None)
    )


def run_point(folder: Path) -> None:
    """Runs the point in `folder`. Raises a Fault for everything that goes wrong in a way that was foreseen."""
    task = read_json(folder / TASK_FILE, PointTask)
    with bench(
        replace(built_fabric(task.fabric, [Plan.load(folder / plan.file) for plan in task.plans]), ipv6=task.programs),
        task.sockets,
        folder,
        clock=task.clock,
        per_host=task.per_host,
        switch_prefix=task.switch_prefix,
        compiled_agent=task.compiled_agent,
        faults=task.faults,
        controller_app=task.controller_app,
    ) as ready:
        _replay_and_record(task, folder, ready)


def _replay_and_record(task: PointTask, folder: Path, ready: ReplayBench) -> None:
    network, agents = ready.testbed.network, ready.agents
    say(FirstByte())
    announce_ways(network, [Plan.load(folder / plan.file) for plan in task.plans])
    with watching(network, agents):
        probe_ratio = _probe_rate(task, folder, ready)
        chosen, notes = _choose_plan(task, folder, agents)
    plan = Plan.load(folder / chosen.file)
    with capturing(
        network, task.capture, folder, snaplen_bytes=task.capture_snaplen, workers=len(plan.workers)
    ) as capture:
        if task.programs:
            network.watch_queues()
        before = CounterReading(network)
        forget_counts(network)
        say(ReplayStarted())
        processor_before = ProcessorReading.now() if task.clock == "wall" else None
        with (
            _programs(task, folder, network),
            _faults(task, ready) as harm,
            sampling(network.switch_interfaces(), task.queue_period_ns) as sampler,
            watching(network, agents),
        ):
            # Programs count from now on, and queues are read from now on.
            waits = not (task.programs or task.queue_period_ns)
            log, summaries = _replay(agents, plan, folder / chosen.file, task.iterations, Iterated, harm, waits=waits)
        load = ProcessorReading.now().since(processor_before) if processor_before else None
        say(ReplayEnded())
        ready.testbed.controller.check_alive()
        counts = CounterReading(network, settles=True).since(before)
        parameters = network.host_parameters()
        pauses = network.flow_control.state() if network.flow_control is not None else None
    log.save(folder / "ops.npz")
    if network.flow_control is not None:
        network.flow_control.events(agents.start_ns).save(folder / PAUSES_FILE)
    if sampler is not None:
        sampler.lengths(agents.start_ns).save(folder / QUEUES_FILE)
    record = PointRecord(
        clock=task.clock,
        iterations=task.iterations,
        warmup=task.warmup,
        agents=summaries,
        counts=counts,
        rate_probe=probe_ratio,
        cpu_saturation=load.busiest if load else 0.0,
        cpu_wait=load.waited if load else 0.0,
        shaping=_shaping(ready.testbed.abilities),
        notes=tuple(notes),
        captures=capture.records if capture else (),
        faults=(
            *(harm.injection.records if harm.injection else ()),
            *(each for agent in summaries for each in agent.faults),
        ),
        host_parameters=parameters,
        ways=ready.ways,
        pauses=pauses,
        capture_start_ns=agents.start_ns + time.time_ns() - time.monotonic_ns() if capture else 0,
    )
    write_json(folder / "record.json", record, indent=1)
    say(PointRecorded(chosen.label))


def _shaping(abilities: Abilities) -> str:
    """Returns which queueing disciplines serve the bands and the flows of a band."""
    return f"{'prio' if abilities.has_prio else 'htb'}, {'fq' if abilities.has_fq else 'fifo'}"


def _programs(task: PointTask, folder: Path, network: Network) -> AbstractContextManager[None]:
    """Runs programs during the replay, if the task has some."""
    if not task.programs:
        return nullcontext()
    from gradwire.inside.beside_job import programs_beside  # noqa: PLC0415 (a tenth of a second that few points need)

    return programs_beside(folder, [network.host_pid(host) for host in range(network.fabric.hosts)])


@dataclass(frozen=True)
class _Harm:
    """The harm that faults do during a replay."""

    #: Those of workers, which agents let happen.
    mishaps: Mishaps = UNHARMED
    #: Of all others; None without faults.
    injection: Injection | None = None


NO_HARM = _Harm()


@contextmanager
def _faults(task: PointTask, ready: ReplayBench) -> Iterator[_Harm]:
    """Lets the task's faults happen, if it has some."""
    if not task.faults:
        yield NO_HARM
        return
    from gradwire.inside.fault_injection import Injection, Patient, ended_by_name  # noqa: PLC0415 (few points need it)

    patient = ready.testbed.patient(Patient)
    patient.let_in(task.faults, task.sockets)
    injection = Injection([fault for fault in task.faults if not fault.is_of_worker], patient)
    of_workers = tuple(fault for fault in task.faults if fault.is_of_worker)
    with ended_by_name(task.faults, injection):
        yield _Harm(Mishaps(of_workers, task.stall_limit_ns, injection.begin), injection)


def _replay(
    agents: AgentGroup,
    plan: Plan,
    path: Path,
    iterations: int,
    progress: Callable[[int], Event],
    harm: _Harm = NO_HARM,
    *,
    waits: bool = True,
) -> tuple[OpLog, tuple[AgentSummary, ...]]:
    """Replays a plan; `progress` is the event that tells how many iterations are done. waits: as for
    AgentGroup.replay."""

    def iterated(done: int) -> None:
        say(progress(done))
        if harm.injection is not None:
            harm.injection.iterated(done)

    return agents.replay(plan, path, iterations, iterated, harm.mishaps, waits=waits)


def _probe_rate(task: PointTask, folder: Path, ready: ReplayBench) -> float:
    """Measured over ideal time of short bursts on warm connections, in the worst phase; 1.0 with one host."""
    fabric, agents = replace(task.fabric, ways=ready.ways), ready.agents
    if fabric.hosts < 2:
        return 1.0
    size_bytes = int(np.clip(PROBE_BYTES, fabric.rate_bps * PROBE_S_MIN / 8, fabric.rate_bps * PROBE_S_MAX / 8))
    ratios = []
    for transfers, rate_bps in probe_phases(fabric, size_bytes):
        in_messages = [replace(transfer, messages=PROBE_MESSAGES) for transfer in transfers]
        plan = compile_transfers("rate probe", fabric.hosts, in_messages)
        path = folder / "probe.npz"
        plan.save(path)
        log, _ = _replay(agents, plan, path, 2, Probed)
        ideal_s = size_bytes * (1 - 1 / PROBE_MESSAGES) * 8 / fabric.goodput_share() / rate_bps
        ratios.append(steady_flow_time_s(plan, log, 1) / ideal_s)
    return max(ratios)


def _choose_plan(task: PointTask, folder: Path, agents: AgentGroup) -> tuple[PlanFile, list[str]]:
    """The plan to measure, and notes on the choice: the only plan, or the fastest candidate in its first iterations
    (Geryon, III-C)."""
    if len(task.plans) == 1:
        return task.plans[0], []
    times_s: dict[PlanFile, float] = {}
    for candidate in task.plans:
        plan = Plan.load(folder / candidate.file)
        log, _ = _replay(agents, plan, folder / candidate.file, 1 + task.search_iterations, CandidateIterated)
        times_s[candidate] = float(iteration_times_s(plan, log, 1 + task.search_iterations)[1:].mean())
    fastest = min(times_s, key=times_s.__getitem__)
    tried = ", ".join(f"{candidate.label}: {time_s:.4f} s" for candidate, time_s in times_s.items())
    return fastest, [f"searched {tried}; kept {fastest.label}"]


def run_inside(job: Callable[[Path], None]) -> int:
    """Runs `job` on the folder named on the command line; a fault becomes an event, and exit status 1."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        job(Path(sys.argv[1]))
    except Fault as fault:
        say(Faulted(type(fault).__name__, str(fault)))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(run_inside(run_point))
