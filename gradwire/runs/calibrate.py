"""Measures the fabric itself: traffic patterns against their ideal times, and strict priority at host and switch
ports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass

from gradwire.analysis.transfers import ideal_s, low_share, transfer_time_s
from gradwire.datatypes.plan import Plan, Role
from gradwire.datatypes.wire.framing import Framing
from gradwire.network.fabric import ETHERNET_HEADER_BYTES, IP_TCP_HEADER_BYTES, PREAMBLE_FCS_GAP_BYTES, Fabric
from gradwire.runs.replay import ReplayedPlan, replay_plans
from gradwire.vm.machines import Clock
from gradwire.workloads.builder import PlanBuilder
from gradwire.workloads.patterns import (
    Transfer,
    all_to_all,
    compile_transfers,
    incast,
    one,
    outcast,
    priority_clash,
    ring,
)

FLOW_S = 0.0512
"""Length of one flow at line rate: 64 MB at 10 Gbit/s. It is the same at every rate, so that fixed costs (the way
through two ports, agents that start one flow after the other) weigh the same."""
FLOW_BYTES_MAX = 256_000_000
"""Limit of a flow, so that 100 Gbit/s takes one minute and not two. With 640 MB, the ratios are the same to 0.1 %."""
WARMUP = 1
REQUEST_BYTES = 1000
"""Size of a request, and of its response: with its header it fills less than a frame."""
ROUND_TRIPS = 100
REQUEST_RESPONSE = "request-response"


@dataclass(frozen=True)
class PatternResult:
    """A pattern's time and its ideal."""

    measured_s: float
    ideal_s: float

    @property
    def ratio(self) -> float:
        """Measured over ideal."""
        return self.measured_s / self.ideal_s


@dataclass(frozen=True)
class Calibration:
    """The results of a calibration."""

    hosts: int
    rate_bps: float
    clock: str
    patterns: dict[str, PatternResult]
    #: Share of a low class in the bytes while a high class saturates the port, by kind of port.
    low_share: dict[str, float]

    def as_dict(self) -> dict[str, object]:
        """The results in the format of `gradwire calibrate --json`."""
        patterns = {name: {**asdict(result), "ratio": result.ratio} for name, result in self.patterns.items()}
        priority = {place: {"low_share": share} for place, share in self.low_share.items()}
        return {
            "hosts": self.hosts,
            "rate_bps": self.rate_bps,
            "clock": self.clock,
            "patterns": patterns,
            "priority": priority,
        }


def flow_bytes(rate_bps: float) -> int:
    """Payload of one flow."""
    return min(FLOW_BYTES_MAX, int(FLOW_S * rate_bps / 8))


def measure_one_flow(rate_bps: float, clock: Clock) -> PatternResult:
    """One flow between two hosts on a switch: the quickest of all calibrations. Raises a Fault of the machine."""
    plan = compile_transfers("one", 2, one(flow_bytes(rate_bps)))
    return _result(replay_plans({"one": plan}, Fabric(2, rate_bps), WARMUP + 1, clock=clock)["one"])


def duplex(size_bytes: int) -> list[Transfer]:
    """Two hosts send to each other at once, each on a separate connection, as in a plan."""
    return [Transfer(0, 1, size_bytes), Transfer(1, 0, size_bytes)]


def request_response(hosts: int) -> Plan:
    """The first host asks the second, which answers, and asks again when the answer is there: ROUND_TRIPS times per
    iteration."""
    builder = PlanBuilder(REQUEST_RESPONSE)
    ranks = [builder.rank(Role.WORKER, host) for host in range(hosts)]
    queues = [builder.queue(rank) for rank in ranks]
    begins = [builder.compute(rank) for rank in ranks]
    last = list(begins)
    for _ in range(ROUND_TRIPS):
        for asking, answering in ((0, 1), (1, 0)):
            send, recv = builder.message(queues[asking], ranks[answering], REQUEST_BYTES, traffic_class=0)
            builder.depend(send, last[asking])
            last[asking], last[answering] = send, recv
    for rank, begin, end in zip(ranks, begins, last, strict=True):
        builder.iteration(rank, begin, end)
        builder.depend(begin, end, lag=1)
    return builder.build(compute_s=0.0, samples=0)


def round_trips_s(fabric: Fabric) -> float:
    """Ideal time of an iteration of `request_response`: every message takes its line time twice, at its host's port
    and at the switch's."""
    overhead_bytes = ETHERNET_HEADER_BYTES + IP_TCP_HEADER_BYTES + PREAMBLE_FCS_GAP_BYTES
    frame_bytes = Framing(fabric.hosts).header_bytes + REQUEST_BYTES + overhead_bytes
    return ROUND_TRIPS * 2 * 2 * frame_bytes * 8 / fabric.rate_bps


def _result(done: ReplayedPlan) -> PatternResult:
    return PatternResult(transfer_time_s(done.plan, done.log, WARMUP), ideal_s(done.plan, done.fabric))


def calibrate_fabric(hosts: int, rate_bps: float, clock: Clock, on_pattern: Callable[[str], None]) -> Calibration:
    """Calibrates one switch with `hosts` hosts; `on_pattern` hears the name of each pattern that is done. Raises a
    Fault of the machine."""
    fabric = Fabric(hosts, rate_bps)
    size_bytes = flow_bytes(rate_bps)
    wanted = {
        "one": one(size_bytes),
        "ring": ring(hosts, size_bytes),
        "incast": incast(hosts, size_bytes),
        "outcast": outcast(hosts, size_bytes),
        "all-to-all": all_to_all(hosts, size_bytes),
        "duplex": duplex(size_bytes),
        "host_port": priority_clash(size_bytes, rate_bps, at_switch=False),
        "switch_port": priority_clash(size_bytes, rate_bps, at_switch=True),
    }
    plans = {name: compile_transfers(name, hosts, transfers) for name, transfers in wanted.items()}
    plans[REQUEST_RESPONSE] = request_response(hosts)
    replayed = replay_plans(plans, fabric, WARMUP + 1, clock=clock, on_plan=on_pattern)
    patterns, shares = {}, {}
    for name, done in replayed.items():
        if name.endswith("_port"):
            shares[name] = low_share(done.plan, done.log, WARMUP)
        elif name == REQUEST_RESPONSE:
            patterns[name] = PatternResult(transfer_time_s(done.plan, done.log, WARMUP), round_trips_s(done.fabric))
        else:
            patterns[name] = _result(done)
    return Calibration(hosts, rate_bps, clock.name, patterns, shares)
