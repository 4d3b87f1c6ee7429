"""Which settings are tried, by what a critical path waits for; and what is told of their estimates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from gradwire.analysis.timeline.limits import WaitedLine
from gradwire.analysis.timeline.line_traffic import LineUse
from gradwire.datatypes.records import FaultRecord, PlannedFault
from gradwire.network.routes import line_titles
from gradwire.runs.advice import Advice, Tried, advice_lines, advise, changed_point
from gradwire.runs.remedies import Held, Remedy, faster_bps, remedies
from gradwire.scenario.loading import Scenario, scenario_of
from tests.shared.parts import tells

RACKS: dict[str, Any] = {
    "title": "Racks",
    "cluster": {"workers": 8},
    "model": {"name": "alexnet", "device": "k40"},
    "strategy": {"name": "ring"},
    "fabric": {"rate": "10gbit", "topology": "leaf-spine", "leaves": 2, "spines": 2, "routing": "ecmp"},
}
SINGLE = {**RACKS, "fabric": {"rate": "10gbit"}}


def held(
    scenario: Scenario, line: str, busy: float = 1.0, beside: Sequence[tuple[str, float]] = (), **more: Any
) -> Held:
    """An iteration nine tenths of which waits for this line of a scenario's network."""
    fabric = scenario.points[0].fabric
    number = line_titles(fabric).index(line)
    use = LineUse(number, line, 10e9, busy, 2, (), tuple(beside), more.pop("faults", ()))
    waited = WaitedLine(use, number >= 2 * fabric.hosts, 10**6, 0, 0)
    return Held({"compute": 0.1, "network": 0.9}, more.pop("queued", 0.0), waited)


def tried(scenario: Scenario, of: Held) -> list[str]:
    point = scenario.points[0]
    return [remedy.setting for remedy in remedies(of, point.section, point.fabric)]


def test_a_full_uplink_beside_an_idle_one_asks_for_other_ways_first() -> None:
    racks = scenario_of(RACKS)
    beside = [("leaf1-spine2 to spine2", 0.1)]
    settings = tried(racks, held(racks, "leaf1-spine1 to spine1", beside=beside))
    assert settings[:2] == ['fabric.routing="spray"', 'fabric.routing="balanced"']
    assert not any("routing" in setting for setting in tried(racks, held(racks, "leaf1-spine1 to spine1")))


def test_full_uplinks_ask_for_fewer_hosts_per_uplink() -> None:
    narrow = scenario_of({**RACKS, "fabric": {**RACKS["fabric"], "oversubscription": 4.0}})
    of = held(narrow, "leaf1-spine1 to spine1", beside=[("leaf1-spine2 to spine2", 1.0)])
    assert "fabric.oversubscription=2" in tried(narrow, of)
    assert any("hierarchical-ring" in setting and "group = 4" in setting for setting in tried(narrow, of))


def test_a_link_that_is_slower_than_others_asks_for_their_rate() -> None:
    slow = scenario_of({**SINGLE, "fabric": {"rate": "10gbit", "link": {"h2": {"rate": "1gbit"}}}})
    assert tried(slow, held(slow, "h2 out")) == ['fabric.link.h2.rate="10gbit"']
    uplink = scenario_of({**RACKS, "fabric": {**RACKS["fabric"], "link": {"leaf1-spine1": {"rate": "1gbit"}}}})
    assert tried(uplink, held(uplink, "leaf1-spine1 to spine1")) == ['fabric.link.leaf1-spine1.rate="20gbit"']


def test_a_full_server_asks_for_more_servers_for_order_and_for_a_ring() -> None:
    document = {**SINGLE, "cluster": {"workers": 4, "servers": 1}, "strategy": {"name": "kvstore"}}
    servers = scenario_of(document)
    settings = tried(servers, held(servers, "h1 in", queued=0.5))
    assert settings == [
        "cluster.servers=4",
        'strategy={name = "p3"}',
        'strategy={name = "ring"}',
        'fabric.rate="25gbit"',
    ]
    assert 'strategy={name = "p3"}' not in tried(servers, held(servers, "h1 in"))


def test_lines_that_are_not_full_ask_for_more_connections_or_larger_buckets() -> None:
    ddp = scenario_of({**SINGLE, "strategy": {"name": "ddp"}})
    settings = tried(ddp, held(ddp, "h1 out", busy=0.4))
    assert settings[:2] == ["transport.connections=4", "strategy.options.bucket_cap=104857600"]


def test_a_buffer_that_was_set_is_unset_where_lines_are_not_full() -> None:
    small = scenario_of({**SINGLE, "transport": {"buffer": "1MiB"}})
    assert tried(small, held(small, "h1 out", busy=0.4))[0] == "transport.buffer="
    assert changed_point(small, small.points[0], "transport.buffer=").section.transport.buffer is None
    assert "transport.buffer=" not in tried(small, held(small, "h1 out"))


def test_computation_faults_and_aggregation() -> None:
    single = scenario_of(SINGLE)
    line = held(single, "h1 out")
    assert tried(single, replace(line, shares={"compute": 0.96, "network": 0.04})) == []
    fault = FaultRecord(PlannedFault("half", "rate", 0, place="h1-eth0", value=5e9), 0, 0, -1)
    assert tried(single, held(single, "h1 out", faults=(fault,))) == []
    servers = scenario_of({**SINGLE, "cluster": {"workers": 4, "servers": 2}, "strategy": {"name": "vanilla"}})
    adding = Held({"compute": 0.2, "aggregation": 0.8}, 0.0, None)
    assert tried(servers, adding) == ["cluster.servers=4"]


def test_every_remedy_can_be_set() -> None:
    racks = scenario_of({**RACKS, "fabric": {**RACKS["fabric"], "oversubscription": 4.0}})
    of = held(racks, "leaf1-spine1 to spine1", beside=[("leaf1-spine2 to spine2", 0.0)])
    for remedy in remedies(of, racks.points[0].section, racks.points[0].fabric):
        assert changed_point(racks, racks.points[0], remedy.setting).section != racks.points[0].section


def test_the_changed_point_has_the_other_parameters_of_the_old_one() -> None:
    swept = scenario_of({**RACKS, "sweep": {"model.batch": [64, 128], "strategy.name": ["ring", "butterfly"]}})
    for point in swept.points:
        changed = changed_point(swept, point, 'strategy={name = "hierarchical-ring", options = {group = 4}}')
        assert changed.section.model.batch == point.section.model.batch
        assert changed.section.strategy.name == "hierarchical-ring"


def test_rates_of_ethernet() -> None:
    assert [faster_bps(gbit * 1e9) for gbit in (1, 1.43, 10, 12.5, 400, 3200)] == [
        gbit * 1e9 for gbit in (2.5, 2.5, 25, 25, 800, 6400)
    ]


def test_what_needs_no_hardware_is_preferred_and_what_does_not_help_is_not_told() -> None:
    free, bought = Remedy("a=1"), Remedy("b=2", is_hardware=True)
    advice = Advice((1.0,), tried=(Tried(free, (0.9,)), Tried(bought, (0.5,))))
    assert advice.best is not None
    assert advice.best.remedy == free
    barely = replace(advice, tried=(Tried(free, (0.995,)), Tried(bought, (0.5,))))
    assert barely.best is not None
    assert barely.best.remedy == bought
    none = replace(advice, tried=(Tried(free, (0.995,)), Tried(bought, (1.2,))))
    assert none.best is None
    (line,) = advice_lines(none, 1.0, "a.toml")
    assert tells(line.text, "1%", "a=1 (-0.5%)", "b=2 (+20.0%)")


def test_the_estimate_stands_beside_what_was_measured() -> None:
    advice = Advice((1.0,), tried=(Tried(Remedy('a="b"'), (0.5,)),))
    lines = [line.text for line in advice_lines(advice, 1.5, "a.toml")]
    assert tells(lines[1], "0.5000 s", "1.000 s", "2 times", "1.500 s", "50% off")
    assert tells(lines[2], "gradwire run a.toml --set", "'a=\"b\"'")
    jobs = Advice((1.0, 2.0), ("x", "y"), (Tried(Remedy("a=1"), (0.5, 2.0)),))
    assert tells(
        next(iter(list(advice_lines(jobs, 3.0, "a.toml"))[1:])).text, "job x: 0.5000 s", "job y: 2.000 s", "1.41 times"
    )


def test_spraying_is_estimated_and_found_for_flows_that_meet() -> None:
    """Four flows of a ring's halves cross between two leaves over one of two spines at times: the estimate says what spraying brings."""
    document = {**RACKS, "strategy": {"name": "butterfly"}, "fabric": {**RACKS["fabric"], "rate": "1gbit"}}
    racks = scenario_of(document)
    of = held(racks, "leaf1-spine1 to spine1", beside=[("leaf1-spine2 to spine2", 0.0)])
    advice = advise(of, racks.points[0], racks, racks.points[0].fabric)
    assert advice.best is not None
    assert not advice.best.remedy.is_hardware
    assert advice.best.time_s[0] < advice.now_s[0]
    assert {each.remedy.setting for each in advice.tried} >= {'fabric.routing="spray"', 'fabric.routing="balanced"'}
