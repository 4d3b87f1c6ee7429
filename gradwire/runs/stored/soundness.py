"""Checks the contents of a run's files, so that every reader finds what their numbers refer to.

A task says which network was built for it, the plan's ops refer to each other and to that network, and record and log
count what the task asked for, on its ports. No message has a number or a text that no run can have. That a plan
delivers every contribution is not checked again: that takes minutes for a large one, and compiling it has checked it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from gradwire.array_files import most_bytes
from gradwire.datatypes.plan import CONTROL_CLASS, Combine, Discipline, OpKind, Plan, Role
from gradwire.datatypes.records import (
    AgentSummary,
    FaultRecord,
    OpLog,
    PlannedFault,
    PointRecord,
)
from gradwire.faults import InputFault
from gradwire.inside.point_protocol import PointTask
from gradwire.network.fabric import MAX_BANDS, MAX_GROUPS, Fabric
from gradwire.network.read_ways import way_defect
from gradwire.network.sprayed_ways import MOST_SPRAYED_WAYS
from gradwire.reading_budget import not_reading
from gradwire.runs.stored.job_soundness import refuse_unsound_jobs
from gradwire.runs.stored.network_soundness import refuse_unsound_counts, refuse_unsound_state
from gradwire.runs.stored.value_limits import (
    LARGEST,
    LARGEST_INTEGER,
    refuse_absurd,
    refuse_large_sum,
    refuse_negative,
    refuse_outside,
    refuse_values_outside,
    shown,
)
from gradwire.scenario.schema import LARGEST_CLUSTER, LARGEST_SOCKET_BYTES, MOST_ITERATIONS
from gradwire.vm.machines import Clock
from gradwire.workloads.checker import PlanError, check_references
from gradwire.workloads.fields import HIGHEST_RATE_BPS, LONGEST_S, LOWEST_RATE_BPS, MOST_SAMPLES, MOST_WORKERS
from gradwire.workloads.plan_size import MOST_OPS
from gradwire.workloads.symbolic.precedence import has_cycle
from gradwire.workloads.symbolic.verification import MOST_OPS_IN_PYTHON

PLAN_FILE = re.compile(r"plan-[0-9]{1,6}\.npz")
CLOCKS = ("virtual", "wall")
MOST_HOSTS = 2 * MOST_WORKERS
"""Workers, and as many servers."""
MOST_PLANS = 1000
"""Largest number of plans of one point, among which a search chooses."""
LARGEST_SCALE = 2**40
"""Largest number that rates are divided by: the fastest would be 10 bit/s then."""
LEAST_MTU_BYTES, MOST_FRAME_BYTES = 256, 2**16


def refuse_unsound_clock(clock: Clock) -> None:
    """Raises ValueError for a clock that no run has."""
    if clock.name not in CLOCKS:
        raise ValueError(f"name = {shown(str(clock.name))}: must be {' or '.join(CLOCKS)}")
    if type(clock.scale) is not int:
        raise ValueError("scale is not a number")
    refuse_outside("scale", clock.scale, 0, LARGEST_SCALE)


def sound_fabric(text: str) -> Fabric:
    """The network in a task. Raises ValueError, or the errors of Fabric for values that do not go together, for a
    network that no scenario has."""
    said = msgspec.json.decode(text, type=dict[str, object])
    refuse_absurd(said)
    # A network names its switches as soon as it is made, so there must not be too many.
    for name in ("hosts", "leaves", "pods", "spines", "cores"):
        count = said.get(name, 1)
        if type(count) is not int:
            raise ValueError(f"fabric.{name} is not a number")
        refuse_outside(f"fabric.{name}", count, 0, MOST_HOSTS)
    try:
        msgspec.json.decode(text, type=Fabric)  # which compares types; the rest is for `from_json`
        fabric = Fabric.from_json(text)
    except InputFault as fault:
        raise ValueError(f"its network cannot be built: {fault}") from fault
    refuse_outside("fabric.rate", fabric.rate_bps, LOWEST_RATE_BPS / LARGEST_SCALE, HIGHEST_RATE_BPS)
    refuse_outside("fabric.mtu_bytes", fabric.mtu_bytes, LEAST_MTU_BYTES, MOST_FRAME_BYTES)
    refuse_outside("fabric.loss", fabric.loss, 0, 1)
    for name in ("queue_packets", "buffer_bytes", "ecn_bytes"):
        refuse_outside(f"fabric.{name}", getattr(fabric, name), 0)
    return fabric


def refuse_unsound_task(task: PointTask) -> None:
    """Raises ValueError for a task that no point has. Its network is checked by `sound_fabric`."""
    refuse_outside("plans", len(task.plans), 1, MOST_PLANS)
    for plan in task.plans:
        # A file is read by this name, so it must be one that a run has written.
        if not PLAN_FILE.fullmatch(plan.file):
            raise ValueError(f"a plan's file is {shown(plan.file)}: must be like plan-0.npz")
    if len({plan.label for plan in task.plans}) < len(task.plans):
        raise ValueError("two plans have the same label")
    if task.clock not in CLOCKS:
        raise ValueError(f"clock = {shown(task.clock)}: must be {' or '.join(CLOCKS)}")
    # A warm-up to the steady state comes on top of the iterations that a scenario asks for.
    refuse_outside("iterations", task.iterations, 1, 4 * MOST_ITERATIONS)
    refuse_outside("warmup", task.warmup, 0, task.iterations - 1)
    refuse_outside("search_iterations", task.search_iterations, 0, MOST_ITERATIONS)
    refuse_outside("buffer_bytes", task.sockets.buffer_bytes, 0, LARGEST_SOCKET_BYTES)
    if task.sockets.unsent_bytes is not None:
        refuse_outside("unsent_bytes", task.sockets.unsent_bytes, 1, LARGEST_SOCKET_BYTES)
    refuse_outside("capture_snaplen", task.capture_snaplen, 1)
    refuse_outside("stall_limit_ns", task.stall_limit_ns, 0)
    refuse_outside("queue_period_ns", task.queue_period_ns, 0)
    refuse_unsound_faults(task.faults)


def refuse_unsound_faults(faults: Sequence[PlannedFault]) -> None:
    """Raises ValueError for faults that no scenario asks for."""
    for fault in faults:
        for name in ("iteration", "duration_ns", "worker", "source", "destination", "worker_of_job"):
            refuse_outside(f"{shown(fault.name)}: {name}", getattr(fault, name), -1)
        refuse_outside(f"{shown(fault.name)}: at_ns", fault.at_ns, 0)
        refuse_outside(f"{shown(fault.name)}: value", fault.value, 0, HIGHEST_RATE_BPS)
        if fault.worker >= MOST_WORKERS or max(fault.source, fault.destination) >= MOST_HOSTS:
            raise ValueError(f"{shown(fault.name)}: its place does not exist")


MOST_RANKS = 4 * MOST_WORKERS
"""Workers, as many servers, and aggregators on fewer switches than hosts."""


def refuse_unsound_plan(plan: Plan, fabric: Fabric) -> None:
    """Raises ValueError for a plan that no strategy has compiled, or that is not for the fabric."""
    _refuse_other_types(plan)
    _refuse_lengths(plan)
    _refuse_ranges(plan, fabric)
    try:
        check_references(plan)
        refuse_unsound_jobs(plan)
    except PlanError as defect:
        raise ValueError(str(defect)) from defect
    _refuse_cycles(plan)


def _refuse_other_types(plan: Plan) -> None:
    texts = (plan.name, *plan.tensors, *plan.notes)
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("its name, tensors and notes must be texts")
    whole = (plan.samples, plan.nics_per_host)
    if not all(type(number) is int for number in whole) or type(plan.compute_s) not in (int, float):
        raise ValueError("its samples, NICs and computation must be numbers")
    refuse_outside("samples", plan.samples, 0, MOST_SAMPLES * LARGEST_CLUSTER)
    refuse_outside("nics_per_host", plan.nics_per_host, 1, MOST_WORKERS)
    if not math.isfinite(plan.compute_s):
        raise ValueError("compute_s is not a number")
    refuse_outside("compute_s", plan.compute_s, 0, LONGEST_S)


def _refuse_lengths(plan: Plan) -> None:
    """Raises ValueError unless columns that belong together have the same length, and rows of tables begin and end
    within their contents."""
    count = len(plan.ops)
    refuse_outside("ops", count, 1, MOST_OPS)
    if any(len(column) != count for column in vars(plan.ops).values()):
        raise ValueError("its ops' columns differ in length")
    together = (
        (plan.rank_role, plan.rank_host),
        (plan.queue_rank, plan.queue_discipline),
        (plan.chunk_bytes, plan.chunk_tensor),
        (plan.dep_op, plan.dep_lag),
    )
    if any(len(one) != len(other) for one, other in together):
        raise ValueError("its columns differ in length")
    refuse_outside("ranks", len(plan.rank_role), 1, MOST_RANKS)
    _refuse_rows("dep_start", plan.dep_start, len(plan.dep_op), count)
    for name, starts, values in (
        ("group_start", plan.group_start, plan.group_rank),
        ("set_start", plan.set_start, plan.set_rank),
    ):
        if len(starts) or len(values):
            _refuse_rows(name, starts, len(values), len(starts) - 1)
    refuse_outside("groups", len(plan.group_start), 0, MAX_GROUPS + 1)


def _refuse_rows(name: str, starts: npt.NDArray[np.int64], values: int, rows: int) -> None:
    sound = len(starts) == rows + 1 and len(starts) > 0
    if not sound or starts[0] != 0 or starts[-1] != values or (np.diff(starts) < 0).any():
        raise ValueError(f"{name} does not divide its {values:,} entries into {rows:,} rows")


def _refuse_ranges(plan: Plan, fabric: Fabric) -> None:
    ops = plan.ops
    longest_ns = int(LONGEST_S * 1e9)
    ranges: tuple[tuple[str, npt.NDArray[np.generic], int, int], ...] = (
        ("a rank's role", plan.rank_role, 1, max(Role)),
        ("a rank's host", plan.rank_host, 0, fabric.endpoints - 1),
        ("a queue's discipline", plan.queue_discipline, 1, max(Discipline)),
        ("a chunk's size", plan.chunk_bytes, 0, LARGEST),
        ("a chunk's tensor", plan.chunk_tensor, 0, len(plan.tensors) - 1),
        ("a group's rank", plan.group_rank, 0, len(plan.rank_role) - 1),
        ("a set's rank", plan.set_rank, 0, len(plan.rank_role) - 1),
        ("an op's kind", ops.kind, 1, max(OpKind)),
        ("an op's duration", ops.duration_ns, 0, longest_ns),
        ("an op's size", ops.size_bytes, 0, LARGEST),
        ("an op's group", ops.group, 0, 1),
        ("an op's class", ops.traffic_class, CONTROL_CLASS, min(fabric.classes, MAX_BANDS) - 1),
        ("an op's order", ops.order, -LARGEST, LARGEST),
        ("an op's combination", ops.combine, 0, max(Combine)),
        ("an op's layer", ops.layer, -1, len(ops) + MOST_RANKS),
    )
    for place, values, least, most in ranges:
        refuse_values_outside(place, values, least, most)
    for place, values in (("durations", ops.duration_ns), ("sizes", ops.size_bytes), ("chunks", plan.chunk_bytes)):
        refuse_large_sum(place, values)
    if not len(plan.workers):
        raise ValueError("it has no workers")


def _refuse_cycles(plan: Plan) -> None:
    """Ops are numbered so that most wait for earlier ones. Where all do, there is no cycle; otherwise all are put in
    order."""
    waiting = np.repeat(np.arange(len(plan.ops)), np.diff(plan.dep_start))
    recvs = np.flatnonzero(plan.ops.kind == OpKind.RECV)
    within = plan.dep_lag == 0
    before = np.concatenate([plan.dep_op[within], plan.ops.message[recvs]])
    after = np.concatenate([waiting[within], recvs])
    if (before < after).all():
        return
    with not_reading():  # numba may compile it first
        circular = has_cycle(len(plan.ops), before, after, in_code=len(plan.ops) > MOST_OPS_IN_PYTHON)
    if circular:
        raise ValueError("ops wait for each other in a circle")


CAPTURE_FILE = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*\.pcapng")
ROW_BYTES = 5 * 8
"""Size of a row of a log: five columns of 64 bits."""
MOST_RATIO = 1e6


def refuse_unsound_record(record: PointRecord, task: PointTask, fabric: Fabric) -> None:
    """Raises ValueError for a record that no run of the task can have left."""
    for name in ("clock", "iterations", "warmup"):
        if getattr(record, name) != getattr(task, name):
            raise ValueError(f"{name} = {getattr(record, name)}, and the point's task has {getattr(task, name)}")
    for name, value in (("rate_probe", record.rate_probe), ("cpu_saturation", record.cpu_saturation)):
        refuse_outside(name, value, 0, MOST_RATIO)
    refuse_outside("cpu_wait", record.cpu_wait, 0, MOST_RATIO)
    refuse_outside("capture_start_ns", record.capture_start_ns, 0, LARGEST_INTEGER)
    for agent in record.agents:
        _refuse_agent(agent, fabric)
    hosts = [host for agent in record.agents for host in agent.hosts]
    if len(set(hosts)) < len(hosts):
        raise ValueError("two agents ran the same host")
    refuse_unsound_counts(record.counts, fabric)
    _refuse_captures(record, fabric)
    for fault in (*record.faults, *(fault for agent in record.agents for fault in agent.faults)):
        _refuse_fault(fault, task)
    if record.pauses is not None:
        refuse_unsound_state(record.pauses, fabric)
    if (fabric.controller or record.ways) and (defect := way_defect(fabric, record.ways)):
        raise ValueError(f"ways: {defect}")


def _refuse_agent(agent: AgentSummary, fabric: Fabric) -> None:
    for host in agent.hosts:
        refuse_outside("an agent's host", host, 0, fabric.endpoints - 1)
    refuse_negative(agent, "messages_sent", "messages_received", "bytes_sent", "bytes_received")
    refuse_negative(agent, "lateness_ns_max", "lateness_ns_p99", "multicast_repairs")
    refuse_outside("an agent's cpu_wait", agent.cpu_wait, 0, MOST_RATIO)
    for state in agent.sockets:
        refuse_negative(state, "connection", "window", "least_window", "most_window", "slow_start_threshold")
        refuse_negative(state, "retransmits", "delivered", "delivered_marked")
        for host in (state.src_host, state.dst_host):
            refuse_outside("a connection's host", host, 0, fabric.endpoints - 1)
    for window in agent.windows:
        refuse_negative(window, "connection", "buffer_bytes", "receive_bytes", "congestion_bytes", "round_trip_us")
        refuse_negative(window, "busy_us", "receive_limited_us", "buffer_limited_us", "acknowledged_bytes")
        for host in (window.src_host, window.dst_host):
            refuse_outside("a connection's host", host, 0, fabric.endpoints - 1)
    for count in agent.flowlets:
        refuse_negative(count, "connection", "flowlets", "size_bytes")
        refuse_outside("a flowlet's way", count.way, 0, MOST_SPRAYED_WAYS - 1)
        for host in (count.src_host, count.dst_host):
            refuse_outside("a connection's host", host, 0, fabric.hosts - 1)


def _refuse_captures(record: PointRecord, fabric: Fabric) -> None:
    ports = {port.interface for port, _ in fabric.ports()}
    for about in record.captures:
        # A file is read by this name, so it must be one that a run has written.
        if not CAPTURE_FILE.fullmatch(about.file):
            raise ValueError(f"captures: a file is {shown(about.file)}: must be like h1-eth0.pcapng")
        if about.port not in ports:
            raise ValueError(f"captures: the network has no port {shown(about.port)}")
        refuse_negative(about, "packets", "seen", "dropped")
    if len({about.port for about in record.captures}) < len(record.captures):
        raise ValueError("captures: a port is there twice")


def _refuse_fault(record: FaultRecord, task: PointTask) -> None:
    refuse_unsound_faults([record.fault])
    if record.fault not in task.faults:
        raise ValueError(f"faults: {shown(record.fault.name)} is not one of the point's task")
    for name in ("due_ns", "begun_ns", "ended_ns"):
        refuse_outside(name, getattr(record, name), -1)
    refuse_negative(record, "changes", "sent_bytes")


def refuse_long_log(rows_in_it: int, task: PointTask, ops: int) -> None:
    """Raises ValueError for a log that is longer than a run of the task leaves it, whose plan has so many ops. Rows
    may be there twice."""
    rows = ops * task.iterations
    if rows * ROW_BYTES > most_bytes():
        raise ValueError(
            f"{task.iterations:,} iterations of {ops:,} ops would not fit in half of this machine's memory"
        )
    refuse_outside("rows", rows_in_it, 0, 2 * rows)


def refuse_unsound_log(log: OpLog, task: PointTask, ops: int) -> None:
    """Raises ValueError for a log with ops or iterations that its run did not have. Where some are missing or there
    twice, the verdict says so."""
    if len({len(column) for column in vars(log).values()}) > 1:
        raise ValueError("its columns differ in length")
    refuse_values_outside("op", log.op, 0, ops - 1)
    refuse_values_outside("iteration", log.iteration, 0, task.iterations - 1)
    for name in ("nominal_start_ns", "start_ns", "end_ns"):
        refuse_values_outside(name, getattr(log, name), -LARGEST)
