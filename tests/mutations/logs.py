"""Faults of logs and counters, put into what a sound run left."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from gradwire.datatypes.network_counts import BandCount, NetworkCounts
from gradwire.datatypes.plan import OpKind, Plan
from gradwire.datatypes.records import AgentSummary, Int64, OpLog, PointRecord
from gradwire.network.fabric import Fabric
from tests.mutations.fault import Fault

Injected = Callable[[Plan, Fabric, OpLog, PointRecord], tuple[OpLog, PointRecord]]
MS = 1_000_000


def of_log(change: Callable[[Plan, OpLog], OpLog]) -> Injected:
    return lambda plan, _, log, record: (change(plan, log), record)


def of_record(change: Callable[[PointRecord], PointRecord]) -> Injected:
    return lambda _, __, log, record: (log, change(record))


def of_counts(**changes: Callable[[int], int]) -> Injected:
    def change(counts: NetworkCounts) -> NetworkCounts:
        return replace(counts, **{name: new(getattr(counts, name)) for name, new in changes.items()})  # type: ignore[arg-type]

    return of_record(lambda record: replace(record, counts=change(record.counts)))


def of_bands(change: Callable[[BandCount], BandCount]) -> Injected:
    return of_record(
        lambda record: replace(record, counts=replace(record.counts, bands=tuple(map(change, record.counts.bands))))
    )


def of_agents(change: Callable[[AgentSummary], AgentSummary]) -> Injected:
    return of_record(lambda record: replace(record, agents=tuple(map(change, record.agents))))


def rows(log: OpLog, chosen: Int64) -> OpLog:
    return OpLog(*(column[chosen] for column in vars(log).values()))


def columns(log: OpLog, change: Callable[[Int64], Int64], *names: str) -> OpLog:
    return replace(log, **{name: change(getattr(log, name)) for name in names})


TIMES = ("nominal_start_ns", "start_ns", "end_ns")


def shifted_on_a_host(plan: Plan, log: OpLog) -> OpLog:
    """The first host's clock is 1 ms ahead."""
    by_ns = np.where(plan.rank_host[plan.ops.rank[log.op]] == 0, MS, 0)
    return columns(log, lambda at: at + by_ns, *TIMES)


def one_more(plan: Plan, log: OpLog, kind: OpKind, name: str, by_ns: int) -> OpLog:
    """One time of the middle op of a kind is another."""
    at = np.flatnonzero(plan.ops.kind[log.op] == kind)
    at = at[len(at) // 2 : len(at) // 2 + 1]
    return columns(log, lambda times: times + by_ns * np.isin(np.arange(len(times)), at), name)


def two_exchanged(plan: Plan, log: OpLog) -> OpLog:
    """Two computations of one rank have each other's rows."""
    mine = np.flatnonzero(
        (plan.ops.kind[log.op] == OpKind.COMPUTE) & (plan.ops.rank[log.op] == 0) & (log.iteration == 1)
    )
    op = log.op.copy()
    op[mine[:2]] = op[mine[1::-1]]
    return replace(log, op=op)


def iterations_exchanged(_: Plan, log: OpLog) -> OpLog:
    return replace(log, iteration=np.choose(log.iteration, [0, 2, 1, 3]))


def exchanged(band: BandCount) -> BandCount:
    """A host's two classes are counted as each other's."""
    return replace(band, band=3 - band.band) if band.port == "h1-eth0" and band.band else band


FAULTS = [
    Fault("a row is lost", of_log(lambda _, log: rows(log, np.arange(len(log.op) - 1)))),
    Fault("a row is doubled", of_log(lambda _, log: rows(log, np.append(np.arange(len(log.op)), 7)))),
    Fault("rows in another order", of_log(lambda _, log: rows(log, np.random.default_rng(1).permutation(len(log.op))))),
    Fault("two computations' rows exchanged", of_log(two_exchanged)),
    Fault("two iterations exchanged", of_log(iterations_exchanged)),
    Fault("one host's clock is 1 ms ahead", of_log(shifted_on_a_host)),
    Fault("all clocks are 1 ms ahead", of_log(lambda _, log: columns(log, lambda at: at + MS, *TIMES))),
    Fault("the clock is 1 % fast", of_log(lambda _, log: columns(log, lambda at: at * 101 // 100, *TIMES))),
    Fault("a computation ends 1 us early", of_log(lambda p, log: one_more(p, log, OpKind.COMPUTE, "end_ns", -1000))),
    Fault("a SEND begins 1 us early", of_log(lambda p, log: one_more(p, log, OpKind.SEND, "start_ns", -1000))),
    Fault("a RECV ends 1 ms early", of_log(lambda p, log: one_more(p, log, OpKind.RECV, "end_ns", -MS))),
    Fault(
        "a port's bytes doubled",
        of_bands(lambda b: replace(b, bytes_sent=b.bytes_sent * 2) if b.port == "s1-eth1" else b),
    ),
    Fault("a port's bytes lost", of_bands(lambda b: replace(b, bytes_sent=0) if b.port == "h2-eth0" else b)),
    Fault("all bytes 5 % too many", of_bands(lambda b: replace(b, bytes_sent=b.bytes_sent * 105 // 100))),
    Fault("a port's two classes exchanged", of_bands(exchanged)),
    Fault("a port dropped a packet", of_bands(lambda b: replace(b, drops=int(b.port == "s1-eth2" and b.band == 1)))),
    Fault("a segment was sent again", of_counts(tcp_retransmits=lambda n: n + 1)),
    Fault("a byte less was received", of_agents(lambda a: replace(a, bytes_received=a.bytes_received - 1))),
    Fault("lateness is not reported", of_agents(lambda a: replace(a, lateness_ns_max=0, lateness_ns_p99=0))),
    Fault("agents were late by 10 ms", of_agents(lambda a: replace(a, lateness_ns_max=10 * MS))),
]
