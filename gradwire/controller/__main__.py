"""The controller, an application of OpenFlow 1.3: installs the groups and flows of every switch once, and reports when all
are in place. `python -m gradwire.controller --fabric FILE --port PORT [--ready-file FILE]` serves until it is ended.

Each switch gets its groups, its flows with the table-miss rule, and then a barrier. Its reply to the barrier means that
everything before is in place. After the last reply, one line of JSON is written to the ready file. From then on the
controller only answers echoes.

Groups that hash the fields which they name are added over a session of OpenFlow 1.0: OpenFlow 1.3, which the controller
speaks, has groups of type `select` and leaves the choice to the switch: Open vSwitch takes a hash of the kernel, which
nobody can compute beforehand. Which fields are hashed, and from which parameter, is a property of groups in OpenFlow
1.5. Open vSwitch takes that message in sessions of 1.0 as well, as an extension (NXT_GROUP_MOD), but not in those of
1.3, and os-ken fails on the greeting of a switch that offers 1.5 while its modules for 1.5 are left out
(controller/ryu_compat.py). So these groups are sent to the socket on which each bridge answers Open vSwitch's tools
(BRIDGE.mgmt), before the flows that name them. The structures are ofp15_group_mod and ofp15_bucket
(include/openflow/openflow-1.5.h), actions of OpenFlow 1.0, and ntr_group_prop_selection_method
(include/openflow/netronome-ext.h).
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import socket
import struct
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NoReturn

from gradwire.controller import ryu_compat as ryu
from gradwire.controller.rules import ALL_BITS, ALL_MAC_BITS, FlowRule, GroupRule, Match, SwitchRules
from gradwire.controller.switch_flows import switch_rules
from gradwire.faults import MachineFault
from gradwire.network.fabric import Fabric

RUN_FOLDER = "/var/run/openvswitch"
"""Folder of Open vSwitch's sockets, unless OVS_RUNDIR names another."""
ANSWER_S = 30.0
POLL_S = 0.001
VERSION = 1
"""OpenFlow 1.0's number on the wire."""
HELLO, ERROR, EXPERIMENTER, BARRIER_REQUEST, BARRIER_REPLY = 0, 1, 4, 18, 19
NICIRA, GROUP_MOD = 0x00002320, 31
"""Experimenter and type of NXT_GROUP_MOD."""
ADD_OR_MODIFY = 0x8000
"""Open vSwitch's OFPGC11_ADD_OR_MOD, for a group that may exist (include/openflow/openflow-1.1.h). OpenFlow's ADD
would be refused."""
NETRONOME, SELECTION_METHOD = 0x0000154D, 1
"""Experimenter and type of the property."""
EXPERIMENTER_PROPERTY = 0xFFFF
SELECT, ALL_BUCKETS = 1, 0xFFFFFFFF
"""OFPGT11_SELECT, and OFPG15_BUCKET_ALL: the message has no single bucket."""
OUTPUT_ACTION = 0
OUTPUT_BYTES = 8
BASIC_FIELDS = 0x8000
"""OXM's class OPENFLOW_BASIC."""
FIVE_TUPLE = ((11, 4), (12, 4), (26, 16), (27, 16), (10, 1), (13, 2), (14, 2), (15, 2), (16, 2))
"""Number and size in bytes of OXM's IPV4_SRC, IPV4_DST, IPV6_SRC, IPV6_DST, IP_PROTO, TCP_SRC, TCP_DST, UDP_SRC and
UDP_DST. Open vSwitch leaves out of the hash of a packet the fields that it does not have."""
_HEADER = struct.Struct("!BBHI")
_GROUP = struct.Struct("!IIHBxIH2xI")
_BUCKET = struct.Struct("!HHI")
_OUTPUT = struct.Struct("!HHHH")
_METHOD = struct.Struct("!HHII4x16sQ")
ETHERTYPES = {4: 0x0800, 6: 0x86DD}
"""Types of Ethernet, by version of IP."""
FAILED = 3
"""Exit status after anything that leaves a switch without its rules."""


def add_select_groups(bridge: str, groups: Iterable[GroupRule]) -> None:
    """Adds the groups to a bridge, by its name, and waits until it has them; those that exist are replaced.

    Raises MachineFault if the bridge does not answer, or refuses.
    """
    path = Path(os.environ.get("OVS_RUNDIR", RUN_FOLDER), f"{bridge}.mgmt")
    messages = [(EXPERIMENTER, group_body(group)) for group in groups]
    try:
        with socket.socket(socket.AF_UNIX) as session:
            session.settimeout(ANSWER_S)
            _connect(session, path)
            numbered = enumerate([(HELLO, b""), *messages, (BARRIER_REQUEST, b"")])
            session.sendall(b"".join(_message(kind, number, body) for number, (kind, body) in numbered))
            _await_barrier(session, bridge)
    except OSError as error:
        raise MachineFault(f"switch {bridge} cannot be given groups at {path}: {error}") from error


def _connect(session: socket.socket, path: Path) -> None:
    """Connects as soon as the bridge listens, which may be after it has connected to its controller."""
    deadline = time.monotonic() + ANSWER_S
    while True:
        try:
            session.connect(str(path))
        except (FileNotFoundError, ConnectionRefusedError):
            if time.monotonic() > deadline:
                raise
            time.sleep(POLL_S)
        else:
            return


def _await_barrier(session: socket.socket, bridge: str) -> None:
    while True:
        _, kind, length, _ = _HEADER.unpack(_received(session, _HEADER.size, bridge))
        body = _received(session, length - _HEADER.size, bridge)
        if kind == ERROR:
            raise MachineFault(
                f"switch {bridge} rejected a group that hashes: error {body[:4].hex()}; this works with Open vSwitch "
                "3.1, is it older?"
            )
        if kind == BARRIER_REPLY:
            return


def _received(session: socket.socket, size_bytes: int, bridge: str) -> bytes:
    data = b""
    while len(data) < size_bytes:
        part = session.recv(size_bytes - len(data))
        if not part:
            raise MachineFault(
                f"switch {bridge} closed the session in which it was given groups: this works with Open vSwitch 3.1, "
                "is it older?"
            )
        data += part
    return data


def _message(kind: int, number: int, body: bytes) -> bytes:
    return _HEADER.pack(VERSION, kind, _HEADER.size + len(body), number) + body


def group_body(rule: GroupRule) -> bytes:
    """The message for a group, behind its header."""
    assert rule.hash_parameter is not None
    buckets = b"".join(
        _BUCKET.pack(_BUCKET.size + OUTPUT_BYTES, OUTPUT_BYTES, number)
        + _OUTPUT.pack(OUTPUT_ACTION, OUTPUT_BYTES, bucket.output_port, 0)
        for number, bucket in enumerate(rule.buckets)
    )
    fields = b"".join(
        struct.pack("!HBB", BASIC_FIELDS, number << 1, size_bytes) + b"\xff" * size_bytes
        for number, size_bytes in FIVE_TUPLE
    )
    length = _METHOD.size + len(fields)
    method = _METHOD.pack(
        EXPERIMENTER_PROPERTY, length, NETRONOME, SELECTION_METHOD, b"hash".ljust(16, b"\0"), rule.hash_parameter
    )
    padding = b"\0" * (-length % 8)
    head = _GROUP.pack(NICIRA, GROUP_MOD, ADD_OR_MODIFY, SELECT, rule.group_id, len(buckets), ALL_BUCKETS)
    return head + buckets + method + fields + padding


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
            "eth_type": rule.match.version and ETHERTYPES[rule.match.version],
            "eth_src": rule.match.source_mac,
            "eth_dst": _destination_mac(rule.match),
            f"ipv{rule.match.version}_src": rule.match.source_ip,
            f"ipv{rule.match.version}_dst": rule.match.destination_ip,
        }
        fields = {name: value for name, value in wanted.items() if value is not None}
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


def _destination_mac(match: Match) -> str | tuple[str, str] | None:
    """The destination's MAC address that a rule matches, with its mask where only a part of it counts."""
    if match.destination_mac is None or match.destination_mac_mask == ALL_MAC_BITS:
        return match.destination_mac
    return match.destination_mac, match.destination_mac_mask


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


def main() -> None:
    """Reads the arguments and serves."""
    parser = argparse.ArgumentParser(prog="controller", description="Installs a fabric's OpenFlow rules.")
    parser.add_argument("--fabric", type=Path, required=True, help="the fabric, as written by Fabric.to_json")
    parser.add_argument("--port", type=int, required=True, help="TCP port on 127.0.0.1 to listen on")
    parser.add_argument(
        "--ready-file", type=Path, help="file to write when all switches have their rules (default: stdout)"
    )
    parser.add_argument("--switch-prefix", default="", help="what precedes the names of switches on this machine")
    parser.add_argument("--restarted", action="store_true", help="switches may have their rules from before")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.WARNING)
    serve(
        Fabric.from_json(arguments.fabric.read_text()),
        arguments.port,
        arguments.ready_file,
        restarted=arguments.restarted,
        switch_prefix=arguments.switch_prefix,
    )


if __name__ == "__main__":
    main()
