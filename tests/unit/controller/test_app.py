import importlib
import json
import socket
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gradwire.controller import __main__ as app
from gradwire.controller.process import ControllerProcess
from gradwire.controller.rules import FlowRule, GroupBucket, GroupRule, Match, SwitchRules
from gradwire.controller.ryu_compat import FRAMEWORK, ofproto_v1_3
from gradwire.faults import MachineFault
from gradwire.network.fabric import Fabric, MulticastGroup


@pytest.fixture
def datapath() -> Any:
    """What a message needs of a switch to be serialised."""
    protocol = importlib.import_module(f"{FRAMEWORK}.ofproto.ofproto_protocol")
    return protocol.ProtocolDesc(ofproto_v1_3.OFP_VERSION)


@pytest.mark.parametrize("name", ["lib.packet.bgp", "ofproto.oxs_fields"])
def test_what_the_controller_does_not_use_is_not_loaded(name: str) -> None:
    """Packets of other protocols, and what only OpenFlow 1.5 needs: a third of the time in which the controller starts."""
    assert f"{FRAMEWORK}.{name}" not in sys.modules


def test_what_was_left_out_cannot_be_used_unnoticed() -> None:
    packet = importlib.import_module(f"{FRAMEWORK}.lib.packet.packet")
    with pytest.raises(AttributeError):
        packet.Packet()


def actions_of(message: Any) -> list[dict[str, Any]]:
    (instruction,) = message.instructions
    return [action.to_jsondict() for action in instruction.actions]


def test_flow_message_matches_and_sets_the_queue_before_output(datapath: Any) -> None:
    message = app.flow_message(datapath, FlowRule(200, Match("10.0.0.1", "10.0.0.2", 45), band=1, output_port=7))
    message.serialize()
    assert dict(message.match.items()) == {
        "eth_type": 0x0800,
        "ipv4_src": "10.0.0.1",
        "ipv4_dst": "10.0.0.2",
        "ip_dscp": 45,
    }
    queue, output = actions_of(message)
    assert queue["OFPActionSetQueue"]["queue_id"] == 1
    assert output["OFPActionOutput"]["port"] == 7
    assert message.priority == 200


def test_a_rule_for_any_source_does_not_match_on_it(datapath: Any) -> None:
    message = app.flow_message(datapath, FlowRule(100, Match(None, "10.0.0.2", 0), band=0, output_port=1))
    assert "ipv4_src" not in dict(message.match.items())


def test_a_rule_by_source_leaves_the_rest_to_the_second_table(datapath: Any) -> None:
    up = app.flow_message(datapath, FlowRule(50, Match("10.0.0.1", None, 45), band=1, turn=3))
    pair = app.flow_message(datapath, FlowRule(200, Match(None, "10.0.0.2", None, 3), output_port=7, table=1))
    for message in (up, pair):
        message.serialize()
    assert "ipv4_dst" not in dict(up.match.items())
    set_queue, written, onwards = up.instructions
    assert [next(iter(action.to_jsondict())) for action in set_queue.actions] == ["OFPActionSetQueue"]
    assert (written.metadata, onwards.table_id, pair.table_id) == (3, 1, 1)
    assert dict(pair.match.items()) == {"eth_type": 0x0800, "metadata": 3, "ipv4_dst": "10.0.0.2"}
    assert [next(iter(action)) for action in actions_of(pair)] == ["OFPActionOutput"]


def test_a_rule_by_mac_address_takes_frames_of_any_kind(datapath: Any) -> None:
    one = Match(None, None, None, version=None, destination_mac="02:00:00:00:00:01")
    groups = replace(one, destination_mac="01:00:00:00:00:00", destination_mac_mask="01:00:00:00:00:00")
    for match, wanted in ((one, "02:00:00:00:00:01"), (groups, ("01:00:00:00:00:00", "01:00:00:00:00:00"))):
        message = app.flow_message(datapath, FlowRule(10, match, output_port=1))
        message.serialize()
        assert dict(message.match.items()) == {"eth_dst": wanted}


def test_table_miss_matches_all_and_does_nothing(datapath: Any) -> None:
    message = app.flow_message(datapath, FlowRule(0, None))
    message.serialize()
    assert (dict(message.match.items()), message.instructions) == ({}, [])


def test_group_copies_to_every_bucket(datapath: Any) -> None:
    message = app.group_message(datapath, GroupRule(5, (GroupBucket(1, 2), GroupBucket(1, 3))))
    message.serialize()
    assert (message.type, message.group_id) == (ofproto_v1_3.OFPGT_ALL, 5)
    assert [bucket.actions[1].port for bucket in message.buckets] == [2, 3]


def test_a_flow_may_lead_to_a_group(datapath: Any) -> None:
    message = app.flow_message(datapath, FlowRule(100, Match(None, "239.0.0.1", 45), group_id=5))
    assert [next(iter(action)) for action in actions_of(message)] == ["OFPActionGroup"]


def connected(datapath: Any, dpid: int) -> Any:
    """The event of a switch that keeps what it is sent in `sent`."""
    datapath.id, datapath.sent = dpid, []
    datapath.send_msg = datapath.sent.append
    return SimpleNamespace(msg=SimpleNamespace(datapath=datapath))


@pytest.fixture
def forwarding(tmp_path: Path) -> app.ForwardingApp:
    app.ForwardingApp.fabric = Fabric(hosts=2, rate_bps=1e9)
    app.ForwardingApp.ready_path = tmp_path / "ready"
    return app.ForwardingApp()


def test_a_switch_gets_its_rules_then_a_barrier_and_ready_comes_after_its_reply(
    forwarding: app.ForwardingApp, datapath: Any
) -> None:
    event = connected(datapath, 1)
    forwarding.switch_connected(event)
    assert [type(message).__name__ for message in datapath.sent] == ["OFPFlowMod"] * 9 + ["OFPBarrierRequest"]
    assert forwarding.ready_path is not None
    assert not forwarding.ready_path.exists()
    forwarding.switch_done(event)
    assert json.loads(forwarding.ready_path.read_text()) == {"switches": 1, "flows": 9, "groups": 0}
    datapath.sent.clear()
    forwarding.switch_connected(event)
    assert len(datapath.sent) == 10, "it may have restarted, and lost them"


@pytest.mark.parametrize("restarted", ["switch", "controller"])
def test_a_group_that_may_exist_is_not_added_twice(
    restarted: str, forwarding: app.ForwardingApp, datapath: Any
) -> None:
    app.ForwardingApp.fabric = Fabric(hosts=3, rate_bps=1e9, groups=(MulticastGroup(0, (1, 2)),))
    anew = app.ForwardingApp()
    event = connected(datapath, 1)
    if restarted == "switch":
        anew.switch_connected(event)
        assert datapath.sent[0].command == datapath.ofproto.OFPGC_ADD
        anew.switch_done(event)
        datapath.sent.clear()
    else:
        anew.restarted = True
    anew.switch_connected(event)
    assert datapath.sent[0].command == app.ADD_OR_MODIFY
    assert forwarding.ready_path is not None


class Ended(Exception):
    """Stands for the end of the process."""


def end(status: int) -> None:
    raise Ended(status)


def test_a_switch_that_is_not_the_fabrics_ends_the_controller(
    forwarding: app.ForwardingApp, datapath: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("gradwire.controller.__main__.os._exit", end)
    with pytest.raises(Ended, match="3"):
        forwarding.switch_connected(connected(datapath, 9))
    assert "dpid 9 connected, but the fabric's are 1" in capsys.readouterr().err


def test_a_rejected_message_ends_the_controller(
    forwarding: app.ForwardingApp, datapath: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("gradwire.controller.__main__.os._exit", end)
    datapath.id = 1
    with pytest.raises(Ended):
        forwarding.switch_rejected(
            SimpleNamespace(msg=SimpleNamespace(datapath=datapath, type=5, code=1, data=b"\x04\x0e"))
        )
    assert "switch 1 rejected a message: error type 5, code 1, data 040e" in capsys.readouterr().err


def test_ready_goes_to_standard_output_without_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    app.announce({1: SwitchRules(1, "s1", (FlowRule(0, None),))}, None)
    assert json.loads(capsys.readouterr().out) == {"switches": 1, "flows": 1, "groups": 0}


def test_a_controller_that_cannot_listen_is_reported_with_its_words(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        told = pytest.raises(MachineFault, match=rf"ended with 3: controller: cannot listen on 127.0.0.1:{port}")
        with ControllerProcess(Fabric(2, 1e9), port, tmp_path) as controller, told:
            controller.wait_ready(30)


def test_a_controller_that_no_switch_finds_is_reported_and_ended(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with ControllerProcess(Fabric(2, 1e9), port, tmp_path) as controller:
        pid = controller.pid
        with pytest.raises(MachineFault, match="not all 1 switches"):
            controller.wait_ready(0)
    assert not Path(f"/proc/{pid}").exists()
