"""Faults of a scenario: what is accepted, what is refused and how, and what the machine is told."""

from __future__ import annotations

from typing import Any

import pytest

from gradwire.datatypes.records import PlannedFault
from gradwire.documents import table_at
from gradwire.faults import InputFault
from gradwire.network.fabric import Fabric, Topology
from gradwire.scenario.loading import scenario_of
from gradwire.scenario.resolution.planned_faults import fault_defects, planned_faults
from gradwire.scenario.sections.fault import NEEDS, FaultSection, may_lose, named_faults
from tests.shared.parts import in_order

FABRIC = Fabric(hosts=4, rate_bps=10e9)
CONTENT: dict[str, Any] = {
    "title": "faults",
    "cluster": {"workers": 4},
    "fabric": {"rate": "10gbit"},
    "model": {"name": "one", "layers": [{"name": "fc", "size": ["4MB"], "forward": "1ms", "backward": "1ms"}]},
    "strategy": {"name": "ring"},
}
VALUES: dict[str, Any] = {
    "link": "h2",
    "worker": 1,
    "switch": "s1",
    "source": "h1",
    "destination": "h3",
    "loss": 0.01,
    "delay": "1ms",
    "rate": "5gbit",
    "factor": 2.0,
    "every": "20ms",
    "duration": "100ms",
}


def fault(kind: str, **values: Any) -> dict[str, Any]:
    return {"kind": kind, **{key: VALUES[key] for key in NEEDS[kind]}, **values}


def section(kind: str, **values: Any) -> FaultSection:
    return FaultSection.model_validate(fault(kind, **values))


@pytest.mark.parametrize("kind", NEEDS)
def test_every_kind_is_accepted_with_what_it_needs_and_refused_without_any_of_it(kind: str) -> None:
    (point,) = scenario_of({**CONTENT, "fault": {"x": fault(kind)}}).points
    assert point.section.fault["x"].kind == kind
    for key in NEEDS[kind]:
        lacking = {name: value for name, value in fault(kind).items() if name != key}
        with pytest.raises(InputFault, match=in_order(f"fault.x.{key}: missing", f"'{kind}'")):
            scenario_of({**CONTENT, "fault": {"x": lacking}})


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        (fault("link-down", worker=1), "fault.x.worker: has no effect with kind = 'link-down'; it is for kind = 'slow-worker' or"),
        (fault("dead-worker", duration="1s"), "fault.x.duration: the dead do not come back"),
        (fault("loss", loss=1), "fault.x.loss = 1: must be a number above 0 and below 1 (where nothing gets through, the link is down"),
        (fault("slow-worker", factor=1), "fault.x.factor = 1: must be a number above 1"),
        (fault("rate", rate="5"), "fault.x.rate = '5': must be"),
        (fault("link-down", at=50), "fault.x.at = 50: must be a duration"),
        (fault("link-down", iteration=-1), "fault.x.iteration = -1: must be a whole number of at least 0"),
        (fault("flapping", every="1us"), "fault.x.every = '1us': must be a duration of 1ms"),
        (fault("tenant", destination="h1"), "fault.x.destination = 'h1': must be another host than the source"),
        (fault("tenant", link="h1"), "fault.x.link: has no effect with kind = 'tenant'"),
        ({"kind": "link-dwn", "link": "h1"}, "did you mean 'link-down'?"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused_with_its_key(values: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InputFault) as refused:
        scenario_of({**CONTENT, "fault": {"x": values}})
    assert complaint in str(refused.value)


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        (fault("link-down", link="h9"), "fault.x.link = 'h9': no link is called that; links are named by a host (h1 to h4)"),
        (fault("rate", rate="10gbit"), "fault.x.rate: must be below the 10gbit of link h2"),
        (fault("switch-restart", switch="s2"), "fault.x.switch = 's2': switches are s1"),
        (fault("dead-worker", worker=4), "fault.x.worker = 4: workers are 0 to 3"),
        (fault("dead-worker", job="first"), "fault.x.job = 'first': the scenario has one job; leave it out"),
        (fault("tenant", destination="h5"), "fault.x.destination = 'h5': hosts are h1 to h4"),
        (fault("tenant", rate="25gbit"), "fault.x.rate: must be at most the 10gbit of a host's link"),
    ],
)  # fmt: skip
def test_places_that_do_not_exist_are_refused(values: dict[str, Any], complaint: str) -> None:
    (line,) = fault_defects({"x": FaultSection.model_validate(values)}, FABRIC, 4)
    assert line.startswith(complaint)


def test_names_have_to_be_ones_that_messages_can_tell() -> None:
    (defect,) = fault_defects({"a b": section("link-down")}, FABRIC, 4)
    assert defect.startswith("fault.a b: a name")


def test_a_list_of_faults_is_named_by_numbers_and_can_be_set() -> None:
    listed = {**CONTENT, "fault": [fault("link-down"), fault("dead-worker")]}
    assert table_at(named_faults(listed), "fault").keys() == {"1", "2"}
    assert named_faults(CONTENT) == CONTENT
    (point,) = scenario_of(listed, ["fault.2.worker=3"]).points
    assert [each.kind for each in point.section.fault.values()] == ["link-down", "dead-worker"]
    assert point.section.fault["2"].worker == 3


def test_any_key_of_a_fault_can_be_swept() -> None:
    swept = {**CONTENT, "fault": {"cut": fault("link-down")}, "sweep": {"fault.cut.at": ["1ms", "2ms"]}}
    assert [point.section.fault["cut"].at for point in scenario_of(swept).points] == [0.001, 0.002]


def test_the_machine_is_told_ports_and_nanoseconds() -> None:
    leaf_spine = Fabric(hosts=4, rate_bps=10e9, topology=Topology.LEAF_SPINE, leaves=2, spines=1)
    faults = {
        "cut": section("link-down", at="1.5ms", duration="300ms", iteration=2),
        "slow": section("slow-worker"),
        "up": section("delay", link="s1-s3"),
        "boot": section("switch-restart", switch="s3"),
        "other": section("tenant"),
    }
    assert planned_faults(faults, leaf_spine) == (
        PlannedFault("cut", "link-down", 1_500_000, 2, 300_000_000, "h2-eth0", link="h2"),
        PlannedFault("slow", "slow-worker", 0, -1, -1, "", 1, 2.0),
        PlannedFault("up", "delay", 0, -1, -1, "s1-eth3", -1, 0.001, link="leaf1-spine1"),
        PlannedFault("boot", "switch-restart", 0, -1, 100_000_000, "s3"),
        PlannedFault("other", "tenant", 0, -1, -1, "", -1, 5e9, 0, 2),
    )


@pytest.mark.parametrize("kind", NEEDS)
def test_tcp_keeps_its_timers_where_packets_may_get_lost_or_come_late(kind: str) -> None:
    harmless = kind in ("slow-worker", "dead-worker", "controller-restart", "tenant")
    assert may_lose({"x": section(kind)}) is not harmless


@pytest.mark.parametrize(
    ("planned", "words"),
    [
        (PlannedFault("x", "link-down", 0, place="h1-eth0", link="h1"), "link h1 is down"),
        (PlannedFault("x", "loss", 0, place="h1-eth0", value=0.01), "link h1-eth0 loses 1.000%"),
        (PlannedFault("x", "slow-worker", 0, worker=2, value=2.0), "worker 2 computes 2 times slower"),
        (PlannedFault("x", "switch-restart", 0, place="s1"), "switch s1 restarts"),
        (PlannedFault("x", "controller-restart", 0), "the controller restarts"),
        (PlannedFault("x", "tenant", 0, value=5e9, source=0, destination=2), "a tenant from h1 to h3 sends 5 Gbit/s"),
    ],
)
def test_a_fault_says_what_it_is(planned: PlannedFault, words: str) -> None:
    assert planned.what == words
