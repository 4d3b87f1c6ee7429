"""Flows of a user's controller, as Open vSwitch prints them: ways of all pairs of hosts, and what is wrong, by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from gradwire.controller.dumped_flows import Masked, actions_in, flows_in, groups_in
from gradwire.controller.followed_flows import Followed, SwitchFlows, follow
from gradwire.faults import InputFault
from gradwire.network.fabric import Fabric, Routing, Topology
from gradwire.network.read_ways import way_defect
from gradwire.network.routes import line_ends, routes_of

FABRIC = Fabric(
    4, 10e9, Topology.LEAF_SPINE, leaves=2, spines=2, classes=2, routing=Routing.CONTROLLER, controller="0" * 64
)
"""Hosts 1 and 2 at leaf s1, 3 and 4 at s2; ports 1 and 2 of a leaf lead to hosts, 3 and 4 to spines s3 and s4."""
LEAF = {
    "s1": {1: 1, 2: 2, 3: 3, 4: 4},
    "s2": {1: 3, 2: 4, 3: 1, 4: 2},
    "s3": {1: 1, 2: 1, 3: 2, 4: 2},
    "s4": {1: 1, 2: 1, 3: 2, 4: 2},
}
"""The port of each switch to each host; odd hosts over s3, and even ones over s4."""


def printed(ports: Mapping[int, int]) -> str:
    """As `ovs-ofctl -O OpenFlow13 --no-names --no-stats dump-flows` does."""
    return "".join(f" priority=10,ip,nw_dst=10.0.0.{host} actions=output:{port}\n" for host, port in ports.items())


def followed(changed: dict[str, str], groups: str = "", fabric: Fabric = FABRIC) -> Followed:
    texts = {name: printed(ports) for name, ports in LEAF.items()} | changed
    read = groups_in(groups)
    return follow(fabric, {name: SwitchFlows(tuple(flows_in(text)), read) for name, text in texts.items()})


def test_ways_are_those_of_the_flows_and_lines_go_by_them() -> None:
    found = followed({})
    assert found.defects == ()
    assert way_defect(FABRIC, found.ways) == ""
    fabric = replace(FABRIC, ways=found.ways)
    ends = line_ends(fabric)
    passed = [ends[line] for line in routes_of(fabric).path(0, 2)]
    assert passed == [("h1", "s1"), ("s1", "s3"), ("s3", "s2"), ("s2", "h3")]
    assert [ends[line][1] for line in routes_of(fabric).path(0, 3)] == ["s1", "s4", "s2", "h4"]
    assert Fabric.from_json(fabric.to_json()) == fabric


@pytest.mark.parametrize(
    ("switch", "text", "words"),
    [
        (
            "s1",
            printed({1: 1, 2: 2, 4: 4}),
            "packets from h1 to h3 are dropped at s1: it has no flow for what goes to h3 (10.0.0.3)",
        ),
        ("s3", printed({1: 1, 2: 1, 3: 1, 4: 2}), "packets from h1 to h3 go in a circle, s1 -> s3 -> s1"),
        (
            "s2",
            printed({1: 3, 2: 4, 3: 2, 4: 2}),
            "packets from h1 to h3 come to h4 instead: s2 sends them out of port 2",
        ),
        ("s1", " priority=0 actions=CONTROLLER:65535\n", "sends them only to the controller"),
        ("s1", " priority=0 actions=NORMAL\n", "whose normal is not followed"),
        ("s1", " priority=9,tcp,tp_dst=80 actions=output:1\n", "depends on tp_dst, which is not followed"),
        ("s1", " priority=9,ip,idle_timeout=5 actions=output:1\n", "depends on idle_timeout"),
        ("s1", " priority=9 actions=output:3,output:4\n", "are copied by s1"),
        ("s1", " priority=9 actions=group:7\n", "it has no group 7"),
        ("s1", " priority=9 actions=goto_table:2\n", "it has no flow in table 2"),
        ("s1", " priority=9 actions=output:9\n", "which has no port 9"),
        ("s1", " priority=9 actions=set_queue:2,output:1\n", "into queue 2 instead of 0"),
        (
            "s1",
            " priority=9,ip actions=output:3\n priority=9,tcp actions=output:4\n",
            "two flows of one priority match",
        ),
        (
            "s1",
            printed(LEAF["s1"]) + " priority=11,ip,nw_dst=10.0.0.3,nw_tos=180 actions=output:4\n",
            "other ways in one traffic class",
        ),
    ],
)
def test_what_has_no_way_is_named(switch: str, text: str, words: str) -> None:
    found = followed({switch: text})
    assert any(words in line for line in found.defects), found.defects
    assert all("packets from h" in line for line in found.defects)


def test_tables_metadata_and_groups_are_followed() -> None:
    text = (
        " cookie=0x0, priority=5,in_port=1 actions=write_metadata:0x5/0xff,goto_table:1\n"
        " priority=1 actions=write_metadata:0x6,goto_table:1\n"
        " table=1, priority=7,metadata=0x5/0xf,dl_dst=02:00:00:00:00:03 actions=group:1\n"
        " table=1, priority=1,ip,nw_dst=10.0.0.0/30 actions=write_actions(output:1)\n"
    )
    groups = " group_id=1,type=ff,bucket=watch_port:4,actions=output:4,bucket=watch_port:3,actions=output:3\n"
    mac = FABRIC.host_mac(2)
    found = followed({"s1": text.replace("02:00:00:00:00:03", mac)}, groups)
    ends = line_ends(FABRIC)
    fabric = replace(FABRIC, ways=found.ways)
    assert not any("from h1 to h3" in line for line in found.defects)
    assert [ends[line][1] for line in routes_of(fabric).path(0, 2)] == ["s1", "s4", "s2", "h3"]
    select = " group_id=1,type=select,bucket=bucket_id:0,actions=output:3,bucket=bucket_id:1,actions=output:4\n"
    refused = followed({"s1": text.replace("02:00:00:00:00:03", mac)}, select)
    assert any("chooses among 2 buckets" in line for line in refused.defects)


def test_what_is_printed_is_read() -> None:
    (flow,) = flows_in(" cookie=0x1, priority=3,arp,dl_src=aa:00:00:00:00:01/ff:00:00:00:00:00 actions=drop")
    assert dict(flow.match) == {"type": Masked(0x0806), "dl_src": Masked(0xAA0000000001, 0xFF0000000000)}
    assert [action.word for action in actions_in("set_field:1->x(a,b),set_queue:3,2")] == [
        "set_field",
        "set_queue",
        "output",
    ]
    with pytest.raises(InputFault, match="nw_dst=what: cannot be read"):
        flows_in("priority=1,ip,nw_dst=what actions=drop")
    assert flows_in("OFPST_FLOW reply (OF1.3) (xid=0x2):\n") == []


@pytest.mark.parametrize(
    ("ways", "words"),
    [
        ((), "there are 0 ways"),
        (((99,), *[()] * 15), "a way passes link 49"),
        (((), (), (1, 1), *[()] * 13), "broken at s3"),
        (((), (), (1,), *[()] * 13), "ends at s3"),
    ],
)
def test_ways_that_no_run_has_left_are_refused(ways: tuple[tuple[int, ...], ...], words: str) -> None:
    assert words in way_defect(FABRIC, ways)
