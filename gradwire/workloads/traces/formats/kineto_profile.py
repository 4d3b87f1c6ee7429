"""Kineto profiles: what torch.profiler exports with `export_chrome_trace`, one file per rank.

What a rank does between its communications follows from the times of its profile. A rank is a chain of what it starts
and what it waits for, in the order in which its host did so. Between two of these lies the recorded time, with all
kernels and all idling in it, except for what the GPU spent waiting for a communication: that is what a replay measures
anew.

- A call may start when the GPU has ended what the host had launched before the call, and the host has come to it.
  (ProcessGroupNCCL.cpp of PyTorch has the stream of NCCL wait for the current stream.)
- A wait is a `wait` of record_param_comms, or a cudaStreamWaitEvent outside of all of those, as DDP's reducer makes
  them. It is for the oldest call that none has waited for, and it holds up the first kernel that is launched after it.
  If that kernel began before the call had ended, the two do not belong together, and no wait of the file is believed.
- What nothing waits for must have ended at the end of the recorded time.
- A step of the host begins on the GPU when that has ended what was launched before, and ends when it has ended what
  was launched in it. How far the GPU is behind the host is not computation: what the host launches in a step may run
  long after it.
- What was launched before the profile began (kineto_launches.py) is left out, and so is the time that it took.
- Kernels that communicate without NCCL (kineto_kernels.py) count as computation, or are left out: the time in which
  nothing but them ran is then none of the rank's own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from gradwire.faults import InputFault
from gradwire.workloads.traces.formats.kineto_chain import RankChain, length, length_outside, timeline, union
from gradwire.workloads.traces.formats.kineto_events import HostCall, KinetoEvents, TimedRows, read_events
from gradwire.workloads.traces.formats.kineto_kernels import NCCL, library_named
from gradwire.workloads.traces.formats.pytorch_calls import call_of, configured_groups, is_wait
from gradwire.workloads.traces.record import Call, Findings, OtherCommunication, RankRecord, Reading, Watch

NAME = "Kineto profile"


def recognises(beginning: bytes) -> bool:
    """Returns whether a file that begins so may be a Kineto profile."""
    return b'"traceEvents"' in beginning


def read(path: Path, reading: Reading, watch: Watch) -> RankRecord:
    """Reads a profile. Raises InputFault for what is not one."""
    events = read_events(path, watch)
    record = RankRecord(path, NAME, Findings())
    _say_who(events, record, reading)
    if events.head.gradwire:
        record.findings.note(
            record.file,
            "",
            "written by gradwire: collectives are in it as the messages that they were made of, and "
            "what a computation "
            "waited for is not; `gradwire trace --chakra` writes that as well",
        )
    host, host_calls = _time_and_calls(events, record, reading)
    calls, listed, waits = _calls(host_calls, record)
    if len(events.nccl) and not events.calls:
        record.findings.refuse(
            record.file,
            "",
            f"kernels of NCCL, such as {events.nccl_name[:60]}, and no record_param_comms that says "
            "their sizes; torch "
            "records those from 2.2 on",
            len(events.nccl),
        )
        return record
    chain = timeline(events, listed, waits, host, reading)
    _fill(record, calls, chain)
    _judge(record, events, chain)
    _note_kernels(record, events, chain, reading.other_communication)
    return record


def _say_who(events: KinetoEvents, record: RankRecord, reading: Reading) -> None:
    """The rank, the number of ranks and the groups, as far as the profile says them."""
    said = events.head.distributedInfo or {}
    rank, world = said.get("rank"), said.get("world_size")
    record.rank = rank if type(rank) is int and rank >= 0 else None
    record.world = world if type(world) is int and world > 0 else None
    record.learn_given(reading)
    record.learn_groups(configured_groups(said.get("pg_config"), record.world, record.room))


def _time_and_calls(
    events: KinetoEvents, record: RankRecord, reading: Reading
) -> tuple[tuple[int, int], list[HostCall]]:
    """The host's time to read, and the calls that begin in it. Raises InputFault for a step that is not there."""
    if reading.step is not None:
        if not events.launches_known:
            what = "none of its kernels has the correlation of a recorded launch, which would say which step it is of"
            raise InputFault(f"{record.path}: --step {reading.step}: {what}")
        if reading.step in events.doubled_steps:
            what = f"ProfilerStep#{reading.step} is there twice, at different times: which of them is it?"
            raise InputFault(f"{record.path}: --step {reading.step}: {what}")
        if reading.step not in events.steps:
            there = ", ".join(map(str, sorted(events.steps))) or "none"
            raise InputFault(
                f"{record.path}: --step {reading.step}: it has no such step (ProfilerStep#N); it has {there}"
            )
        begin, end = events.steps[reading.step]
        return (begin, end), [call for call in events.calls if begin <= call.begin_ns <= end]
    begins = [call.begin_ns for call in events.calls[:1]] + [begin for begin, _ in events.steps.values()]
    ends = [call.end_ns for call in events.calls] + [end for _, end in events.steps.values()]
    begins += [int(rows.begin_ns.min()) for rows in (events.work, events.nccl) if len(rows)]
    if len(events.work):  # what communicates until later is waited for at the end
        ends.append(int(events.work.end_ns.max()))
    return (min(begins, default=0), max(ends, default=0)), events.calls


def _calls(host_calls: list[HostCall], record: RankRecord) -> tuple[list[Call], list[HostCall], list[HostCall]]:
    """The communications, the events that they come from, and the waits.

    A call in a call of the same kind and size is the same one.
    """
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
    """Yields the calls that do not lie within another call of the same thread: torch from 2.4 on records a call at two
    levels."""
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
                    record.file,
                    call.place,
                    f"'{call.arguments.collective}' in '{outer.arguments.collective}': which of them communicates?",
                )
            continue
        last[call.tid] = call
        yield call


def _fill(record: RankRecord, calls: list[Call], chain: RankChain) -> None:
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


def _judge(record: RankRecord, events: KinetoEvents, chain: RankChain) -> None:
    """Notes the assumptions that the reading rests on, and how much communication was exposed."""
    findings, file = record.findings, record.file
    if not len(events.work):
        findings.note(
            file, "", "no work of a GPU is recorded: the time between calls on the host counts as computation"
        )
    if chain.contradicted:
        findings.note(
            file,
            "",
            "waits whose computation began before the communication had ended: none of the file's waits is "
            "believed, and "
            "everything is waited for at the end",
            chain.contradicted,
        )
    if chain.unwaited:
        findings.note(
            file, "", "communications without a recorded wait: they are waited for at the end", chain.unwaited
        )
    if chain.stray_kernels and not findings.refused:  # the kernels of refused calls are stray as well
        findings.refuse(
            file,
            "",
            f"kernels of NCCL, such as {events.nccl_name[:60]}, outside of any record_param_comms: what "
            "they send is not said",
            chain.stray_kernels,
        )


def _note_kernels(record: RankRecord, events: KinetoEvents, chain: RankChain, others: OtherCommunication) -> None:
    """Notes which kernels are left out or count as what, and how much communication was exposed."""
    note, file, before = record.findings.note, record.file, events.before
    if len(before):
        what = f"kernels launched before the profile began: left out, with {_busy_ms(before):.3f} ms of the GPU"
        of_nccl = int((before.library == NCCL).sum())
        note(file, "", f"{what} and {of_nccl:,} of NCCL among them" if of_nccl else what, len(before))
    if not events.launches_known:
        what = "no launch of a kernel is recorded: each is taken as launched when it began"
        note(file, "", what, len(events.work) + len(events.nccl))
    if events.unrecorded:
        what = "kernels whose launch is not recorded: taken as launched between their neighbours on the stream"
        note(file, "", what, events.unrecorded)
    work, nccl = (
        rows.chosen((chain.host[0] <= rows.launched_ns) & (rows.launched_ns <= chain.host[1]))
        for rows in (events.work, events.nccl)
    )
    for library in np.unique(work.library[work.library > 0]).tolist():
        rows = work.chosen(work.library == library)
        what = f"kernels that communicate without NCCL ({library_named(library)}), such as "
        what += f"{events.names[library][:60]}: {others.words} ({_busy_ms(rows):.3f} ms); what they send is not said"
        note(file, "", what, len(rows))
    if len(events.nccl):
        busy = union(events.work.begin_ns, events.work.end_ns)
        record.exposed_s = length_outside(nccl.begin_ns, nccl.end_ns, *busy) / 1e9


def _busy_ms(rows: TimedRows) -> float:
    return length(*union(rows.begin_ns, rows.end_ns)) / 1e6
