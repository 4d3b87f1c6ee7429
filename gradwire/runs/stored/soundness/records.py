"""What a run's record and its log may say, beside its task: each counts what the task asked for, on ports of its network."""

from __future__ import annotations

import re

from gradwire.array_files import most_bytes
from gradwire.datatypes.fabric import Fabric
from gradwire.datatypes.records import AgentSummary, FaultRecord, NetworkCounts, OpLog, PointRecord, QueueLengths
from gradwire.runs.protocol import PointTask
from gradwire.runs.stored.soundness.ranges import (
    LARGEST,
    LARGEST_INTEGER,
    refuse_outside,
    refuse_values_outside,
    shown,
)
from gradwire.runs.stored.soundness.tasks import refuse_unsound_faults

CAPTURE_FILE = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*\.pcapng")
ROW_BYTES = 5 * 8
"""Of a log: five columns of 64 bits."""
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
    _refuse_counts(record.counts, fabric)
    _refuse_captures(record, fabric)
    for fault in (*record.faults, *(fault for agent in record.agents for fault in agent.faults)):
        _refuse_fault(fault, task)


def _refuse_agent(agent: AgentSummary, fabric: Fabric) -> None:
    for host in agent.hosts:
        refuse_outside("an agent's host", host, 0, fabric.endpoints - 1)
    _refuse_negative(agent, "messages_sent", "messages_received", "bytes_sent", "bytes_received")
    _refuse_negative(agent, "lateness_ns_max", "lateness_ns_p99", "multicast_repairs")
    refuse_outside("an agent's cpu_wait", agent.cpu_wait, 0, MOST_RATIO)
    for state in agent.sockets:
        _refuse_negative(state, "connection", "window", "least_window", "most_window", "slow_start_threshold")
        _refuse_negative(state, "retransmits", "delivered", "delivered_marked")
        for host in (state.src_host, state.dst_host):
            refuse_outside("a connection's host", host, 0, fabric.endpoints - 1)
    for window in agent.windows:
        _refuse_negative(window, "connection", "buffer_bytes", "receive_bytes", "congestion_bytes", "round_trip_us")
        _refuse_negative(window, "busy_us", "receive_limited_us", "buffer_limited_us", "acknowledged_bytes")
        for host in (window.src_host, window.dst_host):
            refuse_outside("a connection's host", host, 0, fabric.endpoints - 1)


def _refuse_negative(message: object, *names: str) -> None:
    for name in names:
        refuse_outside(name, getattr(message, name), 0)


def _refuse_counts(counts: NetworkCounts, fabric: Fabric) -> None:
    _refuse_negative(counts, "tcp_segments_sent", "tcp_retransmits", "upcalls", "table_miss_packets", "marked_arrivals")
    _refuse_negative(counts, "tcp_timeouts")
    ports = {port.interface for port, _ in fabric.ports()}
    seen: set[tuple[str, int]] = set()
    for band in counts.bands:
        if band.port not in ports:
            raise ValueError(f"counts.bands: the network has no port {shown(band.port)}")
        refuse_outside("a port's band", band.band, 0, fabric.bands - 1)
        _refuse_negative(band, "bytes_sent", "packets_sent", "drops", "marks", "above_threshold")
        _refuse_negative(band, "limit_bytes", "threshold_bytes", "all_marked_bytes")
        if (band.port, band.band) in seen:
            raise ValueError(f"counts.bands: port {band.port} has band {band.band} twice")
        seen.add((band.port, band.band))


def _refuse_captures(record: PointRecord, fabric: Fabric) -> None:
    ports = {port.interface for port, _ in fabric.ports()}
    for about in record.captures:
        # A file is read by this name, so it must be one that a run has written.
        if not CAPTURE_FILE.fullmatch(about.file):
            raise ValueError(f"captures: a file is {shown(about.file)}: must be like h1-eth0.pcapng")
        if about.port not in ports:
            raise ValueError(f"captures: the network has no port {shown(about.port)}")
        _refuse_negative(about, "packets", "seen", "dropped")
    if len({about.port for about in record.captures}) < len(record.captures):
        raise ValueError("captures: a port is there twice")


def _refuse_fault(record: FaultRecord, task: PointTask) -> None:
    refuse_unsound_faults([record.fault])
    if record.fault not in task.faults:
        raise ValueError(f"faults: {shown(record.fault.name)} is not one of the point's task")
    for name in ("due_ns", "begun_ns", "ended_ns"):
        refuse_outside(name, getattr(record, name), -1)
    _refuse_negative(record, "changes", "sent_bytes")


def refuse_long_log(rows_in_it: int, task: PointTask, ops: int) -> None:
    """Raises ValueError for a log that is longer than a run of the task leaves it, whose plan has so many ops. Rows may be there twice."""
    rows = ops * task.iterations
    if rows * ROW_BYTES > most_bytes():
        raise ValueError(
            f"{task.iterations:,} iterations of {ops:,} ops would not fit in half of this machine's memory"
        )
    refuse_outside("rows", rows_in_it, 0, 2 * rows)


def refuse_unsound_log(log: OpLog, task: PointTask, ops: int) -> None:
    """Raises ValueError for a log with ops or iterations that its run did not have. Where some are missing or there twice, the verdict
    says so."""
    if len({len(column) for column in vars(log).values()}) > 1:
        raise ValueError("its columns differ in length")
    refuse_values_outside("op", log.op, 0, ops - 1)
    refuse_values_outside("iteration", log.iteration, 0, task.iterations - 1)
    for name in ("nominal_start_ns", "start_ns", "end_ns"):
        refuse_values_outside(name, getattr(log, name), -LARGEST)


def refuse_unsound_queues(queues: QueueLengths, fabric: Fabric) -> None:
    """Raises ValueError for lengths of queues that no port of the network has."""
    ports = {port.interface for port, _ in fabric.ports()}
    unknown = [port for port in queues.ports if port not in ports]
    if unknown or len(set(queues.ports)) < len(queues.ports):
        raise ValueError(f"the network has no port {shown(unknown[0])}" if unknown else "a port is there twice")
    refuse_values_outside("time_ns", queues.time_ns, -LARGEST)  # those before the replay are negative
    if queues.waiting_bytes.size:
        refuse_values_outside("waiting_bytes", queues.waiting_bytes.reshape(-1), 0)
