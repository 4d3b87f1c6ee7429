"""Kineto profiles: what torch.profiler exports with `export_chrome_trace`, one file per rank."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from gradwire.faults import InputFault
from gradwire.workloads.traces.findings import Findings
from gradwire.workloads.traces.formats.intervals import length_outside, union
from gradwire.workloads.traces.formats.kineto_events import HostCall, KinetoEvents, read_events
from gradwire.workloads.traces.formats.kineto_timeline import Timeline, timeline
from gradwire.workloads.traces.formats.pytorch_calls import call_of, configured_groups, is_wait
from gradwire.workloads.traces.record import Call, RankRecord, Reading, Watch

NAME = "Kineto profile"


def recognises(beginning: bytes) -> bool:
    """Whether a file that begins so may be one."""
    return b'"traceEvents"' in beginning


def read(path: Path, reading: Reading, watch: Watch) -> RankRecord:
    """Reads a profile. Raises InputFault for what is not one."""
    events = read_events(path, watch)
    record = RankRecord(path, NAME, Findings())
    _say_who(events, record, reading)
    if events.head.gradwire:
        record.findings.note(
            record.file, "", "written by gradwire: collectives are in it as the messages that they were made of, and what a computation "
            "waited for is not; `gradwire trace --chakra` writes that as well",
        )  # fmt: skip
    window, host_calls = _chosen(events, record, reading)
    calls, listed, waits = _calls(host_calls, record)
    if len(events.nccl) and not events.calls:
        record.findings.refuse(
            record.file, "", f"kernels of NCCL, such as {events.nccl_name[:60]}, and no record_param_comms that says their sizes; torch "
            "records those from 2.2 on", len(events.nccl),
        )  # fmt: skip
        return record
    chain = timeline(events, listed, waits, window, of_host=reading.step is not None)
    _fill(record, calls, chain)
    _judge(record, events, chain, whole=reading.step is None)
    return record


def _say_who(events: KinetoEvents, record: RankRecord, reading: Reading) -> None:
    """The rank, the number of ranks and the groups, as far as the profile says them."""
    said = events.head.distributedInfo or {}
    rank, world = said.get("rank"), said.get("world_size")
    record.rank = rank if type(rank) is int and rank >= 0 else None
    record.world = world if type(world) is int and world > 0 else None
    record.learn_given(reading)
    record.learn_groups(configured_groups(said.get("pg_config"), record.world, record.room))


def _chosen(events: KinetoEvents, record: RankRecord, reading: Reading) -> tuple[tuple[int, int], list[HostCall]]:
    """The host's time to read, and the calls that begin in it. Raises InputFault for a step that is not there."""
    if reading.step is not None:
        if reading.step not in events.steps:
            there = ", ".join(map(str, sorted(events.steps))) or "none"
            raise InputFault(
                f"{record.path}: --step {reading.step}: it has no such step (ProfilerStep#N); it has {there}"
            )
        begin, end = events.steps[reading.step]
        return (begin, end), [call for call in events.calls if begin <= call.begin_ns <= end]
    begins = [call.begin_ns for call in events.calls[:1]] + [begin for begin, _ in events.steps.values()]
    ends = [call.end_ns for call in events.calls] + [end for _, end in events.steps.values()]
    for columns in (events.work, events.nccl):
        if len(columns):
            ends.append(int(columns.end_ns.max()))
            begins.append(int(columns.begin_ns.min()))
    return (min(begins, default=0), max(ends, default=0)), events.calls


def _calls(host_calls: list[HostCall], record: RankRecord) -> tuple[list[Call], list[HostCall], list[HostCall]]:
    """The communications, the events that they come from, and the waits. A call in a call of the same kind and size is
    the same one."""
    calls: list[Call] = []
    listed: list[HostCall] = []
    waits: list[HostCall] = []
    for host_call in _without_nested(host_calls, record):
        if is_wait(host_call.arguments):
            waits.append(host_call)
        call = call_of(host_call.arguments, host_call.place, record)
        if call is not None:
            calls.append(call)
            listed.append(host_call)
    return calls, listed, waits


def _without_nested(host_calls: list[HostCall], record: RankRecord) -> Iterator[HostCall]:
    """Leaves out what lies in another call of the same thread: torch from 2.4 on records a call at two levels."""
    last: dict[int | str, HostCall] = {}
    for call in host_calls:
        outer = last.get(call.tid)
        if outer is not None and call.end_ns <= outer.end_ns:
            if call.arguments.collective == outer.arguments.collective:
                record.findings.note(
                    record.file, call.place, "record_param_comms in one of the same kind: counted once"
                )
            else:
                record.findings.refuse(
                    record.file, call.place, f"'{call.arguments.collective}' in '{outer.arguments.collective}': which of them communicates?"
                )  # fmt: skip
            continue
        last[call.tid] = call
        yield call


def _fill(record: RankRecord, calls: list[Call], chain: Timeline) -> None:
    """Adds the chain: the rank's own time, what it starts, and what it waits for."""
    last = record.compute(chain.own_ns[0])
    task_of: dict[int, int] = {}
    on_stream: dict[int, int] = {}
    waiting: list[int] = []
    for moment, own_ns in zip(chain.moments, chain.own_ns[1:], strict=True):
        if moment.starts:
            call, stream = calls[moment.call], chain.stream[moment.call]
            before = [on_stream[stream]] if stream in on_stream else []
            timed = replace(call, duration_ns=chain.duration_ns[moment.call])
            task_of[moment.call] = on_stream[stream] = record.call(timed, [last, *before])
        else:
            waiting.append(task_of[moment.call])
        if own_ns or waiting:
            last = record.compute(own_ns, after=[last, *waiting])
            waiting = []


def _judge(record: RankRecord, events: KinetoEvents, chain: Timeline, *, whole: bool) -> None:
    """What the reading rests on, and what was exposed."""
    findings, file = record.findings, record.file
    if not len(events.work):
        findings.note(
            file, "", "no work of a GPU is recorded: the time between calls on the host counts as computation"
        )
    if chain.contradicted:
        findings.note(
            file, "", "waits whose computation began before the communication had ended: none of the file's waits is believed, and "
            "everything is waited for at the end", chain.contradicted,
        )  # fmt: skip
    if chain.unwaited:
        findings.note(
            file, "", "communications without a recorded wait: they are waited for at the end", chain.unwaited
        )
    if chain.stray_kernels and whole and not findings.refused:  # the kernels of refused calls are stray as well
        findings.refuse(
            file, "", f"kernels of NCCL, such as {events.nccl_name[:60]}, outside of any record_param_comms: what they send is not said",
            chain.stray_kernels,
        )  # fmt: skip
    if len(events.nccl):
        busy = union(events.work.begin_ns, events.work.end_ns)
        begin, end = (np.clip(column, *chain.window) for column in (events.nccl.begin_ns, events.nccl.end_ns))
        record.exposed_s = length_outside(begin, end, *busy) / 1e9
