"""The verdict on a run: it says whether its numbers can be trusted. A run that fails a single check is invalid and
never shown as a result.

Each check's function documents what it compares. Priority leakage (a low class sent while a high one waits) cannot be
derived from counters, but the checks see its usual cause at every port: bytes that travel in another band than that of
their class. What the agents did can be: their logs are held against the plan op by op (op_checks.py) and against the
lines' rates (line_checks.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from gradwire.analysis.agreement.short_windows import WindowUse
from gradwire.analysis.bounds import bounds, slowest_bps
from gradwire.analysis.fluid.estimate import FluidTimes
from gradwire.analysis.fluid.paths import SpineOf
from gradwire.analysis.iterations import iteration_times_s
from gradwire.analysis.packets.capture_files import Capture
from gradwire.analysis.verdict.byte_checks import agent_bytes_check, band_bytes_check, port_bytes_check
from gradwire.analysis.verdict.checks import VIRTUAL_CLOCK, Check
from gradwire.analysis.verdict.condition_checks import (
    OF_ALL_CAPTURED,
    STEADY_MEANING,
    Divided,
    division_check,
    steady_check,
)
from gradwire.analysis.verdict.congestion_checks import congestion_checks, rate_probe_check, window_check
from gradwire.analysis.verdict.job_checks import job_timing
from gradwire.analysis.verdict.line_checks import line_checks
from gradwire.analysis.verdict.network_checks import NetworkState, faults_check, network_checks
from gradwire.analysis.verdict.op_checks import op_checks
from gradwire.analysis.verdict.packet_checks import capture_checks
from gradwire.analysis.verdict.program_checks import CARRIED, ProgramsState, program_checks
from gradwire.analysis.verdict.uplink_check import uplink_checks
from gradwire.datatypes.plan import Plan
from gradwire.datatypes.records import FaultRecord, OpLog, PlannedFault, PointRecord
from gradwire.network.fabric import Fabric
from gradwire.network.sprayed_ways import ways_of
from gradwire.network.static_routes import most_trunks_on_way
from gradwire.network.wire.flows import connections_of

STEADY = "steady state"
"""Name of the check that iterations are alike, which they are not meant to be with faults."""
OF_LOSSLESS = ("upcalls", "port counters", "bytes by class", "bytes by uplink")
"""Checks of a plan that only hold where no packet gets lost, by their names."""
IN_WORDS = ("programs", "figures")
"""Checks whose values are sentences about what went wrong."""
FAILED = "failed"
"""How the summary of a run begins one of whose programs failed."""
LATENESS_SHARE = 0.01
"""The difference that `gradwire reproduce` counts as a tie. Lateness does not add up along a stream, so the latest
timer makes an iteration longer by about as much at most. Of 4,200 points, 25 exceeded a tenth of the limit."""
LATENESS_FLOOR_NS = 50_000
"""Duration of a GSO burst at 10 Gbit/s; only a greater lateness could change which message goes first."""
BOUND_SLACK = 0.999
"""Tolerates a mean that is 0.1 % too short. In virtual time none of 4,200 points
needed it: the closest one equalled its bound to six digits."""
CPU_SATURATION_LIMIT = 0.9
"""Accepts a busiest thread that slept for a tenth of the replay. As a mean it
hides short overloads, which the agents' lateness shows."""
CPU_WAIT_LIMIT = 0.1
"""Largest share of the replay for which all threads of a run together may wait for a CPU. If each wait held all workers
up, an iteration took longer by this share. Next to 14 busy processes runs waited for 0.03 to 0.05."""
WALL_TOLERANCE = 0.05
"""Largest difference of an iteration on the wall clock from one on the ideal network, as a share. What is not divided
there (headers, frames, what an agent and a core take for a message) weighs more the larger the scale is: VGG-19 on
eight workers took 1.08 to 1.44 times its time at scales from 1,100 to 2,000, and nothing else showed it."""
UPCALLS_PER_FLOW = 2
"""The first packet of a flow causes an upcall; a second one may follow before the answer is installed."""


@dataclass(frozen=True)
class Verdict:
    """The validity of a run, and the checks that it follows from."""

    #: Whether all checks passed.
    valid: bool
    #: Every check that was made.
    checks: tuple[Check, ...]
    #: "valid", or "invalid: " and the failed checks; "failed: " and its programs where these failed, whose run has no
    #: other result.
    summary: str


@dataclass(frozen=True)
class Circumstances:
    """The properties of a run's scenario, besides plan and network, that decide which checks apply, and their
    limits."""

    #: Whether a SEND ended when its last byte had left the host; without it, that is not checked.
    departs: bool = False
    #: Function that returns the spine that a message takes; without it, the uplinks of a leaf are only looked at
    #: together.
    spine_of: SpineOf | None = None
    #: Programs that ran at the same time: what they send is in no plan, and no ideal network has it.
    programs: ProgramsState | None = None
    #: Faults of the run. If they lose packets, the number of lost packets is unknown, and with any fault iterations are
    #: not alike.
    faults: Sequence[PlannedFault] = ()
    #: The congestion control that was asked for; "" for the kernel's default.
    congestion: str = ""
    #: Effect of connections' windows, if links have a delay.
    windows: WindowUse | None = None
    #: Whether the scenario chose the buffers of sockets.
    buffer_asked: bool = False
    #: The division of bytes and rates, if they were divided.
    divided: Divided | None = None


PLAIN = Circumstances()
"""Circumstances of a run of a plan alone on a network without faults."""


def judge(
    plan: Plan,
    fabric: Fabric,
    log: OpLog,
    record: PointRecord,
    captures: Sequence[Capture] = (),
    ideal: FluidTimes | None = None,
    circumstances: Circumstances = PLAIN,
) -> Verdict:
    """Makes all checks on a run of `record.iterations` iterations, the first `record.warmup` of which are warm-up.

    captures: one entry for each of `record.captures`. ideal: the plan on the ideal network; without it, its part of
    one check is left out.
    """
    programs, faults, congestion = circumstances.programs, circumstances.faults, circumstances.congestion
    windows, divided = circumstances.windows, circumstances.divided
    complete = _completeness(plan, log, record.iterations)
    as_planned = programs is None and not fabric.faulty
    messages = sum(agent.messages_sent for agent in record.agents) if programs is None else None
    state = NetworkState(fabric, record.counts, record.host_parameters, record.pauses, faults, messages)
    checks = [
        complete,
        *network_checks(state),
        rate_probe_check(fabric, record, congestion),
        *congestion_checks(plan, fabric, record, congestion),
        *((window_check(windows, circumstances.buffer_asked),) if windows is not None else ()),
        agent_bytes_check(plan, record),
        *(_of_all_bytes(plan, fabric, record, circumstances.spine_of) if as_planned else ()),
        *(program_checks(programs, has_plan=True) if programs is not None else ()),
        *_timing(plan, fabric, log, record, complete.ok, ideal if programs is None else None),
        *(_by_op(plan, fabric, log, record, circumstances.departs) if complete.ok else ()),
        *_of_captures(plan, fabric, log, record, captures, complete.ok, as_planned),
        *((division_check(divided),) if divided is not None else ()),
    ]
    if faults:
        checks = [check for check in checks if check.name != STEADY or not complete.ok]
        further = [STEADY, *(OF_LOSSLESS if fabric.faulty else ())]
        ended_ns = int(log.end_ns.max(initial=0))
        checks.append(faults_check(state, record.faults, ended_ns, "the last iteration ended", further))
    if record.clock != VIRTUAL_CLOCK:
        checks += [_cpu_saturation(record), _cpu_wait(record)]
    return verdict_of(checks)


def _of_all_bytes(plan: Plan, fabric: Fabric, record: PointRecord, spine_of: SpineOf | None) -> list[Check]:
    """The checks that compare the counts of ports and switches with the plan, which only hold if nothing else was
    sent."""
    return [
        _upcalls(plan, fabric, record),
        port_bytes_check(plan, fabric, record),
        band_bytes_check(plan, fabric, record),
        *uplink_checks(plan, fabric, record, spine_of),
    ]


def _of_captures(
    plan: Plan,
    fabric: Fabric,
    log: OpLog,
    record: PointRecord,
    captures: Sequence[Capture],
    complete: bool,
    as_planned: bool,
) -> list[Check]:
    """The checks of captured packets; with programs, and where faults lose
    packets, without those that compare all bytes."""
    made = capture_checks(plan, fabric, log, record, captures, complete)
    return made if as_planned else [check for check in made if check.name not in OF_ALL_CAPTURED]


def judge_programs(
    state: NetworkState, programs: ProgramsState, records: Sequence[FaultRecord], ended_ns: int
) -> Verdict:
    """Makes all checks on a run of programs without a plan. records: what became of its faults.

    That a program failed and what the network did are two facts: where one failed, the summary says both.
    """
    ended, readable = program_checks(programs, has_plan=False)
    happened = [faults_check(state, records, ended_ns, "all programs had ended")] if state.faults else []
    network = [*network_checks(state), *happened]
    verdict = verdict_of([ended, *network, readable])
    if not programs.failed:
        return verdict
    wrong = [_in_words(check) for check in network if not check.ok]
    said = [ended.value, f"the network did not carry all: {', '.join(wrong)}" if wrong else CARRIED]
    return replace(verdict, summary=f"{FAILED}: {'; '.join([*said, *programs.unreadable])}")


def verdict_of(checks: list[Check]) -> Verdict:
    """The verdict that follows from the checks: "valid" if none failed, else "invalid: " and all failed checks."""
    failed = [_in_words(check) for check in checks if not check.ok]
    return Verdict(not failed, tuple(checks), "invalid: " + "; ".join(failed) if failed else "valid")


def _in_words(check: Check) -> str:
    return check.value if check.name in IN_WORDS else f"{check.name} {check.value} (limit {check.limit})"


def failed_run(reason: str) -> Verdict:
    """The verdict on a run that was cut short for `reason`."""
    check = Check("run", reason, "runs to its end", False, "The run was cut short, so there is nothing to measure.")
    return Verdict(False, (check,), f"invalid: {reason}")


def _completeness(plan: Plan, log: OpLog, iterations: int) -> Check:
    """Every op of the plan is logged exactly once per iteration, and nothing else is logged."""
    expected = len(plan.ops) * iterations
    inside = (log.iteration >= 0) & (log.iteration < iterations) & (log.op >= 0) & (log.op < len(plan.ops))
    seen = np.bincount(log.iteration[inside] * len(plan.ops) + log.op[inside], minlength=expected)
    missing, repeated, foreign = int((seen == 0).sum()), int((seen > 1).sum()), int((~inside).sum())
    return Check(
        "ops logged",
        f"{expected - missing} of {expected}, {repeated} repeated, {foreign} foreign",
        "each op once per iteration",
        missing == repeated == foreign == 0,
        "An agent skipped, repeated or lost a part of the plan, so another workload was measured.",
    )


def _upcalls(plan: Plan, fabric: Fabric, record: PointRecord) -> Check:
    """Each datapath flow causes one upcall to the switch process, and maybe a second one before the answer arrives.

    There can be one flow per ordered pair of hosts, band and switch on the path, and one per multicast group and
    switch. If hosts have several ranks, more connections than that can open at once, and each may cause upcalls in
    both of its directions.
    """
    switches_on_path = 1 + most_trunks_on_way(fabric)
    groups = max(0, len(plan.group_start) - 1)
    flows = (fabric.endpoints * (fabric.endpoints - 1) * fabric.bands + groups) * switches_on_path
    flows = max(flows, 2 * len(connections_of(plan)) * switches_on_path)
    flows *= ways_of(fabric) if fabric.routing.is_by_burst else 1
    limit = UPCALLS_PER_FLOW * flows
    return Check(
        "upcalls",
        str(record.counts.upcalls),
        f"{limit} = {UPCALLS_PER_FLOW} x {flows} flows that can exist",
        record.counts.upcalls <= limit,
        "Packets went through the switch process instead of the kernel, which reorders and delays them.",
    )


def _timing(
    plan: Plan, fabric: Fabric, log: OpLog, record: PointRecord, complete: bool, ideal: FluidTimes | None
) -> list[Check]:
    """The checks that need an iteration time; an incomplete log has none and fails them."""
    late_meaning = "Computation took longer than in its profile: the emulation did not keep up with its clock."
    bound_meaning = "Faster than possible: bytes, computation or dependencies went missing, or a link ran too fast."
    if not complete:
        unknown = "unknown, the op log is incomplete"
        return [
            Check("agent lateness", unknown, "known", False, late_meaning),
            Check("lower bound", unknown, "known", False, bound_meaning),
            Check("steady state", unknown, "known", False, STEADY_MEANING),
        ]
    times_s = iteration_times_s(plan, log, record.iterations)
    mean_s = float(times_s[record.warmup :].mean())
    if plan.jobs:
        early_s = fabric.grain_s(exact_timers=record.clock == VIRTUAL_CLOCK, rate_bps=slowest_bps(fabric))
        shortest_s, made = job_timing(plan, fabric, log, record, early_s, BOUND_SLACK, bound_meaning)
        return [_lateness(record, shortest_s, late_meaning), *made]
    return [
        _lateness(record, mean_s, late_meaning),
        _lower_bound(plan, fabric, mean_s, record.clock == VIRTUAL_CLOCK, bound_meaning),
        steady_check(times_s, record.warmup, ideal),
        *([_ideal_network(mean_s, ideal)] if ideal and record.clock != VIRTUAL_CLOCK else []),
    ]


def _by_op(plan: Plan, fabric: Fabric, log: OpLog, record: PointRecord, departs: bool) -> list[Check]:
    """The checks of every op's times, which need a complete log."""
    return [*op_checks(plan, fabric, log, record), *line_checks(plan, fabric, log, record, departs=departs)]


def _lateness(record: PointRecord, mean_s: float, meaning: str) -> Check:
    """Agents acted on timers in time: on all of them in virtual time, on 99
    % on a wall clock because of the OS's noise."""
    virtual = record.clock == VIRTUAL_CLOCK
    worst = max((a.lateness_ns_max if virtual else a.lateness_ns_p99 for a in record.agents), default=0)
    limit = max(LATENESS_SHARE * mean_s * 1e9, LATENESS_FLOOR_NS)
    name = "agent lateness" if virtual else "agent lateness (p99)"
    return Check(name, f"{worst / 1e3:.1f} us", f"{limit / 1e3:.1f} us", worst < limit, meaning)


def _lower_bound(plan: Plan, fabric: Fabric, mean_s: float, exact_timers: bool, meaning: str) -> Check:
    """The mean of the measured iterations is not shorter than computation, bytes
    and dependencies allow, up to the grain of the ports."""
    lower = bounds(plan, fabric, fabric.grain_s(exact_timers=exact_timers, rate_bps=slowest_bps(fabric)))
    limit_s = lower.lower_bound_s * BOUND_SLACK
    return Check(
        "lower bound",
        f"{mean_s:.6g} s",
        f"at least {limit_s:.6g} s ({lower.kind} x {BOUND_SLACK})",
        mean_s >= limit_s,
        meaning,
    )


def _cpu_saturation(record: PointRecord) -> Check:
    """The machine had time to spare; checked only on a wall clock."""
    return Check(
        "CPU saturation",
        f"{record.cpu_saturation:.2f}",
        f"below {CPU_SATURATION_LIMIT}",
        record.cpu_saturation < CPU_SATURATION_LIMIT,
        "The machine was busy, so times show its speed and not the network's: raise the scale.",
    )


def _ideal_network(mean_s: float, ideal: FluidTimes) -> Check:
    """The second engine agrees; checked only on a wall clock, where nothing
    else would tell a network that is divided too far."""
    ratio = mean_s / ideal.iteration_s
    return Check(
        "ideal network",
        f"{ratio:.3f} of its time",
        f"1 within {WALL_TOLERANCE:.0%}",
        abs(ratio - 1) <= WALL_TOLERANCE,
        "At this scale, or on this machine, the run does not behave like the network that it stands for: use --clock "
        "virtual, or a faster machine.",
    )


def _cpu_wait(record: PointRecord) -> Check:
    """Agents and switch got a core when they needed one; checked only on a wall clock."""
    return Check(
        "CPU wait",
        f"{record.cpu_wait:.3f}",
        f"below {CPU_WAIT_LIMIT}",
        record.cpu_wait < CPU_WAIT_LIMIT,
        "Other work kept the machine busy, so times show that and not the network: keep it off, or raise the scale.",
    )
