"""Adds groups that hash the fields which they name, over a session of OpenFlow 1.0.

OpenFlow 1.3, which the controller speaks, has groups of type `select` and leaves the choice to the switch: Open
vSwitch takes a hash of the kernel, which nobody can compute beforehand. Which fields are hashed, and from which
parameter, is a property of groups in OpenFlow 1.5. Open vSwitch takes that message in sessions of 1.0 as well, as an
extension (NXT_GROUP_MOD), but not in those of 1.3, and os-ken fails on the greeting of a switch that offers 1.5 while
its modules for 1.5 are left out (controller/ryu_compat.py). So these groups are sent to the socket on which each
bridge answers Open vSwitch's tools (BRIDGE.mgmt), before the flows that name them. The structures are ofp15_group_mod
and ofp15_bucket (include/openflow/openflow-1.5.h), actions of OpenFlow 1.0, and ntr_group_prop_selection_method
(include/openflow/netronome-ext.h).
"""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Iterable
from pathlib import Path

from gradwire.controller.rules import GroupRule
from gradwire.faults import MachineFault

RUN_FOLDER = "/var/run/openvswitch"
"""Where Open vSwitch has its sockets unless OVS_RUNDIR says otherwise."""
ANSWER_S = 30.0
POLL_S = 0.001
VERSION = 1
"""OpenFlow 1.0's number on the wire."""
HELLO, ERROR, EXPERIMENTER, BARRIER_REQUEST, BARRIER_REPLY = 0, 1, 4, 18, 19
NICIRA, GROUP_MOD = 0x00002320, 31
"""Experimenter and type of NXT_GROUP_MOD."""
ADD_OR_MODIFY = 0x8000
"""As in controller/app.py: the group may exist."""
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
