"""Chakra execution traces in JSON, one file per rank, in either of the two forms that its tools have.

- chakra_jsonizer (src/jsonizer/jsonizer.py of mlcommons/chakra) writes protobuf's JSON of the metadata and of each
  node, one object right behind the other.
- The feeder that simulators read traces with (src/feeder/JSONNode.cpp there) takes an object with a list
  `workload_graph` of nodes, whose attributes are keys of the nodes. Their `runtime` is in microseconds, as a node's
  duration is.

Either is read as the nodes that it stands for (workloads/traces/formats/chakra.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec
from google.protobuf import json_format
from google.protobuf.message import Message as ProtobufMessage

from gradwire.documents import DocumentValue
from gradwire.faults import InputFault
from gradwire.workloads.traces.formats import chakra_messages as chakra
from gradwire.workloads.traces.formats.chakra import fill
from gradwire.workloads.traces.formats.chakra_messages import ChakraNode
from gradwire.workloads.traces.formats.json_items import JsonItems, beginning
from gradwire.workloads.traces.formats.json_objects import json_objects
from gradwire.workloads.traces.record import Findings, RankRecord, Reading, Watch

NAME = "Chakra execution trace in JSON"
GRAPH = "workload_graph"
METADATA = re.compile(rb'\s*\{\s*("(version|attr)"\s*:|\}\s*\{)')
"""The beginning of a file of chakra_jsonizer: metadata, which may be empty."""
BEGINNING_BYTES = 1 << 20
Message = TypeVar("Message", bound=ProtobufMessage)


class GraphNode(msgspec.Struct):
    """A node of a `workload_graph`."""

    Id: int
    NodeType: int
    Name: str | int = ""
    runtime: int | float = 0
    data_deps: list[int] = []
    is_cpu_op: bool | int | None = None
    num_ops: int | None = None
    comm_type: int | None = None
    comm_size: int | None = None
    comm_priority: int | None = None
    comm_src: int | None = None
    comm_dst: int | None = None
    comm_tag: int | None = None
    pg_name: str | int | None = None


ATTRIBUTES = ("num_ops", "comm_type", "comm_size", "comm_priority", "comm_src", "comm_dst", "comm_tag")
"""Numbers that are attributes of a node in protobuf."""


class JsonHead(msgspec.Struct):
    """The fields of an object besides its `workload_graph`, of which none is read."""


def recognises(beginning: bytes) -> bool:
    """Returns whether a file that begins so may be a Chakra trace in JSON."""
    return METADATA.match(beginning) is not None or f'"{GRAPH}"'.encode() in beginning


def read(path: Path, reading: Reading, watch: Watch) -> RankRecord:
    """Reads a Chakra trace in JSON. Raises InputFault for what is not one."""
    if reading.step is not None:
        raise InputFault(f"{path}: --step {reading.step}: a Chakra trace does not tell steps apart; Kineto profiles do")
    record = RankRecord(path, NAME, Findings())
    record.learn_given(reading)
    if METADATA.match(beginning(path, BEGINNING_BYTES)):
        objects = json_objects(path, watch)
        metadata = _parse(path, 0, next(objects, {}), chakra.GlobalMetadata)
        fill(record, reading, metadata, (_node(path, number, said) for number, said in enumerate(objects, start=1)))
    else:
        items = JsonItems(path, GRAPH, GraphNode, JsonHead, watch)
        fill(record, reading, chakra.GlobalMetadata(), (_of_graph(path, node) for node in items))
        items.head()
    return record


def _parse(path: Path, number: int, said: DocumentValue, message: Callable[[], Message]) -> Message:
    """A message of protobuf's JSON."""
    if not isinstance(said, dict):
        raise InputFault(f"{path}: object {number}: must be an object, such as a node")
    try:
        return json_format.ParseDict(said, message(), ignore_unknown_fields=True)
    except (
        json_format.ParseError,
        RecursionError,
        UnicodeError,
        SystemError,
    ) as error:  # the last for keys with half a character
        raise InputFault(f"{path}: object {number}: is none of Chakra's: {error}") from error


def _node(path: Path, number: int, said: DocumentValue) -> ChakraNode:
    if isinstance(said, dict) and isinstance(kind := said.get("type"), str):
        said = {**said, "type": chakra.TYPES.get(kind, 0)}
    node: ChakraNode = _parse(path, number, said, chakra.Node)
    return node


def _of_graph(path: Path, said: GraphNode) -> ChakraNode:
    """The node that one of a `workload_graph` stands for."""
    attributes = [chakra.Attribute(name="is_cpu_op", bool_val=bool(said.is_cpu_op))]
    try:
        for name in ATTRIBUTES:
            if (value := getattr(said, name)) is not None:
                attributes.append(chakra.Attribute(name=name, int64_val=value))
        if said.pg_name is not None:
            attributes.append(chakra.Attribute(name="pg_name", string_val=str(said.pg_name)))
        node: ChakraNode = chakra.Node(
            id=said.Id, name=str(said.Name), type=said.NodeType, data_deps=said.data_deps,
            duration_micros=round(said.runtime), attr=attributes,
        )  # fmt: skip
        return node
    except (ValueError, OverflowError) as error:
        raise InputFault(f"{path}: {GRAPH}: node {said.Id}: {error}") from error
