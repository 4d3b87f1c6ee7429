"""The inner half of the run loop: one point on one machine. `python -m gradwire.run.point FOLDER`, inside the virtual kernel or as root.

Reads FOLDER/task.json and its plans, builds the network, installs the flows, probes the rate, replays, counts, and writes
FOLDER/ops.npz and FOLDER/record.json. Says what it is doing on standard output, one JSON object a line. This and run/campaign.py are the
run loop: the only modules, beside the command line, that know all the folders.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from gradwire.agents.capture.process import CaptureProcess
from gradwire.agents.capture.recorder import CaptureSettings, PortEntry
from gradwire.agents.connections import HostEntry, SocketOptions
from gradwire.agents.process import AgentGroup
from gradwire.agents.records import CAPTURE_FOLDER, AgentSummary, BandCount, NetworkCounts, OpLog, PointRecord
from gradwire.analysis.iterations import iteration_times_s
from gradwire.analysis.transfers import steady_flow_time_s
from gradwire.controller.process import ControllerProcess
from gradwire.faults import Fault
from gradwire.network_namespace import namespace_of
from gradwire.topo.abilities import Abilities, probe_kernel
from gradwire.topo.fabric import Fabric, MulticastGroup
from gradwire.topo.network import Network
from gradwire.workloads.patterns import compile_transfers, probe_phases
from gradwire.workloads.plan import Plan

PROBE_BYTES = 20_000_000
"""Of each flow of the rate probe: long against the one burst of `gso_bytes` by which the second port on the path lags the first."""
PROBE_S_MIN, PROBE_S_MAX = 4e-3, 0.5
"""At line rate, for fast links and slow ones."""
PROBE_MESSAGES = 5
"""Of each flow of the rate probe: from the first one's arrival to the last one's, four fifths of the bytes have to pass."""
CONTROLLER_PORT = 6653
CONTROLLER_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Task:
    """What task.json holds.

    plans: label and file of each candidate; with more than one, each is tried for `search_iterations` after a warm-up, and the
    fastest is replayed.
    iterations: all of them, the `warmup` that are dropped included.
    capture: names of the ports (Fabric.ports_named) whose packets are captured while the chosen plan is replayed.
    """

    fabric: Fabric
    plans: tuple[tuple[str, str], ...]
    iterations: int
    warmup: int
    search_iterations: int
    sockets: SocketOptions
    per_host: bool
    clock: str
    switch_prefix: str
    capture: tuple[str, ...] = ()
    capture_snaplen: int = 160

    def save(self, folder: Path) -> None:
        """Writes task.json."""
        text = json.dumps({**asdict(self), "fabric": self.fabric.to_json()})
        (folder / "task.json").write_text(text)

    @staticmethod
    def load(folder: Path) -> Task:
        """Reads task.json."""
        stored = json.loads((folder / "task.json").read_text())
        return Task(
            **{
                **stored,
                "fabric": Fabric.from_json(stored["fabric"]),
                "plans": tuple((label, path) for label, path in stored["plans"]),
                "sockets": SocketOptions(**stored["sockets"]),
                "capture": tuple(stored["capture"]),
            }
        )


def say(event: str, **values: Any) -> None:
    """Tells the outer half of the run loop what is going on."""
    print(json.dumps({"event": event, **values}), flush=True)


class Reading:
    """The network's counters at one moment."""

    def __init__(self, network: Network) -> None:
        self.ports = network.counters()
        self.tcp = network.tcp_counters()
        self.datapath = network.datapath_counters()

    def since(self, earlier: Reading) -> NetworkCounts:
        """What was counted after `earlier`."""
        ports = [now.since(then) for now, then in zip(self.ports, earlier.ports, strict=True)]
        tcp = [now.since(then) for now, then in zip(self.tcp, earlier.tcp, strict=True)]
        datapath = self.datapath.since(earlier.datapath)
        return NetworkCounts(
            bands=tuple(
                BandCount(port.port.interface, band, counted.sent_bytes, counted.sent_packets, counted.drops)
                for port in ports
                for band, counted in enumerate(port.bands)
            ),
            tcp_segments_sent=sum(host.segments_sent for host in tcp),
            tcp_retransmits=sum(host.segments_retransmitted for host in tcp),
            upcalls=datapath.upcalls,
            table_miss_packets=datapath.table_misses,
        )


@dataclass(frozen=True)
class Bench:
    """A network with its flows installed and agents on its hosts, ready to replay plans."""

    network: Network
    controller: ControllerProcess
    agents: AgentGroup
    abilities: Abilities


def fabric_for(fabric: Fabric, plans: list[Plan]) -> Fabric:
    """The fabric with all multicast groups of the plans."""
    wanted = sorted({tree for plan in plans for tree in plan.multicasts()})
    return replace(fabric, groups=tuple(MulticastGroup(source, members) for source, members in wanted))


@contextmanager
def bench(
    fabric: Fabric, sockets: SocketOptions, folder: Path, *, clock: str, per_host: bool, switch_prefix: str
) -> Iterator[Bench]:
    """Builds the network and installs the flows, then starts the agents; takes everything down at the end."""
    say("stage", stage="network")
    with ControllerProcess(fabric, CONTROLLER_PORT, folder) as controller:
        abilities = probe_kernel()
        network = Network(
            fabric,
            abilities,
            controller_port=CONTROLLER_PORT,
            switch_prefix=switch_prefix,
            owns_kernel=clock == "virtual",
        )
        with network:
            controller.wait_ready(CONTROLLER_TIMEOUT_S)
            hosts = [
                HostEntry(index, fabric.host_ip(index), namespace_of(network.host_pid(index)))
                for index in range(fabric.endpoints)
            ]
            say("stage", stage="agents")
            with AgentGroup(hosts, fabric, sockets, folder, per_host=per_host) as agents:
                yield Bench(network, controller, agents, abilities)


def run_point(folder: Path) -> None:
    """Runs the point in `folder`. Raises a Fault for everything that goes wrong in a way that was foreseen."""
    task = Task.load(folder)
    with bench(
        fabric_for(task.fabric, [Plan.load(folder / path) for _, path in task.plans]),
        task.sockets,
        folder,
        clock=task.clock,
        per_host=task.per_host,
        switch_prefix=task.switch_prefix,
    ) as ready:
        _replay_and_record(task, folder, ready)


def _replay_and_record(task: Task, folder: Path, ready: Bench) -> None:
    network, agents = ready.network, ready.agents
    say("first_byte")
    probe_ratio = _probe_rate(task, folder, agents)
    label, path, notes = _choose_plan(task, folder, agents)
    plan = Plan.load(folder / path)
    with _capture(task, folder, network, plan) as capture:
        before = Reading(network)
        say("replay")
        cpu_before = _cpu_times()
        log, summaries = _replay(agents, plan, folder / path, task.iterations, "iteration")
        cpu_after = _cpu_times()
        say("replayed")
        ready.controller.check_alive()
        counts = Reading(network).since(before)
    log.save(folder / "ops.npz")
    PointRecord(
        clock=task.clock,
        iterations=task.iterations,
        warmup=task.warmup,
        start_ns=0,
        agents=summaries,
        counts=counts,
        rate_probe=probe_ratio,
        first_byte_wall_s=0.0,
        replay_wall_s=0.0,
        cpu_saturation=_saturation(cpu_before, cpu_after) if task.clock == "wall" else 0.0,
        shaping=f"{'prio' if ready.abilities.has_prio else 'htb'}, {'fq' if ready.abilities.has_fq else 'fifo'}",
        notes=tuple(notes),
        captures=capture.records if capture else (),
        capture_start_ns=agents.start_ns + time.time_ns() - time.monotonic_ns() if capture else 0,
    ).save(folder / "record.json")
    say("done", plan=label)


def _capture(task: Task, folder: Path, network: Network, plan: Plan) -> AbstractContextManager[CaptureProcess | None]:
    """Captures the ports that the task names, or nothing."""
    ports = task.fabric.ports_named(task.capture)
    if not ports:
        return nullcontext()
    (folder / CAPTURE_FOLDER).mkdir(exist_ok=True)
    entries = tuple(
        PortEntry(
            port.interface,
            network.interface(port),
            network.namespace_of_port(port),
            task.fabric.rate_of(port),
            str(folder / CAPTURE_FOLDER / f"{port.interface}.pcapng"),
        )
        for port in ports
    )
    return CaptureProcess(CaptureSettings(entries, task.capture_snaplen, len(plan.workers)), folder)


def _replay(
    agents: AgentGroup, plan: Plan, path: Path, iterations: int, event: str
) -> tuple[OpLog, tuple[AgentSummary, ...]]:
    return agents.replay(plan, path, iterations, lambda done: say(event, done=done))


def _probe_rate(task: Task, folder: Path, agents: AgentGroup) -> float:
    """Measured over ideal time of short bursts, connections warm: that of the worst phase. 1.0 with one host."""
    fabric = task.fabric
    if fabric.hosts < 2:
        return 1.0
    size_bytes = int(np.clip(PROBE_BYTES, fabric.rate_bps * PROBE_S_MIN / 8, fabric.rate_bps * PROBE_S_MAX / 8))
    ratios = []
    for transfers, rate_bps in probe_phases(fabric, size_bytes):
        in_messages = [replace(transfer, messages=PROBE_MESSAGES) for transfer in transfers]
        plan = compile_transfers("rate probe", fabric.hosts, in_messages)
        path = folder / "probe.npz"
        plan.save(path)
        log, _ = _replay(agents, plan, path, 2, "probe")
        ideal_s = size_bytes * (1 - 1 / PROBE_MESSAGES) * 8 / fabric.goodput_share() / rate_bps
        ratios.append(steady_flow_time_s(plan, log, 1) / ideal_s)
    return max(ratios)


def _choose_plan(task: Task, folder: Path, agents: AgentGroup) -> tuple[str, str, list[str]]:
    """The plan to measure: the only one, or the fastest of the candidates in their first iterations (Geryon, III-C)."""
    if len(task.plans) == 1:
        return (*task.plans[0], [])
    times: dict[str, float] = {}
    for label, path in task.plans:
        plan = Plan.load(folder / path)
        log, _ = _replay(agents, plan, folder / path, 1 + task.search_iterations, "search")
        times[label] = float(iteration_times_s(plan, log, 1 + task.search_iterations)[1:].mean())
    best = min(times, key=times.__getitem__)
    tried = ", ".join(f"{label}: {seconds:.4f} s" for label, seconds in times.items())
    return best, dict(task.plans)[best], [f"searched {tried}; kept {best}"]


def _cpu_times() -> list[tuple[int, int]]:
    """Busy and total time of each CPU so far, in clock ticks (/proc/stat)."""
    times = []
    for line in Path("/proc/stat").read_text().splitlines():
        name, *fields = line.split()
        if name.startswith("cpu") and name != "cpu":
            ticks = [int(field) for field in fields]
            idle = ticks[3] + ticks[4]
            times.append((sum(ticks[:8]) - idle, sum(ticks[:8])))
    return times


def _saturation(before: list[tuple[int, int]], after: list[tuple[int, int]]) -> float:
    """Share of the time between that the busiest CPU was busy."""
    shares = [
        (busy - busy_before) / max(1, total - total_before)
        for (busy, total), (busy_before, total_before) in zip(after, before, strict=True)
    ]
    return max(shares)


def run_inside(job: Callable[[Path], None]) -> int:
    """Runs `job` on the folder named on the command line; faults go out as an event, with exit status 1."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        job(Path(sys.argv[1]))
    except Fault as fault:
        say("fault", kind=type(fault).__name__, message=str(fault))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(run_inside(run_point))
