"""Every check of the verdict, passing on a sound run and failing on the one thing that it is there for; and the rows of points.csv."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gradwire.analysis.bounds import bounds, slowest_bps
from gradwire.analysis.fluid.estimate import FluidTimes
from gradwire.analysis.point_frames import write_points_csv
from gradwire.analysis.points import (
    PointResult,
    failed_point,
    point_result,
    pool_seeds,
)
from gradwire.analysis.verdict.program_checks import ProgramsState
from gradwire.analysis.verdict.uplink_check import uplink_checks
from gradwire.analysis.verdict.verdict import Circumstances, Verdict, failed_run, judge
from gradwire.datatypes.plan import Role
from gradwire.datatypes.records import FaultRecord, OpLog, PlannedFault, PointRecord
from gradwire.faults import InputFault
from gradwire.inside.point_protocol import read_json, write_json
from gradwire.network.fabric import Fabric, Topology
from gradwire.workloads.builder import PlanBuilder
from tests.shared.points_csv import read_points_csv
from tests.shared.simulation import replay
from tests.unit.analysis.verdict.sound_run import (
    CROSSED,
    FABRIC,
    FAT_TREE,
    ITERATIONS,
    LEAF_SPINE,
    PAYLOAD_BYTES,
    SENT_BYTES,
    SIZE_BYTES,
    frames,
    pushes,
    sound_bands,
    sound_log,
    sound_record,
    sound_time_s,
)


def verdict(record: PointRecord, log: OpLog | None = None, fabric: Fabric = FABRIC) -> Verdict:
    return judge(pushes(), fabric, log or sound_log(), record)


def failed(found: Verdict) -> list[str]:
    assert found.valid == all(check.ok for check in found.checks)
    return [check.name for check in found.checks if not check.ok]


@pytest.mark.parametrize("fabric", [FABRIC, LEAF_SPINE, FAT_TREE], ids=["single switch", "leaf/spine", "fat tree"])
def test_a_sound_run_is_valid(fabric: Fabric) -> None:
    found = verdict(sound_record(fabric), fabric=fabric)
    assert failed(found) == []
    assert (found.valid, found.summary) == (True, "valid")


def with_counts(record: PointRecord, **changes: object) -> PointRecord:
    return replace(record, counts=replace(record.counts, **changes))  # type: ignore[arg-type]


def with_band(record: PointRecord, port: str, band: int, **changes: int) -> PointRecord:
    bands = tuple(replace(b, **changes) if (b.port, b.band) == (port, band) else b for b in record.counts.bands)  # type: ignore[arg-type]
    assert bands != record.counts.bands
    return with_counts(record, bands=bands)


def with_agent(record: PointRecord, **changes: int) -> PointRecord:
    return replace(record, agents=(replace(record.agents[0], **changes),))  # type: ignore[arg-type]


def moved_band(record: PointRecord, port: str) -> PointRecord:
    """All of a port's bytes of class 0 counted in the band of class 1."""
    both = sum(b.bytes_sent for b in record.counts.bands if b.port == port and b.band in (1, 2))
    return with_band(with_band(record, port, 1, bytes_sent=0), port, 2, bytes_sent=both)


def test_several_ranks_on_a_host_open_more_connections_than_there_are_flows() -> None:
    """Two hosts have 6 flows in three bands, so 12 questions; 25 connections between them may ask 100."""
    builder = PlanBuilder("crowd")
    ranks = [builder.rank(Role.WORKER, host) for host in (0, 1) for _ in range(5)]
    ops = [builder.compute(rank) for rank in ranks]
    for op in ops:
        builder.depend(op, op, lag=1)
    for rank in ranks[:5]:
        queue = builder.queue(rank)
        for other in ranks[5:]:
            builder.depend(builder.message(queue, other, 64, traffic_class=0)[0], ops[rank])
    for rank in ranks:
        builder.iteration(rank, ops[rank], ops[rank])
    plan, fabric = builder.build(compute_s=0.0, samples=1), Fabric(hosts=2, rate_bps=1e9)
    record = sound_record()
    for upcalls, fails in ((100, False), (101, True)):
        found = judge(plan, fabric, replay(plan, ITERATIONS), with_counts(record, upcalls=upcalls))
        assert ("upcalls" in failed(found)) == fails


LATENESS_LIMIT_NS = round(0.01 * sound_time_s() * 1e9)

FAULTS: dict[str, tuple[Callable[[PointRecord], PointRecord], list[str]]] = {
    "drop": (lambda r: with_band(r, "s1-eth4", 1, drops=3), ["drops"]),
    "kernel's drop": (lambda r: with_counts(r, input_drops=1), ["drops"]),
    "retransmit": (lambda r: with_counts(r, tcp_retransmits=1), ["TCP retransmits"]),
    "upcalls": (lambda r: with_counts(r, upcalls=2 * 4 * 3 * 3 + 1), ["upcalls"]),
    "table miss": (lambda r: with_counts(r, table_miss_packets=1), ["table misses"]),
    "slow link": (lambda r: replace(r, rate_probe=1.016), ["rate probe"]),
    "fast link": (lambda r: replace(r, rate_probe=0.984), ["rate probe"]),
    "not received": (lambda r: with_agent(r, bytes_received=SENT_BYTES - 1), ["agents' bytes"]),
    "not sent": (
        lambda r: with_agent(r, bytes_sent=PAYLOAD_BYTES - 1, bytes_received=PAYLOAD_BYTES - 1),
        ["agents' bytes"],
    ),
    "sent twice": (
        lambda r: with_agent(r, bytes_sent=2 * SENT_BYTES, bytes_received=2 * SENT_BYTES),
        ["agents' bytes"],
    ),
    "foreign traffic": (
        lambda r: with_band(r, "h1-eth0", 1, bytes_sent=2 * frames(SIZE_BYTES)),
        ["port counters", "bytes by class"],
    ),
    "bytes missing": (lambda r: with_band(r, "h1-eth0", 1, bytes_sent=0), ["port counters", "bytes by class"]),
    "mis-marked by a host": (lambda r: moved_band(r, "h2-eth0"), ["bytes by class"]),
    "mis-queued by the switch": (lambda r: moved_band(r, "s1-eth4"), ["bytes by class"]),
    "3 % too much in a band": (
        lambda r: with_band(r, "s1-eth4", 2, bytes_sent=round(3 * frames(SIZE_BYTES) * 1.03)),
        ["bytes by class"],
    ),
    "data in the control band": (
        lambda r: with_band(r, "h4-eth0", 0, bytes_sent=frames(SIZE_BYTES)),
        ["port counters", "bytes by class"],
    ),
    "late": (lambda r: with_agent(r, lateness_ns_max=LATENESS_LIMIT_NS + 1), ["agent lateness"]),
}


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_fails_its_check_and_says_so(name: str) -> None:
    change, checks = FAULTS[name]
    found = verdict(change(sound_record()))
    assert failed(found) == checks
    assert found.summary.startswith("invalid: ")
    assert all(check in found.summary for check in checks)


def test_a_wrong_spine_port_is_seen_on_leaf_spine() -> None:
    record = with_band(sound_record(LEAF_SPINE), "s1-eth3", 1, bytes_sent=0)
    assert failed(verdict(record, fabric=LEAF_SPINE)) == ["bytes by class"]


@pytest.mark.parametrize("port", ["s1-eth3", "s3-eth2", "s5-eth2"])
def test_a_wrong_uplink_of_a_leaf_or_a_pod_is_seen_in_a_fat_tree(port: str) -> None:
    record = with_band(sound_record(FAT_TREE), port, 1, bytes_sent=0)
    found = verdict(record, fabric=FAT_TREE)
    assert failed(found) == ["bytes by class"]


@pytest.mark.parametrize("port", CROSSED[Topology.FAT_TREE])
def test_every_line_of_a_fat_tree_carries_what_the_rules_say(port: str) -> None:
    (sound,) = uplink_checks(pushes(), FAT_TREE, sound_record(FAT_TREE), lambda *_: None)
    assert sound.ok
    record = with_band(sound_record(FAT_TREE), port, 1, bytes_sent=0)
    (found,) = uplink_checks(pushes(), FAT_TREE, record, lambda *_: None)
    assert not found.ok
    assert found.value.startswith(f"{port}: ")


def test_lateness_just_below_its_limit_passes() -> None:
    assert verdict(with_agent(sound_record(), lateness_ns_max=LATENESS_LIMIT_NS - 1)).valid


def rows(log: OpLog, keep: np.ndarray[tuple[int], np.dtype[np.int64]]) -> OpLog:
    return OpLog(log.iteration[keep], log.op[keep], log.nominal_start_ns[keep], log.start_ns[keep], log.end_ns[keep])


def test_lost_op_fails_completeness_and_what_needs_times() -> None:
    log = sound_log()
    found = verdict(sound_record(), rows(log, np.arange(len(log.op) - 1)))
    assert failed(found) == ["ops logged", "agent lateness", "lower bound", "steady state"]


def test_repeated_and_foreign_ops_fail_completeness() -> None:
    log = sound_log()
    twice = rows(log, np.append(np.arange(len(log.op)), 5))
    assert "1 repeated" in verdict(sound_record(), twice).summary
    foreign = replace(twice, op=np.append(log.op, len(pushes().ops)))
    assert "1 foreign" in verdict(sound_record(), foreign).summary


def test_cpu_saturation_counts_on_a_wall_clock_only() -> None:
    busy = replace(sound_record(), cpu_saturation=0.95)
    assert verdict(busy).valid
    assert failed(verdict(replace(busy, clock="wall"))) == ["CPU saturation"]
    assert verdict(replace(busy, clock="wall", cpu_saturation=0.5)).valid


def test_a_wall_clock_forgives_its_worst_timer_but_not_its_worst_percent() -> None:
    wall = replace(with_agent(sound_record(), lateness_ns_max=10**9), clock="wall")
    assert verdict(wall).valid
    assert failed(verdict(with_agent(wall, lateness_ns_p99=10**8))) == ["agent lateness (p99)"]


def test_a_lossy_fabric_may_drop_what_it_was_asked_to() -> None:
    lossy = replace(FABRIC, loss=0.001)
    packets = sum(band.packets_sent for band in sound_bands(lossy) if band.port in lossy.losses)
    some = with_counts(with_band(sound_record(), "s1-eth4", 1, drops=packets // 1000), tcp_retransmits=packets // 50)
    assert verdict(some, fabric=lossy).valid
    many = with_band(sound_record(), "s1-eth4", 1, drops=packets // 100)
    assert failed(verdict(many, fabric=lossy)) == ["drops"]
    assert failed(verdict(with_counts(sound_record(), tcp_retransmits=1), fabric=lossy)) == ["TCP retransmits"]


@pytest.mark.parametrize(("fabric", "switches"), [(FABRIC, 1), (LEAF_SPINE, 3), (FAT_TREE, 5)])
def test_each_pair_of_hosts_may_ask_twice_in_each_band_at_each_switch(fabric: Fabric, switches: int) -> None:
    most = 2 * 4 * 3 * 3 * switches
    for upcalls, names in ((most, []), (most + 1, ["upcalls"])):
        assert failed(verdict(with_counts(sound_record(fabric), upcalls=upcalls), fabric=fabric)) == names


@pytest.mark.parametrize(
    ("share", "names"), [(0.951, []), (0.949, ["ideal network"]), (1.049, []), (1.051, ["ideal network"])]
)
def test_on_a_wall_clock_the_time_is_the_ideal_networks_within_5_percent(share: float, names: list[str]) -> None:
    ideal_s = sound_time_s() / share
    ideal = FluidTimes(np.full(6, ideal_s), ideal_s, 1)
    found = judge(pushes(), FABRIC, sound_log(), replace(sound_record(), clock="wall"), ideal=ideal)
    assert failed(found) == names


def test_a_fault_leaves_out_the_steady_state_and_no_other_check_of_times() -> None:
    """A slow worker that was as slow as it should be excuses no wrong log and no wrong bytes."""
    fault = PlannedFault("slow", "slow-worker", 5, worker=0, value=1.0)
    record = FaultRecord(fault, 5, 5, int(sound_log().end_ns.max()), 2)

    def found(log: OpLog, **changes: int) -> Verdict:
        faulty = replace(with_counts(sound_record(), **changes), faults=(record,))
        return judge(pushes(), FABRIC, log, faulty, circumstances=Circumstances(faults=[fault]))

    without = {check.name for check in judge(pushes(), FABRIC, sound_log(), sound_record()).checks}
    sound = found(sound_log())
    assert sound.valid
    assert {check.name for check in sound.checks} == without - {"steady state"} | {"faults"}
    assert failed(found(sound_log(), table_miss_packets=1)) == ["table misses"]
    early = sound_log().end_ns.copy()
    early[0] -= 1_000
    assert "op durations" in failed(found(replace(sound_log(), end_ns=early)))


def test_drops_may_exceed_the_share_asked_for_by_six_deviations_and_ten() -> None:
    """Of n packets lost with a small share p, the standard deviation is the root of n p."""
    lossy = replace(FABRIC, loss=0.001)
    sent = sum(band.packets_sent for band in sound_bands(lossy) if band.port in lossy.losses)

    def is_allowed(drops: int) -> bool:
        asked = (sent + drops) * 0.001
        return drops <= int(asked + 6 * math.sqrt(asked) + 10)

    most = next(drops for drops in range(sent) if not is_allowed(drops + 1))
    for drops, names in ((most, []), (most + 1, ["drops"])):
        assert failed(verdict(with_band(sound_record(), "s1-eth4", 1, drops=drops), fabric=lossy)) == names


def test_a_lost_burst_has_as_many_segments_as_its_mtu_gives() -> None:
    """A burst of 64 KiB is 45 segments at MTU 1500 and 7 at MTU 9000; each may be sent again, and once more for nothing."""
    for mtu_bytes, segments in ((1500, 45), (9000, 7)):
        lossy = replace(FABRIC, loss=0.001, mtu_bytes=mtu_bytes)
        record = with_counts(with_band(sound_record(), "s1-eth4", 1, drops=1), tcp_retransmits=2 * segments + 1)
        limits = {check.name: check.limit for check in verdict(record, fabric=lossy).checks}
        assert limits["TCP retransmits"] == str(2 * segments)


def test_losses_slow_the_probe_down_but_never_make_it_faster() -> None:
    lossy = replace(FABRIC, loss=0.001)
    assert verdict(replace(sound_record(), rate_probe=1.3), fabric=lossy).valid
    assert failed(verdict(replace(sound_record(), rate_probe=0.98), fabric=lossy)) == ["rate probe"]


def test_a_message_may_be_early_by_the_grain_of_the_ports_and_no_more() -> None:
    early_s = FABRIC.grain_s(exact_timers=True)
    exact, grained = bounds(pushes(), FABRIC), bounds(pushes(), FABRIC, early_s)
    assert grained.bandwidth_s == pytest.approx(exact.bandwidth_s - early_s)
    assert exact.critical_path_s - 3 * early_s <= grained.critical_path_s < exact.critical_path_s
    assert grained.compute_s == exact.compute_s


def test_ports_between_switches_forgive_for_longer_if_they_are_slower() -> None:
    """A burst of 64 KiB is 52 us at 10 Gbit/s, and at an oversubscribed uplink's rate four times that."""
    tree = Fabric(8, 10e9, topology=Topology.LEAF_SPINE, leaves=2, spines=2, oversubscription=8.0)
    assert slowest_bps(tree) == 2.5e9
    early_s = tree.grain_s(exact_timers=True, rate_bps=slowest_bps(tree))
    assert early_s == pytest.approx((65536 + 1514) * 8 / 2.5e9, rel=0.01)
    assert early_s == pytest.approx(4 * tree.grain_s(exact_timers=True), rel=0.05)
    assert FABRIC.grain_s(exact_timers=True, rate_bps=slowest_bps(FABRIC)) == FABRIC.grain_s(exact_timers=True)


def test_verdict_round_trip(tmp_path: Path) -> None:
    found = verdict(replace(sound_record(), rate_probe=2.0))
    write_json(tmp_path / "verdict.json", found)
    assert read_json(tmp_path / "verdict.json", Verdict) == found


def test_a_run_that_did_not_end_is_invalid() -> None:
    assert failed_run("rank 3 died").summary == "invalid: rank 3 died"
    assert not failed_run("rank 3 died").valid


def measured_point(**parameters: str) -> PointResult:
    plan = pushes()
    return point_result(parameters, plan, FABRIC, sound_log(), sound_record(), verdict(sound_record()), wall_s=7.5)


def test_a_point_from_its_run() -> None:
    point = measured_point(model="x")
    assert point.iteration_time_s == pytest.approx(sound_time_s())
    assert point.throughput_per_s == pytest.approx(96 / sound_time_s())
    assert point.scaling_efficiency == pytest.approx(0.010 / sound_time_s())
    assert (point.bytes_sent, point.lower_bound_kind, point.valid) == (SENT_BYTES, "bandwidth", True)


def test_points_csv_round_trip(tmp_path: Path) -> None:
    bad = verdict(with_counts(sound_record(), tcp_retransmits=1))
    points = [
        measured_point(model="x", rate="10gbit"),
        replace(
            measured_point(model='a,"b"'), verdict=bad.summary, ci95_s=None, iteration_time_std_s=None, wall_s=1 / 3
        ),
    ]
    path = tmp_path / "points.csv"
    write_points_csv(path, points)
    assert read_points_csv(path) == points
    assert [point.valid for point in read_points_csv(path)] == [True, False]
    assert (
        path.read_text()
        .splitlines()[0]
        .startswith("model,rate,iteration_time_s,iteration_time_std_s,ci95_s,throughput_per_s,")
    )


def test_a_failed_point_has_no_numbers(tmp_path: Path) -> None:
    write_points_csv(
        tmp_path / "p.csv", [failed_point({"seed": "1"}, pushes(), FABRIC, failed_run("rank 3 died"), 2.0)]
    )
    (point,) = read_points_csv(tmp_path / "p.csv")
    assert math.isnan(point.iteration_time_s)
    assert (point.verdict, point.valid, point.ci95_s) == ("invalid: rank 3 died", False, None)
    assert point.lower_bound_s > 0


def test_points_csv_rejects_a_parameter_that_is_named_like_a_result(tmp_path: Path) -> None:
    with pytest.raises(InputFault, match="'verdict'"):
        write_points_csv(tmp_path / "p.csv", [measured_point(verdict="x")])


def test_seeds_are_pooled_and_one_bad_seed_spoils_the_pool() -> None:
    points = [replace(measured_point(model="x", seed=str(s)), iteration_time_s=t) for s, t in ((1, 0.5), (2, 1.5))]
    (pooled,) = pool_seeds(points)
    assert (pooled.parameters, pooled.iteration_time_s, pooled.valid) == ({"model": "x"}, 1.0, True)
    assert pooled.iteration_time_std_s == pytest.approx(math.sqrt(0.5))
    assert pooled.throughput_per_s == pytest.approx(96 / sound_time_s() / 2)
    (spoilt,) = pool_seeds([points[0], replace(points[1], verdict="invalid: drops 3 (limit 0)")])
    assert spoilt.verdict == "invalid: 1 of 2 seeds; invalid: drops 3 (limit 0)"


def test_programs_beside_a_strategy_leave_out_what_counts_all_bytes() -> None:
    record = sound_record(FABRIC)
    more = tuple(replace(band, bytes_sent=3 * band.bytes_sent) for band in record.counts.bands)
    busier = replace(record, counts=replace(record.counts, bands=more, upcalls=10**6))
    assert {"port counters", "bytes by class", "upcalls"} <= set(failed(verdict(busier)))
    beside = judge(
        pushes(),
        FABRIC,
        sound_log(),
        busier,
        circumstances=Circumstances(programs=ProgramsState(2, early=["backup/h1 ended after 0.100 s"])),
    )
    assert failed(beside) == []
    (check,) = (check for check in beside.checks if check.name == "programs")
    assert check.value.startswith("2 ran during the plan; backup/h1 ended after 0.100 s (port counters, ")
    assert "no plan" in check.value
    wrong = judge(
        pushes(),
        FABRIC,
        sound_log(),
        busier,
        circumstances=Circumstances(programs=ProgramsState(2, ["backup/h1 ended with status 3"])),
    )
    assert wrong.summary == "invalid: backup/h1 ended with status 3"
