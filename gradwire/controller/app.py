"""The OpenFlow 1.3 application: installs the groups and flows of every switch once, and reports when all are in place.

Each switch gets its groups, its flows with the table-miss rule, and then a barrier. Its reply to the barrier means
that everything before is in place. After the last reply, one line of JSON is written to the ready file. From then on
the controller only answers echoes.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from pathlib import Path
from typing import Any, NoReturn

from gradwire.controller import ryu_compat as ryu
from gradwire.controller.flows import switch_rules
from gradwire.controller.rules import ALL_BITS, FlowRule, GroupRule, Match, SwitchRules
from gradwire.controller.select_groups import add_select_groups
from gradwire.datatypes.fabric import Fabric
from gradwire.faults import MachineFault

ETHERTYPES = {4: 0x0800, 6: 0x86DD}
"""By version of IP."""
ADD_OR_MODIFY = 0x8000
"""Open vSwitch's OFPGC11_ADD_OR_MOD, for a group that may exist (include/openflow/openflow-1.1.h). OpenFlow's ADD
would be refused."""
FAILED = 3
"""Exit status after anything that leaves a switch without its rules."""


class ForwardingApp(ryu.BaseApp):  # type: ignore[misc]
    """Installs the rules of one fabric. Anything unexpected ends the process, because no traffic may run on half a
    network."""

    OFP_VERSIONS = [ryu.ofproto_v1_3.OFP_VERSION]  # noqa: RUF012 (the framework reads this attribute of the class)
    fabric: Fabric
    ready_path: Path | None
    restarted = False
    switch_prefix = ""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._rules: dict[int, SwitchRules] = {switch.dpid: switch for switch in switch_rules(self.fabric)}
        self._waiting = set(self._rules)

    @ryu.set_ev_cls(ryu.ofp_event.EventOFPSwitchFeatures, ryu.CONFIG_DISPATCHER)  # type: ignore[untyped-decorator]
    def switch_connected(self, event: Any) -> None:
        """Sends a switch all its rules, and a barrier to learn when they are in place."""
        datapath = event.msg.datapath
        rules = self._rules.get(datapath.id)
        if rules is None:
            known = ", ".join(str(dpid) for dpid in self._rules)
            die(
                f"a switch with dpid {datapath.id} connected, but the fabric's are {known}: is it someone else's "
                "controller port?"
            )
        # A switch that reconnects has kept its rules, in fail mode secure, or has restarted and lost them.
        may_exist = self.restarted or datapath.id not in self._waiting
        hashing = [group for group in rules.groups if group.hash_parameter is not None]
        if hashing:
            try:
                add_select_groups(self.switch_prefix + rules.name, hashing)
            except MachineFault as fault:
                die(str(fault))
        for group in rules.groups:
            if group.hash_parameter is None:
                datapath.send_msg(group_message(datapath, group, may_exist=may_exist))
        for flow in rules.flows:
            datapath.send_msg(flow_message(datapath, flow))
        datapath.send_msg(datapath.ofproto_parser.OFPBarrierRequest(datapath))

    @ryu.set_ev_cls(ryu.ofp_event.EventOFPBarrierReply, [ryu.CONFIG_DISPATCHER, ryu.MAIN_DISPATCHER])  # type: ignore[untyped-decorator]
    def switch_done(self, event: Any) -> None:
        """Notes that a switch has its rules; after the last switch, announces it."""
        was_waiting = bool(self._waiting)
        self._waiting.discard(event.msg.datapath.id)
        if was_waiting and not self._waiting:
            announce(self._rules, self.ready_path)

    @ryu.set_ev_cls(  # type: ignore[untyped-decorator]
        ryu.ofp_event.EventOFPErrorMsg, [ryu.HANDSHAKE_DISPATCHER, ryu.CONFIG_DISPATCHER, ryu.MAIN_DISPATCHER]
    )
    def switch_rejected(self, event: Any) -> None:
        """Ends the process because a switch rejected a message."""
        message = event.msg
        refused = bytes(message.data or b"")[:64].hex()
        die(
            f"switch {message.datapath.id} rejected a message: error type {message.type}, code {message.code}, data "
            f"{refused}"
        )


def flow_message(datapath: Any, rule: FlowRule) -> Any:
    """The OFPFlowMod that adds `rule`."""
    parser, protocol = datapath.ofproto_parser, datapath.ofproto
    actions = []
    if rule.band is not None:
        actions.append(parser.OFPActionSetQueue(rule.band))
    if rule.output_port is not None:
        actions.append(parser.OFPActionOutput(rule.output_port))
    if rule.group_id is not None:
        actions.append(parser.OFPActionGroup(rule.group_id))
    fields: dict[str, Any] = {}
    if rule.match is not None:
        wanted = {
            "metadata": _metadata(rule.match),
            "ip_dscp": rule.match.dscp,
            "eth_src": rule.match.source_mac,
            f"ipv{rule.match.version}_src": rule.match.source_ip,
            f"ipv{rule.match.version}_dst": rule.match.destination_ip,
        }
        fields = {"eth_type": ETHERTYPES[rule.match.version]} | {
            name: value for name, value in wanted.items() if value is not None
        }
    instructions = [parser.OFPInstructionActions(protocol.OFPIT_APPLY_ACTIONS, actions)] if actions else []
    if rule.turn is not None:
        instructions += [
            parser.OFPInstructionWriteMetadata(rule.turn, rule.turn_mask),
            parser.OFPInstructionGotoTable(rule.next_table),
        ]
    return parser.OFPFlowMod(
        datapath=datapath,
        table_id=rule.table,
        priority=rule.priority,
        match=parser.OFPMatch(**fields),
        instructions=instructions,
    )


def _metadata(match: Match) -> int | tuple[int, int] | None:
    """The metadata that a rule matches, with its mask where only a part of it counts."""
    return match.turn if match.turn is None or match.turn_mask == ALL_BITS else (match.turn, match.turn_mask)


def group_message(datapath: Any, rule: GroupRule, *, may_exist: bool = False) -> Any:
    """The OFPGroupMod that adds `rule`, or leaves it as it is if it may exist."""
    parser, protocol = datapath.ofproto_parser, datapath.ofproto
    buckets = [
        parser.OFPBucket(actions=[parser.OFPActionSetQueue(b.band), parser.OFPActionOutput(b.output_port)])
        for b in rule.buckets
    ]
    command = ADD_OR_MODIFY if may_exist else protocol.OFPGC_ADD
    return parser.OFPGroupMod(datapath, command, protocol.OFPGT_ALL, rule.group_id, buckets)


def announce(rules: dict[int, SwitchRules], ready_path: Path | None) -> None:
    """Writes {"switches":, "flows":, "groups":} as one line, atomically to the file or else to standard output."""
    counts = {
        "switches": len(rules),
        "flows": sum(len(switch.flows) for switch in rules.values()),
        "groups": sum(len(switch.groups) for switch in rules.values()),
    }
    line = json.dumps(counts) + "\n"
    if ready_path is None:
        sys.stdout.write(line)
        sys.stdout.flush()
        return
    # The machine's own folder holds no links, and every system call that can be left out leaves virtual times as they
    # are.
    partial = ready_path.with_name(f"{ready_path.name}.partial")
    partial.write_text(line)
    partial.replace(ready_path)


def die(message: str) -> NoReturn:
    """Ends the process from any of the framework's threads, in which an exception would only be logged."""
    sys.stderr.write(f"controller: {message}\n")
    sys.stderr.flush()
    os._exit(FAILED)


def serve(
    fabric: Fabric, port: int, ready_path: Path | None, *, restarted: bool = False, switch_prefix: str = ""
) -> None:
    """Serves the fabric's switches on 127.0.0.1:`port` until the process is ended; dies at once if the port is taken.

    restarted: whether switches may have their rules from a controller before. switch_prefix: precedes their names on
    the machine.
    """
    check_port_is_free(port)
    ryu.cfg.CONF(
        args=["--ofp-listen-host", "127.0.0.1", "--ofp-tcp-listen-port", str(port)],
        project="gradwire",
        default_config_files=[],
    )
    ForwardingApp.fabric = fabric
    ForwardingApp.ready_path = ready_path
    ForwardingApp.restarted = restarted
    ForwardingApp.switch_prefix = switch_prefix
    ryu.AppManager.run_apps([ryu.OFP_HANDLER, __name__])


def check_port_is_free(port: int) -> None:
    """Dies if the port is taken, because the framework listens in another thread, where the error would name something
    else."""
    with socket.socket() as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind(("127.0.0.1", port))
        except OSError as refused:
            die(f"cannot listen on 127.0.0.1:{port}: {refused.strerror}; is another controller running?")
